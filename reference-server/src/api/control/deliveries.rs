//! `/_sandbox/deliveries`: webhook deliveries with their attempts, and replay.

use crate::api::framework::route::{ID, Routes};
use crate::api::framework::{ControlCall, Json, memory};
use crate::control::deliveries::{self as control, Attempt, Delivery, DeliveryQuery, State};
use crate::control::endpoint::Page;
use crate::delivery::webhook;
use crate::model::error::{ApiError, Code};
use crate::model::timestamp::Timestamp;
use crate::store::Reader;
use crate::store::deliveries::{self, Filter};
use crate::store::webhooks;

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox deliveries");
    r.control(control::LIST, list);
    r.control(control::DELIVERY, get);
    r.control(control::REPLAY, replay).links(ID, "/_sandbox/deliveries/{");
}

/// Maximum number of attempts of a delivery: a list has all of them.
const MAX_ATTEMPTS: i64 = 100;

/// Lists deliveries, newest first, without request and response bodies.
pub(crate) async fn list(
    call: ControlCall<(), DeliveryQuery>,
) -> Result<Json<Page<Delivery>>, ApiError> {
    let (organization, query) = (call.organization, call.query);
    let DeliveryQuery { webhook, event, state, limit, cursor } = query;
    let filter = Filter { webhook, event, state, cursor: cursor.map(|cursor| cursor.0) };
    let page = move |reader: Reader<'_>| {
        let found = deliveries::list(reader, organization, &filter, limit.0 as i64 + 1)?;
        let page = Page::of(found, limit.0, |last| last.id.clone());
        Ok(Page { data: with_attempts(reader, page.data)?, next: page.next })
    };
    Json::of(&call.input.app.store.read(page).await?)
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

pub(crate) async fn get(call: ControlCall) -> Result<Json<Delivery>, ApiError> {
    let (organization, id) = (call.organization, call.id());
    let read = id.clone();
    let size = call.app().store.read(move |reader| deliveries::body_size(reader, &read)).await?;
    memory::reserve_response(size).await;
    let found = call.app().store.read(move |reader| {
        let delivery = deliveries::find(reader, &id, organization)?;
        let body = deliveries::body(reader, &id)?;
        let attempts = Some(views(deliveries::attempts(reader, &id, true)?));
        Ok(Delivery { body: body.map(text), attempts, ..Delivery::from(delivery) })
    });
    Json::of(&found.await?)
}

/// Makes one more attempt, with the same ID and body, and with the current URL and secret.
pub(crate) async fn replay(call: ControlCall) -> Result<Json<Delivery, 202>, ApiError> {
    let (organization, id) = (call.organization, call.id());
    let replayed = call.app().store.write(move |tx| {
        let delivery = deliveries::find(tx.reader(), &id, organization)?;
        let conflict = |message: &str| Err(ApiError::new(Code::Conflict, message));
        if delivery.state == State::Pending {
            return conflict("the delivery is still pending");
        }
        if delivery.attempts >= MAX_ATTEMPTS {
            return conflict("the delivery has had 100 attempts, which is the most");
        }
        let Some(webhook) = webhooks::get(tx.reader(), organization, &delivery.webhook)? else {
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

/// Request bodies are JSON; response bodies may be invalid UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
