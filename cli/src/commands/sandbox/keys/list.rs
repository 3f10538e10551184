//! The `svc sandbox keys list` command.

use clap::Args;

use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// List all API keys, masked
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox keys list

Scope: none (local server)")]
pub struct List {
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        control::list(context, client.keys().list(), super::VIEW, "no keys").await
    }
}
