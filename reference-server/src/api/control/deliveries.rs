//! `/_sandbox/deliveries`: webhook deliveries with their attempts, and replay.

use crate::api::framework::{ControlCall, memory};
use crate::control::deliveries::{Delivery, DeliveryFilter, State};
use crate::control::endpoint::Page;
use crate::control::webhooks::Webhook;
use crate::delivery::webhook;
use crate::model::error::{ApiError, Code};
use crate::store::Reader;
use crate::store::deliveries;
use crate::store::keys::service_from;

/// Maximum number of attempts of a delivery: a list has all of them.
const MAX_ATTEMPTS: i64 = 100;

/// Lists deliveries, newest first, without request and response bodies.
pub(crate) async fn list(
    call: ControlCall<(), DeliveryFilter>,
) -> Result<Page<Delivery>, ApiError> {
    let ControlCall {
        data,
        query,
        limit,
        cursor,
        ..
    } = call;
    let page = data.read(move |reader, organization| {
        let found = deliveries::list(reader, organization, &query, limit, cursor.as_deref())?;
        let mut page = Page::of(found, limit, |last| last.id.clone());
        add_attempts(reader, &mut page.data)?;
        Ok(page)
    });
    page.await
}

/// The deliveries of the events of an email, oldest first.
pub(super) fn of_email(
    reader: Reader<'_>,
    email: &str,
    limit: i64,
) -> Result<Vec<Delivery>, ApiError> {
    let mut found = deliveries::of_email(reader, email, limit)?;
    add_attempts(reader, &mut found)?;
    Ok(found)
}

fn add_attempts(reader: Reader<'_>, found: &mut [Delivery]) -> Result<(), ApiError> {
    for delivery in found {
        delivery.attempts = Some(deliveries::attempts(reader, &delivery.id, false)?);
    }
    Ok(())
}

pub(crate) async fn get(call: ControlCall) -> Result<Delivery, ApiError> {
    let id = call.id();
    let size = call
        .data
        .read(move |reader, _| deliveries::body_size(reader, &id))
        .await?;
    memory::reserve_response(size).await;
    let id = call.id();
    let found = call.data.read(move |reader, organization| {
        let found = deliveries::find(reader, &id, organization)?;
        let body = deliveries::body(reader, &id)?;
        Ok(Delivery {
            body,
            attempts: Some(deliveries::attempts(reader, &id, true)?),
            ..found
        })
    });
    found.await
}

/// Makes one more attempt, with the same ID and body, and with the current URL and secret.
pub(crate) async fn replay(call: ControlCall) -> Result<Delivery, ApiError> {
    let id = call.id();
    let replayed = call.data.write(move |tx, _, organization| {
        let delivery = deliveries::find(tx.reader(), &id, organization)?;
        let conflict = |message: &str| Err(ApiError::new(Code::Conflict, message));
        if delivery.state == State::Pending {
            return conflict("the delivery is still pending");
        }
        if delivery.attempt_count >= MAX_ATTEMPTS {
            return conflict("the delivery has had 100 attempts, which is the most");
        }
        let webhook = tx
            .reader()
            .row::<Webhook>(&delivery.webhook, organization)?;
        let service = match webhook {
            Some(webhook) if webhook.active => service_from(&webhook.service),
            Some(_) => return conflict("the webhook of the delivery is inactive"),
            None => return conflict("the webhook of the delivery was deleted"),
        };
        // Start after the last retry, so that no retry follows.
        let retry = webhook::schedule(service).len() as i64;
        deliveries::repeat(tx, organization, &delivery, retry)?;
        deliveries::find(tx.reader(), &id, organization)
    });
    replayed.await
}
