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
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::query::Query;
use super::requests::RequestHandled;
use super::{organization, organization_param};
use crate::api::app::Shared;
use crate::api::framework::{Input, Json};
use crate::model::error::{ApiError, Code};
use crate::model::event_log::{MAX_WATCHERS, Missed, Watch};
use crate::model::time;
use crate::model::timestamp::Timestamp;
use crate::store::Reader;
use crate::store::deliveries::AttemptMade;
use crate::store::deliveries::DeliveryChange;
use crate::store::emails::EmailSummary;
use crate::store::messages::MessageSummary;

/// A change on the server.
// The schemas of the variants are inline: a reference would be to an object without `type`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum LiveEvent {
    /// The first event of a stream. What is fetched after it is as new as the events.
    Ready(Ready),
    /// Fetch everything again.
    Reset(Reset),
    /// A request to a documented operation was handled.
    Request(RequestHandled),
    /// An email was accepted or changed.
    Email(EmailSummary),
    /// A message arrived in a local mailbox.
    Message(MessageSummary),
    /// A webhook delivery was created or changed.
    Delivery(DeliveryChange),
    /// An attempt of a delivery was made.
    Attempt(AttemptMade),
    /// A request to the control interface changed something.
    Change(Change),
}

/// The beginning of a stream.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Ready {
    /// The time of the server's clock.
    pub now: Timestamp,
}

/// What was fetched before may be wrong.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Reset {
    /// Why.
    pub reason: ResetReason,
}

/// Why everything has to be fetched again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum ResetReason {
    /// The server does not have the missed events any more.
    Gap,
    /// The server was started again.
    Restarted,
    /// The data of the organization was deleted.
    Deleted,
}

/// A change by a request to the control interface.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Change {
    /// The first part of the path after `/_sandbox/`, such as `faults`.
    pub resource: String,
    /// The method of the request.
    pub method: String,
}

/// The events of a wait.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LiveEvents {
    /// The events, oldest first; empty if nothing changed.
    pub data: Vec<LiveEvent>,
    /// The `after` of the next wait.
    pub next: String,
}

/// How long a stream is silent at most.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Maximum number of events in one piece of a stream, or in a response.
const MAX_EVENTS: usize = 100;
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a stream of the events of an organization.
pub(crate) async fn stream(input: Input) -> Result<Response<Body>, ApiError> {
    let after = input.header("last-event-id").map(str::to_owned);
    let source = Source::open(&input, after.or_else(|| input.query().remove("after"))).await?;
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
pub(crate) async fn wait(input: Input) -> Result<Json<LiveEvents>, ApiError> {
    let mut query = Query::of(&input);
    let duration = |text: &str| {
        let duration = Duration::from_millis(u64::try_from(time::parse_duration(text)?).ok()?);
        (duration <= MAX_TIMEOUT).then_some(duration)
    };
    let expected = || "a duration of at most 60 seconds, such as 20s".to_owned();
    let timeout = query.choice("timeout", duration, expected).unwrap_or(DEFAULT_TIMEOUT);
    let after = query.text("after");
    query.check()?;
    let deadline = Instant::now() + timeout;
    let stop = Arc::clone(&input.app.stop);
    let mut source = Source::open(&input, after).await?;
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
    async fn open(input: &Input, after: Option<String>) -> Result<Self, ApiError> {
        let (name, app) = (organization_param(input), Arc::clone(&input.app));
        // Before the organization is looked up, so that no event is missed in between.
        let watch = app.store.wake.log.watch(after.as_deref().filter(|id| !id.is_empty()));
        let watch = watch.ok_or_else(|| {
            let message = format!("{MAX_WATCHERS} clients watch the events, which is the most");
            ApiError::new(Code::Unavailable, message).retry_after(1)
        })?;
        let context = Arc::clone(&app);
        let resolve =
            move |reader: Reader<'_>| organization(reader, &context.settings, name.as_deref());
        let organization = app.store.read(resolve).await?;
        let is_new = after.is_none();
        Ok(Self { app, watch, organization, is_new })
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
