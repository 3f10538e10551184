//! Checks of the email service beyond its key: scopes, sending domains and webhook endpoints.
//! Scopes are found out with read-only requests.

use std::time::Duration;

use svc_sdk::email::{Domain, Webhook};
use svc_sdk::{Error, List};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Findings, bounded};
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::Key;

/// An id that does not exist. With the scope `emails:read` the response is 404, without it 403.
const NO_EMAIL: &str = "svc-doctor-looks-for-nothing";

pub(super) async fn examine(
    context: &Context,
    url: &str,
    key: &Key,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let client = context.email_client_at(url, key)?;
    let contacts = bounded(context, client.audiences().list()).await;
    scope("contacts:manage", contacts.as_ref().err(), findings);
    let emails = bounded(context, client.emails().get(NO_EMAIL)).await;
    scope("emails:read", emails.as_ref().err(), findings);
    let domains = bounded(context, client.domains().list()).await;
    scope("domains:manage", domains.as_ref().err(), findings);
    let webhooks = bounded(context, client.webhooks().list()).await;
    scope("webhooks:manage", webhooks.as_ref().err(), findings);
    findings.unknown(
        "scope emails:send",
        "cannot be checked without sending an email",
        &format!("send one to yourself: {}", context.svc("emails send")),
    );
    if let Ok(domains) = domains {
        examine_domains(context, &domains, findings);
    }
    if let Ok(webhooks) = webhooks {
        examine_webhooks(context, &webhooks, findings).await;
    }
    Ok(())
}

fn scope(name: &str, error: Option<&Error>, findings: &mut Findings) {
    let check = format!("scope {name}");
    match error {
        None => findings.ok(&check, "granted"),
        Some(error) if error.is_not_found() => findings.ok(&check, "granted"),
        Some(error) if error.status() == Some(svc_sdk::StatusCode::FORBIDDEN) => {
            findings.warning(
                &check,
                "not granted",
                "to use these operations, create a key with this scope",
            );
        }
        Some(error) => {
            let finding = format!("unknown: {}", error.kind());
            findings.unknown(&check, &finding, "run svc doctor again later");
        }
    }
}

fn examine_domains(context: &Context, domains: &List<Domain>, findings: &mut Findings) {
    if domains.is_empty() {
        findings.warning(
            "sending domains",
            "none, so no email can be sent",
            &context.svc("domains create example.com"),
        );
    }
    for domain in domains {
        let check = format!("domain {}", domain.name.as_deref().unwrap_or(&domain.id));
        let verify = context.svc(&format!("domains verify {}", domain.id));
        match domain.is_verified() {
            true => findings.ok(&check, "verified"),
            false => findings.problem(&check, "not verified", &verify),
        }
    }
}

async fn examine_webhooks(context: &Context, webhooks: &List<Webhook>, findings: &mut Findings) {
    for webhook in webhooks {
        let check = format!("webhook {}", webhook.id);
        let Some(url) = webhook.url.as_deref().and_then(|url| url::Url::parse(url).ok()) else {
            continue;
        };
        let enable = context.svc(&format!("webhooks update {} --active true", webhook.id));
        if webhook.active == Some(false) {
            findings.warning(&check, "inactive: it receives no events", &enable);
            continue;
        }
        let test = context.svc(&format!("webhooks test {}", webhook.id));
        match reachable(&url).await {
            Ok(()) => findings.ok(&check, &format!("{} accepts connections", host(&url))),
            Err(why) => {
                findings.warning(
                    &check,
                    &format!("{} is not reachable from here: {why}", host(&url)),
                    &test,
                );
            }
        }
    }
}

fn host(url: &url::Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(443))
}

async fn reachable(url: &url::Url) -> Result<(), String> {
    match timeout(Duration::from_secs(3), TcpStream::connect(host(url))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the connection timed out".to_owned()),
    }
}
