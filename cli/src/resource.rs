//! Resources: the commands that each has, `list`, `get` and `delete`, and the names that it is known
//! by, which are accepted in place of its id.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use svc_sdk::{Call, Deleted, Error, ErrorKind, ListStream, Operation, Outcome};
use uuid::Uuid;

use crate::command_spec::{reads, removes};
use crate::complete::Values;
use crate::context::{self, Context, NotFound};
use crate::failure::{Failure, Kind};
use crate::output::{Format, View, one_line};
use crate::output_schema::{self, of};
use crate::prepared::{Prepared, Preview};

/// Maximum number of ids in a hint.
const MAX_SHOWN: usize = 4;

/// A request that reads the resource with an id.
pub type Read<R> = fn(&<R as Resource>::Client, &str) -> Call<R>;

/// A resource that a service lists and deletes.
pub trait Resource: Clone + fmt::Debug + Serialize + Send + Sync + 'static {
    type Client;
    /// The options that tell where to look for one.
    type Within: Args + Clone + fmt::Debug + Default + Send + Sync;
    /// The words before `list`, `get` and `delete`.
    const GROUP: &'static str;
    const NOUN: &'static str;
    /// The field that people call it by, beside its id.
    const NAMED_BY: &'static str;
    /// An id and a name for examples, as a shell takes them. The id has the usual prefix.
    const SAMPLES: [&'static str; 2];
    /// How one is created, after the group.
    const CREATE: &'static str;
    /// The resources that are deleted with it.
    const DELETED_WITH_IT: &'static str = "";
    const LISTS: &'static [Operation];
    /// Reads one. Without it, one is read through the list.
    const GET: Option<Read<Self>> = None;
    const GETS: &'static [Operation] = Self::LISTS;
    const DELETES: &'static [Operation];
    /// Completes an id or a name.
    const COMPLETED: Values;
    const VIEW: View;
    /// The JSON Schema of one.
    const SCHEMA: fn() -> Value;
    /// Whether one list has all of them. Otherwise, a search takes long.
    const IS_IN_ONE_LIST: bool = true;

    async fn client(context: &Context) -> Result<Self::Client, Failure>;
    /// All of them. `None` if there is more than one list.
    fn stream(_: &Self::Client) -> Option<ListStream<Self>> {
        None
    }
    fn delete(client: &Self::Client, id: &str) -> Call<Deleted>;
    /// The id and the name.
    fn named(&self) -> (&String, &Option<String>);
    /// Whether a text is surely an id, so that it need not be looked up: a UUID, also with a prefix.
    fn is_id(text: &str) -> bool {
        Uuid::try_parse(text.split_once('_').map_or(text, |(_, id)| id)).is_ok()
    }
    fn is_same_name(one: &str, other: &str) -> bool {
        one == other
    }
    /// Shows the first request of a search.
    async fn preview(context: &Context, client: &Self::Client) -> Result<(), Failure> {
        match Self::stream(client) {
            Some(list) => {
                context
                    .caller
                    .with_options(list.first_call())
                    .show(context)
                    .await
            }
            None => Ok(()),
        }
    }
    /// Finds the resources with this id or name, or all.
    async fn search(
        names: &Names<'_, Self>,
        text: Option<&str>,
    ) -> Result<Vec<Found<Self>>, Failure> {
        let Some(stream) = Self::stream(names.client) else {
            return Ok(Vec::new());
        };

        let list = names.context.caller.read_all(stream).await?;
        names.is_whole.set(list.is_complete());
        // What is on a page that cannot be read may have the same name, but not the same id.
        let has_id = list
            .iter()
            .any(|item| Some(item.named().0.as_str()) == text);
        if text.is_some() && !has_id {
            names.needs_all()?;
        }
        let items = list.into_iter();
        let items = items.filter(|item| text.is_none_or(|text| is_named(item, text)));
        Ok(items
            .map(|item| Found {
                item,
                place: String::new(),
            })
            .collect())
    }
}

/// The place of a resource that is in one list.
#[derive(Args, Clone, Debug, Default)]
pub struct Anywhere {}

/// A resource that was named by its id or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub id: String,
    pub name: Option<String>,
}

impl Target {
    /// One that is known by its id only.
    fn unnamed(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: None,
        }
    }
}

/// The name with the id, or the id alone.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} ({})", one_line(name), self.id),
            None => f.write_str(&self.id),
        }
    }
}

/// A resource that a search found.
pub struct Found<R> {
    pub item: R,
    /// Where it is, in a sentence; empty if there is only one list.
    pub place: String,
}

impl<R: Resource> Found<R> {
    pub fn target(&self) -> Target {
        let (id, name) = self.item.named();
        Target {
            id: id.clone(),
            name: name.clone(),
        }
    }
}

/// Looks up resources by their names.
pub struct Names<'a, R: Resource> {
    pub context: &'a Context,
    pub client: &'a R::Client,
    pub within: R::Within,
    /// Whether the last search read all of them.
    is_whole: Cell<bool>,
}

impl<'a, R: Resource> Names<'a, R> {
    pub fn new(context: &'a Context, client: &'a R::Client) -> Self {
        Self::within(context, client, R::Within::default())
    }

    pub fn within(context: &'a Context, client: &'a R::Client, within: R::Within) -> Self {
        Self {
            context,
            client,
            within,
            is_whole: Cell::new(true),
        }
    }

    /// Fails if the last search could not read all of them.
    pub fn needs_all(&self) -> Result<(), Failure> {
        if self.is_whole.get() {
            Ok(())
        } else {
            let error = Error::new(ErrorKind::IncompleteList, Outcome::Refused);
            Err(self.context.caller.failure(error))
        }
    }

    /// The resource with this id or name. A text that is not found is taken as an id, which the
    /// service may know, as is one that the key may not look up.
    pub async fn target(&self, text: &str) -> Result<Target, Failure> {
        if R::is_id(text) {
            self.context.not_found.replace(Some(NotFound {
                message: format!("no {} with ID `{text}`", R::NOUN),
                was_searched: false,
            }));
            return Ok(Target::unnamed(text));
        }

        let found = self.find(text).await;
        if let Ok(None) = found {
            self.context.not_found.replace(Some(NotFound {
                message: Self::not_found(text),
                was_searched: true,
            }));
        }

        let found = match found {
            Err(failure) if failure.kind() == Kind::MissingScope => None,
            found => found?,
        };
        Ok(found.map_or_else(|| Target::unnamed(text), |found| found.target()))
    }

    /// The only resource with this id or name.
    pub async fn existing(&self, text: &str) -> Result<Found<R>, Failure> {
        let none = || {
            let list = self.context.svc(&format!("{} list", R::GROUP), &[]);
            let failure = Failure::new(Kind::NotFound, Self::not_found(text)).code("not_found");
            if R::IS_IN_ONE_LIST {
                failure.hint(format!("list the {}: {list}", R::GROUP))
            } else {
                failure
            }
        };
        self.find(text).await?.ok_or_else(none)
    }

    fn not_found(text: &str) -> String {
        format!("no {} with ID or {} `{text}`", R::NOUN, R::NAMED_BY)
    }

    /// The resource with this id, or the only one with this name.
    async fn find(&self, text: &str) -> Result<Option<Found<R>>, Failure> {
        let progress = self.context.out.progress(format!("looking up {text}"));
        let mut found = R::search(self, Some(text)).await?;
        drop(progress);
        if let Some(same) = found.iter().position(|found| found.item.named().0 == text) {
            return Ok(Some(found.swap_remove(same)));
        }

        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => Err(ambiguous(text, &found)),
        }
    }

    /// The resource to delete, with its name if a person reads the question or the result.
    async fn to_delete(&self, text: &str) -> Result<Target, Failure> {
        let is_shown = self.context.out.is_table() && R::IS_IN_ONE_LIST;
        if is_shown && R::is_id(text) {
            // What is wrong with the search is wrong with the deletion, too, which reports it.
            let found = self.find(text).await.ok().flatten();
            return Ok(found.map_or_else(|| Target::unnamed(text), |found| found.target()));
        }
        self.target(text).await
    }
}

/// The id of the resource with this id or name: [`Names::target`].
pub async fn id_of<R: Resource>(
    context: &Context,
    client: &R::Client,
    text: &str,
) -> Result<String, Failure> {
    Ok(Names::<R>::new(context, client).target(text).await?.id)
}

/// A search reads, and its first request is shown.
impl<R: Resource> Preview for Names<'_, R> {
    async fn show(&self, context: &Context) -> Result<(), Failure> {
        R::preview(context, self.client).await
    }
}

/// Whether a resource has this id or name.
pub fn is_named<R: Resource>(item: &R, text: &str) -> bool {
    let (id, name) = item.named();
    id == text
        || name
            .as_deref()
            .is_some_and(|name| R::is_same_name(name, text))
}

fn ambiguous<R: Resource>(text: &str, found: &[Found<R>]) -> Failure {
    let shown = found
        .iter()
        .take(MAX_SHOWN)
        .map(|found| match found.place.as_str() {
            "" => one_line(&found.target().id).into_owned(),
            place => one_line(&format!("{} ({place})", found.target().id)).into_owned(),
        });
    let more = if found.len() > MAX_SHOWN { ", …" } else { "" };
    let mut hint = format!("use an id: {}{more}", shown.collect::<Vec<_>>().join(", "));
    if !R::IS_IN_ONE_LIST {
        hint.push_str("\nor name the audience: --audience NAME");
    }
    let count = found.len();
    let noun = R::NOUN;
    let name = R::NAMED_BY;
    Failure::input(format!("{count} {noun}s have the {name} `{text}`"))
        .code("ambiguous_name")
        .hint(hint)
}

/// A list, or the part of one that could be read.
pub fn schema_of_list<R: Resource>() -> Value {
    let items = output_schema::list(R::SCHEMA);
    let part = json!({
        "type": "object",
        "properties": {"items": items, "complete": {"const": false}},
        "required": ["items", "complete"],
    });
    json!({"anyOf": [items, part]})
}

/// The noun after its article.
fn one<R: Resource>() -> String {
    let article = if R::NOUN.starts_with(['a', 'e', 'i', 'o']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {}", R::NOUN)
}

fn id_help<R: Resource>() -> String {
    let (first, rest) = R::NOUN.split_at(1);
    format!("{}{rest} id or {}", first.to_uppercase(), R::NAMED_BY)
}

fn examples<R: Resource>(lines: &[String]) -> String {
    let lines = lines.iter().map(|line| format!("svc {} {line}", R::GROUP));
    lines.collect::<Vec<_>>().join("\n  ")
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
        let names = Names::new(context, &client);
        let names = Prepared::new(names).decide(context).await?;
        let progress = context.out.progress("reading");
        let found = R::search(&names, None).await?;
        drop(progress);
        let items = found.iter().map(|found| &found.item).collect::<Vec<_>>();
        if let Err(failure) = names.needs_all() {
            context.out.part_of_list(&items, R::VIEW)?;
            return match context.out.format() {
                // An export needs all of them, and has no place that says that it is not whole.
                Format::Csv | Format::Ndjson => Err(failure),
                _ => {
                    context.out.warning(&failure.message);
                    Ok(())
                }
            };
        }

        let create = context.svc(&format!("{} {}", R::GROUP, R::CREATE), &[]);
        context.out.list(
            &items,
            R::VIEW,
            &format!("no {}s; create one: {create}", R::NOUN),
        )
    }
}

#[derive(Args, Clone, Debug)]
#[command(about = format!("Show {}", one::<R>()), add = reads(R::GETS, R::SCHEMA))]
#[command(after_long_help = examples::<R>(&R::SAMPLES.map(|sample| format!("get {sample}"))))]
pub struct Get<R: Resource> {
    #[arg(help = id_help::<R>(), add = R::COMPLETED.candidates())]
    id: String,
    #[command(flatten)]
    within: R::Within,
}

impl<R: Resource> Get<R> {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = R::client(context).await?;
        let names = Names::<R>::within(context, &client, self.within);
        let item = match R::GET {
            Some(get) => {
                let id = names.target(&self.id).await?.id;
                context.call(get(&client, &id), "reading").await?
            }
            None => {
                let names = Prepared::new(names).decide(context).await?;
                names.existing(&self.id).await?.item
            }
        };
        context.out.one(&item, R::VIEW)
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
    #[arg(help = id_help::<R>(), add = R::COMPLETED.candidates())]
    id: String,
    #[command(flatten)]
    within: R::Within,
}

impl<R: Resource> Delete<R> {
    /// Deletes the resource, after a confirmation that shows which one it is.
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = R::client(context).await?;
        let names = Names::<R>::within(context, &client, self.within);
        let target = names.to_delete(&self.id).await?;
        let question = format!("Delete {} {target}{}?", R::NOUN, R::DELETED_WITH_IT);
        let call = context.caller.with_options(R::delete(&client, &target.id));
        let call = Prepared::new(call).asking(question).decide(context).await?;
        context.caller.send(call, "deleting").await?;
        context.deleted(R::NOUN, &target.id, &target.to_string())
    }
}
