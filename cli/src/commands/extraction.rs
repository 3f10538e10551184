//! The `svc extraction` commands: the document-extraction service.

pub mod webhooks;

use clap::Args;
use svc_sdk::Operation;

use crate::command_spec::reads;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};
use crate::output_schema::me;

group! {
    pub enum Command {
        Me(Me),
        /// Manage webhooks for extraction events
        #[command(subcommand)]
        Webhooks(webhooks::Command),
    }
}

/// Table columns of an organization and the API key.
pub const VIEW: View = View(&[
    Column::text("ORGANIZATION", "/organization/name"),
    Column::id("ORGANIZATION ID", "/organization/id"),
    Column::new("BALANCE", "/organization/balance_cents", Show::Cents),
    Column::text("SCOPE", "/auth/scope"),
    Column::id("KEY", "/auth/key_id"),
    Column::text("METHOD", "/auth/method"),
]);

/// Show the organization and scope of the API key
#[derive(Args, Debug)]
#[command(add = reads(&[Operation::Me], me))]
#[command(after_long_help = "\
  svc extraction me
  svc extraction me --jq .organization.id")]
pub struct Me {}

impl Me {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.extraction_client().await?;
        if let Some(me) = context.call(client.me(), "reading").await? {
            context.out.one(&me, VIEW)?;
        }
        Ok(())
    }
}
