//! What to do next, for failures that the services and the SDK report.

use svc_sdk::{Operation, Outcome};

use crate::command_spec;
use crate::context::Context;
use crate::failure::{Details, Failure, Kind};
use crate::output::UNWRITTEN;

/// Names the domain in the next step of a sender that is not verified.
pub fn for_sender(mut failure: Failure, context: &Context, sender: &str) -> Failure {
    let domain = sender.trim_end_matches('>').rsplit('@').next().unwrap_or_default();
    if failure.details().code.as_deref() == Some("domain_not_verified") && !domain.is_empty() {
        failure.details_mut().hint = Some(verify(context, domain));
    }
    failure
}

/// Adds the next step to a failure that does not know one.
pub fn add(failure: &mut Failure, context: &Context) {
    if failure.details().hint.is_some() {
        return;
    }
    if let Some(hint) = hint(failure.details(), context) {
        failure.details_mut().hint = Some(hint);
    }
}

fn hint(details: &Details, context: &Context) -> Option<String> {
    Some(match details.kind {
        Kind::Unauthenticated => "check the key: svc whoami; set another: svc login".to_owned(),
        Kind::MissingScope => match &details.required_scope {
            Some(scope) => format!(
                "use a key that has {scope}; keys and their scopes are managed in the service's dashboard"
            ),
            None => "which scope this operation needs is not documented; the service's message is the best hint".to_owned(),
        },
        Kind::InvalidInput if is_about_a_webhooks_url(details) => {
            "for a service on this machine, its profile can say insecure_webhooks = true: svc config show --help".to_owned()
        }
        Kind::NotFound => return what_there_is(context),
        Kind::Refused if details.status == Some(409) => return what_is_in_the_way(context),
        Kind::Refused if details.code.as_deref() == Some("domain_not_verified") => {
            verify(context, "NAME")
        }
        Kind::Refused if details.status == Some(403) => match &details.required_scope {
            Some(scope) => format!("the operation needs the scope {scope}; ask the service if the key has it"),
            None => return None,
        },
        Kind::RateLimited => match details.retry_after {
            Some(wait) => format!("wait {} s, or allow more --retries", wait.as_secs().max(1)),
            None => "wait a while, or allow more --retries".to_owned(),
        },
        Kind::Unavailable if details.outcome == Some(Outcome::NotSent.as_str()) => {
            "nothing was sent; find out what is wrong: svc doctor".to_owned()
        }
        Kind::Unavailable => "repeating it does no harm; find out what is wrong: svc doctor".to_owned(),
        Kind::OutcomeUnknown => format!("{}\n{}", not_repeated(details), look(context)),
        Kind::Interrupted if context.changes.followed().is_some() => {
            accepted_as(context, context.changes.followed().unwrap_or_default())
        }
        Kind::Interrupted if details.outcome == Some(Outcome::Unknown.as_str()) => look(context),
        Kind::Other
            if details.code.as_deref() == Some(UNWRITTEN) && context.changes.any_done() =>
        {
            "the service has processed the request; only its answer could not be written".to_owned()
        }
        _ => return None,
    })
}

/// What to do where the email was sent, and following it came to nothing.
pub fn accepted_as(context: &Context, id: &str) -> String {
    let wait = context.svc(&format!("emails get {id} --wait"));
    format!("the email was accepted as {id}: do not send it again\ngo on waiting: {wait}")
}

fn is_about_a_webhooks_url(details: &Details) -> bool {
    let webhooks = [Operation::WebhooksCreate, Operation::WebhooksUpdate];
    details.operation.is_some_and(|operation| webhooks.contains(&operation))
        && details.fields.iter().any(|(field, _)| field == "url")
}

/// What to do where it is not known if something was processed.
fn look(context: &Context) -> String {
    let list = match context.leaf.path.rsplit_once(' ') {
        Some(("contacts", _)) => Some("contacts list AUDIENCE".to_owned()),
        Some((group, _)) => {
            Some(format!("{group} list")).filter(|list| command_spec::find(list).is_some())
        }
        None => None,
    };
    match list {
        Some(list) => format!("look before you repeat it: {}", context.svc(&list)),
        None => {
            "look before you send it again: the recipient, your webhooks, the service's dashboard"
                .to_owned()
        }
    }
}

fn not_repeated(details: &Details) -> String {
    match details.status {
        Some(status @ 200..=299) => format!(
            "the service answered {status}: it most likely was processed, and was not repeated"
        ),
        _ => "it was not repeated, because it may have been processed".to_owned(),
    }
}

/// The command that lists what an id was looked for in.
fn what_there_is(context: &Context) -> Option<String> {
    let (group, action) = context.leaf.path.rsplit_once(' ')?;
    let list = match (group, action) {
        ("contacts", "update" | "delete") => "contacts list AUDIENCE".to_owned(),
        // What these name is the audience.
        ("contacts", _) => "audiences list".to_owned(),
        (_, "create" | "list") => return None,
        // The service lists none.
        ("emails", _) => return Some("svc emails send prints the id of what it sent".to_owned()),
        _ => format!("{group} list"),
    };
    command_spec::find(list.trim_end_matches(" AUDIENCE"))?;
    Some(format!("see what there is: {}", context.svc(&list)))
}

/// The command that shows what is there already.
fn what_is_in_the_way(context: &Context) -> Option<String> {
    let list = match context.leaf.path.rsplit_once(' ')? {
        ("contacts", "create") => "contacts list AUDIENCE --all".to_owned(),
        ("emails", "cancel") => "emails get ID".to_owned(),
        (group, "create") => format!("{group} list"),
        _ => return None,
    };
    Some(format!("see what there is: {}", context.svc(&list)))
}

fn verify(context: &Context, domain: &str) -> String {
    let mut steps = format!(
        "add the domain: {}\npublish the records that it prints, then: {}",
        context.svc(&format!("domains create {domain}")),
        context.svc("domains verify ID")
    );
    if context.settings.sandbox {
        steps.push_str(&format!(
            "\n(here the sandbox publishes them: {})",
            context.svc(&format!("sandbox dns publish {domain}"))
        ));
    }
    steps
}
