//! The `svc sandbox clock show` command.

use clap::Args;

use crate::context::Context;
use crate::control;
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
        let client = control::client(context, None).await?;
        control::show(context, client.clock().get(), super::VIEW).await
    }
}
