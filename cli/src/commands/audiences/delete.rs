//! The `svc audiences delete` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names, Target};

/// Delete an audience and all its contacts
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc audiences delete aud_019a
  svc audiences delete 'Spring offers' --yes

Scope: contacts:manage")]
pub struct Delete {
    /// Audience id or name
    #[arg(add = Values::Audience.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let names = Names::Audience(&client);
        let question =
            |target: &Target| format!("Delete audience {target} and all contacts in it?");
        let delete = |id: &str| client.audiences().delete(id);
        names::delete(context, names, &self.id, question, delete).await
    }
}
