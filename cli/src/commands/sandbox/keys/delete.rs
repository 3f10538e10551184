//! The `svc sandbox keys delete` command.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;

/// Revoke an API key
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox keys delete key_019a --yes

Scope: none (local server)")]
pub struct Delete {
    /// Key id
    #[arg(add = Values::SandboxKey.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        confirm(context, &format!("Revoke key {}?", self.id)).await?;
        let client = control::client(context, None).await?;
        control::deleted(context, client.keys().delete(&self.id), "key", &self.id).await
    }
}
