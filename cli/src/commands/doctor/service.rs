//! One service: can it be reached, is the way there safe, is the key accepted,
//! do the clocks agree.

use chrono::{DateTime, Utc};
use svc_sdk::extraction::{KeyScope, Me};
use svc_sdk::{Call, Error, ErrorKind, Service};

use super::{Findings, email};
use crate::commands::login::is_accepted;
use crate::context::{Context, is_cleartext_url};
use crate::failure::{Failure, with_causes};

/// More than this, and signatures with a time in them, or logs, stop to fit.
const CLOCK_TOLERANCE: i64 = 60;

pub(super) async fn examine(
    context: &Context,
    service: Service,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let (url, key) = context.endpoint(service).await?;
    let name = format!("{service} service");
    if is_cleartext_url(&url) {
        let finding = format!("{url} is plain http: others can read the key on the way");
        findings.problem(&format!("{service} TLS"), &finding, "use the https address");
    }
    let answer = match service {
        Service::Email => {
            let call = context.email_client_at(&url, &key)?.audiences().list();
            bounded(context, call).with_response().await.map(|answer| (None, answer.headers))
        }
        Service::Extraction => {
            let call = context.extraction_client_at(&url, &key)?.me();
            let answer = bounded(context, call).with_response().await;
            answer.map(|answer| (Some(answer.value), answer.headers))
        }
    };
    let accepted = match &answer {
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
    findings.ok(&name, &format!("{url} answers"));
    let headers = answer.as_ref().map_or_else(Error::headers, |(_, headers)| headers);
    clock(service, headers.get("date").and_then(|date| date.to_str().ok()), findings);
    let check = format!("{service} key");
    if !accepted {
        let next = format!("svc login --service {service}");
        findings.problem(&check, &format!("{key} is not accepted"), &next);
        return Ok(());
    }
    let mode = key.mode().map(|mode| format!(", a {mode} key")).unwrap_or_default();
    findings.ok(&check, &format!("{key} is accepted{mode}"));
    match (service, answer) {
        (Service::Email, _) => email::examine(context, &url, &key, findings).await?,
        (Service::Extraction, Ok((Some(me), _))) => organization(context, &me, findings),
        (Service::Extraction, _) => findings.unknown(
            "organization",
            "this key may not ask",
            "look at the service's dashboard whose key it is",
        ),
    }
    Ok(())
}

/// An examination is no place for long patience.
pub(super) fn bounded<T>(context: &Context, call: Call<T>) -> Call<T> {
    call.timeout(context.settings.timeout.value.min(std::time::Duration::from_secs(10))).retries(0)
}

/// Why the service cannot be worked with, and what to do.
fn unusable(error: &Error, url: &str) -> (String, &'static str) {
    let cause = std::error::Error::source(error).map(with_causes).unwrap_or_default();
    let last = cause.rsplit(": ").next().unwrap_or_default();
    match (error.kind(), error.status()) {
        (ErrorKind::Tls, _) => (
            format!("{url}: no secure connection: {last}"),
            "give your company's certificates with --ca-bundle",
        ),
        (ErrorKind::Timeout, _) => {
            (format!("{url} does not answer in time"), "check the address and the proxy")
        }
        (_, None) => (
            format!("{url} cannot be reached: {last}"),
            "check the address, the network and the proxy",
        ),
        (kind @ (ErrorKind::Server | ErrorKind::RateLimited), Some(status)) => {
            (format!("{url} answers HTTP {status}: {kind}"), "run svc doctor again later")
        }
        (kind, Some(status)) => (
            format!("{url} answers HTTP {status}, but not as the service does: {kind}"),
            "check the address",
        ),
    }
}

fn clock(service: Service, date: Option<&str>, findings: &mut Findings) {
    let check = format!("{service} clock");
    let Some(theirs) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) else {
        return;
    };
    let apart = (Utc::now() - theirs.with_timezone(&Utc)).num_seconds();
    if apart.abs() <= CLOCK_TOLERANCE {
        findings.ok(&check, "this machine's clock agrees");
        return;
    }
    let direction = if apart > 0 { "ahead of" } else { "behind" };
    let finding = format!("this machine's clock is {} s {direction} the service's", apart.abs());
    findings.warning(&check, &finding, "let the system set its clock (NTP)");
}

fn organization(context: &Context, me: &Me, findings: &mut Findings) {
    let (id, name) = (&me.organization.id, &me.organization.name);
    match &context.settings.organization {
        _ if id.is_empty() => {
            findings.problem("organization", "the service names none", "check the address");
        }
        Some(expected) if expected != id => findings.problem(
            "organization",
            &format!("the key belongs to {id}, the profile to {expected}"),
            "svc login --service extraction with the right key",
        ),
        _ => findings.ok("organization", &format!("{name} ({id})")),
    }
    match &me.auth.scope {
        Some(KeyScope::Full) => findings.ok("extraction scope", "full"),
        Some(scope) => findings.warning(
            "extraction scope",
            &format!("{scope}: webhooks cannot be managed with this key"),
            "use a key of scope full for that",
        ),
        None => findings.unknown(
            "extraction scope",
            "the service does not say it",
            "svc extraction webhooks list shows whether webhooks can be managed",
        ),
    }
}
