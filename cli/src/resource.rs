//! The commands that every resource has: `list`, `get` and `delete`.

use std::fmt;
use std::marker::PhantomData;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::{Call, Deleted, List, Operation};

use crate::command_spec::{reads, removes};
use crate::complete::Values;
use crate::context::{self, Context};
use crate::failure::Failure;
use crate::names::{self, Names, Target};
use crate::output::View;
use crate::output_schema::{self, of};

/// A resource that a service lists and deletes.
pub trait Resource: Clone + fmt::Debug + Serialize + Send + Sync + 'static {
    type Client;
    /// The words before `list`, `get` and `delete`.
    const GROUP: &'static str;
    const NOUN: &'static str;
    /// The noun at the beginning of a sentence.
    const TITLE: &'static str;
    /// What it is called by, beside its id.
    const NAMED_BY: &'static str;
    /// An id and a name for examples, as a shell takes them.
    const SAMPLES: [&'static str; 2];
    /// How one is created, after the group.
    const CREATE: &'static str;
    /// What is deleted with it.
    const DELETED_WITH_IT: &'static str = "";
    const LISTS: &'static [Operation];
    /// The operation that reads one. Without it, one is read through the list.
    const GETS: &'static [Operation] = Self::LISTS;
    const DELETES: &'static [Operation];
    const COMPLETED: Values;
    const VIEW: View;

    async fn client(context: &Context) -> Result<Self::Client, Failure>;
    fn names(client: &Self::Client) -> Names<'_>;
    fn list(client: &Self::Client) -> Call<List<Self>>;
    fn get(_: &Self::Client, _: &str) -> Option<Call<Self>> {
        None
    }
    fn delete(client: &Self::Client, id: &str) -> Call<Deleted>;
    /// The JSON Schema of one.
    fn schema() -> Value;
}

fn schema_of_list<R: Resource>() -> Value {
    output_schema::list(R::schema)
}

/// The noun after its article.
fn one<R: Resource>() -> String {
    let article = if R::NOUN.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {}", R::NOUN)
}

fn examples<R: Resource>(lines: &[String]) -> String {
    let lines = lines.iter().map(|line| format!("\n  svc {} {line}", R::GROUP));
    lines.fold("Examples:".to_owned(), |text, line| text + &line)
}

#[derive(Args, Clone, Debug)]
#[command(about = format!("List all {}s", R::NOUN), add = reads(R::LISTS, schema_of_list::<R>))]
#[command(after_long_help = examples::<R>(&["list".to_owned(), "list --jq '.[].id'".to_owned()]))]
pub struct ListAll<R: Resource> {
    #[arg(skip)]
    resource: PhantomData<R>,
}

impl<R: Resource> ListAll<R> {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = R::client(context).await?;
        if let Some(list) = context.call(R::list(&client), "reading").await? {
            let create = context.svc(&format!("{} {}", R::GROUP, R::CREATE));
            context.out.list(&list, R::VIEW, &format!("no {}s; create one: {create}", R::NOUN))?;
        }
        Ok(())
    }
}

#[derive(Args, Clone, Debug)]
#[command(about = format!("Show {}", one::<R>()), add = reads(R::GETS, R::schema))]
#[command(after_long_help = examples::<R>(&R::SAMPLES.map(|sample| format!("get {sample}"))))]
pub struct Get<R: Resource> {
    #[arg(help = format!("{} id or {}", R::TITLE, R::NAMED_BY))]
    #[arg(add = R::COMPLETED.candidates())]
    id: String,
    #[arg(skip)]
    resource: PhantomData<R>,
}

impl<R: Resource> Get<R> {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = R::client(context).await?;
        if R::get(&client, &self.id).is_none() {
            return names::show(context, R::names(&client), &self.id, R::VIEW).await;
        }
        let read = async |id: &str| match R::get(&client, id) {
            Some(call) => context.call(call, "reading").await,
            None => Ok(None),
        };
        match names::with_id(context, R::names(&client), &self.id, read).await? {
            Some(item) => context.out.one(&item, R::VIEW),
            None => Ok(()),
        }
    }
}

#[derive(Args, Clone, Debug)]
#[command(about = format!("Delete {}{}", one::<R>(), R::DELETED_WITH_IT))]
#[command(add = removes(R::DELETES, of::<context::Deleted<'_>>))]
#[command(after_long_help = examples::<R>(&[
    format!("delete {}", R::SAMPLES[0]),
    format!("delete {} --yes", R::SAMPLES[1]),
]))]
pub struct Delete<R: Resource> {
    #[arg(help = format!("{} id or {}", R::TITLE, R::NAMED_BY))]
    #[arg(add = R::COMPLETED.candidates())]
    id: String,
    #[arg(skip)]
    resource: PhantomData<R>,
}

impl<R: Resource> Delete<R> {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = R::client(context).await?;
        let question =
            |target: &Target| format!("Delete {} {target}{}?", R::NOUN, R::DELETED_WITH_IT);
        let delete = |id: &str| R::delete(&client, id);
        names::delete(context, R::names(&client), &self.id, question, delete).await
    }
}
