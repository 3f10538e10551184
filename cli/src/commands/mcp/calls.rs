//! Executes the calls of tools.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OnceCell, Semaphore, mpsc, oneshot};
use uuid::Uuid;

use super::arguments::{self, CommandLine};
use super::audit::{Audit, described};
use super::content::{self, answer, refusal};
use super::plans::{self, Moment, Plan, Plans};
use super::policy::Policy;
use super::runner::{Output, Runner};
use super::table::{ACTION, Action, Kind, Tool};
use crate::command_spec::Effect;
use crate::failure::{Failure, Kind as FailureKind};
use crate::input::email::is_invisible;
use crate::private;

/// The argument of `send_planned`.
const TOKEN: &str = "token";

/// How long a list of the tools waits for the scopes of the key.
const EXAMINATION: Duration = Duration::from_secs(2);

/// Most calls at a time; others wait.
pub const MAX_CALLS: u32 = 16;

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
    /// The files whose keys a plan is sent with.
    pub key_files: Vec<PathBuf>,
    /// Where the signing secrets of new webhooks are kept.
    pub secrets: PathBuf,
    pub is_live: bool,
    pub sandbox: AskForSandbox,
    pub plans: Mutex<Plans>,
    pub missing_scopes: OnceCell<Vec<String>>,
    /// A permit for each call that runs.
    pub running: Semaphore,
}

impl Shared {
    /// Executes a call, and records its start and its end.
    pub async fn recorded(&self, tool: &Tool, given: Map<String, Value>) -> CallToolResult {
        let _permit = self.running.acquire().await;
        let token = given.get(TOKEN).and_then(Value::as_str);
        let sent = token.map(|token| self.plans().record(token)).unwrap_or_default();
        let known = tool.actions.iter().flat_map(arguments::names).chain([ACTION, TOKEN]);
        let known = known.collect::<Vec<_>>();
        let arguments = described(&given, |name| known.contains(&name));
        let entry = match self.audit.begin(tool.name, &arguments, sent) {
            Ok(entry) => entry,
            Err(failure) => return refusal(&failure),
        };
        let (result, error) = match self.call(tool, given).await {
            Ok(output) => {
                let error = output.error.clone();
                match tool.kind {
                    Kind::Plan if error.is_none() => {
                        (content::plan(output).unwrap_or_default(), error)
                    }
                    _ => (answer(output), error),
                }
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
            _ => self.run(&line).await.map(|output| self.keep_secret(action, output)),
        }
    }

    /// Keeps the signing secret of a new webhook in a file: it is shown once, and not in an answer.
    fn keep_secret(&self, action: &Action, mut output: Output) -> Output {
        if action.spec.effect == Effect::Creates
            && let Some(Value::Object(result)) = &mut output.result
            && let Some(secret) =
                ["signingSecret", "secret"].iter().find_map(|name| result.get(*name)?.as_str())
        {
            let path = self.secrets.join(Uuid::new_v4().simple().to_string());
            let kept = match private::replace(&path, secret.as_bytes()) {
                Ok(()) => path.display().to_string(),
                Err(error) => format!("nowhere: {error}; delete the webhook and create another"),
            };
            result.insert("kept_in".to_owned(), kept.into());
        }
        output
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

    fn keys(&self) -> [u8; 32] {
        let contents = self.key_files.iter().map(|path| std::fs::read(path).unwrap_or_default());
        Sha256::digest(contents.collect::<Vec<_>>().concat()).into()
    }

    /// Shows what would be sent, and keeps it.
    async fn plan(&self, action: &Action, line: CommandLine) -> Result<Output, Failure> {
        let token = plans::new_token();
        let (key, words) = (plans::idempotency_key(&token), line.words().join("\0"));
        // A bulk job asks before it sends, and is not one request that could have a key.
        let is_email = action.spec.effect == Effect::Creates;
        let line = line.with(&match is_email {
            true => format!("--idempotency-key={key}"),
            false => "--yes".to_owned(),
        });
        let keys = self.keys();
        let shown = self.run(&line.with("--dry-run")).await?;
        if shown.error.is_some() {
            return Ok(shown);
        }
        let request = shown.result.clone().unwrap_or_default();
        // The sandbox may be at another port after a restart.
        let url = request["url"].as_str().filter(|_| self.is_live).unwrap_or_default();
        let mut digest = Sha256::new_with_prefix(url);
        match is_email {
            true => digest.update(request["body"].to_string()),
            false => digest.update([words.as_bytes(), &line.stdin].concat()),
        }
        let mut record = Map::new();
        record.insert("request".to_owned(), hex::encode(digest.finalize()).into());
        if let Some(time) = self.audit.unfinished(&record["request"]) {
            let problem = format!("the same was sent at {time}, and whether it arrived is unknown");
            return Err(Failure::check(problem).code("maybe_sent").hint(
                "look at the recipient or, in the sandbox, with sandbox_emails; mcp.ndjson of the state directory has \
                 the call; a person who knows that it was not sent can send it with svc",
            ));
        }
        let minutes = plans::LIFETIME.as_secs() / 60;
        let next = format!("send_planned with this token sends it, once, within {minutes} minutes");
        let result = match is_email {
            true => {
                record.insert("idempotency_key".to_owned(), key.into());
                let recipients = recipients(&request["body"]);
                let mut all = recipients
                    .values()
                    .flat_map(|them| {
                        them.as_array().map_or(std::slice::from_ref(them), Vec::as_slice)
                    })
                    .filter_map(Value::as_str);
                if all.any(|text| text.contains(|c: char| c.is_control() || is_invisible(c))) {
                    return Err(Failure::input(
                        "to, cc or bcc: contains an invisible or control character",
                    )
                    .hint("write the address without it"));
                }
                json!({"token": token, "next": next, "recipients": recipients, "request": request})
            }
            false => {
                let (emails, left_out) = counts(&shown.notes);
                json!({"token": token, "next": next, "emails": emails, "left_out": left_out, "first": request["body"]})
            }
        };
        let output = Output { result: Some(result), ..shown.clone() };
        if content::plan(output.clone()).is_none() {
            return Err(Failure::input(
                "the plan does not fit into an answer; nothing was planned",
            )
            .hint(
                "send to fewer recipients or with shorter fields, or a person sends it with svc",
            ));
        }
        self.plans().add(token, Plan { line, shown, record, keys, made: Moment::now() });
        Ok(output)
    }

    /// Sends what was shown. The token is gone whatever happens, so nothing is sent twice.
    async fn send_planned(&self, given: &Map<String, Value>) -> Result<Output, Failure> {
        let (Some(Value::String(token)), 1) = (given.get(TOKEN), given.len()) else {
            return Err(Failure::usage("give the token of a plan, and nothing else"));
        };
        let plan = self.plans().take(token, Moment::now())?;
        if !self.is_live {
            self.start_sandbox().await?;
        }
        let now = self.run(&plan.line.with("--dry-run")).await?;
        if now != plan.shown || self.keys() != plan.keys {
            return Err(Failure::check(
                "nothing was sent: what would be sent now differs from what was shown",
            )
            .code("plan_changed")
            .hint("settings, a key or the service have changed; plan again and look at the difference"));
        }
        self.run(&plan.line).await
    }
}

/// Who gets an email.
fn recipients(email: &Value) -> Map<String, Value> {
    let lists = ["to", "cc", "bcc"].map(|field| (field.to_owned(), email[field].clone()));
    lists.into_iter().filter(|(_, them)| !them.is_null()).collect()
}

/// How many emails a bulk job sends, and how many rows it leaves out, as the notes of its dry run say.
fn counts(notes: &[Value]) -> (Value, Map<String, Value>) {
    // Not a warning, which may quote a file.
    let mut notes = notes.iter().filter_map(|note| note.as_str()?.strip_prefix("note: "));
    let found = notes.find_map(|note| note.split_once(" to send"));
    let (emails, rest) = found.unwrap_or_default();
    let left_out = rest.trim_start_matches("; ").trim_end_matches(" left out");
    let number = |text: &str| text.parse::<u64>().ok().map(Value::from);
    let left_out = left_out.split(", ").filter_map(|part| part.split_once(' '));
    let left_out = left_out.filter_map(|(count, why)| Some((why.to_owned(), number(count)?)));
    (emails.split(' ').find_map(number).unwrap_or_default(), left_out.collect())
}
