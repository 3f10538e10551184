//! Webhooks of the email service (`docs/email-service/webhooks.md`).

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use svc_sdk::Service;

use crate::api::framework::{ApiResponse, Call, Created, IdempotencyKey, List, Reply, Resource};
use crate::api::webhooks::{all, check_events, check_url, register};
use crate::app::Shared;
use crate::control::webhooks::Webhook;
use crate::delivery::emit;
use crate::delivery::payload;
use crate::delivery::webhook::{self, Sent};
use crate::model::compatibility::Compatibility;
use crate::model::error::{ApiError, Problems};
use crate::model::event::Event;
use crate::model::schema;
use crate::model::time;
use crate::model::timestamp::Timestamp;
use crate::store::deliveries::{self, UNDER_WAY};
use crate::store::webhooks;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateWebhook")]
pub(crate) struct New {
    /// An `https` URL, or an `http` URL if the server is not public.
    /// Credentials in the URL are sent as `Authorization: Basic`.
    #[schemars(required, length(max = 2048), url)]
    url: Option<String>,
    #[schemars(with = "schema::EmailEvents")]
    events: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "WebhookUpdate")]
pub(crate) struct Update {
    /// An `https` URL, or an `http` URL if the server is not public.
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
pub(crate) struct WebhookJson<'a> {
    id: &'a str,
    url: &'a str,
    #[schemars(with = "schema::EmailEvents")]
    events: &'a [String],
    active: bool,
    /// Only in the response to the creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    signing_secret: Option<&'a str>,
    #[schemars(with = "schema::Time")]
    created_at: Timestamp,
    #[schemars(with = "schema::Time")]
    updated_at: Timestamp,
}

fn view(webhook: &Webhook, signing_secret: bool) -> WebhookJson<'_> {
    WebhookJson {
        id: &webhook.id,
        url: &webhook.url,
        events: &webhook.events,
        active: webhook.active,
        signing_secret: signing_secret.then_some(webhook.secret.as_str()),
        created_at: webhook.created_at,
        updated_at: webhook.updated_at,
    }
}

pub(crate) async fn create(mut call: Call<New>) -> Result<Created<WebhookJson<'static>>, ApiError> {
    let (new, bytes) = call.read().await?;
    let reply = |app: &_, webhook: &_| Created::new(app, &view(webhook, true));
    register(call, &bytes, new.url, new.events, reply).await
}

pub(crate) async fn list(call: Call) -> Result<List<WebhookJson<'static>>, ApiError> {
    let all = all(&call).await?;
    List::new(&call.data.app, &all.iter().map(|webhook| view(webhook, false)).collect())
}

pub(crate) async fn update(
    mut call: Call<Update>,
) -> Result<Resource<WebhookJson<'static>>, ApiError> {
    let (id, wanted) = (call.id(), call.id());
    call.data.read(move |reader, of| webhooks::find(reader, &wanted, of, Service::Email)).await?;
    let (update, _) = call.read().await?;
    let mut problems = Problems::default();
    if let Some(url) = &update.url
        && let Err(message) = check_url(Service::Email, call.data.app.settings.network, url)
    {
        problems.add("url", message);
    }
    let events = update.events.map(|names| check_events(Service::Email, &names, &mut problems));
    problems.check()?;
    let updated = call.data.write(move |tx, _, organization| {
        let mut webhook = webhooks::find(tx.reader(), &id, organization, Service::Email)?;
        let before = webhook.clone();
        webhook.url = update.url.unwrap_or(webhook.url);
        webhook.events = events.unwrap_or(webhook.events);
        webhook.active = update.active.unwrap_or(webhook.active);
        if webhook != before {
            tx.update(organization, &mut webhook)?;
        }
        Ok(webhook)
    });
    Resource::new(&call.data.app, &view(&updated.await?, false))
}

/// Sends a signed test event in a single attempt, even if the webhook is inactive
/// (`docs/undocumented/services.md#webhook-test`). The attempt is recorded as a delivery.
pub(crate) async fn test(mut call: Call) -> Result<TestResult, ApiError> {
    let id = call.id();
    let find = call.data.read(move |reader, of| webhooks::find(reader, &id, of, Service::Email));
    let webhook = find.await?;
    // The operation has no body. If a client sends one, it is read, so that the connection stays usable.
    let bytes = call.input.bytes().await?;
    let key = call.idempotency_key(&bytes)?;
    let (app, organization) = (Arc::clone(&call.data.app), call.data.organization);
    // The attempt goes on if the client disconnects: it is stored, and must be recorded.
    let attempt = tokio::spawn(async move {
        let _active = app.activity.request();
        test_once(&app, organization, &webhook, key).await
    });
    let response = attempt.await.unwrap_or_else(|error| Err(ApiError::internal(error)));
    response.map(TestResult)
}

async fn test_once(
    app: &Shared,
    organization: i64,
    webhook: &Webhook,
    key: Option<IdempotencyKey>,
) -> Result<ApiResponse, ApiError> {
    let key = Arc::new(key);
    let now = app.clock.now();
    let delivery = deliveries::new(webhook.id.clone(), Service::Email, Event::TEST, now);
    let data = payload::Test {
        webhook_id: &webhook.id,
        message: "a test of this webhook",
        timestamp: time::rfc3339(now),
    };
    let json = serde_json::to_vec(&data).map_err(ApiError::internal)?;
    let data = emit::Data { shared: None, rest: json };
    let body = emit::body(Event::TEST, &delivery.id, now, &data)?;
    // Like every delivery, it is stored before it is sent; and so is the key, so that it
    // is sent once.
    let (claimed, stored) = (Arc::clone(&key), delivery.clone());
    let sent = Bytes::from(body.head.clone());
    let earlier = app.store.write(move |tx| {
        if let Some(key) = &*claimed {
            if let Some(response) = key.stored_response(tx)? {
                return Ok(Some(response));
            }
            key.store_response(tx, &ApiResponse::in_progress())?;
        }
        deliveries::insert(tx, organization, &stored, &body, false)?;
        Ok(None)
    });
    if let Some(response) = earlier.await? {
        return Ok(response);
    }
    let sent = webhook::attempt(app, webhook, &delivery, sent).await?;
    // The reference names "the HTTP status code" of the endpoint, but not its field.
    let mut result = Map::new();
    let field = app.settings.compatibility.test_status_field.clone();
    result.insert(field, sent.attempt.status.into());
    match &sent.attempt.error {
        None => result.insert("durationMs".to_owned(), sent.attempt.duration_ms.into()),
        Some(error) => result.insert("error".to_owned(), error.clone().into()),
    };
    let response = ApiResponse::json(200, &result)?;
    app.store
        .write(move |tx| {
            let Sent { attempt, is_delivered, .. } = &sent;
            deliveries::record(tx, UNDER_WAY, 0, *is_delivered, None, attempt)?;
            if let Some(key) = &*key {
                key.store_response(tx, &response)?;
            }
            Ok(response)
        })
        .await
}

/// The response of `test`. A compatibility setting names its field for the status.
pub(crate) struct TestResult(ApiResponse);

impl Reply for TestResult {
    fn describe(
        compatibility: &Compatibility,
        _: &mut SchemaGenerator,
    ) -> (StatusCode, Option<Schema>) {
        let field = compatibility.test_status_field.as_str();
        let schema = json_schema!({
            "type": "object",
            "properties": {
                "durationMs": {"type": "integer", "minimum": 0},
                "error": {"type": "string"},
                field: {
                    "description":
                        "The status that the endpoint returned; null if there was no response.",
                    "type": ["integer", "null"],
                },
            },
            "required": [field],
        });
        (StatusCode::OK, Some(schema))
    }
}

impl From<TestResult> for Response<Body> {
    fn from(result: TestResult) -> Self {
        result.0.into()
    }
}
