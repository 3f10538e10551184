//! [`RequestLog`]: the newest requests to the documented operations, in memory, within a limit of
//! their number and one of their bytes. `routes/recording.rs` adds each request when it is handled,
//! and `requests/request_api.rs` lists them. Paths and headers are redacted when they are recorded,
//! bodies only when a request is read (`LoggedRequest::redacted`): until then they hold secrets,
//! and `OnRequest` gets them as they are.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use http::header::{HeaderMap, HeaderValue, USER_AGENT};
use svc_sdk::Operation;

use crate::model::Timestamp;
use crate::model::redact::redact;
use crate::requests::request_wire::{LoggedRequest, RecordedBody, RequestHandled};
use crate::store::lock;

/// Maximum number of requests in the log, and of their bytes.
const MAX_REQUESTS: usize = 10_000;
const MAX_BYTES: usize = 32 << 20;
/// How much of a body is kept, in bytes.
const MAX_BODY: usize = 4 << 10;
/// How much of a path and of a header is kept, in characters.
const MAX_TEXT: usize = 1024;

/// The newest requests.
#[derive(Default)]
pub(crate) struct RequestLog(Mutex<State>);

#[derive(Default)]
struct State {
    /// Each with the number of its organization, and with the secrets of its bodies; oldest first.
    requests: VecDeque<(i64, Arc<LoggedRequest>)>,
    bytes: usize,
}

/// The function that the program that runs the server calls for each request.
#[derive(Clone)]
pub(crate) struct OnRequest(pub(crate) Arc<dyn Fn(&LoggedRequest) + Send + Sync>);

impl RecordedBody {
    /// `None` for an empty body. Secrets are still in it.
    pub(crate) fn of(body: &[u8]) -> Option<Self> {
        let start = &body[..body.len().min(MAX_BODY)];
        let text = String::from_utf8_lossy(start).into_owned();
        let truncated = start.len() < body.len();
        (!body.is_empty()).then_some(Self {
            text,
            size: body.len(),
            truncated,
        })
    }
}

/// The ID of a request, as an extension of it.
#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) String);

impl LoggedRequest {
    pub(crate) fn new(
        id: String,
        operation: Operation,
        path: &str,
        headers: &HeaderMap,
        started_at: Timestamp,
    ) -> Self {
        let header = |value: Option<&HeaderValue>| Some(shortened(&redact(value?.to_str().ok()?)));
        let summary = RequestHandled {
            id,
            service: operation.service().as_str().to_owned(),
            operation: operation.name().to_owned(),
            method: operation.method().as_str().to_owned(),
            path: shortened(&redact(path)),
            key: None,
            status: None,
            duration_ms: 0.0,
            started_at,
            fault: None,
            idempotency_key: header(headers.get("idempotency-key")),
            user_agent: header(headers.get(USER_AGENT)),
        };
        Self {
            summary,
            request_body: None,
            response_body: None,
        }
    }

    /// The request without the secrets of its bodies.
    pub(crate) fn redacted(&self) -> Self {
        let mut request = self.clone();
        for body in [&mut request.request_body, &mut request.response_body]
            .into_iter()
            .flatten()
        {
            body.text = redact(&body.text);
        }
        request
    }

    /// Roughly what the request takes in memory.
    fn size(&self) -> usize {
        let bodies = [&self.request_body, &self.response_body];
        let bodies = bodies
            .into_iter()
            .flatten()
            .map(|body| body.text.len())
            .sum::<usize>();
        let RequestHandled {
            id,
            path,
            idempotency_key,
            user_agent,
            ..
        } = &self.summary;
        let texts = [idempotency_key, user_agent].into_iter().flatten();
        let texts = texts.chain([id, path]).map(String::len).sum::<usize>();
        size_of::<Self>() + texts + bodies
    }
}

fn shortened(text: &str) -> String {
    let end = text
        .char_indices()
        .nth(MAX_TEXT)
        .map_or(text.len(), |(end, _)| end);
    text[..end].to_owned()
}

impl RequestLog {
    /// Adds a request, and removes the oldest ones beyond the limits.
    pub(crate) fn add(&self, organization: i64, request: Arc<LoggedRequest>) {
        let mut state = lock(&self.0);
        state.bytes += request.size();
        state.requests.push_back((organization, request));
        while (state.requests.len() > MAX_REQUESTS || state.bytes > MAX_BYTES)
            && let Some((_, oldest)) = state.requests.pop_front()
        {
            state.bytes -= oldest.size();
        }
    }

    /// The requests of an organization, newest first.
    pub(crate) fn list(&self, organization: i64) -> Vec<Arc<LoggedRequest>> {
        let state = lock(&self.0);
        let newest_first = state.requests.iter().rev();
        let of_organization = newest_first.filter(|(of, _)| *of == organization);
        of_organization
            .map(|(_, request)| Arc::clone(request))
            .collect()
    }

    /// The request with this ID.
    pub(crate) fn find(&self, organization: i64, id: &str) -> Option<LoggedRequest> {
        let all = self.list(organization);
        let found = all.iter().find(|request| request.summary.id == id)?;
        Some(found.redacted())
    }

    /// Removes the requests of an organization, or all of them.
    pub(crate) fn clear(&self, organization: Option<i64>) {
        let mut state = lock(&self.0);
        state
            .requests
            .retain(|(of, _)| organization.is_some_and(|organization| organization != *of));
        state.bytes = state
            .requests
            .iter()
            .map(|(_, request)| request.size())
            .sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id;

    fn request(body: &[u8]) -> Arc<LoggedRequest> {
        let id = id::new(id::REQUEST);
        let headers = HeaderMap::new();
        let mut request = LoggedRequest::new(id, Operation::EmailsSend, "/", &headers, 0.into());
        request.request_body = RecordedBody::of(body);
        Arc::new(request)
    }

    #[test]
    fn keeps_the_newest_requests() {
        let log = RequestLog::default();
        log.add(1, request(b"{}"));
        let newest = request(&[b'x'; MAX_BODY + 1]);
        for _ in 0..MAX_REQUESTS {
            log.add(2, Arc::clone(&newest));
        }

        assert!(log.list(1).is_empty(), "the oldest is still there");
        let kept = log.list(2);
        assert!(kept.len() < MAX_REQUESTS, "more than {MAX_BYTES} bytes");
        assert!(
            kept.len() * (MAX_BODY + 1000) > MAX_BYTES,
            "only {}",
            kept.len()
        );
        let body = kept[0].request_body.as_ref().expect("a body");
        assert_eq!((body.text.len(), body.size), (MAX_BODY, MAX_BODY + 1));
        log.add(3, request(b"{}"));
        log.clear(Some(2));
        assert_eq!((log.list(2).len(), log.list(3).len()), (0, 1));
        log.clear(None);
        assert_eq!(lock(&log.0).bytes, 0);
    }
}
