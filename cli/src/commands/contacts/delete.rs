//! The `svc contacts delete` command.

use clap::Args;

use crate::complete::Values;
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
        let question = |target: &Target| format!("Delete contact {target}?");
        let delete = |id: &str| client.contacts().delete(id);
        names::delete(context, names, &self.id, question, delete).await
    }
}
