//! One service: can it be reached, is the way there safe, is the key accepted,
//! do the clocks agree.

use chrono::{DateTime, Utc};
use svc_sdk::{Call, Error, ErrorKind, RawAnswer, Service};

use super::{Findings, email};
use crate::context::{Context, is_open_to_all};
use crate::failure::{Failure, with_causes};

/// More than this, and signatures with a time in them, or logs, stop to fit.
const CLOCK_TOLERANCE: i64 = 60;

pub(super) async fn examine(
    context: &Context,
    service: Service,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let (url, key) = context.address(service).await?;
    let name = format!("{service} service");
    if is_open_to_all(&url) {
        let finding = format!("{url} is plain http: others can read the key on the way");
        findings.problem(&format!("{service} TLS"), &finding, "use the https address");
    }
    let call = match service {
        Service::Email => context.email_client_at(&url, &key)?.raw("GET", "/api/v1/audiences"),
        Service::Extraction => context.extraction_client_at(&url, &key)?.raw("GET", "/v1/me"),
    };
    let answer = bounded(context, call).with_response().await;
    let date = match &answer {
        Ok(answer) => answer.headers.get("date"),
        Err(error) => error.headers().get("date"),
    };
    let date = date.and_then(|date| date.to_str().ok().map(str::to_owned));
    if !reached(answer.as_ref().err(), &name, &url, findings) {
        return Ok(());
    }
    clock(service, date.as_deref(), findings);
    let mode = key.mode().map(|mode| format!(", a {mode} key")).unwrap_or_default();
    if answer.as_ref().is_err_and(Error::is_unauthorized) {
        findings.problem(
            &format!("{service} key"),
            &format!("{key} is not accepted"),
            &format!("svc login --service {service}"),
        );
        return Ok(());
    }
    findings.ok(&format!("{service} key"), &format!("{key} is accepted{mode}"));
    match service {
        Service::Extraction => organization(context, answer.ok().map(|a| a.value), findings),
        Service::Email => email::examine(context, &url, &key, findings).await?,
    }
    Ok(())
}

/// An examination is no place for long patience.
pub(super) fn bounded<T>(context: &Context, call: Call<T>) -> Call<T> {
    call.timeout(context.settings.timeout.value.min(std::time::Duration::from_secs(10))).retries(0)
}

fn reached(error: Option<&Error>, name: &str, url: &str, findings: &mut Findings) -> bool {
    let Some(error) = error.filter(|error| error.status().is_none()) else {
        findings.ok(name, &format!("{url} answers"));
        return true;
    };
    let cause = std::error::Error::source(error).map(with_causes).unwrap_or_default();
    let last = cause.rsplit(": ").next().unwrap_or_default();
    let (finding, next) = match error.kind() {
        ErrorKind::Tls => (
            format!("{url}: no secure connection: {last}"),
            "give your company's certificates with --ca-bundle",
        ),
        ErrorKind::Timeout => {
            (format!("{url} does not answer in time"), "check the address and the proxy")
        }
        _ => (
            format!("{url} cannot be reached: {last}"),
            "check the address, the network and the proxy",
        ),
    };
    findings.problem(name, &finding, next);
    false
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

fn organization(context: &Context, answer: Option<RawAnswer>, findings: &mut Findings) {
    let me = answer.and_then(|answer| answer.json::<serde_json::Value>().ok()).unwrap_or_default();
    let text = |pointer: &str| me.pointer(pointer).and_then(|v| v.as_str()).unwrap_or_default();
    let (id, name) = (text("/organization/id"), text("/organization/name"));
    match &context.settings.organization {
        Some(expected) if expected != id => findings.problem(
            "organization",
            &format!("the key belongs to {id}, the profile to {expected}"),
            "svc login --service extraction with the right key",
        ),
        _ => findings.ok("organization", &format!("{name} ({id})")),
    }
    match text("/auth/scope") {
        "full" => findings.ok("extraction scope", "full"),
        scope => findings.warning(
            "extraction scope",
            &format!("{scope}: webhooks cannot be managed with this key"),
            "use a key of scope full for that",
        ),
    }
}
