//! Access control of the control interface.
//!
//! Except on a public server, requests with a foreign `Host` are rejected, and everywhere those with a foreign
//! `Origin` or `Sec-Fetch-Site`, so that a web page cannot use the control interface through the
//! browser of a developer. A public server requires the control token.

use http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use http::request::Parts;
use subtle::ConstantTimeEq as _;
use url::Position;

use crate::app::App;
use crate::http::auth::names_this_server;
use crate::model::{Code, Failure, Network, Result};

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
