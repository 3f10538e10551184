//! `/_sandbox/deliveries`: webhook deliveries with their attempts, and replay.

use std::sync::Arc;

use http::StatusCode;
use rusqlite::{Connection, Row};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{ControlResponse, Page, json_response, organization, organization_param};
use crate::api::framework::Input;
use crate::delivery::webhook_worker;
use crate::model::error::{ApiError, Code, Problems};
use crate::model::schema;
use crate::model::time;
use crate::store;
use crate::store::keys::service_from;

const DEFAULT_LIMIT: i64 = 20;
const MAX_LIMIT: i64 = 100;
pub(crate) const STATES: [&str; 4] = ["pending", "delivered", "failed", "dropped"];

/// A webhook delivery.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Delivery {
    /// The event ID, which is the same in the body of every attempt.
    id: String,
    webhook: String,
    #[schemars(extend("enum" = ["email", "extraction"]))]
    service: &'static str,
    event: String,
    #[schemars(extend("enum" = STATES))]
    state: String,
    attempt_count: i64,
    #[schemars(with = "Option<schema::Time>")]
    next_due_at: Option<String>,
    #[schemars(with = "schema::Time")]
    created_at: String,
    #[schemars(with = "schema::Time")]
    updated_at: String,
    /// The exact request body; only for a single delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// Oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<Attempt>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Attempt {
    number: i64,
    #[schemars(with = "schema::Time")]
    started_at: String,
    duration_ms: i64,
    url: String,
    request_headers: Map<String, Value>,
    /// The status of the response; null if there was none.
    status: Option<i64>,
    error: Option<String>,
    /// The first 4 KiB of the response body; only for a single delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body: Option<String>,
}

/// Lists deliveries, newest first, without request and response bodies.
pub(super) async fn list(input: Input) -> ControlResponse {
    let name = organization_param(&input);
    let mut query = input.query();
    let (webhook, event) = (query.remove("webhook"), query.remove("event"));
    let (state, cursor) = (query.remove("state"), query.remove("cursor"));
    let mut problems = Problems::default();
    if state.as_deref().is_some_and(|state| !STATES.contains(&state)) {
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
    let page = input.app.store.read(move |connection| {
        let organization = organization(connection, &app.settings, name.as_deref())?;
        let (delivery_index, condition) = best_index(state.as_deref(), &webhook, &event);
        let sql = format!(
            "SELECT {COLUMNS} FROM delivery INDEXED BY {delivery_index}
             WHERE {condition} AND organization = ?1 AND id < ?2
             AND (?3 IS NULL OR webhook = ?3) AND (?4 IS NULL OR event = ?4)
             AND (?5 IS NULL OR state = ?5) ORDER BY id DESC LIMIT ?6"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let cursor = cursor.as_deref().unwrap_or(PAST_EVERY_ID);
        let params = (organization, cursor, &webhook, &event, &state, limit + 1);
        let rows = statement.query_map(params, read)?;
        let mut found = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        let more = found.len() as i64 > limit;
        found.truncate(limit as usize);
        for delivery in &mut found {
            delivery.attempts = Some(attempts(connection, &delivery.id, false)?);
        }
        let next = found.last().filter(|_| more).map(|last| last.id.clone());
        Ok(Page { data: found, next })
    });
    json_response(StatusCode::OK, &page.await?)
}

/// The index that covers the query with the fewest rows, and the condition that lets
/// SQLite use it.
fn best_index(
    state: Option<&str>,
    webhook: &Option<String>,
    event: &Option<String>,
) -> (&'static str, &'static str) {
    match state {
        Some("pending" | "failed" | "dropped") => {
            ("delivery_state", "state <> 'delivered' AND state = ?5")
        }
        _ if webhook.is_some() => ("delivery_webhook", "webhook = ?3"),
        _ if event.is_some() => ("delivery_event", "event = ?4"),
        _ => ("delivery_organization", "TRUE"),
    }
}

/// Sorts after every ID: IDs are hexadecimal.
const PAST_EVERY_ID: &str = "g";

pub(super) async fn get(input: Input) -> ControlResponse {
    let name = organization_param(&input);
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let found = input.app.store.read(move |connection| {
        let organization = organization(connection, &app.settings, name.as_deref())?;
        let mut delivery = find(connection, &id, organization)?;
        let sql = "SELECT body FROM delivery_body WHERE delivery = ?1";
        let body: Option<Vec<u8>> = store::find(connection, sql, [&id], |row| row.get(0))?;
        delivery.body = body.map(text);
        delivery.attempts = Some(attempts(connection, &delivery.id, true)?);
        Ok(delivery)
    });
    json_response(StatusCode::OK, &found.await?)
}

/// Makes one more attempt, with the same ID and body, and with the current URL and secret.
pub(super) async fn replay(mut input: Input) -> ControlResponse {
    // The operation has no body, but a body that was sent must be read.
    input.bytes().await?;
    let name = organization_param(&input);
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let replayed = input.app.store.write(move |tx| {
        let organization = organization(tx.connection(), &app.settings, name.as_deref())?;
        let delivery = find(tx.connection(), &id, organization)?;
        let conflict = |message: &str| Err(ApiError::new(Code::Conflict, message));
        if delivery.state == "pending" {
            return conflict("the delivery is still pending");
        }
        let Some(webhook) = app.webhooks.get(&delivery.webhook) else {
            return conflict("the webhook of the delivery was deleted");
        };
        if !webhook.active {
            return conflict("the webhook of the delivery is inactive");
        }
        // Start after the last retry, so that no retry follows.
        let retry = webhook_worker::schedule(webhook.service).len() as i64;
        tx.execute(
            "UPDATE delivery SET state = 'pending', retry = ?2, due_at = ?3, updated_at = ?3
             WHERE id = ?1",
            (&id, retry, tx.now),
        )?;
        tx.delivery_due(&webhook.id, tx.now);
        find(tx.connection(), &id, organization)
    });
    json_response(StatusCode::ACCEPTED, &replayed.await?)
}

const COLUMNS: &str =
    "id, webhook, service, event, state, attempts, due_at, created_at, updated_at";

fn read(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: row.get(0)?,
        webhook: row.get(1)?,
        service: service_from(&row.get::<_, String>(2)?).as_str(),
        event: row.get(3)?,
        state: row.get(4)?,
        attempt_count: row.get(5)?,
        next_due_at: row.get::<_, Option<i64>>(6)?.map(time::rfc3339),
        created_at: time::rfc3339(row.get(7)?),
        updated_at: time::rfc3339(row.get(8)?),
        body: None,
        attempts: None,
    })
}

fn find(connection: &Connection, id: &str, organization: i64) -> Result<Delivery, ApiError> {
    let sql = format!("SELECT {COLUMNS} FROM delivery WHERE id = ?1 AND organization = ?2");
    let found = store::find(connection, &sql, (id, organization), read)?;
    found.ok_or_else(|| ApiError::not_found("delivery"))
}

/// The attempts of a delivery, oldest first.
fn attempts(
    connection: &Connection,
    id: &str,
    with_bodies: bool,
) -> Result<Vec<Attempt>, ApiError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, started_at, duration_ms, url, request_headers, status, error,
                CASE WHEN ?2 THEN response_body END
         FROM attempt WHERE delivery = ?1 ORDER BY number",
    )?;
    let rows = statement.query_map((id, with_bodies), |row| {
        let headers: String = row.get(4)?;
        Ok(Attempt {
            number: row.get(0)?,
            started_at: time::rfc3339(row.get(1)?),
            duration_ms: row.get(2)?,
            url: row.get(3)?,
            request_headers: serde_json::from_str(&headers).unwrap_or_default(),
            status: row.get(5)?,
            error: row.get(6)?,
            response_body: row.get::<_, Option<Vec<u8>>>(7)?.map(text),
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
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
