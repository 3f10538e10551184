//! `/_sandbox/deliveries`: webhook deliveries with their attempts, and replay.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Page, organization, organization_param};
use crate::api::framework::{IgnoredBody, Input, Json, memory};
use crate::delivery::webhook;
use crate::model::error::{ApiError, Code, Problems};
use crate::model::timestamp::Timestamp;
use crate::store::Reader;
pub use crate::store::deliveries::State;
use crate::store::deliveries::{self, Filter};

const DEFAULT_LIMIT: i64 = 20;
const MAX_LIMIT: i64 = 100;
/// Maximum number of attempts of a delivery: a list has all of them.
const MAX_ATTEMPTS: i64 = 100;
pub(crate) const STATES: [&str; 4] = {
    let [pending, delivered, failed, dropped] = State::ALL;
    [pending.as_str(), delivered.as_str(), failed.as_str(), dropped.as_str()]
};

/// A webhook delivery.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Delivery {
    /// The event ID, which is the same in the body of every attempt.
    pub id: String,
    /// The ID of the webhook.
    pub webhook: String,
    /// `email` or `extraction`.
    #[schemars(extend("enum" = ["email", "extraction"]))]
    pub service: String,
    /// The name of the event, such as `email.delivered`.
    pub event: String,
    /// Whether the webhook accepted it.
    pub state: State,
    /// The number of attempts so far.
    pub attempt_count: i64,
    /// When the next attempt is due.
    pub next_due_at: Option<Timestamp>,
    /// When the event occurred.
    pub created_at: Timestamp,
    /// When the delivery last changed.
    pub updated_at: Timestamp,
    /// The exact request body; only for a single delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The attempts, oldest first; absent from the response to a replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<Attempt>>,
}

/// An attempt of a webhook delivery.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attempt {
    /// Its number; the first is 1.
    pub number: i64,
    /// When it started, by the server's clock.
    pub started_at: Timestamp,
    /// How long it took, in milliseconds of real time.
    pub duration_ms: i64,
    /// The URL of the request.
    pub url: String,
    /// The headers of the request, with the signature.
    pub request_headers: Map<String, Value>,
    /// The status of the response; null if there was none.
    pub status: Option<i64>,
    /// Why there was no response.
    pub error: Option<String>,
    /// The first 4 KiB of the response body; only for a single delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_body: Option<String>,
}

/// Lists deliveries, newest first, without request and response bodies.
pub(crate) async fn list(input: Input) -> Result<Json<Page<Delivery>>, ApiError> {
    let name = organization_param(&input);
    let mut query = input.query();
    let (webhook, event) = (query.remove("webhook"), query.remove("event"));
    let (state, cursor) = (query.remove("state"), query.remove("cursor"));
    let mut problems = Problems::default();
    let parsed = state.as_deref().and_then(State::parse);
    if state.is_some() && parsed.is_none() {
        problems.add("state", format!("must be one of {}", STATES.join(", ")));
    }
    if cursor.as_deref().is_some_and(|cursor| !is_id(cursor)) {
        problems.add("cursor", "must be the `next` value of the previous page");
    }
    let limit = query.remove("limit").map_or(Ok(DEFAULT_LIMIT), |text| text.parse());
    let limit = limit.ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    if limit.is_none() {
        problems.add("limit", format!("must be an integer from 1 to {MAX_LIMIT}"));
    }
    problems.check()?;
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    let app = Arc::clone(&input.app);
    let filter = Filter { webhook, event, state: parsed, cursor };
    let resolve = move |reader: Reader<'_>| organization(reader, &app.settings, name.as_deref());
    let organization = input.app.store.read(resolve).await?;
    let page = move |reader: Reader<'_>| {
        let found = deliveries::list(reader, organization, &filter, limit + 1)?;
        let page = Page::of(found, limit as usize, |last| last.id.clone());
        Ok(Page { data: with_attempts(reader, page.data)?, next: page.next })
    };
    Json::of(&input.app.store.read(page).await?)
}

/// The deliveries of the events of an email, oldest first.
pub(super) fn of_email(
    reader: Reader<'_>,
    email: &str,
    limit: i64,
) -> Result<Vec<Delivery>, ApiError> {
    with_attempts(reader, deliveries::of_email(reader, email, limit)?)
}

fn with_attempts(
    reader: Reader<'_>,
    found: Vec<deliveries::Delivery>,
) -> Result<Vec<Delivery>, ApiError> {
    let view = |delivery: deliveries::Delivery| {
        let attempts = deliveries::attempts(reader, &delivery.id, false)?;
        Ok(Delivery { attempts: Some(views(attempts)), ..Delivery::from(delivery) })
    };
    found.into_iter().map(view).collect()
}

pub(crate) async fn get(input: Input) -> Result<Json<Delivery>, ApiError> {
    let name = organization_param(&input);
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let read = id.clone();
    let size = input.app.store.read(move |reader| {
        let organization = organization(reader, &app.settings, name.as_deref())?;
        Ok((organization, deliveries::body_size(reader, &read)?))
    });
    let (organization, size) = size.await?;
    memory::reserve_response(size).await;
    let found = input.app.store.read(move |reader| {
        let delivery = deliveries::find(reader, &id, organization)?;
        let body = deliveries::body(reader, &id)?;
        let attempts = deliveries::attempts(reader, &id, true)?;
        Ok(Delivery {
            body: body.map(text),
            attempts: Some(views(attempts)),
            ..Delivery::from(delivery)
        })
    });
    Json::of(&found.await?)
}

/// Makes one more attempt, with the same ID and body, and with the current URL and secret.
pub(crate) async fn replay(
    mut input: Input,
    body: IgnoredBody,
) -> Result<Json<Delivery, 202>, ApiError> {
    body.read(&mut input).await?;
    let name = organization_param(&input);
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let replayed = input.app.store.write(move |tx| {
        let organization = organization(tx.reader(), &app.settings, name.as_deref())?;
        let delivery = deliveries::find(tx.reader(), &id, organization)?;
        let conflict = |message: &str| Err(ApiError::new(Code::Conflict, message));
        if delivery.state == State::Pending {
            return conflict("the delivery is still pending");
        }
        if delivery.attempts >= MAX_ATTEMPTS {
            return conflict("the delivery has had 100 attempts, which is the most");
        }
        let Some(webhook) = app.webhooks.get(&delivery.webhook) else {
            return conflict("the webhook of the delivery was deleted");
        };
        if !webhook.active {
            return conflict("the webhook of the delivery is inactive");
        }
        // Start after the last retry, so that no retry follows.
        let retry = webhook::schedule(webhook.service).len() as i64;
        deliveries::repeat(tx, organization, &delivery, retry)?;
        deliveries::find(tx.reader(), &id, organization)
    });
    Json::of(&Delivery::from(replayed.await?))
}

impl From<deliveries::Delivery> for Delivery {
    fn from(delivery: deliveries::Delivery) -> Self {
        Self {
            id: delivery.id,
            webhook: delivery.webhook,
            service: delivery.service.as_str().to_owned(),
            event: delivery.event,
            state: delivery.state,
            attempt_count: delivery.attempts,
            next_due_at: delivery.due_at.map(Timestamp::from),
            created_at: delivery.created_at.into(),
            updated_at: delivery.updated_at.into(),
            body: None,
            attempts: None,
        }
    }
}

fn views(attempts: Vec<deliveries::Attempt>) -> Vec<Attempt> {
    let view = |attempt: deliveries::Attempt| Attempt {
        number: attempt.number,
        started_at: attempt.started_at.into(),
        duration_ms: attempt.duration_ms,
        url: attempt.url,
        request_headers: attempt.request_headers,
        status: attempt.status.map(i64::from),
        error: attempt.error,
        response_body: attempt.response_body.map(text),
    };
    attempts.into_iter().map(view).collect()
}

/// Whether the text is a UUID with hyphens, like the IDs of deliveries.
fn is_id(text: &str) -> bool {
    text.len() == 36 && Uuid::try_parse(text).is_ok()
}

/// Request bodies are JSON; response bodies may be invalid UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
