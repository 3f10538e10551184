//! The table `webhook`: webhooks of both services. Every attempt uses the current URL and secret
//! (`docs/undocumented/services.md#retry-schedule`).

use std::collections::HashSet;

use svc_sdk::Service;

use crate::control::webhooks::Webhook;
use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::id::{self, Prefix};
use crate::store::keys::random_hex;
use crate::store::{Reader, Tx};

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Webhook> {
    let events: String = row.get(4)?;
    Ok(Webhook {
        id: row.get(0)?,
        organization: row.get(1)?,
        service: row.get(2)?,
        url: row.get(3)?,
        events: events.split(' ').map(str::to_owned).collect(),
        active: row.get(5)?,
        secret: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

/// Inserts a new webhook with a random signing secret.
pub(crate) fn insert(
    tx: &Tx<'_>,
    organization: i64,
    service: Service,
    url: String,
    events: Vec<String>,
) -> Result<Webhook, ApiError> {
    let webhook = Webhook {
        id: id::new(Prefix::Webhook),
        organization,
        service: service.to_string(),
        url,
        events,
        active: true,
        secret: format!("whsec_{}", random_hex::<32>()?),
        created_at: tx.now.into(),
        updated_at: tx.now.into(),
    };
    tx.execute(
        "INSERT INTO webhook (id, organization, service, url, events, active, secret, created_at,
                              updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?7)",
        (
            &webhook.id,
            organization,
            service.as_str(),
            &webhook.url,
            webhook.events.join(" "),
            &webhook.secret,
            tx.now,
        ),
    )?;
    Ok(webhook)
}

/// Stores a changed webhook.
pub(crate) fn update(tx: &Tx<'_>, webhook: &mut Webhook) -> Result<(), ApiError> {
    webhook.updated_at = tx.now.into();
    tx.execute(
        "UPDATE webhook SET url = ?3, events = ?4, active = ?5, secret = ?6, updated_at = ?7
         WHERE organization = ?1 AND id = ?2",
        (
            webhook.organization,
            &webhook.id,
            &webhook.url,
            webhook.events.join(" "),
            webhook.active,
            &webhook.secret,
            tx.now,
        ),
    )?;
    Ok(())
}

/// Deletes a webhook. Its deliveries stay.
pub(crate) fn delete(tx: &Tx<'_>, webhook: &Webhook) -> Result<(), ApiError> {
    let sql = "DELETE FROM webhook WHERE organization = ?1 AND id = ?2";
    tx.execute(sql, (webhook.organization, &webhook.id))?;
    Ok(())
}

/// The webhook with this ID, of either service.
pub(crate) fn get(
    reader: Reader<'_>,
    organization: i64,
    id: &str,
) -> Result<Option<Webhook>, ApiError> {
    let sql = format!("{SELECT} WHERE organization = ?1 AND id = ?2");
    Ok(reader.find(&sql, (organization, id), read)?)
}

pub(crate) fn find(
    reader: Reader<'_>,
    id: &str,
    organization: i64,
    service: Service,
) -> Result<Webhook, ApiError> {
    let found =
        get(reader, organization, id)?.filter(|webhook| webhook.service == service.as_str());
    found.ok_or_else(|| ApiError::not_found("webhook"))
}

/// Lists webhooks, oldest first; without a service, those of both, one after the other.
pub(crate) fn list(
    reader: Reader<'_>,
    organization: i64,
    service: Option<Service>,
) -> Result<Vec<Webhook>, ApiError> {
    let sql = format!(
        "{SELECT} WHERE organization = ?1 AND (?2 IS NULL OR service = ?2) ORDER BY service, id"
    );
    reader.all(&sql, (organization, service.map(Service::as_str)), read)
}

/// The IDs of the active webhooks that subscribe to this event, oldest first.
pub(crate) fn subscribers(
    reader: Reader<'_>,
    organization: i64,
    event: Event,
) -> Result<Vec<String>, ApiError> {
    let sql = "SELECT id FROM webhook WHERE organization = ?1 AND active
               AND instr(' ' || events || ' ', ' ' || ?2 || ' ') ORDER BY id";
    reader.all(sql, (organization, event.as_str()), |row| row.get(0))
}

/// The IDs of all webhooks.
pub(crate) fn ids(reader: Reader<'_>) -> Result<HashSet<String>, ApiError> {
    let ids = reader.all("SELECT id FROM webhook", [], |row| row.get(0))?;
    Ok(ids.into_iter().collect())
}

/// Reads all columns, in the order of the table.
const SELECT: &str = "SELECT id, organization, service, url, events, active, secret, created_at,
    updated_at FROM webhook";
