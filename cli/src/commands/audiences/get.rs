//! The `svc audiences get` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names};

use super::VIEW;

/// Show an audience
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc audiences get aud_019a
  svc audiences get Newsletter

Scope: contacts:manage")]
pub struct Get {
    /// Audience id or name
    #[arg(add = Values::Audience.candidates())]
    id: String,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let read = async |id: &str| context.call(client.audiences().get(id), "reading").await;
        let audience = names::with_id(context, Names::Audience(&client), &self.id, read).await?;
        if let Some(audience) = audience {
            context.out.one(&audience, VIEW)?;
        }
        Ok(())
    }
}
