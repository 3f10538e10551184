//! The `svc domains delete` command.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;

/// Delete a domain and every mailbox under it
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc domains delete dom_019a
  svc domains delete dom_019a --yes

Scope: domains:manage")]
pub struct Delete {
    /// Domain id
    #[arg(add = Values::Domain.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        confirm(
            context,
            &format!(
                "Delete domain {} and every mailbox under it? This cannot be undone.",
                self.id
            ),
        )
        .await?;
        let call = client.domains().delete(&self.id);
        if context.call(call, "deleting").await?.is_some() {
            context.deleted("domain", &self.id)?;
        }
        Ok(())
    }
}
