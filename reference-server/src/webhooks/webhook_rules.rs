//! The rules of a webhook, and how it is called: the exact bytes that were stored, signed with the current
//! secret (`docs/email-service/webhooks.md#signature`, `docs/extraction-service/README.md#signature`,
//! `docs/undocumented/services.md#retry-schedule`,
//! `docs/undocumented/services.md#extraction-retries`).

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use sha2::Sha256;
use svc_sdk::{Dialect, Point, Service};
use url::Url;

use crate::app::App;
use crate::deliveries::delivery_rows::{self, Attempt, Pending, State};
use crate::jobs::Job;
use crate::keys::key_rows::service_from;
use crate::model::{Event, Millis, Network, Problems, Result};
use crate::net::outbound::AttemptError;
use crate::net::target;
use crate::runtime::heavy;
use crate::runtime::memory::{ATTEMPTS, Reserved};
use crate::settings::Settings;
use crate::store::Tx;
use crate::webhooks::webhook_wire::Webhook;

/// The pause before each retry, in milliseconds after the previous attempt.
pub(crate) fn schedule(service: Service) -> &'static [Millis] {
    match service {
        Service::Email => &[2_000, 8_000, 32_000],
        _ => &[2_000, 4_000, 8_000, 16_000, 32_000],
    }
}

/// Makes one attempt and records it. A delivery that falls due while its webhook is inactive or
/// deleted is dropped. None begins once the server stops.
pub(crate) async fn deliver(app: &App, pending: Pending) -> Result<()> {
    let Job {
        queue, subject: id, ..
    } = &pending.job;
    let Some(webhook) = &pending.webhook else {
        let webhook = queue.clone();
        let id = id.clone();
        let end =
            move |tx: &mut Tx<'_>| delivery_rows::end(tx, webhook.as_str(), &id, State::Dropped);
        return app.store.write_relaxed(end).await;
    };

    let body = tokio::select! {
        body = load(app, &pending) => body,
        () = app.stop.requested() => return Ok(()),
    };
    // `None` if the delivery was deleted.
    let Some((body, _memory)) = body? else {
        return Ok(());
    };

    let attempt = attempt(app, webhook, id, &pending.event, pending.attempts + 1, body).await?;
    if !attempt.is_delivered() {
        let Attempt {
            number,
            status,
            error,
            ..
        } = &attempt;
        let webhook = &*webhook.id;
        let event = &*pending.event;
        let error = error.as_deref();
        tracing::info!(
            webhook,
            event,
            attempt = number,
            status,
            error,
            "a delivery failed"
        );
    }

    let made = Arc::new((pending, attempt));
    let recorded = app.record(move |tx| {
        let (pending, attempt) = &*made;
        let Pending {
            retry,
            webhook: Some(webhook),
            ..
        } = pending
        else {
            return Ok(());
        };
        let pause = schedule(service_from(&webhook.service)).get(*retry as usize);
        let next = pause
            .filter(|_| !attempt.is_delivered())
            .map(|pause| tx.now + pause);
        delivery_rows::record(tx, &webhook.id, *retry, next, attempt)
    });

    recorded.await
}

/// The body of a delivery, when there is memory for it; `None` if it was deleted.
async fn load(app: &App, pending: &Pending) -> Result<Option<(Bytes, Reserved)>> {
    if let Some(body) = &pending.body {
        return Ok(Some((body.clone().into(), None)));
    }

    let id = pending.job.subject.clone();
    let size = app
        .store
        .read(move |reader| delivery_rows::body_size(reader, &id))
        .await?;
    let memory = ATTEMPTS.reserve(size).await;
    let id = pending.job.subject.clone();
    let body = app
        .store
        .read(move |reader| delivery_rows::body(reader, &id))
        .await?;
    Ok(body.map(|body| (body.into(), memory)))
}

/// Signs and sends a delivery.
pub(crate) async fn attempt(
    app: &App,
    webhook: &Webhook,
    id: &str,
    event: &str,
    number: i64,
    body: Bytes,
) -> Result<Attempt> {
    let secret = webhook.secret.clone();
    let signed = body.clone();
    let signature = heavy::run_on(body.len(), move || Ok(signature(&secret, &signed))).await?;
    let headers = headers(
        &app.settings.dialect,
        service_from(&webhook.service),
        id,
        event,
        number,
        &signature,
    );
    let text = |value: &HeaderValue| Value::from(value.to_str().unwrap_or_default());
    let request_headers = headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)));
    let request_headers = request_headers.collect();
    let started_at = app.clock.now().into();
    let started = Instant::now();
    let url = Url::parse(&webhook.url);
    let outcome = match &url {
        Ok(url) => app.outbound.post(url, headers, body).await,
        Err(_) => Err(AttemptError::InvalidUrl),
    };
    let duration_ms = started.elapsed().as_millis() as i64;
    let (status, response_body, error) = match outcome {
        Ok(response) => {
            let body = String::from_utf8_lossy(&response.body).into_owned();
            (Some(response.status.as_u16()), Some(body), None)
        }
        Err(error) => (None, None, Some(error.to_string())),
    };
    Ok(Attempt {
        delivery: id.to_owned(),
        number,
        started_at,
        duration_ms,
        url: match url {
            // A URL with a password has a host, so its password can be replaced.
            Ok(mut url) if url.password().is_some() => url
                .set_password(Some("***"))
                .map_or_else(|()| String::new(), |()| url.into()),
            _ => webhook.url.clone(),
        },
        request_headers,
        status,
        error,
        response_body,
    })
}

/// The headers of one attempt.
fn headers(
    dialect: &Dialect,
    service: Service,
    id: &str,
    event: &str,
    attempt: i64,
    signature: &str,
) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
    let mut put = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    };

    match service {
        Service::Email => {
            put(dialect.choice(Point::EventHeader), event);
            put("mail-delivery-id", id);
            put("mail-attempt", &attempt.to_string());
            put("mail-signature", signature);
        }
        _ => {
            put("x-service-event", event);
            put("x-service-signature", &format!("sha256={signature}"));
        }
    }

    headers
}

const USER_AGENT_VALUE: &str = concat!("svc-reference-server/", env!("CARGO_PKG_VERSION"));

/// HMAC-SHA256 of the body, in hex.
fn signature(secret: &str, body: &[u8]) -> String {
    let mac = <Hmac<Sha256>>::new_from_slice(secret.as_bytes());
    let mac = mac
        .expect("HMAC accepts keys of any length")
        .chain_update(body);
    hex::encode(mac.finalize().into_bytes())
}

/// Validates the URL and the events of a webhook. Duplicate events are dropped.
pub(crate) fn check(
    service: Service,
    settings: &Settings,
    url: Option<&str>,
    events: Option<Vec<String>>,
) -> Result<Option<Vec<String>>> {
    let mut problems = Problems::default();
    if let Some(Err(message)) = url.map(|url| check_url(service, settings, url)) {
        problems.add("url", message);
    }
    let events = events.map(|names| check_events(service, &names, &mut problems));
    problems.check()?;
    Ok(events)
}

/// Validates a webhook URL. For the email service it is `https`, as its reference says, except for
/// local addresses and in a dialect that takes any; for the extraction service, any absolute http(s) URL
/// (`docs/undocumented/services.md#webhook-urls`). An address that the attempts would refuse is
/// refused here, if the URL names it.
fn check_url(service: Service, settings: &Settings, text: &str) -> Result<(), String> {
    let network = settings.network;
    let not_a_url = "must be an absolute http(s) URL";
    // The URL parser drops white space, but the stored URL must be the one that is
    // called.
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("must not contain white space or control characters".to_owned());
    }

    let url = Url::parse(text).map_err(|_| not_a_url.to_owned())?;
    // The URL parser also accepts `https:a.test` and `https:///a.test`.
    let rest = text.split_once("://").map(|(_, rest)| rest);
    let has_host = rest.is_some_and(|rest| !rest.starts_with(['/', '\\']));
    if !matches!(url.scheme(), "http" | "https") || !has_host {
        return Err(not_a_url.to_owned());
    }
    if text.len() > 2048 {
        return Err("must not be longer than 2048 bytes".to_owned());
    }

    let may_be_http = service != Service::Email || settings.dialect.is(Point::WebhookUrls, "any");
    if !may_be_http && url.scheme() == "http" && !target::is_in_network(network, &url) {
        return Err(format!(
            "must be an https URL; with --network {network}, http is for {}",
            match network {
                Network::Loopback => "this machine only",
                Network::Trusted => "private addresses and names without dots only",
                Network::Public => "no address",
            }
        ));
    }

    target::check_url(network, &url).map_err(|refused| format!("is refused: {refused}"))
}

/// Validates event names: at least one, all known. Duplicates are dropped.
fn check_events(service: Service, names: &[String], problems: &mut Problems) -> Vec<String> {
    if names.is_empty() {
        problems.add("events", "must name at least one event");
    }
    let mut events = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match Event::parse(service, name) {
            Some(_) if events.contains(name) => {}
            Some(_) => events.push(name.clone()),
            None => problems.add(
                format!("events[{index}]"),
                format!(
                    "is not an event of the {service} service; valid events: {}",
                    Event::names(service)
                ),
            ),
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, case 2.
    #[test]
    fn the_signature_is_hmac_sha256() {
        assert_eq!(
            signature("Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn each_service_has_its_own_headers() {
        let email = headers(
            &Dialect::default(),
            Service::Email,
            "1",
            "email.sent",
            2,
            "abc",
        );
        assert_eq!(email["mail-event"], "email.sent");
        assert_eq!(email["mail-attempt"], "2");
        assert_eq!(email["mail-signature"], "abc");
        assert!(!email.contains_key("x-service-event"));
        let extraction = headers(
            &Dialect::default(),
            Service::Extraction,
            "1",
            "extraction.failed",
            1,
            "abc",
        );
        assert_eq!(extraction["x-service-event"], "extraction.failed");
        assert_eq!(extraction["x-service-signature"], "sha256=abc");
        assert!(!extraction.contains_key("mail-signature"));
    }
}
