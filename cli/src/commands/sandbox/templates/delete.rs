//! The `svc sandbox templates delete` command.

use clap::Args;

use crate::confirm::confirm;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Delete a template
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox templates delete welcome --yes

Scope: none (local server)")]
pub struct Delete {
    /// Template id
    id: String,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        confirm(context, &format!("Delete template {}?", self.id)).await?;
        let path = format!("/_sandbox/templates/{}", control::segment(&self.id)?);
        let request = Request::delete(&path).query("organization", self.organization.as_deref());
        control::deleted(context, request, "template", &self.id).await
    }
}
