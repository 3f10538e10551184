//! The `svc domains delete` command.

use clap::Args;

use crate::complete::Values;
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
        let question = |target: &Target| {
            format!("Delete domain {target} and every mailbox under it? This cannot be undone.")
        };
        let delete = |id: &str| client.domains().delete(id);
        names::delete(context, names, &self.id, question, delete).await
    }
}
