//! The `svc sandbox clock advance` command.

use clap::Args;
use serde_json::json;
use std::time::Duration;

use crate::context::Context;
use crate::control::{self, Request};
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
        let body = json!({"advance": format!("{}ms", self.duration.as_millis())});
        let request = Request::post("/_sandbox/clock").body(body);
        control::show(context, request.long_running(), super::VIEW).await
    }
}
