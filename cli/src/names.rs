//! Accepts names and addresses in place of ids: an audience's name, a contact's address, a domain's
//! name, a webhook's URL.

use std::fmt;

use svc_sdk::{Call, Deleted, EmailClient, ExtractionClient};

use crate::confirm::confirm;
use crate::contact_pages;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::one_line;

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
    action: impl AsyncFn(&str) -> Result<T, Failure>,
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
            Ok(Some(target)) if target.id != text => action(&target.id).await,
            Err(ambiguous) if ambiguous.details().code.as_deref() == Some(AMBIGUOUS) => {
                Err(ambiguous)
            }
            Ok(_) | Err(_) => Err(failure),
        },
        result => result,
    }
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
        Ok(found) => Ok(found.unwrap_or_else(|| Target::unnamed(text))),
        Err(failure) if failure.details().code.as_deref() == Some(AMBIGUOUS) => Err(failure),
        // The deletion would fail in the same way, after another wait.
        Err(failure) if matches!(failure.kind(), Kind::Unavailable | Kind::RateLimited) => {
            Err(failure)
        }
        // The deletion itself reports what is wrong.
        Err(_) => Ok(Target::unnamed(text)),
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
        self.find(context, text).await?.ok_or_else(|| {
            Failure::new(Kind::NotFound, format!("{} `{text}` not found", self.noun()))
                .code("not_found")
        })
    }

    /// The resource with this id, or the only one with this name.
    async fn find(self, context: &Context, text: &str) -> Result<Option<Target>, Failure> {
        let progress = context.out.progress(format!("looking up {text}"));
        let mut found = self.search(context, text).await?;
        drop(progress);
        if let Some(same) = found.iter().position(|(target, _)| target.id == text) {
            return Ok(Some(found.swap_remove(same).0));
        }
        match found.len() {
            0 | 1 => Ok(found.pop().map(|(target, _)| target)),
            count => Err(self.ambiguous(text, count, &found)),
        }
    }

    /// The resources with this id or name, each with where it is.
    async fn search(self, context: &Context, text: &str) -> Result<Vec<(Target, String)>, Failure> {
        let matching = |id: &str, name: &Option<String>| {
            let same = name.as_deref().is_some_and(|name| match self {
                Self::Domain(_) => is_same_domain(name, text),
                Self::Contact { .. } => name.eq_ignore_ascii_case(text),
                _ => name == text,
            });
            let target = || (Target { id: id.to_owned(), name: name.clone() }, String::new());
            (same || id == text).then(target)
        };
        Ok(match self {
            Self::Audience(client) => {
                let list = context.run(client.audiences().list()).await?;
                list.iter().filter_map(|one| matching(&one.id, &one.name)).collect()
            }
            Self::Domain(client) => {
                let list = context.run(client.domains().list()).await?;
                list.iter().filter_map(|one| matching(&one.id, &one.name)).collect()
            }
            Self::Webhook(client) => {
                let list = context.run(client.webhooks().list()).await?;
                list.iter().filter_map(|one| matching(&one.id, &one.url)).collect()
            }
            Self::ExtractionWebhook(client) => {
                let list = context.run(client.webhooks().list()).await?;
                list.iter().filter_map(|one| matching(&one.id, &one.url)).collect()
            }
            Self::Contact { client, audience } => {
                let audiences = match audience {
                    Some(audience) => {
                        let names = Names::Audience(client);
                        vec![Box::pin(names.existing(context, audience)).await?]
                    }
                    None => {
                        let list = context.run(client.audiences().list()).await?;
                        let targets = list.iter().map(|audience| Target {
                            id: audience.id.clone(),
                            name: audience.name.clone(),
                        });
                        targets.collect()
                    }
                };
                let mut found = Vec::new();
                for audience in audiences {
                    let place = format!("in {}", audience.name.as_ref().unwrap_or(&audience.id));
                    let read = contact_pages::for_each(client, &audience.id, None, |contact| {
                        let known = matching(&contact.id, &contact.email);
                        found.extend(known.map(|(target, _)| (target, place.clone())));
                        Ok(())
                    });
                    read.await?;
                }
                found
            }
        })
    }

    fn ambiguous(self, text: &str, count: usize, found: &[(Target, String)]) -> Failure {
        let shown = found.iter().take(MAX_SHOWN).map(|(target, place)| match place.as_str() {
            "" => target.id.clone(),
            place => format!("{} ({place})", target.id),
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
