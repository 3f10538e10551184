//! The `svc sandbox faults list` command.

use clap::Args;

use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// List all faults and the requests they affected
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox faults list

Scope: none (local server)")]
pub struct List {
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        control::list(context, client.faults().list(), super::VIEW, "no faults").await
    }
}
