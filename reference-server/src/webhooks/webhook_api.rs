//! The handlers of the webhooks of the email service (`docs/email-service/webhooks.md`) and of the
//! endpoints of the extraction service (`docs/extraction-service/README.md#webhook-endpoints`).

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_sdk::Service;

use crate::app::Shared;
use crate::deliveries::{delivery_rows, delivery_rules};
use crate::http::{Call, IdempotencyKey, Reply};
use crate::jobs::Command;
use crate::model::{Event, Failure, Result, Timestamp, schema, time};
use crate::organizations::organization_rows;
use crate::webhooks::webhook_rows;
use crate::webhooks::webhook_rules::{self, check};
use crate::webhooks::webhook_wire::Webhook;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateWebhook")]
pub(crate) struct New {
    /// An `https` URL. `http` is accepted for local addresses.
    /// Credentials in the URL are sent as `Authorization: Basic`.
    #[schemars(required, length(max = 2048), url)]
    url: Option<String>,
    #[schemars(with = "schema::EmailEvents")]
    events: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "WebhookUpdate")]
pub(crate) struct Update {
    /// An `https` URL. `http` is accepted for local addresses.
    /// Credentials in the URL are sent as `Authorization: Basic`.
    #[schemars(length(max = 2048), url)]
    url: Option<String>,
    #[schemars(with = "Option<schema::EmailEvents>")]
    events: Option<Vec<String>>,
    active: Option<bool>,
}

/// A webhook.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Webhook")]
pub(crate) struct WebhookJson {
    id: String,
    url: String,
    #[schemars(with = "schema::EmailEvents")]
    events: Vec<String>,
    active: bool,
    /// Only in the response to the creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    signing_secret: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

fn view(webhook: Webhook, with_secret: bool) -> WebhookJson {
    WebhookJson {
        id: webhook.id,
        url: webhook.url,
        events: webhook.events,
        active: webhook.active,
        signing_secret: with_secret.then_some(webhook.secret),
        created_at: webhook.created_at,
        updated_at: webhook.updated_at,
    }
}

pub(crate) async fn create(call: Call<New>) -> Result<Reply<WebhookJson>> {
    let New { url, events } = call.body().await?;
    register(call, url, events, view).await
}

pub(crate) async fn list(call: Call) -> Result<Vec<WebhookJson>> {
    list_of_service(call, view).await
}

pub(crate) async fn update(call: Call<Update>) -> Result<WebhookJson> {
    let id = call.id();
    let update = call.body().await;
    let updated = call.write(move |tx, app, organization| {
        let mut webhook = webhook_rows::find(tx.reader(), &id, organization, Service::Email)?;
        let Update {
            url,
            events,
            active,
        } = update?;
        let events = check(Service::Email, &app.settings, url.as_deref(), events)?;
        let before = webhook.clone();
        webhook.url = url.unwrap_or(webhook.url);
        webhook.events = events.unwrap_or(webhook.events);
        webhook.active = active.unwrap_or(webhook.active);
        if webhook != before {
            tx.update(organization, &mut webhook)?;
        }
        Ok(webhook)
    });
    Ok(view(updated.await?, false))
}

/// The response of `test`.
type TestResult = Map<String, Value>;

/// Sends a signed test event in a single attempt, even if the webhook is inactive
/// (`docs/undocumented/services.md#webhook-test`). The attempt is recorded as a delivery.
pub(crate) async fn test(call: Call) -> Result<Reply<TestResult>> {
    let id = call.id();
    let find = call.read(move |reader, of| webhook_rows::find(reader, &id, of, Service::Email));
    let webhook = find.await?;
    let key = call.idempotency_key()?;
    let app = Arc::clone(&call.app);
    let organization = call.organization;
    // The attempt goes on if the client disconnects, and is recorded.
    let attempt = tokio::spawn(async move {
        let _active = app.activity.request();
        test_once(&app, organization, &webhook, key).await
    });
    attempt
        .await
        .unwrap_or_else(|error| Err(Failure::internal(error)))
}

async fn test_once(
    app: &Shared,
    organization: i64,
    webhook: &Webhook,
    key: IdempotencyKey,
) -> Result<Reply<TestResult>> {
    let key = Arc::new(key);
    let now = app.clock.now();
    let delivery = delivery_rows::new(webhook.id.clone(), Service::Email, Event::TEST, now);
    let data = delivery_rules::Data::of(&delivery_rules::TestEvent {
        webhook_id: &webhook.id,
        message: "a test of this webhook",
        timestamp: time::rfc3339(now),
    })?;
    let body = delivery_rules::body(
        &app.settings.dialect,
        Service::Email,
        Event::TEST,
        &delivery.id,
        now,
        &data,
    )?;
    // The key is stored before it is sent, so that it is sent once.
    let claimed = Arc::clone(&key);
    let earlier = app.store.write(move |tx| {
        if let Some(response) = claimed.stored_response(tx.reader(), tx.now)? {
            return Ok(Some(response));
        }
        claimed.store_response(tx, &Reply::<()>::new(StatusCode::PROCESSING, Bytes::new()))?;
        Ok(None)
    });
    if let Some(response) = earlier.await? {
        return Ok(response);
    }

    let sent = Bytes::from(body.head.clone());
    let attempt = webhook_rules::attempt(app, webhook, &delivery.id, Event::TEST, 1, sent).await?;
    // The reference names "the HTTP status code" of the endpoint, but not its field.
    let mut result = Map::new();
    result.insert(STATUS_FIELD.to_owned(), attempt.status.into());
    match &attempt.error {
        None => result.insert("durationMs".to_owned(), attempt.duration_ms.into()),
        Some(error) => result.insert("error".to_owned(), error.clone().into()),
    };
    let reply = Reply::json(StatusCode::OK, &result)?;
    app.store
        .write(move |tx| {
            // The organization and the webhook may have been deleted since the test was sent.
            organization_rows::get(tx.reader(), organization)?;
            if tx
                .reader()
                .row::<Webhook>(&delivery.webhook, organization)?
                .is_some()
            {
                delivery_rows::insert(tx, organization, &delivery, &body)?;
                delivery_rows::record(tx, &delivery.webhook, 0, None, &attempt)?;
            }
            key.store_response(tx, &reply)?;
            Ok(reply)
        })
        .await
}

const STATUS_FIELD: &str = "statusCode";

/// Describes the response of `test`.
pub(crate) fn describe_test(_: &mut SchemaGenerator) -> Option<Schema> {
    Some(json_schema!({
        "type": "object",
        "properties": {
            "durationMs": {"type": "integer", "minimum": 0},
            "error": {"type": "string"},
            STATUS_FIELD: {
                "description":
                    "The status that the endpoint returned; null if there was no response.",
                "type": ["integer", "null"],
            },
        },
        "required": [STATUS_FIELD],
    }))
}

/// Registers a webhook. `view` makes the response, which contains the secret.
async fn register<B, T: Serialize + 'static>(
    call: Call<B>,
    url: Option<String>,
    events: Option<Vec<String>>,
    view: fn(Webhook, bool) -> T,
) -> Result<Reply<T>> {
    let service = call.operation.service();
    let settings = &call.app.settings;
    // What is missing is not valid.
    let url = url.unwrap_or_default();
    let events = events.unwrap_or_default();
    let events = check(service, settings, Some(&url), Some(events))?.unwrap_or_default();
    let create = call.create(move |tx, _, organization| {
        Ok(view(
            webhook_rows::insert(tx, organization, service, url, events)?,
            true,
        ))
    });
    create.await
}

/// Lists the webhooks of the organization, oldest first.
async fn list_of_service<T: Serialize>(call: Call, view: fn(Webhook, bool) -> T) -> Result<Vec<T>> {
    let service = call.operation.service();
    let read = call.read(move |reader, of| webhook_rows::list(reader, of, service));
    Ok(read
        .await?
        .into_iter()
        .map(|webhook| view(webhook, false))
        .collect())
}

/// Deletes a webhook. Its pending deliveries are dropped.
pub(crate) async fn delete(call: Call) -> Result<()> {
    let id = call.id();
    let service = call.operation.service();
    let deleted = call.write(move |tx, _, organization| {
        let webhook = webhook_rows::find(tx.reader(), &id, organization, service)?;
        webhook_rows::delete(tx, &webhook.id, organization)
    });
    deleted.await?;
    // Aborts the attempts in progress.
    let _ = call.app.engine.send(Command::Reload).await;
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateWebhookEndpoint")]
pub(crate) struct NewEndpoint {
    /// An absolute `http` or `https` URL. Credentials in the URL are sent as
    /// `Authorization: Basic`.
    #[schemars(required, length(max = 2048), url)]
    url: Option<String>,
    #[schemars(with = "schema::ExtractionEvents")]
    events: Option<Vec<String>>,
}

/// A webhook endpoint.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebhookEndpoint")]
pub(crate) struct EndpointJson {
    id: String,
    url: String,
    /// Only in the response to the registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    #[schemars(with = "schema::ExtractionEvents")]
    events: Vec<String>,
    /// Whether it gets deliveries.
    #[schemars(extend("enum" = ["active", "inactive"]))]
    status: &'static str,
}

fn view_endpoint(webhook: Webhook, with_secret: bool) -> EndpointJson {
    EndpointJson {
        id: webhook.id,
        url: webhook.url,
        secret: with_secret.then_some(webhook.secret),
        events: webhook.events,
        status: if webhook.active { "active" } else { "inactive" },
    }
}

pub(crate) async fn create_endpoint(call: Call<NewEndpoint>) -> Result<Reply<EndpointJson>> {
    let NewEndpoint { url, events } = call.body().await?;
    register(call, url, events, view_endpoint).await
}

pub(crate) async fn list_endpoints(call: Call) -> Result<Vec<EndpointJson>> {
    list_of_service(call, view_endpoint).await
}
