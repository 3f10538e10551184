//! The `svc sandbox organizations list` command.

use clap::Args;

use crate::context::Context;
use crate::control;
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
        let client = control::client(context, None).await?;
        let request = client.organizations().list();
        control::list(context, request, super::LISTED, "no organizations").await
    }
}
