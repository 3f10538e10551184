//! The `svc sandbox organizations list` command.

use clap::Args;

use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// List all organizations
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox organizations list

Scope: none (local server)")]
pub struct List {}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let request = Request::get("/_sandbox/organizations");
        control::list(context, request, super::LISTED, "no organizations").await
    }
}
