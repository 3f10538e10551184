//! The `svc contacts update` command.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::json;
use svc_sdk::email::ContactUpdate;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::{pairs, switch};
use crate::names::{self, Names};
use crate::output;

use super::VIEW;

/// Update a contact; metadata is merged
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc contacts update con_019a --name 'Ada King' --subscribed false
  svc contacts update con_019a --meta plan=free --meta seats:=null
  svc contacts update ada@example.org --no-topics

Scope: contacts:manage")]
pub struct Update {
    /// Contact id or address
    #[arg(add = Values::Contact.candidates())]
    id: String,
    /// Audience, by id or name, if the address is in several
    #[arg(long, value_name = "ID|NAME", add = Values::Audience.candidates())]
    audience: Option<String>,
    /// Display name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Metadata entry; repeatable
    ///
    /// KEY=TEXT sets a text, KEY:=JSON a JSON value. The value null removes the entry.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pairs::parse)]
    meta: Vec<pairs::Pair>,
    /// New list of topics; repeatable
    #[arg(long, value_name = "TOPIC", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    topic: Vec<String>,
    /// Remove all topics
    #[arg(long, conflicts_with = "topic")]
    no_topics: bool,
    /// Subscribe or unsubscribe the contact
    #[arg(long, value_name = "true|false", hide_possible_values = true, value_parser = switch::parser())]
    subscribed: Option<bool>,
}

impl Update {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut update = ContactUpdate::default();
        update.name = self.name.map(Some);
        update.metadata = pairs::object("--meta", self.meta)?;
        if self.no_topics || !self.topic.is_empty() {
            update.topics = Some(self.topic);
        }
        update.subscribed = self.subscribed;
        if output::to_value(&update) == json!({}) {
            return Err(Failure::usage("nothing to update")
                .hint("give at least one of --name, --meta, --topic, --no-topics, --subscribed"));
        }
        let client = context.email_client().await?;
        let names = Names::Contact { client: &client, audience: self.audience.as_deref() };
        let call =
            async |id: &str| context.call(client.contacts().update(id, &update), "updating").await;
        if let Some(contact) = names::with_id(context, names, &self.id, call).await? {
            context.out.one(&contact, VIEW)?;
        }
        Ok(())
    }
}
