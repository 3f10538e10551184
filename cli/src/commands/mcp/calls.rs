//! Executes the calls of tools.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
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
    pub is_live: bool,
    /// Asks the main task for the sandbox, which it then holds until the end.
    pub needs_sandbox: Notify,
    pub has_sandbox: SetOnce<()>,
    pub plans: Mutex<Plans>,
    pub missing_scopes: OnceCell<Vec<String>>,
    /// Most recipients of all that is sent, as for any run of `svc`, and how many there were.
    pub most_recipients: Option<u64>,
    pub recipients: AtomicU64,
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
        let is_alone = tool.sends_plan() && given.len() == 1;
        let token = given.get(TOKEN).and_then(Value::as_str).filter(|_| is_alone);
        let plan = self.plans.lock().await.take(token.unwrap_or_default(), Utc::now());
        let names = tool.actions.iter().flat_map(|action| &action.arguments).map(|it| it.name);
        let arguments = described(&given, &names.chain([ACTION]).collect::<Vec<_>>());
        let mut line = json!({"tool": tool.name, "arguments": arguments});
        if let Some(plan) = &plan {
            line["request"] = plan.request.as_str().into();
            line["idempotency_key"] = plan.key.as_deref().into();
        }
        let output = match self.audit.begin(line) {
            Ok(line) => {
                let call = self.call(tool, given, plan, &line["call"]);
                let output = call.await.unwrap_or_else(Output::from);
                self.audit.end(line, &output);
                output
            }
            Err(failure) => failure.into(),
        };
        answer(&output, tool.is_plan() && !output.is_error()).unwrap_or_default()
    }

    async fn call(
        &self,
        tool: &Tool,
        mut given: Map<String, Value>,
        plan: Option<Plan>,
        call: &Value,
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
            return self.send_planned(plan, call).await;
        }
        if tool.is_plan() {
            return self.plan(action, line).await;
        }
        self.runner.run(&line).await.map(|output| self.keep_secret(action, output))
    }

    /// Keeps the signing secret of a new webhook in a file: it is shown once, and not in an answer.
    fn keep_secret(&self, action: &Action, mut output: Output) -> Output {
        if action.spec.effect == Effect::Creates
            && let Some(result) = output.fields.get_mut("result")
            && let Some(secret) = result["signingSecret"].as_str().or(result["secret"].as_str())
        {
            let folder = self.audit.0.with_file_name("webhook-secrets");
            let path = folder.join(Uuid::new_v4().simple().to_string());
            let kept = match private::replace(&path, secret.as_bytes()) {
                Ok(()) => path.display().to_string(),
                Err(error) => format!("nowhere: {error}; delete the webhook and create another"),
            };
            result["kept_in"] = kept.into();
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
            let doctor = doctor.map_or(Value::Null, |output| output.fields);
            let findings = doctor["result"].as_array().into_iter().flatten();
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
        // A bulk job asks before it sends, and is not one request that could have a key.
        let is_email = action.spec.effect == Effect::Creates;
        let key = is_email.then(|| plans::idempotency_key(&token));
        let option =
            key.as_ref().map_or("--yes".to_owned(), |key| format!("--idempotency-key={key}"));
        let (same, line, keys) = (json!(line.words).to_string(), line.with(&option), self.keys());
        let mut output = self.runner.run(&line.with("--dry-run")).await?;
        let shown = output.fields.clone();
        let request = &shown["result"];
        if output.is_error() || request.is_null() {
            return Ok(output);
        }
        // The sandbox may be at another port after a restart.
        let url = request["url"].as_str().filter(|_| self.is_live).unwrap_or_default();
        let mut digest = Sha256::new_with_prefix(url);
        match action.spec.path.as_str() {
            "emails send" => digest.update(request["body"].to_string()),
            // A job knows itself what it has sent.
            "bulk resume" => digest.update(&token),
            _ => digest.update([same.as_bytes(), &line.stdin].concat()),
        }
        let digest = hex::encode(digest.finalize());
        if let Some(time) = self.audit.sent(&digest, &Value::Null, made) {
            let problem = format!("the same was sent at {time}, and whether it arrived is unknown");
            return Err(Failure::check(problem).code("maybe_sent").hint(
                "look at the recipient or, in the sandbox, with sandbox_emails; mcp.ndjson of the state directory has \
                 the call; a person who knows that it was not sent can send it with svc",
            ));
        }
        let mut result = json!({
            "token": token,
            "next": "send_planned with this token sends it, once, within ten minutes",
        });
        if is_email {
            for field in ["to", "cc", "bcc"] {
                let Some(addresses) = request["body"][field].as_array() else { continue };
                for address in addresses.iter().filter_map(Value::as_str) {
                    check(address).map_err(|why| {
                        Failure::input(format!("{field}: {why}")).hint("give the address alone")
                    })?;
                }
                result["recipients"][field] = addresses.clone().into();
            }
            result["request"] = request.clone();
        } else {
            result["first"] = request["body"].clone();
            for count in ["emails", "left_out", "unknown"] {
                result[count] = request[count].clone();
            }
        }
        if line.words.iter().any(|word| word.starts_with("--template=")) {
            result["template"] = "its text is kept by the service, and is what it is then".into();
        }
        output.fields["result"] = result;
        if answer(&output, true).is_none() {
            let problem = "the plan does not fit into an answer; nothing was planned";
            return Err(Failure::input(problem).hint(
                "send to fewer recipients or with shorter fields, or a person sends it with svc",
            ));
        }
        let plan = Plan { token, key, line, shown, request: digest, keys, made };
        self.plans.lock().await.add(plan);
        Ok(output)
    }

    /// Sends what was shown. The plan is gone whatever happens, so nothing is sent twice.
    async fn send_planned(&self, plan: Option<Plan>, call: &Value) -> Result<Output, Failure> {
        let Some(Plan { line, shown, request, keys, made, .. }) = plan else {
            let problem = "no plan has this token: it was used, it is older than ten minutes, or svc mcp \
                           was restarted";
            return Err(Failure::new(Kind::NotFound, problem).code("no_plan").hint(
                "if it was used and no answer came, the outcome is unknown: look in mcp.ndjson of the state \
                 directory for `started` without an end, and at the recipient or, in the sandbox, with \
                 sandbox_emails; do not plan the same email again before",
            ));
        };
        if let Some(time) = self.audit.sent(&request, call, made) {
            let problem =
                format!("nothing was sent: send_planned was called for the same at {time}");
            return Err(Failure::check(problem)
                .code("already_sent")
                .hint("two plans show the same; if it is to be sent once more, plan it again"));
        }
        let now = self.runner.run(&line.with("--dry-run")).await?;
        if now.fields != shown || self.keys() != keys {
            let problem = "nothing was sent: what would be sent now differs from what was shown";
            return Err(Failure::check(problem).code("plan_changed").hint(
                "settings, a key or the service have changed; plan again and look at the difference",
            ));
        }
        self.count_recipients(&shown["result"])?;
        self.runner.run(&line).await
    }

    /// Counts the recipients of what is about to be sent.
    fn count_recipients(&self, request: &Value) -> Result<(), Failure> {
        let fields = ["to", "cc", "bcc"].map(|field| &request["body"][field]);
        let addresses = fields.iter().filter_map(|field| Some(field.as_array()?.len() as u64));
        let count = request["emails"].as_u64().unwrap_or_else(|| addresses.sum());
        let before = self.recipients.fetch_add(count, Ordering::SeqCst);
        let Some(most) = self.most_recipients.filter(|most| before + count > *most) else {
            return Ok(());
        };
        let problem = format!("nothing was sent: at most {most} recipients are allowed");
        Err(Failure::new(Kind::Refused, problem)
            .code("recipient_guard")
            .hint("a person sets max_recipients_per_run, and starts svc mcp again"))
    }
}
