//! Accepts names and addresses in place of ids: an audience's name, a contact's address, a domain's
//! name, a webhook's URL.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use svc_sdk::email::Contact;
use svc_sdk::{Call, Deleted, EmailClient, ExtractionClient, List};

use crate::confirm::confirm;
use crate::contact_pages;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{View, one_line, to_value};

/// The error code of a name that several resources have.
const AMBIGUOUS: &str = "ambiguous_name";
/// Maximum number of ids in a hint.
const MAX_SHOWN: usize = 4;

/// Whether two names of domains are the same: DNS ignores case, and a dot at the end.
pub fn is_same_domain(one: &str, other: &str) -> bool {
    let without_dot = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    without_dot(one) == without_dot(other)
}

/// What a text may name, and the client that looks it up.
#[derive(Clone, Copy)]
pub enum Names<'a> {
    Audience(&'a EmailClient),
    Contact {
        client: &'a EmailClient,
        /// The id or name of the only audience to search.
        audience: Option<&'a str>,
    },
    Domain(&'a EmailClient),
    Webhook(&'a EmailClient),
    ExtractionWebhook(&'a ExtractionClient),
}

/// A resource that was named by its id or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub id: String,
    pub name: Option<String>,
}

impl Target {
    /// One that is known by its id only.
    pub fn unnamed(id: &str) -> Self {
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

/// Runs `action` with the id that a text is, or that it names.
///
/// A text that cannot be an id is looked up first, any other only after the service has responded
/// that it does not exist. A dry run looks nothing up.
pub async fn with_id<T>(
    context: &Context,
    names: Names<'_>,
    text: &str,
    mut action: impl AsyncFnMut(&str) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if context.settings.dry_run {
        if names.is_name(text) {
            context
                .out
                .note(&format!("`{text}` stands for its id, which would be looked up first"));
        }
        return action(text).await;
    }
    if names.is_name(text) {
        return action(&names.existing(context, text).await?.id).await;
    }
    match action(text).await {
        Err(failure) if names.may_be_name(&failure) => match names.find(context, text).await {
            Ok(Some(found)) if found.target.id != text => action(&found.target.id).await,
            Err(ambiguous) if is_ambiguous(&ambiguous) => Err(ambiguous),
            Ok(_) | Err(_) => Err(failure),
        },
        result => result,
    }
}

/// Calls `each` for every contact of the audience that a text is the id or the name of. Returns its
/// id.
pub async fn each_contact(
    context: &Context,
    client: &EmailClient,
    audience: &str,
    page_size: Option<u64>,
    mut each: impl FnMut(Contact) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let progress = context.out.progress("reading the audience");
    let mut count = 0_u64;
    let read = async |id: &str| {
        contact_pages::for_each(client, id, page_size, |contact| {
            count += 1;
            progress.set_text(format!("reading the audience: {count} contacts"));
            each(contact)
        })
        .await?;
        Ok(id.to_owned())
    };
    with_id(context, Names::Audience(client), audience, read).await
}

/// Deletes the resource that a text names, after a confirmation that shows which one it is.
pub async fn delete(
    context: &Context,
    names: Names<'_>,
    text: &str,
    question: impl FnOnce(&Target) -> String,
    call: impl Fn(&str) -> Call<Deleted>,
) -> Result<(), Failure> {
    let target = to_delete(context, names, text).await?;
    confirm(context, &question(&target)).await?;
    let delete = async |id: &str| {
        let done = context.call(call(id), "deleting").await?;
        Ok(done.map(|_| id.to_owned()))
    };
    match with_id(context, names, &target.id, delete).await? {
        Some(id) => {
            let target = Target { id, ..target };
            context.deleted(names.noun(), &target.id, &target.to_string())
        }
        None => Ok(()),
    }
}

/// The resource to delete, with its name if a person reads the question or the result.
async fn to_delete(context: &Context, names: Names<'_>, text: &str) -> Result<Target, Failure> {
    if context.settings.dry_run {
        return Ok(Target::unnamed(text));
    }
    if names.is_name(text) {
        return names.existing(context, text).await;
    }
    let asks = !context.settings.yes && context.out.can_ask();
    // The name of a contact would have to be searched in all audiences.
    if (!asks && !context.out.is_table()) || matches!(names, Names::Contact { .. }) {
        return Ok(Target::unnamed(text));
    }
    match names.find(context, text).await {
        Ok(found) => Ok(found.map_or_else(|| Target::unnamed(text), |found| found.target)),
        Err(failure) => {
            // The deletion would fail in the same way, after another wait.
            let again = matches!(failure.kind(), Kind::Unavailable | Kind::RateLimited);
            // It reports itself what else is wrong.
            if again || is_ambiguous(&failure) { Err(failure) } else { Ok(Target::unnamed(text)) }
        }
    }
}

fn is_ambiguous(failure: &Failure) -> bool {
    failure.details().code.as_deref() == Some(AMBIGUOUS)
}

/// Shows the resource that a text names, from the list: the service has no operation that reads one.
pub async fn show(
    context: &Context,
    names: Names<'_>,
    text: &str,
    view: View,
) -> Result<(), Failure> {
    if context.settings.dry_run {
        return names.preview(context).await;
    }
    let found = names.find(context, text).await?.ok_or_else(|| names.not_found(text))?;
    context.out.one(&found.value, view)
}

/// A resource that a search found.
pub struct Found {
    pub target: Target,
    /// As the service sent it.
    value: Value,
    /// Where it is, in a sentence; empty if there is only one list.
    place: String,
}

impl Found {
    fn new<T: Serialize>(id: &str, name: &Option<String>, item: &T) -> Self {
        let target = Target { id: id.to_owned(), name: name.clone() };
        Self { target, value: to_value(item), place: String::new() }
    }
}

impl Names<'_> {
    /// The word for the resource.
    fn noun(self) -> &'static str {
        match self {
            Self::Audience(_) => "audience",
            Self::Contact { .. } => "contact",
            Self::Domain(_) => "domain",
            Self::Webhook(_) | Self::ExtractionWebhook(_) => "webhook",
        }
    }

    /// Whether a text can only be a name.
    fn is_name(self, text: &str) -> bool {
        match self {
            Self::Audience(_) => text.contains(char::is_whitespace) || !text.is_ascii(),
            Self::Contact { .. } => text.contains('@'),
            Self::Domain(_) => text.contains('.'),
            Self::Webhook(_) | Self::ExtractionWebhook(_) => text.contains("://"),
        }
    }

    /// Whether the service refused what may be a name in place of an id: it does not know it, or it
    /// refuses its form.
    fn may_be_name(self, failure: &Failure) -> bool {
        let is_form = matches!(failure.details().status, Some(400 | 422));
        // The contacts of all audiences are many.
        failure.kind() == Kind::NotFound || (is_form && !matches!(self, Self::Contact { .. }))
    }

    /// The only resource with this id or name.
    pub async fn existing(self, context: &Context, text: &str) -> Result<Target, Failure> {
        let found = self.find(context, text).await?;
        found.map(|found| found.target).ok_or_else(|| self.not_found(text))
    }

    fn not_found(self, text: &str) -> Failure {
        let message = format!("{} `{text}` not found", self.noun());
        Failure::new(Kind::NotFound, message).code("not_found")
    }

    /// The resource with this id, or the only one with this name.
    async fn find(self, context: &Context, text: &str) -> Result<Option<Found>, Failure> {
        let progress = context.out.progress(format!("looking up {text}"));
        let mut found = self.search(context, text).await?;
        drop(progress);
        if let Some(same) = found.iter().position(|found| found.target.id == text) {
            return Ok(Some(found.swap_remove(same)));
        }
        match found.len() {
            0 | 1 => Ok(found.pop()),
            count => Err(self.ambiguous(text, count, &found)),
        }
    }

    /// The resources with this id or name.
    async fn search(self, context: &Context, text: &str) -> Result<Vec<Found>, Failure> {
        let is_named = |id: &str, name: &Option<String>| {
            let same = name.as_deref().is_some_and(|name| match self {
                Self::Domain(_) => is_same_domain(name, text),
                Self::Contact { .. } => name.eq_ignore_ascii_case(text),
                _ => name == text,
            });
            same || id == text
        };
        let Self::Contact { client, audience } = self else {
            let mut found = self.all(context).await?;
            found.retain(|found| is_named(&found.target.id, &found.target.name));
            return Ok(found);
        };
        let audiences = match audience {
            Some(audience) => {
                vec![Box::pin(Names::Audience(client).existing(context, audience)).await?]
            }
            None => {
                let all = Names::Audience(client).all(context).await?;
                all.into_iter().map(|found| found.target).collect()
            }
        };
        let mut found = Vec::new();
        for audience in audiences {
            let place = format!("in {}", audience.name.as_ref().unwrap_or(&audience.id));
            let read = contact_pages::for_each(client, &audience.id, None, |contact| {
                if is_named(&contact.id, &contact.email) {
                    let one = Found::new(&contact.id, &contact.email, &contact);
                    found.push(Found { place: place.clone(), ..one });
                }
                Ok(())
            });
            read.await?;
        }
        Ok(found)
    }

    /// Every resource of the list; of contacts, every audience.
    pub async fn all(self, context: &Context) -> Result<Vec<Found>, Failure> {
        self.list(context, false).await
    }

    /// Shows the request that a search sends first, for `--dry-run`.
    pub async fn preview(self, context: &Context) -> Result<(), Failure> {
        self.list(context, true).await.map(drop)
    }

    async fn list(self, context: &Context, dry_run: bool) -> Result<Vec<Found>, Failure> {
        match self {
            Self::Audience(client) | Self::Contact { client, .. } => {
                let call = client.audiences().list();
                listed(context, dry_run, call, |one| (&one.id, &one.name)).await
            }
            Self::Domain(client) => {
                listed(context, dry_run, client.domains().list(), |one| (&one.id, &one.name)).await
            }
            Self::Webhook(client) => {
                listed(context, dry_run, client.webhooks().list(), |one| (&one.id, &one.url)).await
            }
            Self::ExtractionWebhook(client) => {
                listed(context, dry_run, client.webhooks().list(), |one| (&one.id, &one.url)).await
            }
        }
    }

    fn ambiguous(self, text: &str, count: usize, found: &[Found]) -> Failure {
        let shown = found.iter().take(MAX_SHOWN).map(|found| match found.place.as_str() {
            "" => found.target.id.clone(),
            place => format!("{} ({place})", found.target.id),
        });
        let more = if count > MAX_SHOWN { ", …" } else { "" };
        let mut hint = format!("use an id: {}{more}", shown.collect::<Vec<_>>().join(", "));
        if matches!(self, Self::Contact { .. }) {
            hint.push_str("\nor name the audience: --audience NAME");
        }
        let have = match self {
            Self::Contact { .. } => "have the address",
            Self::Webhook(_) | Self::ExtractionWebhook(_) => "have the URL",
            _ => "have the name",
        };
        Failure::input(format!("{count} {}s {have} `{text}`", self.noun()))
            .code(AMBIGUOUS)
            .hint(hint)
    }
}

/// What a list contains; nothing in a dry run, which shows the request.
async fn listed<T: Serialize + 'static>(
    context: &Context,
    dry_run: bool,
    call: Call<List<T>>,
    named: fn(&T) -> (&String, &Option<String>),
) -> Result<Vec<Found>, Failure> {
    let list = match dry_run {
        true => context.call(call, "").await?,
        false => Some(context.run(call).await?),
    };
    let found = list.iter().flat_map(|list| list.iter()).map(|item| {
        let (id, name) = named(item);
        Found::new(id, name, item)
    });
    Ok(found.collect())
}
