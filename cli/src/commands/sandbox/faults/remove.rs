//! The `svc sandbox faults remove` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Remove one fault or all of them
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox faults remove flt_019a
  svc sandbox faults remove

Scope: none (local server)")]
pub struct Remove {
    /// Fault id [default: all]
    #[arg(add = Values::Fault.candidates())]
    id: Option<String>,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Remove {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        let request = match &self.id {
            Some(id) => client.faults().remove(id),
            None => client.faults().clear(),
        };
        let what = self.id.map_or("all faults".to_owned(), |id| format!("fault {id}"));
        control::done(context, request, &format!("removed {what}")).await
    }
}
