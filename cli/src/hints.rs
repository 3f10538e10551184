//! Hints: the next step after a failure that a service or the SDK reported. `add` takes the failure
//! at the end of a run and the `Context`, and writes a hint into its `Details`, unless the command
//! has set one. It also names what was not found, and the proxy. Command lines in hints are made
//! with `Run::svc`, so that they address the same profile or sandbox as this run. `app.rs`
//! calls it before the failure is printed.

use std::ffi::OsString;

use svc_sdk::{Operation, Outcome, Point, Scope, Service};

use crate::command_line::shell_quoted;
use crate::command_spec::Effect;
use crate::context::Context;
use crate::dns::is_reserved;
use crate::failure::{Details, Failure, Kind};
use crate::output::OUTPUT_FAILED;
use crate::urls::without_password;

/// Says what an unverified sender's domain needs.
pub fn for_sender(mut failure: Failure, context: &Context, sender: &str) -> Failure {
    let domain = sender
        .trim_end_matches('>')
        .rsplit('@')
        .next()
        .unwrap_or_default();
    if is_unverified(&failure) && !domain.is_empty() {
        failure.hint = Some(verify(context, domain));
    }
    failure
}

/// Adds a hint to a failure that has none.
pub fn add(failure: &mut Failure, context: &Context) {
    // A service may check the form of an id before it looks for one. A 404 that says nothing about it is
    // that of another path.
    if let Some(missing) = context.not_found.take() {
        let is_missing = match failure.status {
            Some(400 | 422) => missing.was_searched,
            Some(404) => names_what_is_missing(failure),
            _ => false,
        };
        if is_missing {
            failure.kind = Kind::NotFound;
            failure.message = missing.message;
        }
    }

    if failure.is_of_proxy
        && let Some(proxy) = proxy(failure, context)
    {
        failure.message.push_str(&format!(" (proxy {proxy})"));
    }

    let is_shortened = |word: &OsString| word.to_string_lossy().contains('…');
    if failure.kind == Kind::NotFound && context.typed().iter().any(is_shortened) {
        failure.hint = Some(
            "an ID with `…` is a shortened one: --wide or --json shows it as a whole".to_owned(),
        );
    }
    if failure.hint.is_some() {
        return;
    }

    let mut hints: Vec<String> = hint(failure, context).into_iter().collect();
    if failure.is_not_understood && !context.settings.sandbox {
        let conform = context.svc("conform", &[]);
        let points = points_of(failure.operation);
        hints.push(format!(
            "the dialect says how the service responds ({points}); find out with: {conform}"
        ));
    }

    if !hints.is_empty() {
        failure.hint = Some(hints.join("\n"));
    }
}

/// The proxy between this run and the service, without its password.
fn proxy(details: &Details, context: &Context) -> Option<String> {
    let service = details.operation?.service();
    let url = &context.settings.url(service)?.value;
    let proxy = context.settings.proxies.of(url)?;
    Some(without_password(proxy.expose()))
}

fn hint(details: &Details, context: &Context) -> Option<String> {
    Some(match details.kind {
        Kind::Unauthenticated if context.command.is_of_sandbox => {
            "give the sandbox's token in SVC_SANDBOX_CONTROL_TOKEN".to_owned()
        }
        Kind::Unauthenticated => {
            let key = match context.settings.given_key_source(details.operation) {
                Some(source) if !context.command.checks_key => {
                    format!("the key comes from {source}, which takes precedence over a stored one")
                }
                _ => "check the key: svc whoami; replace it: svc login".to_owned(),
            };
            match how_the_key_was_sent(details, context) {
                Some(scheme) => format!("{scheme}\n{key}"),
                None => key,
            }
        }
        Kind::MissingScope => match &details.required_scope {
            Some(scope) => format!(
                "use a key with the scope {scope}; manage keys and scopes in the service's dashboard"
            ),
            None => {
                "the required scope is not documented; the service's message may name it".to_owned()
            }
        },
        Kind::InvalidInput if concerns_webhook_url(details) => {
            "for a service on this machine, svc config set dialect webhook-urls=any".to_owned()
        }
        Kind::NotFound if details.status == Some(404) && !names_what_is_missing(details) => {
            "no service responds at this path; check the base URL: svc config show".to_owned()
        }
        Kind::NotFound => {
            let hints = [list_existing(details, context), base_path(details, context)];
            let hints = hints.into_iter().flatten().collect::<Vec<_>>();
            return Some(hints.join("\n")).filter(|hints| !hints.is_empty());
        }
        Kind::Refused if details.status == Some(409) => return show_conflicting(context),
        Kind::Refused if is_unverified(details) => verify(context, "NAME"),
        Kind::Refused
            if details
                .fields
                .iter()
                .any(|(field, _)| field.starts_with("scope")) =>
        {
            scopes()
        }
        Kind::Refused if details.status == Some(403) => match &details.required_scope {
            Some(scope) => {
                format!("the operation needs the scope {scope}; check whether the key has it")
            }
            None => return None,
        },
        Kind::RateLimited => match details.retry_after {
            Some(wait) => format!("wait {} s, or raise --retries", wait.as_secs().max(1)),
            None => "wait a while, or raise --retries".to_owned(),
        },
        Kind::Unavailable if details.outcome == Some(Outcome::NotSent.as_str()) => {
            "nothing was sent; diagnose the problem: svc doctor".to_owned()
        }
        Kind::Unavailable => "safe to retry; diagnose the problem: svc doctor".to_owned(),
        Kind::OutcomeUnknown => format!("{}\n{}", why_not_retried(details), check_first(context)),
        Kind::Interrupted if context.caller.changes.awaited_email().is_some() => accepted_as(
            context,
            context.caller.changes.awaited_email().unwrap_or_default(),
        ),
        Kind::Interrupted if details.outcome == Some(Outcome::Unknown.as_str()) => {
            check_first(context)
        }
        Kind::Other
            if details.code.as_deref() == Some(OUTPUT_FAILED)
                && context.caller.changes.any_done() =>
        {
            "the service processed the request; only its response could not be written".to_owned()
        }
        _ => return None,
    })
}

/// Whether a refusal says that the domain of a sender is not verified.
fn is_unverified(details: &Details) -> bool {
    let text = details.message.to_lowercase();
    details.code.as_deref() == Some("domain_not_verified")
        || text.contains("domain") && text.contains("not verified")
}

/// Whether a 404 is the service's own: it has a code, or names the kind of what was not found, and not a
/// path.
fn names_what_is_missing(details: &Details) -> bool {
    let text = details.message.to_lowercase();
    let group = details.operation.and_then(|it| it.name().split('.').next());
    let names_kind = group.is_some_and(|group| text.contains(group.trim_end_matches('s')));
    details.code.is_some() || (names_kind && !text.contains('/'))
}

/// The points of the dialect that say where a response has what was not found in it.
fn points_of(operation: Option<Operation>) -> String {
    let points: &[Point] = match operation {
        Some(Operation::EmailsSend) => &[Point::IdField, Point::IdPlace, Point::ResourceShape],
        Some(Operation::EmailsSendBatch) => &[Point::BatchItem, Point::ListItems],
        Some(Operation::EmailsCancel) => &[Point::CancelAnswer],
        Some(Operation::WebhooksTest) => &[Point::TestStatusField],
        Some(operation) if operation.name().ends_with("list") => {
            &[Point::ListItems, Point::ListPages, Point::CursorParam]
        }
        _ => &[Point::ResourceShape, Point::ListItems],
    };
    let names = points.iter().map(|point| format!("`{point}`"));
    names.collect::<Vec<_>>().join(", ")
}

/// How svc sends the key, and how the service wants it: most services that refuse the first request
/// of a new profile want it in another form.
pub fn how_the_key_was_sent(details: &Details, context: &Context) -> Option<String> {
    let is_email = details
        .operation
        .is_none_or(|it| it.service() == Service::Email);
    if context.settings.sandbox || !is_email {
        return None;
    }

    let dialect = &context.settings.dialect;
    let header = dialect.choice(Point::KeyHeader);
    let is_usual = header.eq_ignore_ascii_case("authorization");
    let default = if is_usual { "bearer" } else { "bare" };
    let scheme = dialect.pinned(Point::KeyScheme).unwrap_or(default);
    let conform = context.svc("conform", &[]);
    Some(match &details.challenge {
        Some(wanted) if !wanted.eq_ignore_ascii_case(scheme) => format!(
            "the service asks for the scheme {wanted}, svc sends {scheme} in {header} (the points \
             `key-scheme` and `key-header` of the dialect); find it out: {conform}"
        ),
        _ => format!(
            "svc sends the key as {scheme} in {header}; if the service wants it otherwise (the \
             points `key-scheme` and `key-header` of the dialect), find it out: {conform}"
        ),
    })
}

/// The hint for an email that was accepted, but could not be followed to its final status.
pub fn accepted_as(context: &Context, id: &str) -> String {
    let wait = context.svc("emails get {} --wait", &[id]);
    let id = shell_quoted(id);
    format!("the email was accepted as {id}: do not send it again\ncontinue waiting: {wait}")
}

fn concerns_webhook_url(details: &Details) -> bool {
    let webhooks = [Operation::WebhooksCreate, Operation::WebhooksUpdate];
    details
        .operation
        .is_some_and(|operation| webhooks.contains(&operation))
        && details.fields.iter().any(|(field, _)| field == "url")
}

/// The hint for a request that may have been processed: how to find out.
fn check_first(context: &Context) -> String {
    match context.list_of_group() {
        Some(list) => format!("check before retrying: {}", context.svc(&list, &[])),
        None => "check before sending again: the recipient, your webhooks, the service's dashboard"
            .to_owned(),
    }
}

fn why_not_retried(details: &Details) -> String {
    match details.status {
        Some(status @ 200..=299) => format!(
            "the service responded with {status}: the request was probably processed; not retried"
        ),
        _ => "the request may have been processed; not retried".to_owned(),
    }
}

/// The scopes of both services.
fn scopes() -> String {
    let (email, extraction): (Vec<&str>, Vec<&str>) = Scope::ALL
        .iter()
        .map(|scope| scope.as_str())
        .partition(|scope| scope.contains(':'));
    format!(
        "email: {}\nextraction: {}",
        email.join(", "),
        extraction.join(" or ")
    )
}

/// The service has no operation that lists emails.
const EMAIL_IDS: &str = "svc emails send prints the id of each email that it sends";

/// Suggests the command that lists the resources among which an id was not found.
fn list_existing(details: &Details, context: &Context) -> Option<String> {
    use Operation::*;

    let list = match details.operation {
        Some(AudiencesGet | AudiencesDelete | ContactsCreate | ContactsList) => {
            "audiences list".to_owned()
        }
        Some(EmailsGet | EmailsCancel) => return Some(EMAIL_IDS.to_owned()),
        Some(EmailsSend | EmailsSendBatch) => return None,
        None if context.organization.is_some() => "sandbox organizations list".to_owned(),
        _ if context.command.effect == Effect::Creates => return None,
        _ => match context.command.listed_by {
            Some(list) => list.to_owned(),
            None => context.list_of_group()?,
        },
    };
    if list == context.command.path {
        return None;
    }

    let group = list.split(" list").next().unwrap_or_default();
    let what = group.rsplit(' ').next().unwrap_or_default().to_owned();
    let list = if context.command.is_of_sandbox && !list.starts_with("sandbox ") {
        format!("svc --sandbox {list}")
    } else {
        context.svc(&list, &[])
    };
    Some(format!("list the {what}: {list}"))
}

/// A service at another path than that of its base URL finds nothing.
fn base_path(details: &Details, context: &Context) -> Option<String> {
    let url = &context.settings.url(details.operation?.service())?.value;
    let url = url::Url::parse(url).ok().filter(|url| url.path() != "/")?;
    Some(format!(
        "if it exists, check the path of the base URL, {}: svc config show",
        url.path()
    ))
}

/// Suggests the command that shows the resource that conflicts with the request.
fn show_conflicting(context: &Context) -> Option<String> {
    let list = context.list_of_group()?;
    // A list of the parts of something has pages.
    let list = if list.ends_with(" list") {
        list
    } else {
        list + " --all"
    };
    Some(format!(
        "see the current state: {}",
        context.svc(&list, &[])
    ))
}

/// The command that publishes the DNS records of a domain, or shows them.
pub fn publish(context: &Context, domain: &str) -> String {
    let command = if context.settings.sandbox && is_reserved(domain) {
        "sandbox dns publish {}"
    } else {
        "domains records {}"
    };
    context.svc(command, &[domain])
}

/// The steps to verify the domain of a sender.
fn verify(context: &Context, domain: &str) -> String {
    let create = context.svc("domains create {}", &[domain]);
    let publish = publish(context, domain);
    let verify = context.svc("domains verify {} --wait", &[domain]);
    format!(
        "add the domain, if it is new: {create}\npublish its DNS records: {publish}\nthen verify it: {verify}"
    )
}
