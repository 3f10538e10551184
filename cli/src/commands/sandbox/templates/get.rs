//! The `svc sandbox templates get` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::context::PLAIN;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;

/// Show a template
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox templates get welcome

Scope: none (local server)")]
pub struct Get {
    /// Template id
    #[arg(add = Values::Template.candidates())]
    id: String,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        control::show(context, client.templates().get(&self.id), PLAIN).await
    }
}
