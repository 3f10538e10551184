//! The `svc sandbox clock freeze` command.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::control::{self, Request};
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
        let request = Request::post("/_sandbox/clock").body(json!({"freeze": true}));
        control::show(context, request, super::VIEW).await
    }
}
