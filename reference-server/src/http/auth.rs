//! Who may make a request.
//!
//! A documented operation needs a key with its scope, and passes the rate limit. Scopes are checked
//! only here, based on the operation table of the SDK (`docs/undocumented/README.md#missing-scope`).
//!
//! The control interface has [`guard`]. Except on a public server, requests with a foreign `Host` are
//! rejected, and everywhere those with a foreign `Origin` or `Sec-Fetch-Site`, so that a web page cannot
//! use it through the browser of a developer. A public server requires the control token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use http::request::Parts;
use subtle::ConstantTimeEq as _;
use svc_sdk::{Dialect, Operation, Point, Scope, ScopeRule, Service};
use url::Position;

use crate::app::App;
use crate::model::key::Key;
use crate::model::{Code, Failure, Network, Result};
use crate::settings::SEEDED;
use crate::store::lock;

/// Whether the request names this server in a way that no web page of another site can.
fn names_this_server(app: &App, parts: &Parts) -> bool {
    // A request line with an absolute URL also contains a host.
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let named = parts
        .headers
        .get_all(HOST)
        .iter()
        .map(|host| host.to_str().ok());
    let mut hosts = named.chain(authority.map(Some));
    hosts.all(|host| host.is_some_and(|host| app.settings.accepts_host(host)))
}

/// Returns the API key of the request, or 401.
pub(crate) async fn authenticate(app: &App, service: Service, parts: &Parts) -> Result<Arc<Key>> {
    let unauthorized = |message| Failure::new(Code::Unauthorized, message);
    let dialect = &app.settings.dialect;
    let (header, scheme) = match service {
        Service::Email => (dialect.choice(Point::KeyHeader), scheme(dialect)),
        _ => (AUTHORIZATION.as_str(), "Bearer"),
    };
    let mut values = parts.headers.get_all(header).iter();
    let value = values
        .next()
        .ok_or_else(|| unauthorized("no API key was given"))?
        .as_bytes();
    if values.next().is_some() {
        return Err(unauthorized("more than one API key was given"));
    }

    let secret = presented(dialect, scheme, value);
    let message = match scheme {
        "Bearer" => "the API key is malformed; expected `Authorization: Bearer <key>`",
        _ => "the API key is malformed",
    };
    let secret = secret.ok_or_else(|| unauthorized(message))?;
    let secret = secret.trim_ascii();
    let unknown = || unauthorized("the API key is unknown or was revoked");
    let is_seeded = SEEDED.iter().any(|seeded| seeded.as_bytes() == secret);
    // An earlier start on loopback may have stored them.
    if is_seeded && app.settings.is_exposed() {
        return Err(unknown());
    }
    if is_seeded && !names_this_server(app, parts) {
        let message = "the seeded keys of this server work only for requests to the names that its \
                       control interface has; start it with --network trusted or --allow-host NAME";
        return Err(Failure::new(Code::WrongHost, message));
    }

    let key = app.store.key(secret);
    key.filter(|key| key.service == service).ok_or_else(unknown)
}

/// The scheme that the email service wants the key in; empty for the key alone.
pub(crate) fn scheme(dialect: &Dialect) -> &str {
    let is_usual = dialect
        .choice(Point::KeyHeader)
        .eq_ignore_ascii_case(AUTHORIZATION.as_str());
    match dialect.pinned(Point::KeyScheme) {
        Some("bearer") => "Bearer",
        Some("token") => "Token",
        Some("basic" | "basic-user") => "Basic",
        Some("bare") => "",
        Some(word) => word,
        None if is_usual => "Bearer",
        None => "",
    }
}

/// The key in the value of a header.
fn presented(dialect: &Dialect, scheme: &str, value: &[u8]) -> Option<Vec<u8>> {
    if scheme.is_empty() {
        return Some(value.to_vec());
    }

    let (given, rest) = value.split_at_checked(scheme.len())?;
    let rest = rest.strip_prefix(b" ")?;
    if !given.eq_ignore_ascii_case(scheme.as_bytes()) {
        return None;
    }
    if scheme != "Basic" {
        return Some(rest.to_vec());
    }

    let decoded = STANDARD.decode(rest.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let user = &decoded[..colon];
    let password = &decoded[colon + 1..];
    if dialect.is(Point::KeyScheme, "basic-user") {
        return Some(user.to_vec());
    }

    let is_known_user = user == dialect.choice(Point::KeyUser).as_bytes();
    is_known_user.then(|| password.to_vec())
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
pub(crate) fn authorize(operation: Operation, key: &Key) -> Result<()> {
    let Some(required) = required_scope(operation) else {
        return Ok(());
    };
    if key.scopes.contains(&required) {
        return Ok(());
    }

    let message = format!("the API key lacks the scope `{required}`, which {operation} requires");
    Err(Failure::new(Code::InsufficientScope, message)
        .with(|details| details.required_scope = Some(required.as_str())))
}

/// Returns 429 if the key exceeds the rate limit, which allows a burst of one second of requests
/// (`docs/undocumented/README.md#rate-limits`).
pub(crate) fn check_rate_limit(app: &App, key: &Key) -> Result<()> {
    let Some(rate) = app.settings.rate_limit else {
        return Ok(());
    };

    let now = Instant::now();
    let mut paid_until = lock(&app.paid_until);
    if paid_until.len() >= MAX_KEYS {
        paid_until.retain(|_, until| *until > now);
    }
    let until = paid_until.entry(key.id.clone()).or_insert(now);
    let next = now.max(*until) + Duration::from_secs(1) / rate;
    if let Some(wait) = next.checked_duration_since(now + Duration::from_secs(1))
        && !wait.is_zero()
    {
        let message = format!("the API key exceeded its rate limit of {rate} requests per second");
        let seconds = wait.as_secs_f64().ceil() as u64;
        return Err(Failure::new(Code::RateLimited, message).retry_after(seconds));
    }

    *until = next;
    Ok(())
}

/// The number of keys from which those without recent requests are forgotten.
const MAX_KEYS: usize = 1_000;

/// The paths of probes, which know neither the token nor the name of the server.
pub(crate) const PROBES: [&str; 2] = ["/_sandbox/health", "/readyz"];

/// Returns an error if the request may not use the control interface.
pub(crate) fn guard(app: &App, parts: &Parts) -> Result<()> {
    // Of a page of another origin, also without an `Origin`, as for an image: how long a request
    // takes, and whether it succeeds, would tell what is stored.
    let site = header(parts, HeaderName::from_static("sec-fetch-site"));
    if let Some("cross-site" | "same-site") = site {
        return Err(foreign_page());
    }
    if PROBES.contains(&parts.uri.path()) {
        return guard_origin(app, parts);
    }

    guard_host(app, parts)?;
    let Some(token) = &app.settings.control_token else {
        return Ok(());
    };

    let provided = header(parts, AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let token = token.expose().as_bytes();
    if provided.is_some_and(|provided| bool::from(provided.as_bytes().ct_eq(token))) {
        return Ok(());
    }

    let message = "the control interface requires the control token of this server";
    Err(Failure::new(Code::Unauthorized, message))
}

fn header(parts: &Parts, name: HeaderName) -> Option<&str> {
    parts.headers.get(name)?.to_str().ok()
}

fn foreign_page() -> Failure {
    Failure::new(
        Code::Forbidden,
        "web pages of another origin may not use the control interface",
    )
}

/// Returns an error if the `Host` of the request is not this server, or if the request has the
/// `Origin` of another site.
pub(crate) fn guard_host(app: &App, parts: &Parts) -> Result<()> {
    if !parts.headers.contains_key(HOST) || !names_this_server(app, parts) {
        let message = match app.settings.network {
            Network::Loopback => {
                "wrong Host header: this server is for its own machine; use localhost or an IP \
                 address, or start it with --network trusted, or with --allow-host NAME"
            }
            _ => {
                "wrong Host header: a web page may have this name; use an IP address, a name without \
                 dots or one below .test, .internal or .local, or start the server with --allow-host \
                 NAME"
            }
        };
        return Err(Failure::new(Code::WrongHost, message));
    }
    guard_origin(app, parts)
}

/// Returns an error if the request has an `Origin` that is neither the host that it asks for nor
/// the public URL. Another port is another application.
fn guard_origin(app: &App, parts: &Parts) -> Result<()> {
    let mut origins = parts.headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else {
        return Ok(());
    };

    let origin = origin.to_str().unwrap_or_default();
    // A proxy may add TLS.
    let host = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    let asked = header(parts, HOST);
    let is_asked = host
        .zip(asked)
        .is_some_and(|(host, asked)| asked.eq_ignore_ascii_case(host));
    let public_url = app.settings.public_url.as_ref();
    let is_public =
        public_url.is_some_and(|url| url[..Position::BeforePath].eq_ignore_ascii_case(origin));
    if (is_asked || is_public) && origins.next().is_none() {
        Ok(())
    } else {
        Err(foreign_page())
    }
}
