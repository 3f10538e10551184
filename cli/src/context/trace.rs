//! The lines that `--verbose` prints about requests, and responses that cannot be understood.

use serde_json::Value;
use svc_sdk::{Attempt, Error, ErrorKind};

use super::Context;
use crate::failure::Failure;
use crate::output::{Printer, Tracer};

/// Maximum lines that `--verbose` prints of a response that did not come from the service.
const MAX_TRACED_LINES: usize = 20;

/// Prints the two lines of `--verbose` for an attempt: the request and its result.
pub(super) fn attempt(tracer: &Tracer, attempt: &Attempt<'_>) {
    tracer.trace(&format!("> {} {}", attempt.method, attempt.url));
    let status = match (attempt.status, attempt.failure) {
        (Some(status), _) => status.as_u16().to_string(),
        (None, Some(kind)) => format!("no response ({kind})"),
        (None, None) => "no response".to_owned(),
    };
    let id = attempt.request_id.map(|id| format!(", request id {id}"));
    let retry = attempt.retry_in.map(|wait| format!(", retrying in {} ms", wait.as_millis()));
    tracer.trace(&format!(
        "< {status} in {} ms, attempt {}{}{}",
        attempt.elapsed.as_millis(),
        attempt.number,
        id.unwrap_or_default(),
        retry.unwrap_or_default(),
    ));
}

impl Context {
    /// Converts the error of a call. Shows a response that svc does not understand.
    pub fn failure(&self, error: Error) -> Failure {
        self.show_unreadable(&error);
        error.into()
    }

    pub(super) fn show_unreadable(&self, error: &Error) {
        match error.kind() {
            ErrorKind::InvalidResponse { .. } => foreign_body(&self.out, error.body()),
            // The response may tell the reader what svc does not understand.
            ErrorKind::MissingId => {
                if let Ok(value) = serde_json::from_slice::<Value>(error.body()) {
                    // The failure matters more than a closed standard output.
                    let _ = self.out.value(&value);
                }
            }
            _ => {}
        }
    }
}

/// Prints a response that did not come from the service, such as a captive portal's page. A body
/// that begins like JSON probably did come from the service and may contain a secret, so it is not
/// printed.
fn foreign_body(out: &Printer, body: &[u8]) {
    let text = String::from_utf8_lossy(body);
    if text.trim_start().starts_with(['{', '[', '"']) {
        return;
    }
    text.lines().take(MAX_TRACED_LINES).for_each(|line| out.trace(&format!("< {line}")));
}
