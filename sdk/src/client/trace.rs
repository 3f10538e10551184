//! A tracing span for every attempt, with OpenTelemetry's attribute names for HTTP clients
//! plus the operation and its scope. Spans never contain a body, API key, id or query.

use tracing::Span;
use tracing::field::Empty;

use super::attempt::{Failed, Success};
use super::call::Request;
use super::response::request_id_str;
use super::shared::Shared;

pub(crate) fn span(shared: &Shared, request: &Request, attempt: u32) -> Span {
    let operation = request.target.operation();
    let method = request.method.as_str();
    let template = operation.map(crate::Operation::path);
    let span = tracing::info_span!(
        target: "svc_sdk",
        "http.client.request",
        otel.name = template.map_or_else(|| method.to_owned(), |path| format!("{method} {path}")),
        otel.kind = "client",
        otel.status_code = Empty,
        http.request.method = method,
        http.request.resend_count = Empty,
        http.response.status_code = Empty,
        url.template = template,
        server.address = shared.base.host_str(),
        server.port = shared.base.port_or_known_default(),
        "error.type" = Empty,
        svc.service = shared.service.as_str(),
        svc.operation = operation.map(crate::Operation::name),
        svc.required_scope = operation.and_then(crate::Operation::required_scope).map(display),
        svc.request_id = Empty,
        svc.outcome = Empty,
    );
    if attempt > 1 {
        span.record("http.request.resend_count", attempt - 1);
    }
    span
}

pub(crate) fn record(span: &Span, shared: &Shared, result: &Result<Success, Failed>) {
    if span.is_disabled() && result.is_ok() {
        return;
    }
    match result {
        Ok(success) => {
            span.record("http.response.status_code", success.status);
            if let Some(id) = request_id_str(shared, &success.headers) {
                span.record("svc.request_id", id);
            }
        }
        Err(Failed { error, .. }) => {
            span.record("otel.status_code", "ERROR");
            span.record("error.type", error.kind().name());
            span.record("svc.outcome", error.outcome().as_str());
            if let Some(status) = error.status() {
                span.record("http.response.status_code", status.as_u16());
            }
            if let Some(id) = error.request_id() {
                span.record("svc.request_id", id);
            }
            tracing::warn!(target: "svc_sdk", parent: span, error = %error, "attempt failed");
        }
    }
}
