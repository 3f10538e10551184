//! `svc sandbox keys delete`.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Revoke a key; it fails from the next request on
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox keys delete key_019a --yes

Scope: none; the local server alone")]
pub struct Delete {
    /// The key's id
    #[arg(add = Values::SandboxKey.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        confirm(context, &format!("Revoke key {}?", self.id)).await?;
        let request = Request::delete(&format!("/_sandbox/keys/{}", control::segment(&self.id)?));
        control::deleted(context, request, "key", &self.id).await
    }
}
