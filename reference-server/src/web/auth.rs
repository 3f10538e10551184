//! Who is calling, and whether the key may: the one place where scopes are
//! checked, from the operation table (`docs/undocumented/both-services.md#missing-scope`, `docs/undocumented/both-services.md#order-of-checks`).

use std::sync::Arc;
use std::time::Instant;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use svc_sdk::{Operation, Scope, ScopeRule, Service};

use crate::app::{App, Bucket};
use crate::error::{ApiError, Code};
use crate::keys::Key;
use crate::store::lock;

/// The key that the request carries, or 401.
pub(crate) fn caller(
    app: &App,
    service: Service,
    headers: &HeaderMap,
) -> Result<Arc<Key>, ApiError> {
    let unauthorized = |message| ApiError::new(Code::Unauthorized, message);
    let header = match service {
        Service::Email => &app.settings.switches.key_header,
        Service::Extraction => &AUTHORIZATION,
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
                "the key is malformed: `Authorization: Bearer <key>` is expected",
            ));
        };
        secret
    } else {
        value
    };
    let key = app.keys.find(secret.trim_ascii());
    key.filter(|key| key.service == service)
        .ok_or_else(|| unauthorized("the API key is unknown or was revoked"))
}

/// The scope that a key must have for the operation.
pub(crate) const fn required_scope(operation: Operation) -> Option<Scope> {
    match operation.scope_rule() {
        ScopeRule::Needs(scope) => Some(scope),
        ScopeRule::AnyKey => None,
        // Cancelling is the other side of sending (`docs/undocumented/email-service.md#scope-of-cancel`).
        ScopeRule::NotDocumented => Some(Scope::EmailsSend),
    }
}

/// 403 where the key lacks the scope of the operation.
pub(crate) fn allow(operation: Operation, key: &Key) -> Result<(), ApiError> {
    let Some(required) = required_scope(operation) else { return Ok(()) };
    if key.scopes.contains(&required) {
        return Ok(());
    }
    let message = format!("the key lacks the scope `{required}`, which {operation} needs");
    Err(ApiError::new(Code::InsufficientScope, message)
        .with(|details| details.required_scope = Some(required.as_str())))
}

/// 429 where the key has used up its requests a second (`docs/undocumented/both-services.md#rate-limits`).
pub(crate) fn limit_rate(app: &App, key: &Key) -> Result<(), ApiError> {
    let Some(rate) = app.settings.rate_limit.map(f64::from) else { return Ok(()) };
    let now = Instant::now();
    let mut buckets = lock(&app.rates);
    let bucket =
        buckets.entry(key.id.clone()).or_insert_with(|| Bucket { tokens: rate, filled: now });
    let since = now.duration_since(bucket.filled).as_secs_f64();
    bucket.tokens = (bucket.tokens + since * rate).min(rate);
    bucket.filled = now;
    if bucket.tokens >= 1.0 {
        bucket.tokens -= 1.0;
        return Ok(());
    }
    let wait = ((1.0 - bucket.tokens) / rate).ceil().max(1.0);
    let message = format!("more than {rate} requests a second");
    Err(ApiError::new(Code::RateLimited, message).retry_after(wait as u64))
}
