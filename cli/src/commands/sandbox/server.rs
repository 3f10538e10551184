//! The `svc sandbox` commands for the server itself: its status, its end and its data.

use std::path::Path;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use svc_reference_server::client::Health;

use crate::confirm::confirm;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::output::{Column, Show, View};
use crate::sandbox::Sandbox;

const VIEW: View = View(&[
    Column::new("STATUS", "/status", Show::Status),
    Column::text("HTTP", "/addresses/http"),
    Column::text("DNS", "/addresses/dns"),
    Column::text("SMTP", "/addresses/smtp"),
    Column::new("CLOCK", "/now", Show::Time),
    Column::text("VERSION", "/version"),
    Column::text("DATA", "/data"),
]);

/// Show whether the local server is running, and where
///
/// Finds the server of the data directory. A server that was started with --in-memory has none.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox status
  svc sandbox status --jq .addresses.http

Scope: none (local server)")]
pub struct Status {}

impl Status {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let dir = &context.settings.sandbox_dir;
        if Sandbox::running_url(dir).is_none() && !context.settings.dry_run {
            context.out.one(&NotRunning { status: "not running", data: dir }, VIEW)?;
            context.out.note(&format!(
                "no server uses {}; one that was started with --in-memory or another --data is not \
                 found, but responds at its own address",
                dir.display()
            ));
            context.out.hint("start one: svc sandbox serve");
            return Ok(());
        }
        let client = control::client(context, None).await?;
        let Some(health) = control::send(context, client.health()).await? else { return Ok(()) };
        context.out.one(&Running { health, data: dir }, VIEW)
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Running<'a> {
    #[serde(flatten)]
    health: Health,
    data: &'a Path,
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct NotRunning<'a> {
    #[schemars(extend("const" = "not running"))]
    status: &'static str,
    data: &'a Path,
}

/// Stop the local server; its data is kept
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox stop

Scope: none (local server)")]
pub struct Stop {}

impl Stop {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let dir = &context.settings.sandbox_dir;
        let Some(server) = svc_reference_server::find_running(dir) else {
            return context
                .out
                .done("the sandbox is not running", &Stopped { stopped: false, http: None });
        };
        terminate(server.pid)?;
        let progress = context.out.progress("waiting for the sandbox to stop");
        let deadline = tokio::time::Instant::now() + STOP_TIMEOUT;
        while svc_reference_server::find_running(dir).is_some_and(|now| now.pid == server.pid) {
            if tokio::time::Instant::now() > deadline {
                return Err(Failure::other(format!(
                    "the sandbox (process {}) does not stop",
                    server.pid
                )));
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        drop(progress);
        let sentence = format!("stopped the sandbox at {}", server.base_url());
        context.out.done(&sentence, &Stopped { stopped: true, http: Some(server.base_url()) })
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Stopped {
    stopped: bool,
    /// The base URL of the server that was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    http: Option<String>,
}

/// Longer than the server's own shutdown time limit.
const STOP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

#[cfg(unix)]
fn terminate(pid: u32) -> Result<(), Failure> {
    let failed = || Failure::other(format!("cannot stop the sandbox (process {pid})"));
    let pid =
        i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).ok_or_else(failed)?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        .map_err(|error| Failure::other(format!("cannot stop the sandbox: {error}")))
}

#[cfg(not(unix))]
fn terminate(pid: u32) -> Result<(), Failure> {
    Err(Failure::other(format!("cannot stop process {pid} from here: press Ctrl-C in its window")))
}

/// Delete all data, or the data of one organization
///
/// The seeded organization, keys and domain are created again.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox reset --yes

Scope: none (local server)")]
pub struct Reset {
    /// Organization to reset, by name or id [default: all]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Reset {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let what = match &self.organization {
            Some(name) => format!("the data of organization {name}"),
            None => "all data of the sandbox".to_owned(),
        };
        confirm(context, &format!("Delete {what}?")).await?;
        let client = control::client(context, None).await?;
        let request = match self.organization {
            Some(organization) => client.reset_organization(organization),
            None => client.reset(),
        };
        control::done(context, request, &format!("deleted {what} and created the seed data again"))
            .await
    }
}
