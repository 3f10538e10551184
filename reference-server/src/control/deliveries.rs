//! `/_sandbox/deliveries`: every delivery with every attempt, and replay.

use std::sync::Arc;

use http::StatusCode;
use rusqlite::{Connection, Row};
use serde_json::{Value, json};

use super::{Reply, json as reply, organization, organization_of_query};
use crate::engine::courier;
use crate::error::{ApiError, Code, Problems};
use crate::keys::service_from;
use crate::store;
use crate::time;
use crate::web::Input;

const DEFAULT_LIMIT: i64 = 20;
const LARGEST_LIMIT: i64 = 100;
const STATES: [&str; 4] = ["pending", "delivered", "failed", "dropped"];

/// Newest first; bodies of deliveries and answers only where one is asked for by its id.
pub(super) async fn list(input: Input) -> Reply {
    let named = organization_of_query(&input);
    let mut query = input.query();
    let (webhook, event) = (query.remove("webhook"), query.remove("event"));
    let (state, cursor) = (query.remove("state"), query.remove("cursor"));
    let mut problems = Problems::default();
    if state.as_deref().is_some_and(|state| !STATES.contains(&state)) {
        problems.add("state", format!("must be one of {}", STATES.join(", ")));
    }
    let limit = query.remove("limit").map_or(Ok(DEFAULT_LIMIT), |text| text.parse());
    let limit = limit.ok().filter(|limit| (1..=LARGEST_LIMIT).contains(limit));
    if limit.is_none() {
        problems.add("limit", format!("must be an integer from 1 to {LARGEST_LIMIT}"));
    }
    problems.check()?;
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    let app = Arc::clone(&input.app);
    let page = input.app.store.read(move |connection| {
        let organization = organization(connection, &app.settings, named.as_deref())?;
        let sql = format!(
            "SELECT {COLUMNS} FROM delivery WHERE organization = ?1 AND (?2 IS NULL OR id < ?2)
             AND (?3 IS NULL OR webhook = ?3) AND (?4 IS NULL OR event = ?4)
             AND (?5 IS NULL OR state = ?5) ORDER BY id DESC LIMIT ?6"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let params = (organization, &cursor, &webhook, &event, &state, limit + 1);
        let rows = statement.query_map(params, read)?;
        let mut found = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        let more = found.len() as i64 > limit;
        found.truncate(limit as usize);
        for delivery in &mut found {
            delivery["attempts"] = attempts(connection, delivery, false)?;
        }
        let next = found.last().filter(|_| more).map(|last| last["id"].clone());
        Ok(json!({"data": found, "next": next}))
    });
    reply(StatusCode::OK, &page.await?)
}

pub(super) async fn get(input: Input) -> Reply {
    let named = organization_of_query(&input);
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let found = input.app.store.read(move |connection| {
        let organization = organization(connection, &app.settings, named.as_deref())?;
        let mut delivery = find(connection, &id, organization)?;
        let sql = "SELECT body FROM delivery_body WHERE delivery = ?1";
        let body: Option<Vec<u8>> = store::find(connection, sql, [&id], |row| row.get(0))?;
        delivery["body"] = text(body);
        delivery["attempts"] = attempts(connection, &delivery, true)?;
        Ok(delivery)
    });
    reply(StatusCode::OK, &found.await?)
}

/// One more attempt: the same id and bytes, url and secret as they are now.
pub(super) async fn replay(mut input: Input) -> Reply {
    // It takes no body; one that is there must still arrive.
    input.bytes().await?;
    let named = organization_of_query(&input);
    let (app, id) = (Arc::clone(&input.app), input.id().to_owned());
    let replayed = input.app.store.write(move |tx| {
        let organization = organization(tx.connection(), &app.settings, named.as_deref())?;
        let delivery = find(tx.connection(), &id, organization)?;
        let conflict = |message: &str| Err(ApiError::new(Code::Conflict, message));
        if delivery["state"] == "pending" {
            return conflict("the delivery is still to be attempted");
        }
        let webhook = delivery["webhook"].as_str().unwrap_or_default();
        let Some(webhook) = app.webhooks.get(webhook) else {
            return conflict("the delivery's webhook is deleted");
        };
        if !webhook.active {
            return conflict("the delivery's webhook is not active");
        }
        // Past the end of the schedule: no retry follows.
        let retry = courier::schedule(webhook.service).len() as i64;
        tx.execute(
            "UPDATE delivery SET state = 'pending', retry = ?2, due_at = ?3, updated_at = ?3
             WHERE id = ?1",
            (&id, retry, tx.now),
        )?;
        tx.delivery_due(&webhook.id, tx.now);
        find(tx.connection(), &id, organization)
    });
    reply(StatusCode::ACCEPTED, &replayed.await?)
}

const COLUMNS: &str =
    "id, webhook, service, event, state, attempts, due_at, created_at, updated_at";

fn read(row: &Row<'_>) -> rusqlite::Result<Value> {
    let text = |index| row.get::<_, String>(index);
    Ok(json!({
        "id": text(0)?,
        "webhook": text(1)?,
        "service": service_from(&text(2)?).as_str(),
        "event": text(3)?,
        "state": text(4)?,
        "attemptCount": row.get::<_, i64>(5)?,
        "nextDueAt": row.get::<_, Option<i64>>(6)?.map(time::rfc3339),
        "createdAt": time::rfc3339(row.get(7)?),
        "updatedAt": time::rfc3339(row.get(8)?),
    }))
}

fn find(connection: &Connection, id: &str, organization: i64) -> Result<Value, ApiError> {
    let sql = format!("SELECT {COLUMNS} FROM delivery WHERE id = ?1 AND organization = ?2");
    let found = store::find(connection, &sql, (id, organization), read)?;
    found.ok_or_else(|| ApiError::not_found("delivery"))
}

/// The attempts of a delivery, oldest first.
fn attempts(connection: &Connection, delivery: &Value, answers: bool) -> Result<Value, ApiError> {
    let mut statement = connection.prepare_cached(
        "SELECT number, started_at, duration_ms, url, request_headers, status, error,
                CASE WHEN ?2 THEN answer END
         FROM attempt WHERE delivery = ?1 ORDER BY number",
    )?;
    let id = delivery["id"].as_str();
    let rows = statement.query_map((id, answers), |row| {
        let headers: String = row.get(4)?;
        let mut attempt = json!({
            "number": row.get::<_, i64>(0)?,
            "startedAt": time::rfc3339(row.get(1)?),
            "durationMs": row.get::<_, i64>(2)?,
            "url": row.get::<_, String>(3)?,
            "requestHeaders": serde_json::from_str::<Value>(&headers).unwrap_or_default(),
            "status": row.get::<_, Option<i64>>(5)?,
            "error": row.get::<_, Option<String>>(6)?,
        });
        if answers {
            attempt["answer"] = text(row.get(7)?);
        }
        Ok(attempt)
    })?;
    Ok(Value::Array(rows.collect::<rusqlite::Result<_>>()?))
}

/// Bytes as text: bodies of deliveries are JSON, answers may be anything.
fn text(bytes: Option<Vec<u8>>) -> Value {
    bytes.map_or(Value::Null, |bytes| String::from_utf8_lossy(&bytes).into_owned().into())
}
