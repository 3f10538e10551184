//! Executes the calls of tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};
use tokio::sync::{OnceCell, mpsc, oneshot};

use super::arguments::{self, CommandLine};
use super::audit::Audit;
use super::content::{answer, refusal};
use super::plans::{self, Plans};
use super::policy::Policy;
use super::runner::{Output, Runner};
use super::table::{Action, Kind, Tool};
use crate::command_spec::Effect;
use crate::failure::{Failure, Kind as FailureKind};

/// How long a list of the tools waits for the scopes of the key.
const EXAMINATION: Duration = Duration::from_secs(2);

/// Asks the main task for the sandbox, which it holds until the end.
pub type AskForSandbox = mpsc::Sender<oneshot::Sender<Result<(), Failure>>>;

/// What all connections share.
pub struct Shared {
    pub tools: Vec<Tool>,
    pub policy: Policy,
    pub runner: Runner,
    pub audit: Audit,
    /// The directory whose files a call may read.
    pub root: PathBuf,
    pub is_live: bool,
    pub sandbox: AskForSandbox,
    pub plans: Mutex<Plans>,
    pub missing_scopes: OnceCell<Vec<String>>,
}

impl Shared {
    /// Executes a call, with a line in the audit file.
    pub async fn recorded(&self, tool: &Tool, given: Map<String, Value>) -> CallToolResult {
        let entry = match self.audit.begin(tool.name, &given) {
            Ok(entry) => entry,
            Err(failure) => return refusal(&failure),
        };
        let (result, error) = match self.call(tool, given).await {
            Ok(output) => {
                let error = output.error.clone();
                (answer(output), error)
            }
            Err(failure) => (refusal(&failure), failure.to_json().get("error").cloned()),
        };
        entry.end(error.as_ref());
        result
    }

    async fn call(&self, tool: &Tool, mut given: Map<String, Value>) -> Result<Output, Failure> {
        self.policy.check(tool)?;
        if tool.kind == Kind::SendPlanned {
            return self.send_planned(&given).await;
        }
        let action = arguments::action(tool, &mut given)?;
        let line = CommandLine::new(action, &given, &self.root)?;
        if !self.is_live || action.spec.is_of_sandbox {
            self.start_sandbox().await?;
        }
        match tool.kind {
            Kind::Plan => self.plan(action, line).await,
            _ => self.run(&line).await,
        }
    }

    /// Makes sure that the sandbox runs.
    pub async fn start_sandbox(&self) -> Result<(), Failure> {
        let (done, started) = oneshot::channel();
        let gone = || Failure::new(FailureKind::Interrupted, "svc mcp is stopping");
        self.sandbox.send(done).await.map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }

    /// The scopes that the key of a profile is known to lack. Where this cannot be found out at once,
    /// all tools are listed, and the service refuses what the key may not do.
    pub async fn missing_scopes(&self) -> &[String] {
        if !self.is_live {
            return &[];
        }
        let examined = self.missing_scopes.get_or_init(async || {
            let doctor = self.runner.run(&["doctor".to_owned()], &[]).await;
            let findings = doctor.ok().and_then(|output| output.result).unwrap_or_default();
            let findings = findings.as_array().into_iter().flatten();
            let is_missing =
                |it: &&Value| it["status"] == "warning" && it["finding"] == "not granted";
            let checks = findings.filter(is_missing).filter_map(|it| it["check"].as_str());
            checks.filter_map(|check| check.strip_prefix("scope ")).map(str::to_owned).collect()
        });
        tokio::time::timeout(EXAMINATION, examined).await.map_or(&[], Vec::as_slice)
    }

    async fn run(&self, line: &CommandLine) -> Result<Output, Failure> {
        self.runner.run(&line.words(), &line.stdin).await
    }

    fn plans(&self) -> std::sync::MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what would be sent, and keeps it.
    async fn plan(&self, action: &Action, line: CommandLine) -> Result<Output, Failure> {
        let token = plans::new_token();
        // A bulk job asks before it sends, and is not one request that could have a key.
        let line = match action.spec.effect {
            Effect::Creates => line.with(&plans::idempotency_option(&token)),
            _ => line.with("--yes"),
        };
        let shown = self.run(&line.with("--dry-run")).await?;
        if shown.error.is_some() {
            return Ok(shown);
        }
        let request = shown.result.clone().unwrap_or_default();
        let minutes = plans::LIFETIME.as_secs() / 60;
        let result = json!({
            "token": token,
            "recipients": recipients(&request["body"]),
            "request": request,
            "next": format!("send_planned with this token sends it, once, within {minutes} minutes"),
        });
        self.plans().add(token, line, shown.clone(), Instant::now());
        Ok(Output { result: Some(result), ..shown })
    }

    /// Sends what was shown. The token is gone whatever happens, so nothing is sent twice.
    async fn send_planned(&self, given: &Map<String, Value>) -> Result<Output, Failure> {
        let (Some(Value::String(token)), 1) = (given.get("token"), given.len()) else {
            return Err(Failure::usage("give the token of a plan, and nothing else"));
        };
        let plan = self.plans().take(token, Instant::now())?;
        if !self.is_live {
            self.start_sandbox().await?;
        }
        let now = self.run(&plan.line.with("--dry-run")).await?;
        if now != plan.shown {
            return Err(Failure::check(
                "nothing was sent: what would be sent now differs from what was shown",
            )
            .code("plan_changed")
            .hint("settings or the service have changed; plan again and look at the difference"));
        }
        self.run(&plan.line).await
    }
}

/// Who gets the emails of a request: an email or a list, which may be in an object.
fn recipients(body: &Value) -> Value {
    let lists = body.as_object().into_iter().flat_map(Map::values).filter_map(Value::as_array);
    let mut lists = body.as_array().into_iter().chain(lists);
    let emails = lists.find(|list| list.iter().all(Value::is_object));
    let emails = emails.map_or(std::slice::from_ref(body), Vec::as_slice);
    let mut found = BTreeMap::<&str, Vec<&Value>>::new();
    for (email, field) in emails.iter().flat_map(|it| ["to", "cc", "bcc"].map(|field| (it, field)))
    {
        let them =
            email.get(field).map(|it| it.as_array().map_or(std::slice::from_ref(it), |it| it));
        found.entry(field).or_default().extend(them.into_iter().flatten());
    }
    found.retain(|_, them| !them.is_empty());
    json!(found)
}
