//! The `svc audiences delete` command.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;

/// Delete an audience and all its contacts
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc audiences delete aud_019a
  svc audiences delete aud_019a --yes

Scope: contacts:manage")]
pub struct Delete {
    /// Audience id
    #[arg(add = Values::Audience.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        confirm(context, &format!("Delete audience {} and all contacts in it?", self.id)).await?;
        let call = client.audiences().delete(&self.id);
        if context.call(call, "deleting").await?.is_some() {
            context.deleted("audience", &self.id)?;
        }
        Ok(())
    }
}
