//! The `svc contacts delete` command.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;

/// Delete a contact
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc contacts delete con_019a
  svc contacts delete con_019a --yes

Scope: contacts:manage")]
pub struct Delete {
    /// Contact id
    #[arg(add = Values::Contact.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        confirm(context, &format!("Delete contact {}?", self.id)).await?;
        let call = client.contacts().delete(&self.id);
        if context.call(call, "deleting").await?.is_some() {
            context.deleted("contact", &self.id)?;
        }
        Ok(())
    }
}
