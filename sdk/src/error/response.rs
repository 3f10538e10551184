//! The error of a response whose status is not 2xx.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::{Error, ErrorKind, ErrorReport, Outcome, limits};
use crate::decode::parse_value;
use crate::dialect::{Dialect, Point};
use crate::fields::counts_accepted;
use crate::operation::Operation;
use crate::scope::Scope;
use crate::words::WORDS;

pub(crate) fn response_error(
    operation: Option<Operation>,
    granted: Option<BTreeSet<Scope>>,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    dialect: &Dialect,
) -> Error {
    let report = ErrorReport::read(&body);
    let (kind, outcome) = classify_status(operation, granted, status.as_u16(), &report, dialect);
    // A batch of which some were accepted is not refused as a whole, whatever the status says.
    let is_batch = operation == Some(Operation::EmailsSendBatch);
    let outcome = if is_batch && says_accepted(&body) {
        Outcome::Unknown
    } else {
        outcome
    };
    let retry_after = limits::retry_after(&headers, status == StatusCode::TOO_MANY_REQUESTS);
    Error::new(kind, outcome)
        .with(|error| (error.report, error.retry_after) = (report, retry_after))
        .with_response_parts(status, headers, body)
}

fn says_accepted(body: &Bytes) -> bool {
    matches!(parse_value(body), Ok(Value::Object(fields)) if counts_accepted(&fields))
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
        response_error(
            Some(operation),
            None,
            status,
            headers,
            body.into(),
            &Dialect::default(),
        )
        .with_operation(operation)
        .with(|error| error.attempts = 1)
    }
}

/// The kind of a failure that a body reports in spite of a 2xx status: that of the HTTP status which its
/// code is, or which says the same as its code or message.
pub(crate) fn reported_kind(
    operation: Option<Operation>,
    report: &ErrorReport,
    dialect: &Dialect,
) -> ErrorKind {
    let code = report.code.as_deref().unwrap_or_default();
    let status = match code.parse() {
        Ok(status @ 400..500) => status,
        _ if report.about_scope || report.is_about_sender() => 403,
        _ if report.says(&WORDS.not_found) => 404,
        _ if report.says(&WORDS.not_authenticated) => 401,
        _ if report.says(&WORDS.conflicts) => 409,
        _ => return ErrorKind::Rejected,
    };
    classify_status(operation, None, status, report, dialect).0
}

fn classify_status(
    operation: Option<Operation>,
    granted: Option<BTreeSet<Scope>>,
    status: u16,
    report: &ErrorReport,
    dialect: &Dialect,
) -> (ErrorKind, Outcome) {
    let is_scope_status = status == 403 || dialect.choice(Point::ScopeStatus) == status.to_string();
    let kind = match status {
        400 | 422 => ErrorKind::Invalid,
        401 | 403 if is_scope_status && report.about_scope => {
            let documented = operation.and_then(Operation::required_scope);
            ErrorKind::MissingScope {
                required: documented.or(report.named_scope),
                granted,
            }
        }
        401 if !report.is_about_sender() => ErrorKind::Unauthorized,
        401 | 403 => ErrorKind::Forbidden,
        404 | 410 => ErrorKind::NotFound,
        407 => ErrorKind::Proxy,
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
        // A proxy, also one of the application's own HTTP client, did not forward the request.
        407 => Outcome::NotSent,
        // Some servers and proxies answer it after work began.
        408 => Outcome::Unknown,
        // After 303 (see other), for example, the request was processed.
        307 | 308 | 400..500 => Outcome::Refused,
        _ => Outcome::Unknown,
    };
    (kind, outcome)
}
