//! [`RequestLog`]: the newest requests to the documented operations, in memory.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{HeaderMap, HeaderValue, USER_AGENT};
use svc_sdk::Operation;

use crate::control::requests::RequestHandled;
use crate::model::redact::redact;
use crate::model::timestamp::Timestamp;

/// Maximum number of requests of an organization in the log, and of their bytes.
const MAX_REQUESTS: usize = 1000;
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of bytes of all organizations together.
const MAX_TOTAL: usize = 64 << 20;
/// How much of a body is kept, in bytes.
pub(crate) const MAX_BODY: usize = 4 << 10;
/// How much of a path and of a header is kept, in characters.
const MAX_TEXT: usize = 1024;

/// The newest requests of each organization.
#[derive(Default)]
pub(crate) struct RequestLog(Mutex<State>);

#[derive(Default)]
struct State {
    organizations: HashMap<i64, Requests>,
    bytes: usize,
}

#[derive(Default)]
struct Requests {
    /// Oldest first.
    requests: VecDeque<Arc<LoggedRequest>>,
    bytes: usize,
}

/// What the program that runs the server does with each request.
#[derive(Clone)]
pub(crate) struct OnRequest(pub(crate) Arc<dyn Fn(&RequestHandled) + Send + Sync>);

impl fmt::Debug for OnRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnRequest")
    }
}

/// A request with the beginning of its bodies.
pub(crate) struct LoggedRequest {
    pub(crate) handled: RequestHandled,
    pub(crate) request_body: Option<LoggedBody>,
    pub(crate) response_body: Option<LoggedBody>,
}

/// The beginning of a body.
pub(crate) struct LoggedBody {
    pub(crate) start: Box<[u8]>,
    /// The size of the whole body.
    pub(crate) size: usize,
}

impl LoggedBody {
    /// `None` for an empty body.
    pub(crate) fn of(body: &[u8]) -> Option<Self> {
        let start = &body[..body.len().min(MAX_BODY)];
        (!body.is_empty()).then(|| Self { start: start.into(), size: body.len() })
    }
}

/// The body of a request, which is known once the handler has read it.
#[derive(Clone, Default)]
pub(crate) struct BodyRecorder(Arc<Mutex<Option<LoggedBody>>>);

impl BodyRecorder {
    pub(crate) fn record(&self, body: &[u8]) {
        *self.lock() = LoggedBody::of(body);
    }

    /// The body, if it was read.
    pub(crate) fn take(&self) -> Option<LoggedBody> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<LoggedBody>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let handled = RequestHandled {
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
        Self { handled, request_body: None, response_body: None }
    }

    /// Roughly what the request takes in memory.
    fn size(&self) -> usize {
        let bodies = [&self.request_body, &self.response_body];
        let bodies = bodies.into_iter().flatten().map(|body| body.start.len()).sum::<usize>();
        let RequestHandled { id, path, idempotency_key, user_agent, .. } = &self.handled;
        let texts = [idempotency_key, user_agent].into_iter().flatten();
        let texts = texts.chain([id, path]).map(String::len).sum::<usize>();
        size_of::<Self>() + texts + bodies
    }
}

fn shortened(text: &str) -> String {
    let end = text.char_indices().nth(MAX_TEXT).map_or(text.len(), |(end, _)| end);
    text[..end].to_owned()
}

impl RequestLog {
    /// Adds a request, and removes the oldest ones beyond the limits.
    pub(crate) fn add(&self, organization: i64, request: Arc<LoggedRequest>) {
        let mut state = self.lock();
        let of = state.organizations.entry(organization).or_default();
        let mut change = request.size() as isize;
        of.bytes += request.size();
        of.requests.push_back(request);
        while (of.requests.len() > MAX_REQUESTS || of.bytes > MAX_BYTES)
            && let Some(oldest) = of.requests.pop_front()
        {
            of.bytes -= oldest.size();
            change -= oldest.size() as isize;
        }
        state.bytes = state.bytes.saturating_add_signed(change);
        while state.bytes > MAX_TOTAL {
            // The organization whose last request is the oldest: its tests are most likely over.
            let last = |of: &Requests| of.requests.back().map(|request| request.handled.id.clone());
            let oldest = state.organizations.iter().min_by_key(|(_, of)| last(of));
            let Some(oldest) = oldest.map(|(organization, _)| *organization) else { break };
            state.remove(oldest);
        }
    }

    /// The requests of an organization, newest first.
    pub(crate) fn list(&self, organization: i64) -> Vec<Arc<LoggedRequest>> {
        let state = self.lock();
        let of = state.organizations.get(&organization);
        of.map_or_else(Vec::new, |of| of.requests.iter().rev().cloned().collect())
    }

    /// Removes the requests of an organization, or all of them.
    pub(crate) fn clear(&self, organization: Option<i64>) {
        let mut state = self.lock();
        match organization {
            Some(organization) => state.remove(organization),
            None => *state = State::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, organization: i64) {
        let removed = self.organizations.remove(&organization);
        self.bytes -= removed.map_or(0, |of| of.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{self, Prefix};

    fn request(body: &[u8]) -> Arc<LoggedRequest> {
        let id = id::new(Prefix::Request);
        let headers = HeaderMap::new();
        let mut request = LoggedRequest::new(id, Operation::EmailsSend, "/", &headers, 0.into());
        request.request_body = LoggedBody::of(body);
        Arc::new(request)
    }

    #[test]
    fn keeps_the_newest_requests_of_each_organization() {
        let log = RequestLog::default();
        log.add(1, request(b"{}"));
        let newest = request(&[b'x'; MAX_BODY + 1]);
        for _ in 0..MAX_REQUESTS {
            log.add(2, Arc::clone(&newest));
        }
        assert_eq!(log.list(1).len(), 1);
        let kept = log.list(2);
        assert!(kept.len() < MAX_REQUESTS, "more than {MAX_BYTES} bytes");
        assert!(kept.len() * (MAX_BODY + 1000) > MAX_BYTES, "only {}", kept.len());
        let body = kept[0].request_body.as_ref().expect("a body");
        assert_eq!((body.start.len(), body.size), (MAX_BODY, MAX_BODY + 1));
        let state = log.lock();
        assert_eq!(state.bytes, state.organizations.values().map(|of| of.bytes).sum::<usize>());
    }

    #[test]
    fn all_organizations_together_have_a_bound() {
        let log = RequestLog::default();
        let body = [b'x'; MAX_BODY];
        for organization in 0..20 {
            for _ in 0..MAX_REQUESTS {
                log.add(organization, request(&body));
            }
        }
        assert!(log.lock().bytes <= MAX_TOTAL);
        assert!(log.list(0).is_empty(), "the oldest is still there");
        assert!(!log.list(19).is_empty());
        log.clear(None);
        assert_eq!(log.lock().bytes, 0);
    }
}
