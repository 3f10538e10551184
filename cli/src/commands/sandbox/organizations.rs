//! The `svc sandbox organizations` commands: isolated organizations.

use clap::Args;
use svc_reference_server::client::Organization;
use svc_reference_server::client::OrganizationSummary;

use crate::command_spec::{changes, reads};
use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::output::{Column, Show, View};
use crate::output_schema::of;

/// Table columns of an organization.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::id("EMAIL KEY", "/email_key"),
    Column::id("EXTRACTION KEY", "/extraction_key"),
    Column::new("BALANCE", "/balance_cents", Show::Cents),
]);

/// Table columns of an organization in a list.
pub const LISTED: View = View(&[
    Column::id("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::new("BALANCE", "/balance_cents", Show::Cents),
]);

group! {
    pub enum Command {
        Create(Create),
        List(List),
    }
}

/// Create an organization, with keys for both services
///
/// The keys have all scopes and are shown only once.
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<Organization>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox organizations create --name Test --jq .email_key")]
pub struct Create {
    /// Organization name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Balance in cents [default: 0]
    #[arg(long, value_name = "CENTS", allow_negative_numbers = true)]
    balance_cents: Option<i64>,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, None).await?;
        let request = client.organizations().create(self.name.as_deref(), self.balance_cents);
        control::show(context, request, VIEW).await
    }
}

/// List all organizations
#[derive(Args, Debug)]
#[command(add = reads(&[], of::<Vec<OrganizationSummary>>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox organizations list")]
pub struct List {}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, None).await?;
        let request = client.organizations().list();
        control::list(context, request, LISTED, "no organizations").await
    }
}
