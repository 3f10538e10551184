//! The `svc sandbox requests tail` command.

use clap::Args;
use svc_reference_server::client::LiveEvent;

use crate::commands::sandbox::follow::follow;
use crate::context::Context;
use crate::failure::Failure;

/// Print each request as it is handled
///
/// Piped, each line is JSON. Ctrl-C or SIGTERM ends the command.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox requests tail
  svc sandbox requests tail -o ndjson --jq .operation

Scope: none (local server)")]
pub struct Tail {
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Tail {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let is_request = |event: &LiveEvent| matches!(event, LiveEvent::Request(_));
        follow(context, self.organization.as_deref(), is_request).await
    }
}
