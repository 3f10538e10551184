//! `svc contacts update`.

use clap::Args;
use serde_json::json;
use svc_sdk::email::ContactUpdate;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::pairs;
use crate::output;

use super::VIEW;

/// Change a contact; metadata is merged into what is there
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc contacts update con_019a --name 'Ada King' --subscribed false
  svc contacts update con_019a --meta plan=free --meta seats:=null
  svc contacts update con_019a --no-topics

Scope: contacts:manage")]
pub struct Update {
    /// The contact's id
    #[arg(add = Values::Contact.candidates())]
    id: String,
    /// Display name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Data of your own, repeatable; := takes JSON, and null removes a key
    #[arg(long, value_name = "KEY=TEXT|KEY:=JSON", value_parser = pairs::parse)]
    meta: Vec<pairs::Pair>,
    /// The topics that the contact is subscribed to from now on, repeatable
    #[arg(long, value_name = "TOPIC", value_delimiter = ',')]
    topic: Vec<String>,
    /// No topic at all
    #[arg(long, conflicts_with = "topic")]
    no_topics: bool,
    /// Whether the contact is subscribed
    #[arg(long, value_name = "true|false")]
    subscribed: Option<bool>,
}

impl Update {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut update = ContactUpdate::default();
        update.name = self.name;
        update.metadata = pairs::object("--meta", self.meta)?;
        if self.no_topics || !self.topic.is_empty() {
            update.topics = Some(self.topic);
        }
        update.subscribed = self.subscribed;
        if output::to_value(&update) == json!({}) {
            return Err(Failure::usage("there is nothing to change")
                .hint("say what: --name, --meta, --topic, --no-topics, --subscribed"));
        }
        let client = context.email_client().await?;
        let call = client.contacts().update(&self.id, &update);
        if let Some(contact) = context.call(call, "updating").await? {
            context.out.one(&output::to_value(&contact), VIEW)?;
        }
        Ok(())
    }
}
