//! `svc sandbox faults get`.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Show a fault and what it met
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox faults get flt_019a --jq .met

Scope: none; the local server alone")]
pub struct Get {
    /// The fault's id
    #[arg(add = Values::Fault.candidates())]
    id: String,
    /// The organization it belongs to; `Sandbox` unless named
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
