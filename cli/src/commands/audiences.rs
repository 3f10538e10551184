//! The `svc audiences` commands: contact lists.

use clap::Args;
use svc_sdk::Operation::{AudiencesCreate, AudiencesDelete, AudiencesGet, AudiencesList};

use crate::command_spec::{creates, reads, removes};
use crate::complete::Values;
use crate::context::Context;
use crate::context::Deleted;
use crate::failure::Failure;
use crate::names;
use crate::names::{Names, Target};
use crate::output::{Column, Show, View};
use crate::output_schema::{audience, list, of};

/// Table columns of an audience.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::new("CREATED", "/createdAt", Show::Time).droppable(),
]);

group! {
    pub enum Command {
        Create(Create),
        List(List),
        Get(Get),
        Delete(Delete),
    }
}

/// Create an audience
#[derive(Args, Debug)]
#[command(add = creates(&[AudiencesCreate], audience))]
#[command(after_long_help = "\
Examples:
  svc audiences create Newsletter
  svc audiences create Newsletter --jq .id")]
pub struct Create {
    /// Audience name
    name: String,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let call = client.audiences().create(self.name);
        if let Some(audience) = context.call(call, "creating").await? {
            context.out.one(&audience, VIEW)?;
        }
        Ok(())
    }
}

/// List all audiences
#[derive(Args, Debug)]
#[command(add = reads(&[AudiencesList], || list(audience)))]
#[command(after_long_help = "\
Examples:
  svc audiences list
  svc audiences list --jq '.[] | select(.name == \"Newsletter\") | .id'")]
pub struct List {}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        if let Some(list) = context.call(client.audiences().list(), "reading").await? {
            let none =
                format!("no audiences; create one: {}", context.svc("audiences create NAME"));
            context.out.list(&list, VIEW, &none)?;
        }
        Ok(())
    }
}

/// Show an audience
#[derive(Args, Debug)]
#[command(add = reads(&[AudiencesGet], audience))]
#[command(after_long_help = "\
Examples:
  svc audiences get aud_019a
  svc audiences get Newsletter")]
pub struct Get {
    /// Audience id or name
    #[arg(add = Values::Audience.candidates())]
    id: String,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let read = async |id: &str| context.call(client.audiences().get(id), "reading").await;
        let audience = names::with_id(context, Names::Audience(&client), &self.id, read).await?;
        if let Some(audience) = audience {
            context.out.one(&audience, VIEW)?;
        }
        Ok(())
    }
}

/// Delete an audience and all its contacts
#[derive(Args, Debug)]
#[command(add = removes(&[AudiencesDelete], of::<Deleted>))]
#[command(after_long_help = "\
Examples:
  svc audiences delete aud_019a
  svc audiences delete 'Spring offers' --yes")]
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
