//! `svc sandbox clock show`.

use clap::Args;

use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Show the time and what is due next
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox clock show

Scope: none; the local server alone")]
pub struct Show {}

impl Show {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        control::show(context, Request::get("/_sandbox/clock"), super::VIEW).await
    }
}
