//! Access control of the control interface.
//!
//! On loopback, requests with a foreign `Host` are rejected, and everywhere those with a foreign
//! `Origin` or `Sec-Fetch-Site`, so that a web page cannot use the control interface through the
//! browser of a developer. A public server requires the control token.

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use subtle::ConstantTimeEq as _;
use url::Position;

use crate::api::framework::Input;
use crate::model::error::{ApiError, Code};

/// The paths of probes, which know neither the token nor the name of the server.
pub(crate) const PROBES: [&str; 2] = ["/_sandbox/health", "/readyz"];

/// Returns an error if the request may not use the control interface.
pub(crate) fn guard(input: &Input) -> Result<(), ApiError> {
    guard_site(input)?;
    if PROBES.contains(&input.parts.uri.path()) {
        return guard_origin(input);
    }
    guard_host(input)?;
    let Some(token) = &input.app.settings.control_token else { return Ok(()) };
    let provided = input.header(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let token = token.expose().as_bytes();
    if provided.is_some_and(|provided| bool::from(provided.as_bytes().ct_eq(token))) {
        return Ok(());
    }
    let message = "the control interface requires the control token of this server";
    Err(ApiError::new(Code::Unauthorized, message))
}

/// Returns an error if a browser sends the request for a page of another origin, also without an
/// `Origin`, as for an image: how long it takes, and whether it succeeds, would tell what is stored.
fn guard_site(input: &Input) -> Result<(), ApiError> {
    match input.header("sec-fetch-site") {
        Some("cross-site" | "same-site") => Err(foreign_page()),
        _ => Ok(()),
    }
}

fn foreign_page() -> ApiError {
    ApiError::new(Code::Forbidden, "web pages of another origin may not use the control interface")
}

/// Returns an error if the `Host` of the request is not this server, or if the request has the
/// `Origin` of another site.
pub(crate) fn guard_host(input: &Input) -> Result<(), ApiError> {
    // A request line with an absolute URL also contains a host.
    let authority = input.parts.uri.authority().map(http::uri::Authority::as_str);
    let mut hosts = authority.into_iter().chain(input.header(HOST)).peekable();
    if hosts.peek().is_none() || !hosts.all(|host| input.app.settings.accepts_host(host)) {
        let message = "wrong Host header: this server is for its own machine; use localhost or an \
                       IP address, start it with --network trusted, or name the host with \
                       --public-url";
        return Err(ApiError::new(Code::WrongHost, message));
    }
    guard_origin(input)
}

/// Returns an error if the request has an `Origin` that is neither the host that it asks for nor
/// the public URL. Another port is another application.
fn guard_origin(input: &Input) -> Result<(), ApiError> {
    let mut origins = input.parts.headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    // A proxy may add TLS.
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let is_asked = host.is_some_and(|host| {
        input.header(HOST).is_some_and(|asked| asked.eq_ignore_ascii_case(host))
    });
    let is_public = input
        .app
        .settings
        .public_url
        .as_ref()
        .is_some_and(|url| url[..Position::BeforePath].eq_ignore_ascii_case(origin));
    if (is_asked || is_public) && origins.next().is_none() { Ok(()) } else { Err(foreign_page()) }
}
