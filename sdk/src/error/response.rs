//! The error of a response whose status is not 2xx.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::{Error, ErrorKind, ErrorReport, Outcome};
use crate::operation::Operation;
use crate::scope::Scope;

pub(crate) fn response_error(
    operation: Option<Operation>,
    granted: Option<BTreeSet<Scope>>,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
) -> Error {
    let report = ErrorReport::read(&body);
    let (kind, outcome) = classify_status(operation, granted, status.as_u16(), &report);
    let header = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    // Compare with the service's own clock if the response contains it.
    let date = header(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let now = date.unwrap_or_else(SystemTime::now);
    let retry_after = header(RETRY_AFTER).and_then(|value| parse_retry_after(value, now));
    Error::new(kind, outcome)
        .with(|error| (error.report, error.retry_after) = (report, retry_after))
        .with_response_parts(status, headers, body)
}

impl Error {
    /// Creates the error that a call returns for a response whose status is not 2xx, to test
    /// how a program handles it. Kind, outcome, code, message, fields and `Retry-After` are
    /// read from the response as the client reads them.
    ///
    /// ```
    /// use svc_sdk::{Error, ErrorKind, Operation, StatusCode};
    ///
    /// let error = Error::from_response(
    ///     Operation::EmailsSend,
    ///     StatusCode::FORBIDDEN,
    ///     Default::default(),
    ///     r#"{"error":{"code":"domain_not_verified","message":"shop.example"}}"#,
    /// );
    /// assert_eq!(error.kind(), &ErrorKind::Forbidden);
    /// assert_eq!(error.code(), Some("domain_not_verified"));
    /// ```
    pub fn from_response(
        operation: Operation,
        status: StatusCode,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Self {
        response_error(Some(operation), None, status, headers, body.into())
            .with_operation(operation)
            .with(|error| error.attempts = 1)
    }
}

fn classify_status(
    operation: Option<Operation>,
    granted: Option<BTreeSet<Scope>>,
    status: u16,
    report: &ErrorReport,
) -> (ErrorKind, Outcome) {
    let kind = match status {
        400 | 422 => ErrorKind::Invalid,
        401 => ErrorKind::Unauthorized,
        403 if report.about_scope => {
            let documented = operation.and_then(Operation::required_scope);
            ErrorKind::MissingScope {
                required: documented.or(report.named_scope),
                granted,
            }
        }
        403 => ErrorKind::Forbidden,
        404 | 410 => ErrorKind::NotFound,
        409 => ErrorKind::Conflict,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::RateLimited,
        400..500 => ErrorKind::Rejected,
        300..400 => ErrorKind::Redirected,
        500..600 => ErrorKind::Server,
        100..200 => ErrorKind::invalid_response("unexpected 1xx status"),
        _ => ErrorKind::invalid_response("not a valid HTTP status"),
    };
    let outcome = match status {
        // Some servers and proxies answer it after work began.
        408 => Outcome::Unknown,
        // After 303 (see other), for example, the request was processed.
        307 | 308 | 400..500 => Outcome::Refused,
        _ => Outcome::Unknown,
    };
    (kind, outcome)
}

/// `Retry-After`: seconds, or an HTTP date (RFC 9110 §10.2.3).
fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows means practically forever.
        return Some(Duration::from_secs(
            value.parse().unwrap_or(u64::from(u32::MAX)),
        ));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    // A date in the past means no wait.
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_retry_after_as_seconds_or_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let parse = |value| parse_retry_after(value, now).map(|wait| wait.as_secs());
        assert_eq!(parse("0"), Some(0));
        assert_eq!(parse(" 120 "), Some(120));
        assert_eq!(parse("99999999999999999999999"), Some(u64::from(u32::MAX)));
        assert_eq!(parse("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
        assert_eq!(parse("Sunday, 06-Nov-94 08:50:07 GMT"), Some(30));
        assert_eq!(parse("Sun Nov  6 08:50:07 1994"), Some(30));
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:07 GMT"), Some(0));
        for bad in ["", "-1", "1.5", "soon", "1 s", "+3"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn parsing_retry_after_never_panics(value in ".*") {
            parse_retry_after(&value, SystemTime::UNIX_EPOCH);
        }
    }
}
