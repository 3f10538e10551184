//! The `svc sandbox faults get` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Show a fault and the requests it affected
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox faults get flt_019a --jq .hits

Scope: none (local server)")]
pub struct Get {
    /// Fault id
    #[arg(add = Values::Fault.candidates())]
    id: String,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        control::show(context, client.faults().get(&self.id), super::VIEW).await
    }
}
