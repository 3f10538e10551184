//! Checks of one service: connection, TLS, key and clock.

use chrono::{DateTime, Utc};
use svc_sdk::extraction::Me;
use svc_sdk::{Error, ErrorKind, Service};

use super::email;
use super::{Findings, bounded};
use crate::commands::login::is_accepted;
use crate::context::{Context, is_cleartext_url};
use crate::failure::Failure;
use crate::settings::Source;

/// Clock difference in seconds that is worth a warning.
const CLOCK_TOLERANCE: i64 = 60;

pub(super) async fn examine(
    context: &Context,
    service: Service,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let (url, key) = context.endpoint(service).await?;
    let name = format!("{service} service");
    if is_cleartext_url(&url) {
        let finding = format!("{url} is plain http: the key is sent in cleartext");
        findings.problem(&format!("{service} TLS"), &finding, "use an https URL");
    }
    let response = match service {
        Service::Email => {
            let call = context.email_client_at(&url, &key)?.audiences().list();
            bounded(context, call).with_response().await.map(|response| (None, response.headers))
        }
        _ => {
            let call = context.extraction_client_at(&url, &key)?.me();
            let response = bounded(context, call).with_response().await;
            response.map(|response| (Some(response.value), response.headers))
        }
    };
    let accepted = match &response {
        Ok(_) => true,
        Err(error) => match is_accepted(error) {
            Some(accepted) => accepted,
            None => {
                let (finding, next) = unusable(error, &url);
                findings.problem(&name, &finding, next);
                return Ok(());
            }
        },
    };
    findings.ok(&name, &format!("{url} responds"));
    let headers = response.as_ref().map_or_else(Error::headers, |(_, headers)| headers);
    clock(service, headers.get("date").and_then(|date| date.to_str().ok()), findings);
    let check = format!("{service} key");
    if !accepted {
        let next = match context.settings.stored_key(service)?.map(|key| key.source) {
            _ if context.settings.key_file.is_some() => {
                "use another key in the file of --key-file".to_owned()
            }
            Some(Source::Environment(name) | Source::EnvFile(name)) => {
                format!("put another key into {name}, or unset it to use the profile's")
            }
            _ => format!("svc login --service {service}"),
        };
        findings.problem(&check, &format!("{key} is rejected"), &next);
        return Ok(());
    }
    let mode = key.mode().map(|mode| format!(", a {mode} key")).unwrap_or_default();
    findings.ok(&check, &format!("{key} is accepted{mode}"));
    match (service, response) {
        (Service::Email, _) => email::examine(context, &url, &key, findings).await?,
        (Service::Extraction, Ok((Some(me), _))) => organization(context, &me, findings),
        _ => findings.unknown(
            "organization",
            "this key has no access to it",
            "find the key's organization in the service's dashboard",
        ),
    }
    Ok(())
}

/// The finding and the next step for a failed request.
fn unusable(error: &Error, url: &str) -> (String, &'static str) {
    let failure = Failure::from_sdk(error, true);
    let details = failure.details();
    let status = details.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
    let next = match (error.kind(), details.status) {
        (ErrorKind::Server | ErrorKind::RateLimited, Some(_)) => "run svc doctor again later",
        (_, Some(_)) => "check the URL",
        (ErrorKind::Tls, _) => {
            "a server without TLS has a URL that begins with http:; add your organization's CA \
             certificates with --ca-bundle"
        }
        _ => "check the URL, the network and the proxy",
    };
    (format!("{url}: {}{status}", details.message), next)
}

fn clock(service: Service, date: Option<&str>, findings: &mut Findings) {
    let check = format!("{service} clock");
    let Some(theirs) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) else {
        return;
    };
    let apart = (Utc::now() - theirs.with_timezone(&Utc)).num_seconds();
    if apart.abs() <= CLOCK_TOLERANCE {
        findings.ok(&check, "in sync with this machine's clock");
        return;
    }
    let direction = if apart > 0 { "ahead of" } else { "behind" };
    let finding = format!("this machine's clock is {} s {direction} the service's", apart.abs());
    findings.warning(&check, &finding, "synchronize the system clock (NTP)");
}

fn organization(context: &Context, me: &Me, findings: &mut Findings) {
    let (id, name) = (&me.organization.id, &me.organization.name);
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
