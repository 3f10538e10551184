//! Access control of the control interface.
//!
//! Beyond loopback, a client needs the control token. Requests with a foreign `Host`,
//! `Origin` or `Sec-Fetch-Site` are rejected, so that a web page cannot use the control
//! interface through the browser of a developer.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use crate::api::framework::Input;
use crate::model::error::{ApiError, Code, Problems};

/// Returns an error if the request may not use the control interface.
pub(crate) fn guard(input: &Input) -> Result<(), ApiError> {
    guard_origin(input)?;
    guard_site(input)?;
    let Some(token) = &input.app.control_token else { return Ok(()) };
    let provided = input.header(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if provided.is_some_and(|provided| bool::from(provided.as_bytes().ct_eq(token.as_bytes()))) {
        return Ok(());
    }
    let message =
        "others can reach the server, so the control interface requires the control token";
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

/// Returns an error if the request has the `Origin` of another site, or if its `Host` is not this
/// server.
pub(crate) fn guard_origin(input: &Input) -> Result<(), ApiError> {
    let Some(addresses) = input.app.addresses.get() else {
        return Err(ApiError::new(Code::Unavailable, "the server is starting"));
    };
    let own = addresses.http;
    // A request line with an absolute URL also contains a host.
    let authority = input.parts.uri.authority().map(http::uri::Authority::as_str);
    let hosts = &input.app.settings.hosts;
    let is_own = |host: &str| is_own_host(host, own) || is_named_host(host, hosts);
    let all_own = authority.into_iter().chain(input.header(HOST)).all(is_own);
    if !all_own || (authority.is_none() && input.header(HOST).is_none()) {
        let message = format!(
            "wrong Host header: the address of the control interface is {own}; name others with --host"
        );
        return Err(ApiError::new(Code::WrongHost, message));
    }
    let mut origins = input.parts.headers.get_all(ORIGIN).iter();
    if let Some(origin) = origins.next() {
        let origin = origin.to_str().unwrap_or_default();
        // A named host may be that of a proxy, which adds TLS.
        let asked = input.header(HOST).unwrap_or_default();
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let same = host.is_some_and(|host| {
            // Another port of a named host is another application.
            let is_named = is_named_host(host, hosts)
                && (!host.contains(':') || host.eq_ignore_ascii_case(asked));
            is_named || origin.starts_with("http://") && is_own_host(host, own)
        });
        if !same || origins.next().is_some() {
            return Err(foreign_page());
        }
    }
    Ok(())
}

/// Whether `host`, with or without a port, is a name that the server was given.
fn is_named_host(host: &str, names: &[String]) -> bool {
    let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let name = port.map_or(host, |(name, _)| name);
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns an error if the query has a parameter other than `organization` and those that
/// the route knows: a misspelt `organization` must not select another one, or all.
pub(crate) fn check_query(input: &Input, parameters: &[Value]) -> Result<(), ApiError> {
    let query = input.query();
    let known: Vec<&str> = parameters.iter().filter_map(|one| one["name"].as_str()).collect();
    let mut problems = Problems::default();
    for name in
        query.keys().filter(|name| *name != "organization" && !known.contains(&name.as_str()))
    {
        // The name is the client's; repeat it only if it can be a parameter's name.
        let is_name =
            name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let names =
            known.iter().fold("organization".to_owned(), |all, name| format!("{all}, {name}"));
        let message = format!("is not a query parameter of this path; it has {names}");
        problems.add(if is_name { name.as_str() } else { "" }, message);
    }
    let text = input.parts.uri.query().unwrap_or_default();
    let mut seen = HashSet::new();
    for (name, _) in url::form_urlencoded::parse(text.as_bytes()) {
        if query.contains_key(&*name) && !seen.insert(name.clone()) {
            problems.add(&*name, "is given more than once");
        }
    }
    problems.check()
}

/// Whether `host`, with or without a port, is an address of this server.
fn is_own_host(host: &str, own: SocketAddr) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty() =>
        {
            (name, port.parse().ok())
        }
        _ => (host, Some(80)),
    };
    if port != Some(own.port()) {
        return false;
    }
    if name.eq_ignore_ascii_case("localhost") {
        return own.ip().is_loopback() || own.ip().is_unspecified();
    }
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    match bare.parse::<IpAddr>() {
        // A server on all addresses accepts any IP address, but no host name, which could
        // be that of an attacker (DNS rebinding).
        Ok(ip) => ip == own.ip() || own.ip().is_unspecified(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_addresses_of_this_server() {
        let own = SocketAddr::from(([127, 0, 0, 1], 4080));
        for host in ["127.0.0.1:4080", "localhost:4080", "LOCALHOST:4080"] {
            assert!(is_own_host(host, own), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:81",
            "evil.test:4080",
            "localhost.evil.test:4080",
            "[::1]:4080",
            "",
            ":4080",
        ] {
            assert!(!is_own_host(host, own), "{host}");
        }
        let everywhere = SocketAddr::from(([0, 0, 0, 0], 80));
        assert!(is_own_host("192.168.1.5", everywhere));
        assert!(!is_own_host("intranet", everywhere));
    }
}
