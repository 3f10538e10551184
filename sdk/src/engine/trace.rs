//! A tracing span for every attempt, with OpenTelemetry's attribute names for HTTP clients
//! plus the operation and its scope. Spans never contain a body, API key, id or query.

use tracing::Instrument as _;
use tracing::field::Empty;

use super::request::Request;
use super::response::RawResponse;
use super::target::Target;
use crate::error::{Error, ErrorKind};
use crate::operation::Operation;

/// Runs an attempt in a span of its own.
pub(super) async fn traced(
    target: &Target,
    request: &Request,
    number: u32,
    attempt: impl Future<Output = Result<RawResponse, Error>>,
) -> Result<RawResponse, Error> {
    let operation = request.operation;
    let method = request.method.as_str();
    let template = operation.map(Operation::path);
    let span = tracing::info_span!(
        target: "svc_sdk",
        "http.client.request",
        otel.name = template.map_or_else(|| method.to_owned(), |path| format!("{method} {path}")),
        otel.kind = "client",
        otel.status_code = Empty,
        http.request.method = method,
        http.request.resend_count = number.checked_sub(1).filter(|retries| *retries > 0),
        http.response.status_code = Empty,
        url.template = template,
        server.address = target.base.host_str(),
        server.port = target.base.port_or_known_default(),
        "error.type" = Empty,
        svc.service = target.service.as_str(),
        svc.operation = operation.map(Operation::name),
        svc.required_scope = operation.and_then(Operation::required_scope).map(display),
        svc.request_id = Empty,
        svc.outcome = Empty,
    );
    let result = attempt.instrument(span.clone()).await;
    if span.is_disabled() && result.is_ok() {
        return result;
    }

    let (status, id) = match &result {
        Ok(response) => (Some(response.status), response.request_id.as_deref()),
        Err(error) => (error.status(), error.request_id()),
    };
    span.record(
        "http.response.status_code",
        status.map(|status| status.as_u16()),
    );
    span.record("svc.request_id", id);
    if let Err(error) = &result {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", error.kind().name());
        span.record("svc.outcome", error.outcome().as_str());
        match error.kind() {
            // Often expected, and only the caller knows.
            ErrorKind::NotFound | ErrorKind::Conflict => {
                tracing::debug!(target: "svc_sdk", parent: span, error = %error, "attempt failed");
            }
            _ => {
                tracing::warn!(target: "svc_sdk", parent: span, error = %error, "attempt failed");
            }
        }
    }

    result
}
