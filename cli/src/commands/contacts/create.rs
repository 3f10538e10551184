//! The `svc contacts create` command.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use svc_sdk::email::NewContact;

use crate::command_line::shell_quoted;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::pairs;
use crate::names::{self, Names};

use super::VIEW;

/// Add a contact to an audience
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc contacts create aud_019a ada@example.org --name 'Ada Lovelace'
  svc contacts create aud_019a ada@example.org --meta plan=pro --meta seats:=5 --topic news,offers

Scope: contacts:manage")]
pub struct Create {
    /// Audience id or name
    #[arg(add = Values::Audience.candidates())]
    audience: String,
    /// Email address of the contact
    email: String,
    /// Display name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Metadata entry; repeatable
    ///
    /// KEY=TEXT sets a text, KEY:=JSON a JSON value.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pairs::parse)]
    meta: Vec<pairs::Pair>,
    /// Topic the contact is subscribed to; repeatable
    #[arg(long, value_name = "TOPIC", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    topic: Vec<String>,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if self.audience.contains('@') && !self.email.contains('@') {
            let (audience, email) = (shell_quoted(&self.email), shell_quoted(&self.audience));
            return Err(Failure::usage(format!("EMAIL: {audience} is not an email address")).hint(
                format!("the audience comes first: svc contacts create {audience} {email}"),
            ));
        }
        let mut contact = NewContact::new(self.email);
        contact.name = self.name;
        contact.metadata = pairs::object("--meta", self.meta)?;
        contact.topics = self.topic;
        let client = context.email_client().await?;
        let call = async |id: &str| {
            context.call(client.contacts().create(id, contact.clone()), "creating").await
        };
        let names = Names::Audience(&client);
        if let Some(contact) = names::with_id(context, names, &self.audience, call).await? {
            context.out.one(&contact, VIEW)?;
        }
        Ok(())
    }
}
