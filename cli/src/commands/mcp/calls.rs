//! `Shared` executes the calls of tools of `svc mcp`. A call becomes a command line
//! (`arguments.rs`), runs as `svc` inside this process (`runner.rs`), and its output becomes the
//! answer (`content.rs`); its start and its end are in the audit. A tool whose group no person has
//! opened does nothing. What sends is first shown by a plan. Its token sends exactly what was
//! shown, once, within the limit of recipients.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::Utc;
use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, OnceCell, Semaphore};
use uuid::Uuid;

use super::arguments::{self, CommandLine};
use super::audit::{Audit, described};
use super::content::answer;
use super::describe::lacks_scopes;
use super::plans::{Plan, Plans};
use super::runner::{Output, Runner};
use super::table::{ACTION, Action, LOOK, TOKEN, Tool};
use crate::command_spec::Effect;
use crate::failure::{Failure, Kind};
use crate::input::email::check;
use crate::private_files;
use crate::sandbox::Sandbox;
use crate::settings::Settings;

/// How long a list of the tools waits for the scopes of the key.
const EXAMINATION: Duration = Duration::from_secs(2);

/// Most calls at a time that do something, and most that wait for something. Others wait for them.
pub const MAX_CALLS: u32 = 16;

/// The state that all connections share.
pub struct Shared {
    pub tools: Vec<Tool>,
    /// The groups that are open.
    pub allowed: Vec<String>,
    pub runner: Runner,
    pub audit: Audit,
    /// The directory whose files a call may read.
    pub root: PathBuf,
    pub is_live: bool,
    pub settings: Arc<Settings>,
    pub sandbox: Arc<OnceCell<Sandbox>>,
    pub plans: Mutex<Plans>,
    pub missing_scopes: OnceCell<Vec<String>>,
    /// How many recipients there were: the limit is that of any run of `svc`.
    pub recipients: AtomicU64,
    /// A permit for each call that does something, and for each that waits.
    pub running: [Semaphore; 2],
}

impl Shared {
    /// Whether the group of a tool is open.
    pub fn allows(&self, tool: &Tool) -> bool {
        tool.group == LOOK || self.allowed.iter().any(|group| group == tool.group)
    }

    /// The tools that the policy and the scopes of the key allow.
    pub async fn offered(&self) -> impl Iterator<Item = &Tool> {
        let missing = self.missing_scopes().await;
        self.tools
            .iter()
            .filter(|tool| self.allows(tool) && !lacks_scopes(tool, missing))
    }

    /// Executes a call, and records its start and its end.
    pub async fn recorded(&self, tool: &Tool, given: Map<String, Value>) -> CallToolResult {
        let waits = given.contains_key("wait") || given.get(ACTION).is_some_and(|it| it == "wait");
        let _permit = self.running[usize::from(waits)].acquire().await;
        let names = tool
            .actions
            .iter()
            .flat_map(|action| &action.arguments)
            .map(|it| it.name);
        let arguments = described(&given, &names.chain([ACTION]).collect::<Vec<_>>());
        let line = json!({"time": null, "tool": tool.name, "arguments": arguments});
        let output = self.audit.record(line, self.call(tool, given)).await;
        answer(&output, tool.is_plan() && !output.is_error()).unwrap_or_default()
    }

    async fn call(&self, tool: &Tool, mut given: Map<String, Value>) -> Result<Output, Failure> {
        if !self.allows(tool) {
            let why = format!("{} is not allowed here; nothing was done", tool.name);
            let hint = format!(
                "a person opens the group {}: svc mcp --allow, or mcp_policy of the profile",
                tool.group
            );
            return Err(Failure::new(Kind::Refused, why)
                .code("not_allowed")
                .hint(hint));
        }

        let action = arguments::action(tool, &mut given)?;
        let line = CommandLine::new(action, &given, &self.root)?;
        if !self.is_live || action.spec.is_of_sandbox {
            self.hold_sandbox().await;
        }
        if tool.sends_plan() {
            let token = given.get(TOKEN).and_then(Value::as_str);
            return self.send_planned(token.unwrap_or_default()).await;
        }

        let output = if tool.is_plan() {
            self.plan(action, line).await?
        } else {
            self.keep_secret(action, self.runner.run(&line).await?)
        };
        Ok(output.in_words_of(action))
    }

    /// Finds or starts the sandbox, until the end. If this fails, the command that needs it says why.
    pub async fn hold_sandbox(&self) {
        let _ = self
            .sandbox
            .get_or_try_init(|| Sandbox::attach(&self.settings))
            .await;
    }

    /// Keeps the signing secret of a new webhook in a file: it is shown once, and not in an answer.
    fn keep_secret(&self, action: &Action, mut output: Output) -> Output {
        if action.spec.effect == Effect::Creates
            && let Some(result) = output.fields.get_mut("result")
            && let Some(secret) = result["signingSecret"]
                .as_str()
                .or(result["secret"].as_str())
        {
            let folder = self.audit.0.with_file_name("webhook-secrets");
            let path = folder.join(Uuid::new_v4().simple().to_string());
            let kept = match private_files::replace(&path, secret.as_bytes()) {
                Ok(()) => path.display().to_string(),
                Err(error) => format!("nowhere: {error}; delete the webhook and create another"),
            };
            result["kept_in"] = kept.into();
        }
        output
    }

    /// The scopes that the key of a profile is known to lack. Where this cannot be found out at once,
    /// all tools are listed, and the service refuses what the key may not do.
    async fn missing_scopes(&self) -> &[String] {
        if !self.is_live {
            return &[];
        }
        let examined = self.missing_scopes.get_or_init(async || {
            let doctor = self.runner.run(&CommandLine::of(&["doctor"])).await;
            let doctor = doctor.map_or(Value::Null, |output| output.fields);
            let findings = doctor["result"].as_array().into_iter().flatten();
            let is_missing =
                |it: &&Value| it["status"] == "warning" && it["finding"] == "not granted";
            let checks = findings
                .filter(is_missing)
                .filter_map(|it| it["check"].as_str());
            checks
                .filter_map(|check| check.strip_prefix("scope "))
                .map(str::to_owned)
                .collect()
        });
        tokio::time::timeout(EXAMINATION, examined)
            .await
            .map_or(&[], Vec::as_slice)
    }

    /// Shows what would be sent, and keeps it.
    async fn plan(&self, action: &Action, line: CommandLine) -> Result<Output, Failure> {
        let token = Uuid::new_v4().simple().to_string();
        let made = Utc::now();
        let is_email = action.spec.effect == Effect::Creates;
        let line = if is_email { line } else { line.with("--yes") };
        let (mut output, run) = self.runner.prepare(&line).await?;
        let request = &output.fields["result"].clone();
        // It has failed, or there is nothing to send.
        let Some(run) = run.filter(|_| !request.is_null()) else {
            return Ok(output);
        };

        let emails = request["emails"].as_u64();
        let count = emails.unwrap_or(recipients(request).count() as u64);
        let mut result = json!({
            "token": token,
            "next": "send_planned with this token sends it, once, within ten minutes",
        });
        if is_email {
            for address in recipients(request) {
                let hint = "give each address alone";
                check(address)
                    .map_err(|why| Failure::input(format!("to, cc, bcc: {why}")).hint(hint))?;
            }
            result["recipients"] = recipients(request).collect();
            result["request"] = request.clone();
            if request["body"]["templateId"].is_string() {
                result["template"] =
                    "its text is kept by the service, and is what it is then".into();
            }
        } else {
            // The counts, and the first emails.
            for (name, value) in request.as_object().into_iter().flatten() {
                result[if name == "body" { "first" } else { name }] = value.clone();
            }
        }

        output.fields["result"] = result;
        if answer(&output, true).is_none() {
            let problem = "the plan does not fit into an answer; nothing was planned";
            return Err(Failure::input(problem).hint(
                "send to fewer recipients or with shorter fields, or a person sends it with svc",
            ));
        }

        self.plans.lock().await.add(Plan {
            token,
            run,
            recipients: count,
            made,
        });
        Ok(output)
    }

    /// Sends what was shown. The plan is gone whatever happens, so nothing is sent twice.
    async fn send_planned(&self, token: &str) -> Result<Output, Failure> {
        let plan = self.plans.lock().await.take(token, Utc::now());
        let Some(plan) = plan else {
            let problem = "no plan has this token: it was used, it is older than ten minutes, or svc mcp \
                           was restarted";
            return Err(Failure::new(Kind::NotFound, problem).code("no_plan").hint(
                "if it was used and no answer came, the outcome is unknown: look in mcp.ndjson of the state \
                 directory for `started` without an end, and at the recipient or, in the sandbox, with \
                 sandbox_emails; do not plan the same email again before",
            ));
        };

        self.count_recipients(plan.recipients)?;
        plan.run.go_on().await
    }

    /// Counts the recipients of what is about to be sent.
    fn count_recipients(&self, count: u64) -> Result<(), Failure> {
        let most = self
            .settings
            .guard
            .max_recipients_per_run
            .map_or(u64::MAX, u64::from);
        let fits = |before: u64| before.checked_add(count).filter(|sum| *sum <= most);
        if self
            .recipients
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits)
            .is_ok()
        {
            return Ok(());
        }

        let problem = format!("nothing was sent: at most {most} recipients are allowed");
        Err(Failure::new(Kind::Refused, problem)
            .code("recipient_guard")
            .hint("a person sets max_recipients_per_run, and starts svc mcp again"))
    }
}

/// The recipients of an email.
fn recipients(request: &Value) -> impl Iterator<Item = &str> {
    let fields = ["to", "cc", "bcc"].map(|field| request["body"][field].as_array());
    fields
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(Value::as_str)
}
