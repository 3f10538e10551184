//! Builds and checks request paths. An id becomes exactly one path segment, and no path can
//! leave the base URL.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::InvalidInput;
use crate::operation::{Operation, Service};

/// The characters to percent-encode: all but the unreserved ones (RFC 3986).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Returns the operation's path with these ids inserted.
pub(crate) fn fill(operation: Operation, ids: &[&str]) -> Result<Cow<'static, str>, InvalidInput> {
    let template = operation.path();
    if !template.contains('{') {
        return Ok(template.into());
    }

    let mut path = String::with_capacity(template.len() + 32);
    let mut ids = ids.iter();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        let id = ids.next().copied().unwrap_or_default();
        path.push_str(before);
        path.extend(segment(name, id)?);
        rest = after;
    }

    path.push_str(rest);
    Ok(path.into())
}

fn segment<'a>(
    name: &'static str,
    id: &'a str,
) -> Result<percent_encoding::PercentEncode<'a>, InvalidInput> {
    match id {
        "" => Err(InvalidInput::new(name, "must not be empty")),
        // URL parsers resolve these even when percent-encoded.
        "." | ".." => Err(InvalidInput::new(name, "`.` and `..` are not valid ids")),
        _ => Ok(utf8_percent_encode(id, ENCODED)),
    }
}

pub(crate) fn push_query(path: &mut String, name: &str, value: &str) {
    path.push(if path.contains('?') { '&' } else { '?' });
    path.extend(utf8_percent_encode(name, ENCODED));
    path.push('=');
    path.extend(utf8_percent_encode(value, ENCODED));
}

/// Sets a query parameter that may be set already.
pub(crate) fn set_query(path: &mut String, name: &str, value: &str) {
    if let Some((start, query)) = path.split_once('?') {
        let is_other = |pair: &&str| pair.split('=').next() != Some(name);
        let others: Vec<&str> = query.split('&').filter(is_other).collect();
        *path = if others.is_empty() {
            start.to_owned()
        } else {
            format!("{start}?{}", others.join("&"))
        };
    }
    push_query(path, name, value);
}

/// Checks the path of a raw request: it must be absolute and must not leave the base URL.
pub(crate) fn check_raw(path: &str) -> Result<(), InvalidInput> {
    let only_path = path.split('?').next().unwrap_or_default();
    let bad = if !path.starts_with('/') {
        "must start with a slash"
    } else if path.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#' || c == '\\')
    {
        "white space, control characters, `#` and `\\` must be percent-encoded"
    } else if only_path.split('/').any(is_dot_segment) {
        "must not contain `.` or `..` segments"
    } else {
        return Ok(());
    };
    Err(InvalidInput::new("path", bad))
}

/// Matches `.` and `..`, also percent-encoded: URL parsers resolve those as well.
fn is_dot_segment(segment: &str) -> bool {
    let segment = segment.to_ascii_lowercase().replace("%2e", ".");
    segment == "." || segment == ".."
}

/// Returns the documented operation with this method and path, if any.
pub(crate) fn documented(service: Service, method: &http::Method, path: &str) -> Option<Operation> {
    let path = path.split('?').next().unwrap_or_default();
    Operation::ALL.iter().copied().find(|operation| {
        operation.service() == service
            && operation.method() == method
            && matches(operation.path(), path)
    })
}

fn matches(template: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    let fits = template.split('/').all(|wanted| {
        segments.next().is_some_and(|segment| {
            segment == wanted || (wanted.starts_with('{') && !segment.is_empty())
        })
    });
    fits && segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_becomes_one_segment() {
        let path = |id| fill(Operation::EmailsCancel, &[id]);
        assert_eq!(path("eml_1").unwrap(), "/api/v1/emails/eml_1/cancel");
        assert_eq!(path("a/b").unwrap(), "/api/v1/emails/a%2Fb/cancel");
        assert_eq!(path("ü").unwrap(), "/api/v1/emails/%C3%BC/cancel");
        assert_eq!(path("../x").unwrap(), "/api/v1/emails/..%2Fx/cancel");
        assert_eq!(path("%2e%2e").unwrap(), "/api/v1/emails/%252e%252e/cancel");
        assert_eq!(path("a?b#c").unwrap(), "/api/v1/emails/a%3Fb%23c/cancel");
        for bad in ["", ".", ".."] {
            assert_eq!(path(bad).unwrap_err().field, "id");
        }
    }

    #[test]
    fn raw_paths_cannot_leave_the_base_url() {
        for good in ["/v1/x", "/v1/x?y=..%2F", "/v1/a..b", "/"] {
            assert_eq!(check_raw(good), Ok(()), "{good}");
        }
        for bad in [
            "v1/x",
            "",
            "https://evil.test/",
            "/v1/../x",
            "/%2E%2e/x",
            "/a b",
            "/x#y",
            "/a\\..\\b",
            "/a\n",
        ] {
            assert!(check_raw(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        /// Any id becomes one segment of the path, also according to a URL parser, and
        /// decodes to itself.
        #[test]
        fn any_id_becomes_one_segment(id in ".{1,20}") {
            prop_assume!(id != "." && id != "..");
            let path = fill(Operation::EmailsCancel, &[&id]).unwrap();
            let url = url::Url::parse("https://x.test").unwrap().join(&path).unwrap();
            let segments: Vec<_> = url.path_segments().unwrap().collect();
            prop_assert_eq!(segments.len(), 5);
            prop_assert_eq!((segments[2], segments[4]), ("emails", "cancel"));
            let back = percent_encoding::percent_decode_str(segments[3]).decode_utf8().unwrap();
            prop_assert_eq!(back, id);
            prop_assert!(url.query().is_none() && url.fragment().is_none());
        }

        /// An accepted raw path does not leave the base URL.
        #[test]
        fn accepted_raw_paths_never_leave_the_base_url(path in "/[a-z./%2eE?&=:@-]{0,20}") {
            prop_assume!(check_raw(&path).is_ok());
            let mut url = url::Url::parse("https://x.test/base").unwrap();
            let only_path = path.split('?').next().unwrap();
            url.set_path(&format!("/base{only_path}"));
            prop_assert_eq!(url.host_str(), Some("x.test"));
            prop_assert!(url.path().starts_with("/base/"), "{}", url);
        }
    }

    #[test]
    fn finds_the_documented_operation() {
        let find = |method, path| documented(Service::Email, &method, path);
        assert_eq!(
            find(http::Method::PATCH, "/api/v1/emails/x/cancel"),
            Some(Operation::EmailsCancel)
        );
        assert_eq!(
            find(http::Method::POST, "/api/v1/emails?x=y"),
            Some(Operation::EmailsSend)
        );
        assert_eq!(find(http::Method::PUT, "/api/v1/emails"), None);
        assert_eq!(find(http::Method::GET, "/api/v1/emails/"), None);
        assert_eq!(find(http::Method::GET, "/v1/me"), None);
    }
}
