//! The `svc sandbox clock show` command.

use clap::Args;

use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Show the time and when the next work is due
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox clock show

Scope: none (local server)")]
pub struct Show {}

impl Show {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        control::show(context, Request::get("/_sandbox/clock"), super::VIEW).await
    }
}
