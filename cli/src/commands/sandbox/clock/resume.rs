//! The `svc sandbox clock resume` command.

use clap::Args;

use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Resume the clock
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox clock resume

Scope: none (local server)")]
pub struct Resume {}

impl Resume {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, None).await?;
        control::show(context, client.clock().resume(), super::VIEW).await
    }
}
