//! `svc sandbox clock advance`.

use clap::Args;
use serde_json::json;
use std::time::Duration;

use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::input::duration;

/// Put the clock forward and run what falls due; answers when it has settled
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox clock advance 90s

Scope: none; the local server alone")]
pub struct Advance {
    /// How far, such as 90s, 2h, 1d
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
