//! The `svc domains delete` command.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names, Target};

/// Delete a domain and every mailbox under it
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc domains delete example.com
  svc domains delete dom_019a --yes

Scope: domains:manage")]
pub struct Delete {
    /// Domain id or name
    #[arg(add = Values::DomainOrName.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let names = Names::Domain(&client);
        let target = names::to_delete(context, names, &self.id).await?;
        confirm(
            context,
            &format!("Delete domain {target} and every mailbox under it? This cannot be undone."),
        )
        .await?;
        let delete = async |id: &str| {
            let done = context.call(client.domains().delete(id), "deleting").await?;
            Ok(done.map(|_| id.to_owned()))
        };
        match names::with_id(context, names, &target.id, delete).await? {
            Some(id) => context.deleted("domain", &Target { id, ..target }),
            None => Ok(()),
        }
    }
}
