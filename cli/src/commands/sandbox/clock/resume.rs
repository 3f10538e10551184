//! The `svc sandbox clock resume` command.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::control::{self, Request};
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
        let request = Request::post("/_sandbox/clock").body(json!({"resume": true}));
        control::show(context, request, super::VIEW).await
    }
}
