//! Resources: the commands that each has, `list`, `get` and `delete`, and the names that it is known
//! by, which are accepted in place of its id.

use std::fmt;
use std::marker::PhantomData;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::{Call, Deleted, List, Operation};

use crate::command_spec::{reads, removes};
use crate::confirm::confirm;
use crate::context::{self, Context};
use crate::failure::{Failure, Kind};
use crate::output::{View, one_line};
use crate::output_schema::{self, of};

/// The error code of a name that several resources have.
const AMBIGUOUS: &str = "ambiguous_name";
/// Maximum number of ids in a hint.
const MAX_SHOWN: usize = 4;

/// A resource that a service lists and deletes.
pub trait Resource: Clone + fmt::Debug + Serialize + Send + Sync + 'static {
    type Client;
    /// The options that tell where to look for one.
    type Within: Args + Clone + fmt::Debug + Default + Send + Sync;
    /// The words before `list`, `get` and `delete`.
    const GROUP: &'static str;
    const NOUN: &'static str;
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
    /// Completes an id or a name.
    const COMPLETED: fn() -> ArgValueCandidates;
    const VIEW: View;
    /// The JSON Schema of one.
    const SCHEMA: fn() -> Value;
    /// Whether one list has all of them. Otherwise, a search takes long.
    const IS_IN_ONE_LIST: bool = true;

    async fn client(context: &Context) -> Result<Self::Client, Failure>;
    /// All of them. `None` if there is more than one list.
    fn list(_: &Self::Client) -> Option<Call<List<Self>>> {
        None
    }
    fn delete(client: &Self::Client, id: &str) -> Call<Deleted>;
    /// Its id and its name.
    fn named(&self) -> (&String, &Option<String>);
    /// Whether a text can only be a name.
    fn is_name(text: &str) -> bool;
    fn is_same_name(one: &str, other: &str) -> bool {
        one == other
    }
    /// The one with this id or name; `None` in a dry run. It is read through the list, unless the
    /// service has an operation for it.
    async fn get(names: &Names<'_, Self>, text: &str) -> Result<Option<Self>, Failure> {
        match names.context.settings.dry_run {
            true => Self::search(names, None, true).await.map(|_| None),
            false => names.existing(text).await.map(|found| Some(found.item)),
        }
    }
    /// Those with this id or name, or all. A preview shows the first request instead.
    async fn search(
        names: &Names<'_, Self>,
        text: Option<&str>,
        is_preview: bool,
    ) -> Result<Vec<Found<Self>>, Failure> {
        let Some(list) = Self::list(names.client) else { return Ok(Vec::new()) };
        if is_preview {
            return names.context.call(list, "").await.map(|_| Vec::new());
        }
        let items = names.context.run(list).await?.into_iter();
        let items = items.filter(|item| text.is_none_or(|text| is_named(item, text)));
        Ok(items.map(|item| Found { item, place: String::new() }).collect())
    }
}

/// Of a resource that is in one list.
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
        Self { id: id.to_owned(), name: None }
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
        Target { id: id.clone(), name: name.clone() }
    }
}

/// Looks up resources by their names.
pub struct Names<'a, R: Resource> {
    pub context: &'a Context,
    pub client: &'a R::Client,
    pub within: R::Within,
}

impl<'a, R: Resource> Names<'a, R> {
    pub fn new(context: &'a Context, client: &'a R::Client) -> Self {
        Self { context, client, within: R::Within::default() }
    }

    /// Runs `action` with the id that a text is, or that it names.
    ///
    /// A text that cannot be an id is looked up first, any other only after the service has responded
    /// that it does not exist. A dry run looks nothing up.
    pub async fn with_id<T>(
        &self,
        text: &str,
        mut action: impl AsyncFnMut(&str) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.context.settings.dry_run {
            if R::is_name(text) {
                let note = format!("`{text}` stands for its id, which would be looked up first");
                self.context.out.note(&note);
            }
            return action(text).await;
        }
        if R::is_name(text) {
            return action(&self.existing(text).await?.target().id).await;
        }
        match action(text).await {
            Err(failure) if may_be_name::<R>(&failure) => match self.find(text).await {
                Ok(Some(found)) if found.item.named().0 != text => {
                    action(found.item.named().0).await
                }
                Err(ambiguous) if is_ambiguous(&ambiguous) => Err(ambiguous),
                Ok(_) | Err(_) => Err(failure),
            },
            result => result,
        }
    }

    /// The only resource with this id or name.
    pub async fn existing(&self, text: &str) -> Result<Found<R>, Failure> {
        self.find(text).await?.ok_or_else(|| {
            let message = format!("{} `{text}` not found", R::NOUN);
            Failure::new(Kind::NotFound, message).code("not_found")
        })
    }

    /// The resource with this id, or the only one with this name.
    async fn find(&self, text: &str) -> Result<Option<Found<R>>, Failure> {
        let progress = self.context.out.progress(format!("looking up {text}"));
        let mut found = R::search(self, Some(text), false).await?;
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
        let (settings, out) = (&self.context.settings, &self.context.out);
        if settings.dry_run {
            return Ok(Target::unnamed(text));
        }
        if R::is_name(text) {
            return Ok(self.existing(text).await?.target());
        }
        let asks = !settings.yes && out.can_ask();
        if (!asks && !out.is_table()) || !R::IS_IN_ONE_LIST {
            return Ok(Target::unnamed(text));
        }
        // What is wrong with the search is wrong with the deletion, too, which reports it.
        let found = self.find(text).await.ok().flatten();
        Ok(found.map_or_else(|| Target::unnamed(text), |found| found.target()))
    }
}

/// Whether a resource has this id or name.
pub fn is_named<R: Resource>(item: &R, text: &str) -> bool {
    let (id, name) = item.named();
    id == text || name.as_deref().is_some_and(|name| R::is_same_name(name, text))
}

/// Whether the service refused what may be a name in place of an id: it does not know it, or it
/// refuses its form.
fn may_be_name<R: Resource>(failure: &Failure) -> bool {
    let is_form = matches!(failure.details().status, Some(400 | 422));
    failure.kind() == Kind::NotFound || (is_form && R::IS_IN_ONE_LIST)
}

fn is_ambiguous(failure: &Failure) -> bool {
    failure.details().code.as_deref() == Some(AMBIGUOUS)
}

fn ambiguous<R: Resource>(text: &str, found: &[Found<R>]) -> Failure {
    let shown = found.iter().take(MAX_SHOWN).map(|found| match found.place.as_str() {
        "" => found.target().id,
        place => format!("{} ({place})", found.target().id),
    });
    let more = if found.len() > MAX_SHOWN { ", …" } else { "" };
    let mut hint = format!("use an id: {}{more}", shown.collect::<Vec<_>>().join(", "));
    if !R::IS_IN_ONE_LIST {
        hint.push_str("\nor name the audience: --audience NAME");
    }
    let (count, noun, name) = (found.len(), R::NOUN, R::NAMED_BY);
    Failure::input(format!("{count} {noun}s have the {name} `{text}`")).code(AMBIGUOUS).hint(hint)
}

fn schema_of_list<R: Resource>() -> Value {
    output_schema::list(R::SCHEMA)
}

/// The noun after its article.
fn one<R: Resource>() -> String {
    let article = if R::NOUN.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
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
        let is_preview = context.settings.dry_run;
        let progress = context.out.progress("reading");
        let found = R::search(&Names::new(context, &client), None, is_preview).await?;
        drop(progress);
        if is_preview {
            return Ok(());
        }
        let items = found.iter().map(|found| &found.item).collect::<Vec<_>>();
        let create = context.svc(&format!("{} {}", R::GROUP, R::CREATE));
        context.out.list(&items, R::VIEW, &format!("no {}s; create one: {create}", R::NOUN))
    }
}

#[derive(Args, Clone, Debug)]
#[command(about = format!("Show {}", one::<R>()), add = reads(R::GETS, R::SCHEMA))]
#[command(after_long_help = examples::<R>(&R::SAMPLES.map(|sample| format!("get {sample}"))))]
pub struct Get<R: Resource> {
    #[arg(help = id_help::<R>(), add = (R::COMPLETED)())]
    id: String,
    #[command(flatten)]
    within: R::Within,
}

impl<R: Resource> Get<R> {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = R::client(context).await?;
        let names = Names::<R> { context, client: &client, within: self.within };
        match R::get(&names, &self.id).await? {
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
    #[arg(help = id_help::<R>(), add = (R::COMPLETED)())]
    id: String,
    #[command(flatten)]
    within: R::Within,
}

impl<R: Resource> Delete<R> {
    /// Deletes the resource, after a confirmation that shows which one it is.
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = R::client(context).await?;
        let names = Names::<R> { context, client: &client, within: self.within };
        let target = names.to_delete(&self.id).await?;
        let question = format!("Delete {} {target}{}?", R::NOUN, R::DELETED_WITH_IT);
        confirm(context, &question).await?;
        let delete = async |id: &str| {
            let done = context.call(R::delete(&client, id), "deleting").await?;
            Ok(done.map(|_| id.to_owned()))
        };
        match names.with_id(&target.id, delete).await? {
            Some(id) => {
                let target = Target { id, ..target };
                context.deleted(R::NOUN, &target.id, &target.to_string())
            }
            None => Ok(()),
        }
    }
}
