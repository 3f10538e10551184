//! The `svc sandbox stop` command.

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

/// Stop the local server; its data is kept
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox stop

Scope: none (local server)")]
pub struct Stop {}

impl Stop {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        use serde_json::json;

        let dir = &context.settings.sandbox_dir;
        let Some(server) = svc_reference_server::find_running(dir) else {
            return context.out.done("the sandbox is not running", &json!({"stopped": false}));
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
        context.out.done(&sentence, &json!({"stopped": true, "http": server.base_url()}))
    }
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
