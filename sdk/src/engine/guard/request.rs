//! The recipient guard's checks of a request itself: everything that may make a service, or a
//! proxy before it, see another one that sends emails.

use http::HeaderName;
use percent_encoding::percent_decode_str;

use super::{ActiveGuard, refuse};
use crate::engine::request::{Payload, Request};
use crate::error::{Error, InvalidInput};

impl ActiveGuard {
    /// Checks the method, the path and the headers of a request to a service with this path in its
    /// base URL. Its operation was checked when it was made.
    pub(in crate::engine) fn check_request<'a>(
        &self,
        base_path: &str,
        request: &Request,
        headers: impl IntoIterator<Item = &'a HeaderName>,
    ) -> Result<(), Error> {
        let refused = |invalid| Err(refuse(invalid).with_operation(request.operation));
        let reads = request.method.is_safe();
        if reads && !matches!(request.payload, Payload::Empty) {
            return refused(InvalidInput::new(
                "body",
                "a request that only reads must have none; send with `emails send`",
            ));
        }

        let (path, query) = match request.path.split_once('?') {
            Some((path, query)) => (path, query),
            None => (&*request.path, ""),
        };
        if is_path_ambiguous(path, reads) || is_path_ambiguous(base_path, reads) {
            return refused(InvalidInput::new(
                "path",
                "contains an encoded character, which may lead to another path; use plain IDs",
            ));
        }
        if !is_query_plain(query, reads) {
            return refused(InvalidInput::new(
                "query",
                "may change the method or the path; leave the parameter out",
            ));
        }

        match headers.into_iter().find(|name| is_override(name)) {
            Some(name) => refused(override_header(name)),
            None => Ok(()),
        }
    }

    /// Checks the headers that a hook has set.
    pub(in crate::engine) fn check_headers(&self, headers: &http::HeaderMap) -> Result<(), Error> {
        match headers.keys().find(|name| is_override(name)) {
            Some(name) => Err(refuse(override_header(name))),
            None => Ok(()),
        }
    }
}

/// Whether programs may take the path for another one. A path that only reads may have encoded
/// letters, but nothing that ends a segment once it is decoded.
fn is_path_ambiguous(path: &str, reads: bool) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~:@".contains(&byte);
    if !reads {
        return !path.bytes().all(is_plain);
    }
    let path = path.to_ascii_lowercase();
    ["%2f", "%5c", "%25", "%00", "%3b", ";"]
        .iter()
        .any(|part| path.contains(part))
}

/// No documented request that changes something has a query, and none that reads has a parameter for
/// its method or path.
fn is_query_plain(query: &str, reads: bool) -> bool {
    if !reads {
        return query.is_empty();
    }
    let mut names = query
        .split(['&', ';'])
        .map(|pair| pair.split('=').next().unwrap_or_default());
    names.all(|name| {
        let name = percent_decode_str(name).decode_utf8_lossy().to_lowercase();
        !OVERRIDES.iter().any(|word| name.contains(word))
    })
}

fn is_override(name: &HeaderName) -> bool {
    OVERRIDES.iter().any(|word| name.as_str().contains(word))
}

fn override_header(name: &HeaderName) -> InvalidInput {
    InvalidInput::new(
        format!("header {name}"),
        "may change the method or the path of the request; leave it out",
    )
}

/// Words in the names of headers and parameters by which frameworks, proxies and providers take another
/// method, path, host or recipient, such as `X-HTTP-Method-Override`, `_method`, `X-Original-URL`, `Host`
/// and `X-SMTPAPI`.
const OVERRIDES: [&str; 15] = [
    "method",
    "override",
    "url",
    "uri",
    "path",
    "rewrite",
    "verb",
    "host",
    "forwarded",
    "redirect",
    "destination",
    "soapaction",
    "target",
    "route",
    "smtpapi",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_separators_make_a_path_ambiguous() {
        for (path, reads, expected) in [
            ("/api/v1/audiences/aud_1/contacts", false, false),
            ("/api/v1/audiences/x%2Fy/contacts", false, true),
            ("/api/v1/%65mails", false, true),
            ("/api/v1/emails;x", false, true),
            ("/api/v1/emails/eml%201", true, false),
            ("/api/v1/emails/x%2fy", true, true),
            ("/api/v1/emails/x%252fy", true, true),
        ] {
            assert_eq!(is_path_ambiguous(path, reads), expected, "{path}");
        }
    }

    #[test]
    fn parameters_and_headers_that_change_the_request_are_known() {
        for query in [
            "_method=POST",
            "_route_=/api/v1/emails",
            "a=b&%5Fmethod=POST",
            "a;X-HTTP-Method=y",
        ] {
            assert!(!is_query_plain(query, true), "{query}");
        }

        assert!(is_query_plain("page=2&email=a%40b.test", true));
        assert!(!is_query_plain("page=2", false));
        for name in [
            "x-http-method-override",
            "x-original-url",
            "x-rewrite-url",
            "host",
            "x-forwarded-prefix",
            "x-accel-redirect",
            "soapaction",
            "x-amz-target",
            "x-smtpapi",
        ] {
            assert!(is_override(&HeaderName::from_static(name)), "{name}");
        }

        for name in ["traceparent", "x-request-id", "accept-language"] {
            assert!(!is_override(&HeaderName::from_static(name)), "{name}");
        }
    }
}
