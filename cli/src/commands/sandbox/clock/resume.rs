//! `svc sandbox clock resume`.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Let the clock go on
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox clock resume

Scope: none; the local server alone")]
pub struct Resume {}

impl Resume {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let request = Request::post("/_sandbox/clock").body(json!({"resume": true}));
        control::show(context, request, super::VIEW).await
    }
}
