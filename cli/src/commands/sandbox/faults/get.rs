//! The `svc sandbox faults get` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
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
        let path = format!("/_sandbox/faults/{}", control::segment(&self.id)?);
        let request = Request::get(&path).query("organization", self.organization.as_deref());
        control::show(context, request, super::VIEW).await
    }
}
