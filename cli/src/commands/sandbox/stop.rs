//! `svc sandbox stop`.

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

/// Stop the local server; everything is kept
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox stop

Scope: none; the local server alone")]
pub struct Stop {}

impl Stop {
    #[cfg(not(feature = "sandbox"))]
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        crate::sandbox::Sandbox::attach(&context.settings.sandbox_dir).await.map(drop)
    }

    #[cfg(feature = "sandbox")]
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        use serde_json::json;

        let dir = &context.settings.sandbox_dir;
        let Some(server) = svc_reference_server::find_running(dir) else {
            return context.out.done("no sandbox is running", &json!({"stopped": false}));
        };
        terminate(server.pid)?;
        let progress = context.out.progress("the sandbox ends what is under way");
        let patience = tokio::time::Instant::now() + PATIENCE;
        while svc_reference_server::find_running(dir).is_some_and(|now| now.pid == server.pid) {
            if tokio::time::Instant::now() > patience {
                return Err(Failure::other(format!(
                    "the sandbox, process {}, does not end",
                    server.pid
                )));
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        drop(progress);
        let sentence = format!("stopped the sandbox at {}", server.base_url());
        context.out.done(&sentence, &json!({"stopped": true, "http": server.base_url()}))
    }
}

/// Longer than the server's own patience with what is under way.
#[cfg(feature = "sandbox")]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(15);

#[cfg(all(feature = "sandbox", unix))]
fn terminate(pid: u32) -> Result<(), Failure> {
    let gone = || Failure::other(format!("the sandbox, process {pid}, cannot be stopped"));
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).ok_or_else(gone)?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        .map_err(|error| Failure::other(format!("the sandbox cannot be stopped: {error}")))
}

#[cfg(all(feature = "sandbox", not(unix)))]
fn terminate(pid: u32) -> Result<(), Failure> {
    Err(Failure::other(format!("end the process {pid}, in its window with Ctrl-C")))
}
