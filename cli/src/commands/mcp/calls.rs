//! Executes the calls of tools.

use std::path::PathBuf;
use std::time::Duration;

use chrono::Utc;
use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, Notify, OnceCell, Semaphore, SetOnce};
use uuid::Uuid;

use super::arguments::{self, CommandLine};
use super::audit::{Audit, described};
use super::content::answer;
use super::plans::{self, Plan, Plans};
use super::runner::{Output, Runner};
use super::table::{ACTION, Action, LOOK, TOKEN, Tool};
use crate::command_spec::Effect;
use crate::failure::{Failure, Kind};
use crate::input::email::check;
use crate::private;

/// How long a list of the tools waits for the scopes of the key.
const EXAMINATION: Duration = Duration::from_secs(2);

/// Most calls at a time; others wait.
pub const MAX_CALLS: u32 = 16;

/// What all connections share.
pub struct Shared {
    pub tools: Vec<Tool>,
    /// The groups that are open.
    pub allowed: Vec<String>,
    pub runner: Runner,
    pub audit: Audit,
    /// The directory whose files a call may read.
    pub root: PathBuf,
    /// The files whose keys a plan is sent with.
    pub key_files: Vec<PathBuf>,
    /// Where the signing secrets of new webhooks are kept.
    pub secrets: PathBuf,
    pub is_live: bool,
    /// Asks the main task for the sandbox, which it then holds until the end.
    pub needs_sandbox: Notify,
    pub has_sandbox: SetOnce<()>,
    pub plans: Mutex<Plans>,
    pub missing_scopes: OnceCell<Vec<String>>,
    /// A permit for each call that runs.
    pub running: Semaphore,
}

impl Shared {
    /// Whether the group of a tool is open.
    pub fn allows(&self, tool: &Tool) -> bool {
        tool.group == LOOK || self.allowed.iter().any(|group| group == tool.group)
    }

    /// Executes a call, and records its start and its end.
    pub async fn recorded(&self, tool: &Tool, given: Map<String, Value>) -> CallToolResult {
        let _permit = self.running.acquire().await;
        let token = given.get(TOKEN).and_then(Value::as_str).filter(|_| given.len() == 1);
        let sent = self.plans.lock().await.record(token.unwrap_or_default());
        let names = tool.actions.iter().flat_map(|action| &action.arguments).map(|it| it.name);
        let arguments = described(&given, &names.chain([ACTION]).collect::<Vec<_>>());
        let output = match self.audit.begin(tool.name, &arguments, &sent) {
            Ok(line) => {
                let output = self.call(tool, given, &line).await.unwrap_or_else(Output::from);
                self.audit.end(line, &output);
                output
            }
            Err(failure) => failure.into(),
        };
        answer(&output, tool.is_plan() && output.error.is_none()).unwrap_or_default()
    }

    async fn call(
        &self,
        tool: &Tool,
        mut given: Map<String, Value>,
        record: &Value,
    ) -> Result<Output, Failure> {
        if !self.allows(tool) {
            let why = format!("{} is not allowed here; nothing was done", tool.name);
            let hint = format!(
                "a person opens the group {}: svc mcp --allow, or mcp_policy of the profile",
                tool.group
            );
            return Err(Failure::new(Kind::Refused, why).code("not_allowed").hint(hint));
        }
        let action = arguments::action(tool, &mut given)?;
        let line = CommandLine::new(action, &given, &self.root)?;
        if !self.is_live || action.spec.is_of_sandbox {
            self.start_sandbox().await;
        }
        if tool.sends_plan() {
            return self.send_planned(&given, record).await;
        }
        if tool.is_plan() {
            return self.plan(action, line).await;
        }
        self.runner.run(&line).await.map(|output| self.keep_secret(action, output))
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

    /// Waits until the main task holds the sandbox. If it cannot, the command says why.
    pub async fn start_sandbox(&self) {
        self.needs_sandbox.notify_one();
        self.has_sandbox.wait().await;
    }

    /// The scopes that the key of a profile is known to lack. Where this cannot be found out at once,
    /// all tools are listed, and the service refuses what the key may not do.
    pub async fn missing_scopes(&self) -> &[String] {
        if !self.is_live {
            return &[];
        }
        let examined = self.missing_scopes.get_or_init(async || {
            let doctor = self.runner.run(&CommandLine::of(&["doctor"])).await;
            let findings = doctor.ok().and_then(|output| output.result).unwrap_or_default();
            let findings = findings.as_array().into_iter().flatten();
            let is_missing =
                |it: &&Value| it["status"] == "warning" && it["finding"] == "not granted";
            let checks = findings.filter(is_missing).filter_map(|it| it["check"].as_str());
            checks.filter_map(|check| check.strip_prefix("scope ")).map(str::to_owned).collect()
        });
        tokio::time::timeout(EXAMINATION, examined).await.map_or(&[], Vec::as_slice)
    }

    fn keys(&self) -> [u8; 32] {
        let contents = self.key_files.iter().map(|path| std::fs::read(path).unwrap_or_default());
        Sha256::digest(contents.collect::<Vec<_>>().concat()).into()
    }

    /// Shows what would be sent, and keeps it.
    async fn plan(&self, action: &Action, line: CommandLine) -> Result<Output, Failure> {
        let (token, made) = (Uuid::new_v4().simple().to_string(), Utc::now());
        let key = plans::idempotency_key(&token);
        // A bulk job asks before it sends, and is not one request that could have a key.
        let is_email = action.spec.effect == Effect::Creates;
        let option = if is_email { &*format!("--idempotency-key={key}") } else { "--yes" };
        let (same, line, keys) = (json!(line.words).to_string(), line.with(option), self.keys());
        let shown = self.runner.run(&line.with("--dry-run")).await?;
        let (Some(request), None) = (shown.result.clone(), &shown.error) else { return Ok(shown) };
        // The sandbox may be at another port after a restart.
        let url = request["url"].as_str().filter(|_| self.is_live).unwrap_or_default();
        let mut digest = Sha256::new_with_prefix(url);
        match action.spec.path.as_str() {
            "emails send" => digest.update(request["body"].to_string()),
            // A job knows itself what it has sent.
            "bulk resume" => digest.update(&token),
            _ => digest.update([same.as_bytes(), &line.stdin].concat()),
        }
        let digest = Value::from(hex::encode(digest.finalize()));
        if let Some(time) = self.audit.sent(&digest, &Value::Null, made) {
            let problem = format!("the same was sent at {time}, and whether it arrived is unknown");
            return Err(Failure::check(problem).code("maybe_sent").hint(
                "look at the recipient or, in the sandbox, with sandbox_emails; mcp.ndjson of the state directory has \
                 the call; a person who knows that it was not sent can send it with svc",
            ));
        }
        let mut record = Map::from_iter([("request".to_owned(), digest)]);
        let mut result = json!({
            "token": token,
            "next": "send_planned with this token sends it, once, within ten minutes",
        });
        if is_email {
            record.insert("idempotency_key".to_owned(), key.into());
            for field in ["to", "cc", "bcc"] {
                let Some(addresses) = request["body"][field].as_array() else { continue };
                for address in addresses.iter().filter_map(Value::as_str) {
                    check(address).map_err(|why| Failure::input(format!("{field}: {why}")))?;
                }
                result["recipients"][field] = addresses.clone().into();
            }
            result["request"] = request;
        } else {
            for (name, of) in [("emails", "emails"), ("left_out", "left_out"), ("first", "body")] {
                result[name] = request[of].clone();
            }
        }
        let output = Output { result: Some(result), ..shown.clone() };
        if answer(&output, true).is_none() {
            let problem = "the plan does not fit into an answer; nothing was planned";
            return Err(Failure::input(problem).hint(
                "send to fewer recipients or with shorter fields, or a person sends it with svc",
            ));
        }
        self.plans.lock().await.add(Plan { token, line, shown, record, keys, made });
        Ok(output)
    }

    /// Sends what was shown. The token is gone whatever happens, so nothing is sent twice.
    async fn send_planned(
        &self,
        given: &Map<String, Value>,
        record: &Value,
    ) -> Result<Output, Failure> {
        let token = given[TOKEN].as_str().unwrap_or_default();
        let Plan { line, shown, keys, made, .. } =
            self.plans.lock().await.take(token, Utc::now())?;
        if let Some(time) = self.audit.sent(&record["request"], &record["call"], made) {
            let problem =
                format!("nothing was sent: send_planned was called for the same at {time}");
            return Err(Failure::check(problem)
                .code("already_sent")
                .hint("two plans show the same; if it is to be sent once more, plan it again"));
        }
        let now = self.runner.run(&line.with("--dry-run")).await?;
        let printed = |it: Output| (it.result, it.notes, it.error);
        if printed(now) != printed(shown) || self.keys() != keys {
            let problem = "nothing was sent: what would be sent now differs from what was shown";
            return Err(Failure::check(problem).code("plan_changed").hint(
                "settings, a key or the service have changed; plan again and look at the difference",
            ));
        }
        self.runner.run(&line).await
    }
}
