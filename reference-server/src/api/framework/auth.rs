//! Authentication, scopes and rate limits of the documented operations.
//!
//! Scopes are checked only here, based on the operation table of the SDK
//! (`docs/undocumented/README.md#missing-scope`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use svc_sdk::{Operation, Scope, ScopeRule, Service};

use crate::app::{App, TokenBucket};
use crate::model::error::{ApiError, Code};
use crate::store::keys::{self, Key};
use crate::store::lock;

/// Whether the request names this server in a way that no web page of another site can.
fn names_this_server(app: &App, parts: &Parts) -> bool {
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let mut hosts = parts.headers.get_all(HOST).iter().map(|host| host.to_str().ok());
    hosts.all(|host| host.is_some_and(|host| app.settings.accepts_host(host)))
        && authority.is_none_or(|host| app.settings.accepts_host(host))
}

/// Returns the API key of the request, or 401.
pub(crate) async fn authenticate(
    app: &App,
    service: Service,
    parts: &Parts,
) -> Result<Arc<Key>, ApiError> {
    let headers = &parts.headers;
    let unauthorized = |message| ApiError::new(Code::Unauthorized, message);
    let header = match service {
        Service::Email => &app.settings.compatibility.key_header,
        _ => &AUTHORIZATION,
    };
    let mut values = headers.get_all(header).iter();
    let Some(value) = values.next() else {
        return Err(unauthorized("no API key was given"));
    };
    if values.next().is_some() {
        return Err(unauthorized("more than one API key was given"));
    }
    let value = value.as_bytes();
    let secret = if *header == AUTHORIZATION {
        let bearer =
            value.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "));
        let Some((_, secret)) = bearer else {
            return Err(unauthorized(
                "the API key is malformed; expected `Authorization: Bearer <key>`",
            ));
        };
        secret
    } else {
        value
    };
    let secret = secret.trim_ascii();
    let unknown = || unauthorized("the API key is unknown or was revoked");
    let is_seeded = keys::SEEDED.iter().any(|seeded| seeded.as_bytes() == secret);
    // An earlier start on loopback may have stored them.
    if is_seeded && app.settings.is_exposed() {
        return Err(unknown());
    }
    if is_seeded && !names_this_server(app, parts) {
        let message = "the seeded keys of this server work only for requests to localhost or an IP \
                       address; start it with --network trusted to use other names";
        return Err(ApiError::new(Code::WrongHost, message));
    }
    let key = app.store.key(secret);
    key.filter(|key| key.service == service).ok_or_else(unknown)
}

/// The scope that an operation requires, or `None` if any key of the service may call it.
pub(crate) const fn required_scope(operation: Operation) -> Option<Scope> {
    match operation.scope_rule() {
        ScopeRule::Needs(scope) => Some(scope),
        ScopeRule::AnyKey => None,
        // Only cancel: it undoes a send (`docs/undocumented/services.md#scope-of-cancel`).
        _ => Some(Scope::EmailsSend),
    }
}

/// Returns 403 if the key lacks the scope that the operation requires.
pub(crate) fn authorize(operation: Operation, key: &Key) -> Result<(), ApiError> {
    let Some(required) = required_scope(operation) else { return Ok(()) };
    if key.scopes.contains(&required) {
        return Ok(());
    }
    let message = format!("the API key lacks the scope `{required}`, which {operation} requires");
    Err(ApiError::new(Code::InsufficientScope, message)
        .with(|details| details.required_scope = Some(required.as_str())))
}

/// Returns 429 if the key exceeds the rate limit: a token bucket that holds one second
/// of requests (`docs/undocumented/README.md#rate-limits`).
pub(crate) fn check_rate_limit(app: &App, key: &Key) -> Result<(), ApiError> {
    let Some(rate) = app.settings.rate_limit.map(f64::from) else { return Ok(()) };
    let now = Instant::now();
    let mut buckets = lock(&app.rate_limits);
    if buckets.len() >= MAX_BUCKETS {
        // A key that made no request for a second has all of its tokens.
        buckets.retain(|_, bucket| now.duration_since(bucket.updated) < Duration::from_secs(1));
    }
    let bucket =
        buckets.entry(key.id.clone()).or_insert_with(|| TokenBucket { tokens: rate, updated: now });
    let since = now.duration_since(bucket.updated).as_secs_f64();
    bucket.tokens = (bucket.tokens + since * rate).min(rate);
    bucket.updated = now;
    if bucket.tokens >= 1.0 {
        bucket.tokens -= 1.0;
        return Ok(());
    }
    let wait = ((1.0 - bucket.tokens) / rate).ceil().max(1.0);
    let message = format!("the API key exceeded its rate limit of {rate} requests per second");
    Err(ApiError::new(Code::RateLimited, message).retry_after(wait as u64))
}

/// The number of keys from which those without recent requests are forgotten.
const MAX_BUCKETS: usize = 1_000;
