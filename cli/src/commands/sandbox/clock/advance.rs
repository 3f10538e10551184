//! The `svc sandbox clock advance` command.

use clap::Args;
use std::time::Duration;

use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::input::duration;

/// Advance the clock and wait until the work then due is done
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox clock advance 90s

Scope: none (local server)")]
pub struct Advance {
    /// Duration, such as 90s, 2h or 1d
    #[arg(value_parser = duration::parse)]
    duration: Duration,
}

impl Advance {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, None).await?;
        control::show(context, client.clock().advance(self.duration), super::VIEW).await
    }
}
