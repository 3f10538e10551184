//! The `svc sandbox` commands for the server itself: `status`, `stop`, `reset` and `export`. The
//! server is found by `SVC_SANDBOX_URL`, by the file in the data directory, or at the usual
//! address, and none of these commands but `reset` and `export` starts one. `stop` signals the
//! process that the file names, and waits until it is not found any more.

use std::path::Path;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use svc_reference_server::client::{Client, Health};
use svc_sdk::EmailClient;

use crate::command_spec::local;
use crate::context::Context;
use crate::control::{self, Done, Text, reads, removes};
use crate::failure::Failure;
use crate::output::{Column, View};
use crate::output_schema::{any_of, of};
use crate::prepared::Prepared;
use crate::sandbox;

const VIEW: View = View(&[
    Column::status("STATUS", "/status"),
    Column::text("HTTP", "/addresses/http"),
    Column::text("DNS", "/addresses/dns"),
    Column::text("SMTP", "/addresses/smtp"),
    Column::time("CLOCK", "/now"),
    Column::text("VERSION", "/version"),
    Column::text("DATA", "/data"),
]);

/// Show whether the sandbox is running, and where
///
/// The exit code is 1 if it is not. Finds the server of the data directory, one with --in-memory, and
/// one of another user at the address in SVC_SANDBOX_ADDR or at 127.0.0.1:4080. It is ready when it
/// listens on all of its addresses.
#[derive(Args, Debug)]
#[command(add = reads(|| any_of(&[of::<Running>, of::<NotRunning>])))]
#[command(after_long_help = "\
  svc sandbox status
  svc sandbox status --jq .addresses.http")]
pub struct Status {
    /// Base URL of the server [env: SVC_SANDBOX_URL]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

impl Status {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let dir = &context.settings.sandbox_dir;
        let elsewhere = context
            .settings
            .variable("SVC_SANDBOX_URL")?
            .map(|url| url.value);
        let elsewhere = self.url.or(elsewhere);
        let found = sandbox::find(dir);
        let url = match (&elsewhere, &found) {
            (Some(url), _) => url.clone(),
            (None, Some(found)) => found.base_url(),
            (None, None) => sandbox::usual_url(&context.settings)?,
        };
        let uses_dir = elsewhere.is_none() && svc_reference_server::find_running(dir).is_some();
        let data = uses_dir.then(|| dir.display().to_string());
        let http = EmailClient::builder(&url, "none").no_proxy().build()?;
        let request = Client::from_http(http).health();
        let is_given = elsewhere.is_some() || found.is_some();
        let request = Prepared::new(request).decide(context).await?;
        if !is_given && names_only_dir(context)? && sandbox::is_readable(dir) {
            // The server at the usual address is that of another directory.
            return not_running(
                context,
                dir,
                &format!("no sandbox runs on {}", dir.display()),
            );
        }

        let none = format!("no sandbox responds at {url}");
        if !is_given && !listens(&url).await {
            return not_running(context, dir, &none);
        }

        match control::read(context, request).await {
            Ok(health) => context.out.one(&Running { health, data }, VIEW),
            Err(_) => not_running(context, dir, &none),
        }
    }
}

/// Whether the environment says which directory is meant, but not where its server listens.
fn names_only_dir(context: &Context) -> Result<bool, Failure> {
    let is_set = |name| Ok::<_, Failure>(context.settings.variable(name)?.is_some());
    let names_address = is_set("SVC_SANDBOX_ADDR")? || is_set("SVC_SANDBOX_NETWORK")?;
    Ok(is_set("SVC_SANDBOX_DIR")? && !names_address)
}

async fn listens(url: &str) -> bool {
    let addr = url.strip_prefix("http://").unwrap_or(url);
    let connect = tokio::net::TcpStream::connect(addr);
    matches!(
        tokio::time::timeout(sandbox::PROBE_TIMEOUT, connect).await,
        Ok(Ok(_))
    )
}

fn not_running(context: &Context, dir: &Path, message: &str) -> Result<(), Failure> {
    context.out.one(
        &NotRunning {
            status: "not running",
            data: dir.display().to_string(),
        },
        VIEW,
    )?;
    let hint = "start one: svc sandbox serve; or name another: svc sandbox status --url URL";
    Err(Failure::other(message).code("not_running").hint(hint))
}

#[derive(Serialize, JsonSchema)]
pub struct Running {
    #[serde(flatten)]
    health: Health,
    /// The data directory; null if another one or none is used.
    data: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct NotRunning {
    #[schemars(extend("const" = "not running"))]
    status: &'static str,
    data: String,
}

/// Stop the sandbox; its data is kept
#[derive(Args, Debug)]
#[command(add = local(of::<Stopped>).of_sandbox())]
pub struct Stop {}

impl Stop {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let dir = &context.settings.sandbox_dir;
        let Some(server) = sandbox::find(dir) else {
            if let Some(url) = sandbox::beside(&context.settings).await? {
                let message = format!("the sandbox at {} belongs to another user", url.value);
                return Err(Failure::other(message).hint("end its process, or its container"));
            }
            return context.out.done(
                "the sandbox is not running",
                &Stopped {
                    stopped: false,
                    http: None,
                },
            );
        };

        terminate(server.pid)?;
        let progress = context.out.progress("waiting for the sandbox to stop");
        let deadline = tokio::time::Instant::now() + STOP_TIMEOUT;
        while sandbox::find(dir).is_some_and(|now| now.pid == server.pid) {
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
        context.out.done(
            &sentence,
            &Stopped {
                stopped: true,
                http: Some(server.base_url()),
            },
        )
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Stopped {
    stopped: bool,
    /// The base URL of the server that was stopped.
    http: Option<String>,
}

/// Longer than the server's own shutdown time limit.
const STOP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(15);

#[cfg(unix)]
fn terminate(pid: u32) -> Result<(), Failure> {
    let failed = || Failure::other(format!("cannot stop the sandbox (process {pid})"));
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or_else(failed)?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        .map_err(|error| Failure::other(format!("cannot stop the sandbox: {error}")))
}

#[cfg(not(unix))]
fn terminate(pid: u32) -> Result<(), Failure> {
    Err(Failure::other(format!(
        "cannot stop process {pid} from here: press Ctrl-C in its window"
    )))
}

/// Delete all data, or the data of one organization
///
/// The seeded organization, keys and domain are created again.
#[derive(Args, Debug)]
#[command(add = removes(of::<Done>))]
#[command(after_long_help = "svc sandbox reset --yes")]
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
        let sentence = format!("deleted {what} and created the seed data again");
        let client = control::client(context).await?;
        let request = match self.organization {
            Some(organization) => client.reset_organization(organization),
            None => client.reset(),
        };
        let request = Prepared::new(request).asking(format!("Delete {what}?"));
        control::read(context, request.decide(context).await?).await?;
        control::print_done(context, &sentence, &())
    }
}

/// Export the sandbox as a seed file
///
/// The output is a TOML file for `svc sandbox serve --seed`: organizations, domains, templates,
/// audiences with contacts, and webhooks with their secrets. Of the keys, it has those that the server
/// was started with; of the others, the server has only hashes.
#[derive(Args, Debug)]
#[command(add = reads(of::<Text>))]
#[command(after_long_help = "svc sandbox export > seed.toml")]
pub struct Export {}

impl Export {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        control::document(context, client.seed_file()).await
    }
}
