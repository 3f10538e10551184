//! `/_sandbox/deliveries`: webhook deliveries with their attempts, and replay.

use crate::control::Page;
use crate::deliveries::delivery_rows;
use crate::deliveries::delivery_wire::{Delivery, DeliveryFilter, State};
use crate::http::ControlCall;
use crate::http::written::Written;
use crate::keys::key_rows::service_from;
use crate::model::{Code, Failure, Result};
use crate::runtime::memory::RESPONSES;
use crate::webhooks::webhook_rules;
use crate::webhooks::webhook_wire::Webhook;

/// Maximum number of attempts of a delivery: a list has all of them.
const MAX_ATTEMPTS: i64 = 100;

/// Lists deliveries, newest first, without request and response bodies.
pub(crate) async fn list(call: ControlCall<(), DeliveryFilter>) -> Result<Page<Delivery>> {
    let ControlCall {
        input,
        query,
        limit,
        cursor,
        ..
    } = call;
    let page = input.read(move |reader, organization| {
        let found = delivery_rows::list(reader, organization, &query, limit, cursor.as_deref())?;
        let mut page = Page::of(found, limit, |last| last.id.clone());
        delivery_rows::add_attempts(reader, &mut page.data)?;
        Ok(page)
    });
    page.await
}

pub(crate) async fn get(call: ControlCall) -> Result<Written<Delivery>> {
    let id = call.id();
    let size = call
        .read(move |reader, _| delivery_rows::body_size(reader, &id))
        .await?;
    let memory = RESPONSES.reserve(size).await;
    let id = call.id();
    let found = call.read(move |reader, organization| {
        let found = delivery_rows::find(reader, &id, organization)?;
        let body = delivery_rows::body(reader, &id)?;
        Ok(Delivery {
            body,
            attempts: Some(delivery_rows::attempts(reader, &id, true)?),
            ..found
        })
    });
    let found = found.await?;
    Written::json(memory, move || Ok(found)).await
}

/// Makes one more attempt, with the same ID and body, and with the current URL and secret.
pub(crate) async fn replay(call: ControlCall) -> Result<Delivery> {
    let id = call.id();
    let replayed = call.write(move |tx, _, organization| {
        let delivery = delivery_rows::find(tx.reader(), &id, organization)?;
        let conflict = |message: &str| Err(Failure::new(Code::Conflict, message));
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
        let retry = webhook_rules::schedule(service).len() as i64;
        delivery_rows::repeat(tx, organization, &delivery, retry)?;
        delivery_rows::find(tx.reader(), &id, organization)
    });
    replayed.await
}
