//! The `svc watch` command.

use clap::Args;

use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
#[cfg(feature = "sandbox")]
use crate::output_schema::{described, of};

/// Watch requests, emails, deliveries and attempts as they happen
///
/// Prints one line for each in the sandbox. Piped, each line is JSON and has everything that
/// changes. If the server is started again at the same address, the command continues. Ctrl-C ends
/// it with exit code 130, SIGTERM with 0.
#[derive(Args, Debug)]
#[command(add = local(output).of_sandbox().until_interrupted())]
#[command(after_long_help = "\
Examples:
  svc watch
  svc watch -o ndjson --jq .type")]
pub struct Watch {
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Watch {
    #[cfg(feature = "sandbox")]
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        super::sandbox::follow::follow(context, self.organization.as_deref(), |_| true).await
    }

    /// Fails: this build does not include the sandbox.
    #[cfg(not(feature = "sandbox"))]
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let _ = self.organization;
        crate::sandbox::Sandbox::attach(&context.settings).await.map(drop)
    }
}

#[cfg(feature = "sandbox")]
fn output() -> serde_json::Value {
    use svc_reference_server::client::Notification;
    described("one line each: `ready`, then whatever changes", of::<Notification>)
}

#[cfg(not(feature = "sandbox"))]
fn output() -> serde_json::Value {
    true.into()
}
