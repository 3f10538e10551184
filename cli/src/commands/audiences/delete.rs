//! The `svc audiences delete` command.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
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
        let target = names::to_delete(context, names, &self.id).await?;
        confirm(context, &format!("Delete audience {target} and all contacts in it?")).await?;
        let delete = async |id: &str| {
            let done = context.call(client.audiences().delete(id), "deleting").await?;
            Ok(done.map(|_| id.to_owned()))
        };
        match names::with_id(context, names, &target.id, delete).await? {
            Some(id) => context.deleted("audience", &Target { id, ..target }),
            None => Ok(()),
        }
    }
}
