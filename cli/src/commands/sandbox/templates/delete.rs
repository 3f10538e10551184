//! The `svc sandbox templates delete` command.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::control::{self, OfOrganization};
use crate::failure::Failure;

/// Delete a template
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox templates delete welcome --yes

Scope: none (local server)")]
pub struct Delete {
    /// Template id
    #[arg(add = Values::Template.candidates())]
    id: String,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        confirm(context, &format!("Delete template {}?", self.id)).await?;
        let client = self.organization.client(context).await?;
        control::deleted(context, client.templates().delete(&self.id), "template", &self.id).await
    }
}
