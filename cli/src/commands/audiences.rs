//! The `svc audiences` commands: contact lists.

use clap::Args;
use serde_json::Value;
use svc_sdk::email::Audience;
use svc_sdk::{Call, Deleted, EmailClient, ListStream, Operation};

use crate::command_spec::creates;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, View};
use crate::output_schema::audience;
use crate::resource::{Anywhere, Delete, Get, ListAll, Read, Resource};

group! {
    pub enum Command {
        Create(Create),
        List(ListAll<Audience>),
        Get(Get<Audience>),
        Delete(Delete<Audience>),
    }
}

impl Resource for Audience {
    type Client = EmailClient;
    type Within = Anywhere;
    const GROUP: &'static str = "audiences";
    const NOUN: &'static str = "audience";
    const NAMED_BY: &'static str = "name";
    const SAMPLES: [&'static str; 2] = ["aud_019a", "'Spring offers'"];
    const CREATE: &'static str = "create NAME";
    const DELETED_WITH_IT: &'static str = " and all contacts in it";
    const LISTS: &'static [Operation] = &[Operation::AudiencesList];
    const GET: Option<Read<Self>> = Some(|client, id| client.audiences().get(id));
    const GETS: &'static [Operation] = &[Operation::AudiencesGet];
    const DELETES: &'static [Operation] = &[Operation::AudiencesDelete];
    const COMPLETED: Values = Values::Audience;
    const SCHEMA: fn() -> Value = audience;
    const VIEW: View = View(&[
        Column::id("ID", "/id"),
        Column::text("NAME", "/name").key(),
        Column::time("CREATED", "/createdAt").droppable(),
    ]);

    async fn client(context: &Context) -> Result<EmailClient, Failure> {
        context.clients.email_client().await
    }

    fn stream(client: &EmailClient) -> Option<ListStream<Self>> {
        Some(client.audiences().stream())
    }

    fn delete(client: &EmailClient, id: &str) -> Call<Deleted> {
        client.audiences().delete(id)
    }

    fn named(&self) -> (&String, &Option<String>) {
        (&self.id, &self.name)
    }
}

/// Create an audience
#[derive(Args, Debug)]
#[command(add = creates(&[Operation::AudiencesCreate], audience))]
#[command(after_long_help = "\
  svc audiences create Newsletter
  svc audiences create Newsletter --jq .id")]
pub struct Create {
    /// Audience name
    name: String,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.clients.email_client().await?;
        let call = client.audiences().create(self.name);
        let audience = context.call(call, "creating").await?;
        context.out.one(&audience, Audience::VIEW)
    }
}
