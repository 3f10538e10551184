//! The `svc contacts` commands: create, list, get, update and delete the contacts of an audience;
//! `import` has a module of its own. `Contact` is a `Resource` that is found by ID or by address,
//! in one audience (`--audience`) or in all. `list --all` prints CSV and NDJSON page by page, in
//! the form that the import reads back (`EXPORT_HEADER`).

pub mod import;

use std::collections::BTreeSet;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};
use svc_sdk::Operation::{
    AudiencesList, ContactsCreate, ContactsDelete, ContactsList, ContactsUpdate,
};
use svc_sdk::email::{Audience, Contact, ContactUpdate, NewContact};
use svc_sdk::{Call, Deleted, EmailClient, Operation};

use self::import::rows::EXPORT_HEADER;
use crate::command_spec::{changes, creates, reads};
use crate::complete::Values;
use crate::contact_pages;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::email::invisible_character;
use crate::input::pairs;
use crate::output::{self, Column, Format, Items, View};
use crate::output_schema::contact;
use crate::prepared::Prepared;
use crate::resource::{
    Delete, Found, Get, Names, Resource, Target, id_of, is_named, schema_of_list,
};

group! {
    pub enum Command {
        Create(Create),
        List(List),
        Get(Get<Contact>),
        Update(Update),
        Delete(Delete<Contact>),
        Import(import::Import),
    }
}

impl Resource for Contact {
    type Client = EmailClient;
    type Within = Within;
    const GROUP: &'static str = "contacts";
    const NOUN: &'static str = "contact";
    const NAMED_BY: &'static str = "address";
    const SAMPLES: [&'static str; 2] = ["con_019a", "ada@example.org"];
    const CREATE: &'static str = "create AUDIENCE EMAIL";
    const LISTS: &'static [Operation] = &[ContactsList, AudiencesList];
    const DELETES: &'static [Operation] = &[ContactsDelete];
    const COMPLETED: Values = Values::Contact;
    const SCHEMA: fn() -> Value = contact;
    const VIEW: View = View(&[
        Column::id("ID", "/id"),
        Column::text("EMAIL", "/email").key(),
        Column::text("NAME", "/name"),
        Column::flag("SUBSCRIBED", "/subscribed"),
        Column::text("TOPICS", "/topics").droppable(),
        Column::text("METADATA", "/metadata").droppable(),
    ]);
    const IS_IN_ONE_LIST: bool = false;

    async fn client(context: &Context) -> Result<EmailClient, Failure> {
        context.clients.email_client().await
    }

    fn delete(client: &EmailClient, id: &str) -> Call<Deleted> {
        client.contacts().delete(id)
    }

    fn named(&self) -> (&String, &Option<String>) {
        (&self.id, &self.email)
    }

    fn is_id(text: &str) -> bool {
        !text.contains('@')
    }

    fn is_same_name(one: &str, other: &str) -> bool {
        one.eq_ignore_ascii_case(other)
    }

    async fn preview(context: &Context, client: &EmailClient) -> Result<(), Failure> {
        Audience::preview(context, client).await
    }

    /// Searches the audience, or all of them.
    async fn search(
        names: &Names<'_, Self>,
        text: Option<&str>,
    ) -> Result<Vec<Found<Self>>, Failure> {
        let audiences = Names::<Audience>::new(names.context, names.client);
        let audiences = match &names.within.audience {
            Some(audience) => vec![audiences.existing(audience).await?],
            None => {
                let all = Audience::search(&audiences, None).await?;
                audiences.needs_all()?;
                all
            }
        };
        let mut found = Vec::new();
        for Target { id, name } in audiences.iter().map(Found::target) {
            let place = format!("in {}", name.as_ref().unwrap_or(&id));
            let read = contact_pages::for_each(names.context, names.client, &id, None, |item| {
                if text.is_none_or(|text| is_named(&item, text)) {
                    found.push(Found {
                        item,
                        place: place.clone(),
                    });
                }
                Ok(())
            });
            read.await?;
        }
        Ok(found)
    }
}

/// Where to look for a contact.
#[derive(Args, Clone, Debug, Default)]
pub struct Within {
    /// Audience, by id or name, if the address is in several
    #[arg(long, value_name = "ID|NAME", add = Values::Audience.candidates())]
    audience: Option<String>,
}

/// Add a contact to an audience
#[derive(Args, Debug)]
#[command(add = creates(&[ContactsCreate], contact))]
#[command(after_long_help = "\
  svc contacts create aud_019a ada@example.org --name 'Ada Lovelace'
  svc contacts create aud_019a ada@example.org --meta plan=pro --meta seats:=5 \\
      --topic news,offers")]
pub struct Create {
    /// Audience id or name
    #[arg(add = Values::Audience.candidates())]
    audience: String,
    /// Email address of the contact
    email: String,
    #[command(flatten)]
    fields: Fields,
}

/// The options of a contact beside its address.
#[derive(Args, Debug)]
struct Fields {
    /// Display name
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Metadata entry; repeatable
    ///
    /// KEY=TEXT sets a text, KEY:=JSON a JSON value. In an update, the value null removes the entry.
    #[arg(long, value_name = "KEY=VALUE", value_parser = pairs::parse)]
    meta: Vec<pairs::Pair>,
    /// Topic the contact is subscribed to; repeatable
    #[arg(long, value_name = "TOPIC", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    topic: Vec<String>,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if let Some(problem) = invisible_character(&self.email) {
            return Err(Failure::usage(format!("EMAIL: {problem}")));
        }

        let mut contact = NewContact::new(self.email);
        contact.name = self.fields.name;
        contact.metadata = pairs::object("--meta", self.fields.meta)?;
        contact.topics = self.fields.topic;
        let client = context.clients.email_client().await?;
        let id = id_of::<Audience>(context, &client, &self.audience).await?;
        let call = client.contacts().create(&id, contact);
        let contact = context.call(call, "creating").await?;
        context.out.one(&contact, Contact::VIEW)
    }
}

/// List the contacts of an audience, one page or all
#[derive(Args, Debug)]
#[command(add = reads(&[ContactsList], schema_of_list::<Contact>))]
#[command(after_long_help = "\
  svc contacts list aud_019a --page 2 --page-size 50
  svc contacts list aud_019a --all -o csv > people.csv")]
pub struct List {
    /// Audience id or name
    #[arg(add = Values::Audience.candidates())]
    audience: String,
    /// Page number [default: the first page]
    #[arg(long, value_name = "N", conflicts_with = "all")]
    page: Option<u64>,
    /// Contacts per page [default: the service's; 100 with --all]
    #[arg(long, alias = "limit", value_name = "N")]
    page_size: Option<u64>,
    /// Fetch every page, within --timeout over all of them
    ///
    /// NDJSON and CSV are written page by page, and `svc contacts import` reads both. CSV has the
    /// documented fields, and does not tell an empty name from none; NDJSON has every field.
    #[arg(long)]
    all: bool,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.clients.email_client().await?;
        let mut items = Items::new(&context.out, &EXPORT_HEADER);
        // Lines of CSV, which an import reads.
        items.are_lines &= context.out.format() == Format::Csv;
        let id = id_of::<Audience>(context, &client, &self.audience).await?;
        let mut call = client.contacts().list(&id);
        if let Some(page) = self.page {
            call = call.page(page);
        }
        if let Some(size) = self.page_size {
            call = call.page_size(size);
        }
        let call = context.caller.with_options(call);
        let call = Prepared::new(call).decide(context).await?;
        let mut more = None;
        let mut incomplete = None;
        let mut lost = BTreeSet::new();
        let in_csv = items.are_lines;
        if self.all {
            let each = |contact: Contact| {
                if in_csv {
                    lost.extend(without_column(&contact));
                }
                items.push(&contact)
            };
            match contact_pages::all(context, &client, &id, self.page_size, each).await {
                Err(failure) if failure.is_incomplete_list() => incomplete = Some(failure),
                read => read?,
            }
        } else {
            let list = context.caller.send(call, "reading").await?;
            for contact in &list {
                if in_csv {
                    lost.extend(without_column(contact));
                }
                items.push(contact)?;
            }
            more = match (list.page, list.total_pages) {
                (Some(page), Some(pages)) if pages > 1 => Some(format!("page {page} of {pages}")),
                _ if list.has_more() || (self.page.is_none() && !list.is_complete()) => {
                    Some("the audience has more contacts".to_owned())
                }
                _ => None,
            };
        }

        if items.are_lines {
            items.finish()?;
        } else if context.out.format() != Format::Ndjson {
            let none = match self.page {
                Some(page) => format!("no contacts on page {page} of this audience"),
                None => "no contacts in this audience".to_owned(),
            };
            match incomplete {
                Some(_) => context.out.part_of_list(items.document(), Contact::VIEW)?,
                None => context.out.list(items.document(), Contact::VIEW, &none)?,
            }
        }

        if !lost.is_empty() {
            let fields: Vec<String> = lost.into_iter().collect();
            context.out.warning(&format!(
                "whether a contact wants emails, or its custom data, may be in fields that CSV leaves \
                 out: {}; NDJSON has them (-o ndjson), and the points `opt-out` and \
                 `metadata-field` of the dialect say which they are",
                fields.join(", ")
            ));
        }

        if let Some(more) = more {
            context
                .out
                .note(&format!("{more}; use --all for every page"));
        }

        incomplete.map_or(Ok(()), Err)
    }
}

/// The fields of a contact that may hold what it has no column for in CSV: its wish for emails, or its
/// custom data.
fn without_column(contact: &Contact) -> Vec<String> {
    if contact.subscribed.is_some() && contact.metadata.is_some() {
        return Vec::new();
    }

    let holds_something = |value: &Value| match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };

    let others = contact.extra.iter();
    others
        .filter(|(_, value)| holds_something(value))
        .map(|(name, _)| name.clone())
        .collect()
}

/// Update a contact; metadata is merged
#[derive(Args, Debug)]
#[command(add = changes(&[ContactsUpdate], contact))]
#[command(mut_arg("topic", |it| it.help("New list of topics; repeatable")))]
#[command(after_long_help = "\
  svc contacts update con_019a --name 'Ada King' --subscribed false
  svc contacts update con_019a --meta plan=free --meta seats:=null
  svc contacts update ada@example.org --no-topics")]
pub struct Update {
    /// Contact id or address
    #[arg(add = Values::Contact.candidates())]
    id: String,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    fields: Fields,
    /// Remove all topics
    #[arg(long, conflicts_with = "topic")]
    no_topics: bool,
    /// Subscribe or unsubscribe the contact
    #[arg(long, value_name = "true|false", hide_possible_values = true)]
    subscribed: Option<bool>,
}

impl Update {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut update = ContactUpdate::default();
        let Fields { name, meta, topic } = self.fields;
        update.name = name.map(Some);
        update.metadata = pairs::object("--meta", meta)?;
        update.topics = (self.no_topics || !topic.is_empty()).then_some(topic);
        update.subscribed = self.subscribed;
        if output::to_value(&update)? == json!({}) {
            return Err(Failure::usage("nothing to update")
                .hint("give at least one of --name, --meta, --topic, --no-topics, --subscribed"));
        }

        let client = context.clients.email_client().await?;
        let names = Names::<Contact>::within(context, &client, self.within);
        let call = client
            .contacts()
            .update(&names.target(&self.id).await?.id, &update);
        let contact = context.call(call, "updating").await?;
        context.out.one(&contact, Contact::VIEW)
    }
}
