//! Checks of one service: connection, TLS, key, scopes, and what the key gives access to. Scopes are
//! found out with read-only requests.

use svc_sdk::extraction::Me;
use svc_sdk::{EmailClient, List, Service};

use super::{Findings, Status};
use crate::commands::login::probe;
use crate::context::{Context, is_cleartext_url};
use crate::failure::{Failure, Kind};
use crate::hints::how_the_key_was_sent;
use crate::settings::Source;

/// An id that does not exist. With the scope `emails:read` the response is 404, without it 403.
const NO_EMAIL: &str = "svc-doctor-looks-for-nothing";

pub(super) async fn examine(
    context: &Context,
    service: Service,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let (url, key) = context.clients.endpoint(service).await?;
    let name = format!("{service} service");
    if is_cleartext_url(&url) && !context.settings.sandbox {
        let finding = format!("{url} is plain http: the key is sent in cleartext");
        findings.problem(&format!("{service} TLS"), &finding, "use an https URL");
    }
    let probed = match probe(context, service, &url, &key).await {
        Err(failure) if failure.kind() == Kind::Unauthenticated => Err(failure),
        Err(failure) => {
            unusable(&name, &failure, &url, findings);
            return Ok(());
        }
        Ok(me) => Ok(me),
    };
    findings.ok(&name, &format!("{url} responds"));
    let check = format!("{service} key");
    let me = match probed {
        Ok(me) => me,
        Err(failure) => {
            let next = match context.settings.stored_key(service)?.map(|key| key.source) {
                _ if context.settings.key_file.is_some() => {
                    "use another key in the file of --key-file".to_owned()
                }
                Some(Source::Environment(name) | Source::EnvFile(name)) => {
                    format!("put another key into {name}, or unset it to use the profile's")
                }
                _ => format!("svc login --service {service}"),
            };
            let next = match how_the_key_was_sent(&failure, context) {
                Some(scheme) => format!("{scheme}; or {next}"),
                None => next,
            };
            findings.problem(&check, &format!("{key} is rejected"), &next);
            return Ok(());
        }
    };
    let mode = key
        .mode()
        .map(|mode| format!(", a {mode} key"))
        .unwrap_or_default();
    findings.ok(&check, &format!("{key} is accepted{mode}"));
    match (service, me) {
        (Service::Email, _) => {
            email(
                context,
                &context.clients.email_client_at(&url, &key)?,
                findings,
            )
            .await;
        }
        (_, Some(me)) => organization(context, &me, findings),
        _ => findings.unknown(
            "organization",
            "this key has no access to it",
            "find the key's organization in the service's dashboard",
        ),
    }

    Ok(())
}

/// A response did not come from the service, or there was none.
fn unusable(check: &str, failure: &Failure, url: &str, findings: &mut Findings) {
    let transient = matches!(failure.kind(), Kind::Unavailable | Kind::RateLimited);
    let (status, next) = match failure.status {
        Some(status) if transient => (format!(" (HTTP {status})"), "run svc doctor again later"),
        Some(status) => (format!(" (HTTP {status})"), "check the URL"),
        None => (
            String::new(),
            "check the URL, the network, the proxy and --ca-bundle",
        ),
    };
    let finding = format!("{url}: {}{status}", failure.message);
    findings.problem(check, &finding, failure.hint.as_deref().unwrap_or(next));
}

async fn email(context: &Context, client: &EmailClient, findings: &mut Findings) {
    let contacts = context.caller.perform(client.audiences().list()).await;
    scope("contacts:manage", contacts.as_ref().err(), findings);
    let emails = context.caller.perform(client.emails().get(NO_EMAIL)).await;
    scope("emails:read", emails.as_ref().err(), findings);
    let domains = context.caller.read_all(client.domains().stream()).await;
    scope("domains:manage", domains.as_ref().err(), findings);
    let webhooks = context.caller.read_all(client.webhooks().stream()).await;
    scope("webhooks:manage", webhooks.as_ref().err(), findings);
    findings.unknown(
        "scope emails:send",
        "cannot be checked without sending an email",
        &format!("send one to yourself: {}", context.svc("emails send", &[])),
    );
    let are_whole = [
        (
            "list of domains",
            domains.as_ref().ok().map(List::is_complete),
        ),
        (
            "list of webhooks",
            webhooks.as_ref().ok().map(List::is_complete),
        ),
    ];
    for (check, is_whole) in are_whole {
        if is_whole == Some(false) {
            let finding = "the service says that there are more, but not how to get them";
            findings.warning(check, finding, &context.svc("conform", &[]));
        }
    }

    if domains.as_ref().is_ok_and(|domains| domains.is_empty()) {
        findings.warning(
            "sending domains",
            "none, so no email can be sent",
            &context.svc("domains create example.com", &[]),
        );
    }

    for domain in domains.into_iter().flatten() {
        let check = format!("domain {}", domain.name.as_deref().unwrap_or(&domain.id));
        let verify = context.svc("domains verify {}", &[&domain.id]);
        if domain.is_verified() {
            findings.ok(&check, "verified");
        } else {
            findings.problem(&check, "not verified", &verify);
        }
    }

    for webhook in webhooks.into_iter().flatten() {
        let check = format!("webhook {}", webhook.id);
        let enable = context.svc("webhooks update {} --active true", &[&webhook.id]);
        match webhook.active {
            Some(false) => findings.warning(&check, "inactive: it receives no events", &enable),
            _ => {
                let test = context.svc("webhooks test {}", &[&webhook.id]);
                findings.push(Status::Ok, &check, "active", Some(&test));
            }
        }
    }
}

fn scope(name: &str, failure: Option<&Failure>, findings: &mut Findings) {
    let check = format!("scope {name}");
    match failure.map(|failure| (failure, failure.status)) {
        None | Some((_, Some(404))) => findings.ok(&check, "granted"),
        Some((_, Some(403))) => findings.warning(
            &check,
            "not granted",
            "to use these operations, create a key with this scope",
        ),
        Some((failure, _)) => {
            let finding = format!("unknown: {}", failure.message);
            findings.unknown(&check, &finding, "run svc doctor again later");
        }
    }
}

fn organization(context: &Context, me: &Me, findings: &mut Findings) {
    let id = &me.organization.id;
    let name = &me.organization.name;
    match &context.settings.organization {
        _ if id.is_empty() => {
            findings.problem("organization", "the response names none", "check the URL");
        }
        Some(expected) if expected != id => findings.problem(
            "organization",
            &format!("the key belongs to {id}, but the profile to {expected}"),
            "svc login --service extraction with a key of the profile's organization",
        ),
        _ => findings.ok("organization", &format!("{name} ({id})")),
    }

    match me.auth.scope.as_deref() {
        Some("full") => findings.ok("extraction scope", "full"),
        Some(scope) => findings.warning(
            "extraction scope",
            &format!("{scope}: this key cannot manage webhooks"),
            "use a key with scope full to manage webhooks",
        ),
        None => findings.unknown(
            "extraction scope",
            "the response does not include it",
            "run svc extraction webhooks list to check access to webhooks",
        ),
    }
}
