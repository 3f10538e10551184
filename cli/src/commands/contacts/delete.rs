//! The `svc contacts delete` command.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names, Target};

/// Delete a contact
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc contacts delete con_019a
  svc contacts delete ada@example.org --audience Newsletter --yes

Scope: contacts:manage")]
pub struct Delete {
    /// Contact id or address
    #[arg(add = Values::Contact.candidates())]
    id: String,
    /// Audience, by id or name, if the address is in several
    #[arg(long, value_name = "ID|NAME", add = Values::Audience.candidates())]
    audience: Option<String>,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let names = Names::Contact { client: &client, audience: self.audience.as_deref() };
        let target = names::to_delete(context, names, &self.id).await?;
        confirm(context, &format!("Delete contact {target}?")).await?;
        let delete = async |id: &str| {
            let done = context.call(client.contacts().delete(id), "deleting").await?;
            Ok(done.map(|_| id.to_owned()))
        };
        match names::with_id(context, names, &target.id, delete).await? {
            Some(id) => context.deleted("contact", &Target { id, ..target }),
            None => Ok(()),
        }
    }
}
