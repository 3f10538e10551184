//! The `svc watch` command.

use clap::Args;

use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
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
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        super::sandbox::follow::follow(context, self.organization.as_deref(), |_| true).await
    }
}

fn output() -> serde_json::Value {
    use svc_reference_server::client::Notification;
    described("one line each: `ready`, then whatever changes", of::<Notification>)
}
