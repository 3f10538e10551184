//! The `svc sandbox templates list` command.

use clap::Args;

use crate::context::Context;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of a template in a list.
const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("SUBJECT", "/subject"),
    Column::new("HTML", "/hasHtml", Show::Flag),
    Column::new("TEXT", "/hasText", Show::Flag),
    Column::new("UPDATED", "/updatedAt", Show::Time),
]);

/// List the templates
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox templates list

Scope: none (local server)")]
pub struct List {
    /// Fetch every page [default: the first 20]
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    organization: OfOrganization,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        control::pages(context, || client.templates().list(), self.all, VIEW, "no templates").await
    }
}
