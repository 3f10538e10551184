//! `svc sandbox organizations list`.

use clap::Args;

use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// List the organizations, without their keys
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox organizations list

Scope: none; the local server alone")]
pub struct List {}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let request = Request::get("/_sandbox/organizations");
        control::list(context, request, super::LISTED, "no organization").await
    }
}
