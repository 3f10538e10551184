//! The table `webhook`: webhooks of both services. Every attempt uses the current URL and secret
//! (`docs/undocumented/services.md#retry-schedule`).

use std::collections::HashSet;

use svc_sdk::Service;

use crate::deliveries::delivery_rows;
use crate::keys::key_rows::random_hex;
use crate::model::{Event, Failure, Result, id};
use crate::store::{Reader, Row, Tx, json};
use crate::webhooks::webhook_wire::Webhook;

impl Row for Webhook {
    const TABLE: &'static str = "webhook";
}

/// Inserts a new webhook with a random signing secret.
pub(crate) fn insert(
    tx: &Tx<'_>,
    organization: i64,
    service: Service,
    url: String,
    events: Vec<String>,
) -> Result<Webhook> {
    let webhook = Webhook {
        id: id::new(id::WEBHOOK),
        service: service.to_string(),
        url,
        events,
        active: true,
        secret: format!("whsec_{}", random_hex::<32>()?),
        created_at: tx.now.into(),
        updated_at: tx.now.into(),
    };
    tx.insert(organization, &webhook)?;
    Ok(webhook)
}

/// Deletes a webhook, and drops its pending deliveries.
pub(crate) fn delete(tx: &Tx<'_>, id: &str, organization: i64) -> Result<()> {
    let sql = "DELETE FROM webhook WHERE organization = ?1 AND id = ?2";
    tx.execute(sql, (organization, id))?;
    delivery_rows::drop_all(tx, id)
}

pub(crate) fn find(
    reader: Reader<'_>,
    id: &str,
    organization: i64,
    service: Service,
) -> Result<Webhook> {
    let found: Webhook = reader.get(id, organization)?;
    if found.service == service.as_str() {
        Ok(found)
    } else {
        Err(Failure::not_found("webhook"))
    }
}

/// Lists the webhooks of a service, oldest first.
pub(crate) fn list(
    reader: Reader<'_>,
    organization: i64,
    service: Service,
) -> Result<Vec<Webhook>> {
    let sql = "SELECT data FROM webhook WHERE organization = ?1 AND service = ?2 ORDER BY id";
    reader.all(sql, (organization, service.as_str()), |row| json(row, 0))
}

/// The IDs of the active webhooks that subscribe to this event, oldest first.
pub(crate) fn subscribers(
    reader: Reader<'_>,
    organization: i64,
    event: Event,
) -> Result<Vec<String>> {
    let sql = "SELECT id FROM webhook WHERE organization = ?1 AND active
               AND instr(events, ?2) ORDER BY id";
    reader.all(
        sql,
        (organization, format!("\"{}\"", event.as_str())),
        |row| row.get(0),
    )
}

/// The IDs of all webhooks.
pub(crate) fn ids(reader: Reader<'_>) -> Result<HashSet<String>> {
    let ids = reader.all("SELECT id FROM webhook", [], |row| row.get(0))?;
    Ok(ids.into_iter().collect())
}
