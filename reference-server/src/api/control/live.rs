//! `/_sandbox/events`: whatever changes, as it changes, as server-sent events.
//! `/_sandbox/events/wait` returns the same events as JSON.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::api::framework::route::Routes;
use crate::api::framework::{ControlCall, Json};
use crate::app::Shared;
use crate::control::live::{
    self as control, DEFAULT_TIMEOUT, LiveEvent, LiveEvents, Ready, Reset, ResetReason,
    StreamQuery, WaitQuery,
};
use crate::model::error::{ApiError, Code};
use crate::model::event_log::{MAX_WATCHERS, Missed, Watch};
use crate::store::organizations;

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox events");
    r.control(control::STREAM, stream);
    r.control(control::WAIT, wait);
}

/// How long a stream is silent at most.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Maximum number of events in one piece of a stream, or in a response.
const MAX_EVENTS: usize = 100;

/// Returns a stream of the events of an organization.
pub(crate) async fn stream(call: ControlCall<(), StreamQuery>) -> Result<Response<Body>, ApiError> {
    let after = call.input.header("last-event-id").map(str::to_owned);
    let source = Source::open(&call, after.or_else(|| call.query.after.clone())).await?;
    let chunks = stream::unfold(Some(source), |source| async move {
        let mut source = source?;
        let (text, goes_on) = source.next_chunk().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), goes_on.then_some(source)))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// Returns the events after a position, or waits for one.
pub(crate) async fn wait(call: ControlCall<(), WaitQuery>) -> Result<Json<LiveEvents>, ApiError> {
    let timeout = call.query.timeout.map_or(DEFAULT_TIMEOUT, |timeout| timeout.0);
    let after = call.query.after.clone();
    let deadline = Instant::now() + timeout;
    let stop = Arc::clone(&call.app().stop);
    let mut source = Source::open(&call, after).await?;
    let wait = async {
        loop {
            let events = source.take();
            if !events.is_empty() {
                return events;
            }
            source.watch.changed().await;
        }
    };
    let events = tokio::select! {
        events = timeout_at(deadline, wait) => events.unwrap_or_default(),
        () = stop.requested() => {
            return Err(ApiError::new(Code::Unavailable, "the server is stopping"));
        }
    };
    let next = events.last().map_or_else(|| source.watch.id(), |(id, ..)| id.clone());
    let data = events.iter().map(|(.., json)| serde_json::from_str(json));
    let data = data.collect::<Result<_, _>>().map_err(ApiError::internal)?;
    Json::of(&LiveEvents { data, next })
}

/// The events of one organization for one client.
struct Source {
    app: Shared,
    watch: Watch,
    organization: i64,
    is_new: bool,
}

/// An event with its ID and its type.
type Sent = (String, &'static str, String);

impl Source {
    async fn open<Q>(call: &ControlCall<(), Q>, after: Option<String>) -> Result<Self, ApiError> {
        let (app, organization) = (Arc::clone(call.app()), call.organization);
        let watch = app.store.wake.log.watch(after.as_deref().filter(|id| !id.is_empty()));
        let watch = watch.ok_or_else(|| {
            let message = format!("{MAX_WATCHERS} clients watch the events, which is the most");
            ApiError::new(Code::Unavailable, message).retry_after(1)
        })?;
        // A reset before the watch began has given it another number.
        app.store.read(move |reader| organizations::get(reader, organization)).await?;
        Ok(Self { app, watch, organization, is_new: after.is_none() })
    }

    /// Takes the events that are there, up to a reset: it gives the organization another number,
    /// which the next request finds.
    fn take(&mut self) -> Vec<Sent> {
        let mut events = Vec::new();
        if std::mem::take(&mut self.is_new) {
            let ready = LiveEvent::Ready(Ready { now: self.app.clock.now().into() });
            events.push(self.own("ready", &ready));
        }
        let taken = self.watch.take(self.organization, MAX_EVENTS);
        if let Some(missed) = self.watch.take_missed() {
            let reason = match missed {
                Missed::Gap => ResetReason::Gap,
                Missed::Restarted => ResetReason::Restarted,
            };
            events.push(self.own("reset", &LiveEvent::Reset(Reset { reason })));
        }
        for (id, event) in taken {
            let is_last = event.json == DELETED;
            events.push((id, event.kind, event.json.clone()));
            if is_last {
                break;
            }
        }
        events
    }

    /// An event about the stream itself.
    fn own(&self, kind: &'static str, event: &LiveEvent) -> Sent {
        (self.watch.id(), kind, serde_json::to_string(event).unwrap_or_default())
    }

    /// Waits for events, and returns them as text, with whether the stream goes on. Returns `None`
    /// when the server stops.
    async fn next_chunk(&mut self) -> Option<(String, bool)> {
        let stop = Arc::clone(&self.app.stop);
        if stop.is_requested() {
            return None;
        }
        let mut text = String::new();
        let silent_since = Instant::now();
        let events = loop {
            let events = self.take();
            if !events.is_empty() {
                break events;
            }
            tokio::select! {
                () = self.watch.changed() => {}
                () = sleep_until(silent_since + HEARTBEAT) => {
                    // With the position, because the events of other organizations move it.
                    let _ = write!(text, ":\nid: {}\n\n", self.watch.id());
                    return Some((text, true));
                }
                () = stop.requested() => return None,
            }
        };
        let mut goes_on = true;
        for (id, kind, json) in events {
            let _ = write!(text, "id: {id}\nevent: {kind}\ndata: {json}\n\n");
            goes_on &= json != DELETED;
        }
        Some((text, goes_on))
    }
}

/// The event of a reset.
const DELETED: &str = r#"{"type":"reset","reason":"deleted"}"#;
