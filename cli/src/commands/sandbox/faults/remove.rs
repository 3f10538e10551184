//! The `svc sandbox faults remove` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
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
        let path = match &self.id {
            Some(id) => format!("/_sandbox/faults/{}", control::segment(id)?),
            None => "/_sandbox/faults".to_owned(),
        };
        let request = Request::delete(&path).query("organization", self.organization.as_deref());
        let what = self.id.map_or("all faults".to_owned(), |id| format!("fault {id}"));
        control::done(context, request, &format!("removed {what}")).await
    }
}
