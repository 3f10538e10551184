//! The `svc sandbox clock freeze` command.

use clap::Args;

use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Freeze the clock
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox clock freeze

Scope: none (local server)")]
pub struct Freeze {}

impl Freeze {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, None).await?;
        control::show(context, client.clock().freeze(), super::VIEW).await
    }
}
