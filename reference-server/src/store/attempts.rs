//! The table `attempt`: the attempts of webhook deliveries.

use serde_json::{Map, Value};

use crate::control::deliveries::AttemptMade;
use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::store::{Reader, Tx};

/// An attempt to insert.
pub(crate) struct NewAttempt<'a> {
    pub(crate) number: i64,
    pub(crate) started_at: Millis,
    pub(crate) duration_ms: i64,
    pub(crate) url: &'a str,
    /// A JSON object.
    pub(crate) request_headers: &'a str,
    pub(crate) status: Option<u16>,
    pub(crate) response_body: Option<&'a [u8]>,
    pub(crate) error: Option<String>,
}

pub(crate) struct Attempt {
    pub(crate) number: i64,
    pub(crate) started_at: Millis,
    pub(crate) duration_ms: i64,
    pub(crate) url: String,
    pub(crate) request_headers: Map<String, Value>,
    /// The status of the response; `None` if there was none.
    pub(crate) status: Option<i64>,
    pub(crate) error: Option<String>,
    pub(crate) response_body: Option<Vec<u8>>,
}

/// Stores an attempt, unless the delivery was deleted in the meantime.
pub(crate) fn put(tx: &Tx<'_>, delivery: &str, new: &NewAttempt<'_>) -> Result<(), ApiError> {
    tx.execute(
        "INSERT OR REPLACE INTO attempt (delivery, number, started_at, duration_ms, url,
                                         request_headers, status, response_body, error)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
         WHERE EXISTS (SELECT 1 FROM delivery WHERE id = ?1)",
        (
            delivery,
            new.number,
            new.started_at,
            new.duration_ms,
            new.url,
            new.request_headers,
            new.status,
            new.response_body,
            &new.error,
        ),
    )?;
    publish(tx, delivery, new)
}

/// Tells the clients that watch.
fn publish(tx: &Tx<'_>, delivery: &str, new: &NewAttempt<'_>) -> Result<(), ApiError> {
    if !tx.is_watched() {
        return Ok(());
    }
    let sql = "SELECT organization FROM delivery WHERE id = ?1";
    let organization: Option<i64> = tx.find(sql, [delivery], |row| row.get(0))?;
    if organization.is_some() {
        tx.publish(organization, "attempt", || AttemptMade {
            delivery: delivery.to_owned(),
            number: new.number,
            started_at: new.started_at.into(),
            duration_ms: new.duration_ms,
            url: new.url.to_owned(),
            status: new.status.map(i64::from),
            error: new.error.clone(),
        });
    }
    Ok(())
}

/// The attempts of a delivery, oldest first. Only on request with the response bodies.
pub(crate) fn list(
    reader: Reader<'_>,
    delivery: &str,
    with_bodies: bool,
) -> Result<Vec<Attempt>, ApiError> {
    let mut statement = reader.statement(
        "SELECT number, started_at, duration_ms, url, request_headers, status, error,
                CASE WHEN ?2 THEN response_body END
         FROM attempt WHERE delivery = ?1 ORDER BY number",
    )?;
    let rows = statement.query_map((delivery, with_bodies), |row| {
        let headers: String = row.get(4)?;
        Ok(Attempt {
            number: row.get(0)?,
            started_at: row.get(1)?,
            duration_ms: row.get(2)?,
            url: row.get(3)?,
            request_headers: serde_json::from_str(&headers).unwrap_or_default(),
            status: row.get(5)?,
            error: row.get(6)?,
            response_body: row.get(7)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
