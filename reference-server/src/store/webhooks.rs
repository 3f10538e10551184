//! Webhooks of both services, and the registry that caches all of them in memory: an
//! event without subscribers costs nothing, and every attempt uses the current URL and
//! secret (`docs/undocumented/email-service.md#retry-schedule`).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use svc_sdk::Service;
use tokio::sync::Notify;

use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::id::{self, Prefix};
use crate::store::keys::{random_hex, service_from};
use crate::store::{Reader, Store, Tx, deliveries};

#[derive(Clone)]
pub(crate) struct Webhook {
    pub(crate) id: String,
    pub(crate) organization: i64,
    pub(crate) service: Service,
    pub(crate) url: String,
    pub(crate) events: Vec<Event>,
    pub(crate) active: bool,
    pub(crate) secret: String,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("id", &self.id).finish_non_exhaustive()
    }
}

/// All committed webhooks, in memory.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    registry: RwLock<Registry>,
    /// Notified whenever an attempt ends.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Registry {
    /// Number of attempts in flight, by webhook id.
    in_flight: HashMap<String, usize>,
    by_id: HashMap<String, Arc<Webhook>>,
    by_organization: HashMap<i64, Vec<Arc<Webhook>>>,
}

impl Webhooks {
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Webhook>> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).by_id.get(id).cloned()
    }

    /// The active webhooks of an organization that subscribe to this event, oldest first.
    pub(crate) fn subscribers(&self, organization: i64, event: Event) -> Vec<Arc<Webhook>> {
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        let Some(webhooks) = registry.by_organization.get(&organization) else {
            return Vec::new();
        };
        let subscribes = |hook: &&Arc<Webhook>| hook.active && hook.events.contains(&event);
        webhooks.iter().filter(subscribes).cloned().collect()
    }

    /// Begins an attempt. Returns the current webhook, or `None` if it is deleted or
    /// inactive.
    pub(crate) fn begin_attempt(self: &Arc<Self>, id: &str) -> Option<AttemptGuard> {
        self.begin(id, |webhook| webhook.active)
    }

    /// Like [`Webhooks::begin_attempt`], also for an inactive webhook.
    pub(crate) fn begin_test(self: &Arc<Self>, id: &str) -> Option<AttemptGuard> {
        self.begin(id, |_| true)
    }

    fn begin(self: &Arc<Self>, id: &str, is_wanted: fn(&Webhook) -> bool) -> Option<AttemptGuard> {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let webhook = registry.by_id.get(id).filter(|webhook| is_wanted(webhook))?;
        let webhook = Arc::clone(webhook);
        *registry.in_flight.entry(id.to_owned()).or_default() += 1;
        Some(AttemptGuard { webhook, webhooks: Arc::clone(self) })
    }

    /// Waits, at most 2 s, until no attempt to this webhook is in flight. A request
    /// that is still running after that has already been sent.
    pub(crate) async fn wait_until_idle(&self, id: &str) {
        let quiet = async {
            loop {
                let ended = self.ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                if !self.is_attempt_active(id) {
                    return;
                }
                ended.await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), quiet).await;
    }

    fn is_attempt_active(&self, id: &str) -> bool {
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        registry.in_flight.contains_key(id)
    }

    pub(crate) fn put(&self, webhook: Webhook) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        registry.put(Arc::new(webhook));
    }

    pub(crate) fn remove(&self, id: &str) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(gone) = registry.by_id.remove(id)
            && let Some(webhooks) = registry.by_organization.get_mut(&gone.organization)
        {
            webhooks.retain(|hook| hook.id != id);
        }
    }

    /// Removes all webhooks of an organization.
    pub(crate) fn remove_organization(&self, organization: i64) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        for gone in registry.by_organization.remove(&organization).unwrap_or_default() {
            registry.by_id.remove(&gone.id);
        }
    }

    pub(crate) fn clear(&self) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        registry.by_id.clear();
        registry.by_organization.clear();
    }

    /// Replaces all webhooks by those in the database.
    pub(crate) fn load(&self, reader: Reader<'_>) -> rusqlite::Result<()> {
        let mut statement = reader.statement(
            "SELECT id, organization, service, url, events, active, secret, created_at, updated_at
             FROM webhook ORDER BY id",
        )?;
        let mut loaded = Registry::default();
        for webhook in statement.query_map([], read)? {
            loaded.put(Arc::new(webhook?));
        }
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        loaded.in_flight = std::mem::take(&mut registry.in_flight);
        *registry = loaded;
        Ok(())
    }
}

/// Marks an attempt as in flight until it is dropped.
pub(crate) struct AttemptGuard {
    pub(crate) webhook: Arc<Webhook>,
    webhooks: Arc<Webhooks>,
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        let mut registry = self.webhooks.registry.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = registry.in_flight.get_mut(&self.webhook.id) {
            *count -= 1;
            if *count == 0 {
                registry.in_flight.remove(&self.webhook.id);
            }
        }
        drop(registry);
        self.webhooks.ended.notify_waiters();
    }
}

impl Registry {
    fn put(&mut self, webhook: Arc<Webhook>) {
        let others = self.by_organization.entry(webhook.organization).or_default();
        match others.iter_mut().find(|other| other.id == webhook.id) {
            Some(other) => *other = Arc::clone(&webhook),
            None => others.push(Arc::clone(&webhook)),
        }
        self.by_id.insert(webhook.id.clone(), webhook);
    }
}

/// Reads a row with all columns, in the order of the table.
pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Webhook> {
    let service = service_from(&row.get::<_, String>(2)?);
    let events: String = row.get(4)?;
    Ok(Webhook {
        id: row.get(0)?,
        organization: row.get(1)?,
        service,
        url: row.get(3)?,
        events: events.split(' ').filter_map(|name| Event::parse(service, name)).collect(),
        active: row.get(5)?,
        secret: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

/// Maximum number of webhooks of an organization, of both services: each event is written
/// once for each of them (`docs/undocumented/both-services.md#bounds`).
const MAX_WEBHOOKS: usize = 200;

/// Inserts a new webhook with a random signing secret.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    webhooks: &Arc<Webhooks>,
    organization: i64,
    service: Service,
    url: String,
    events: Vec<Event>,
) -> Result<Webhook, ApiError> {
    tx.limit("webhook", organization, MAX_WEBHOOKS)?;
    let webhook = Webhook {
        id: id::new(Prefix::Webhook),
        organization,
        service,
        url,
        events,
        active: true,
        secret: format!("whsec_{}", random_hex::<32>()?),
        created_at: tx.now,
        updated_at: tx.now,
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
            event_names(&webhook.events),
            &webhook.secret,
            tx.now,
        ),
    )?;
    let (webhooks, added) = (Arc::clone(webhooks), webhook.clone());
    tx.after_commit(move || webhooks.put(added));
    Ok(webhook)
}

pub(crate) fn update(
    tx: &mut Tx<'_>,
    webhooks: &Arc<Webhooks>,
    webhook: &Webhook,
) -> Result<(), ApiError> {
    tx.execute(
        "UPDATE webhook SET url = ?2, events = ?3, active = ?4, secret = ?5, updated_at = ?6
         WHERE id = ?1",
        (
            &webhook.id,
            &webhook.url,
            event_names(&webhook.events),
            webhook.active,
            &webhook.secret,
            webhook.updated_at,
        ),
    )?;
    let (webhooks, changed) = (Arc::clone(webhooks), webhook.clone());
    tx.after_commit(move || webhooks.put(changed));
    Ok(())
}

/// Deletes a webhook. Its pending deliveries are dropped, and its attempts in flight are waited for.
pub(crate) async fn delete(
    store: &Store,
    webhooks: &Arc<Webhooks>,
    id: String,
    organization: i64,
    service: Service,
) -> Result<(), ApiError> {
    let (registry, gone) = (Arc::clone(webhooks), id.clone());
    let delete = store.write(move |tx| {
        find(tx.reader(), &id, organization, service)?;
        tx.execute("DELETE FROM webhook WHERE id = ?1", [&id])?;
        deliveries::drop_all(tx, &id)?;
        tx.after_commit(move || registry.remove(&id));
        Ok(())
    });
    delete.await?;
    webhooks.wait_until_idle(&gone).await;
    Ok(())
}

pub(crate) fn find(
    reader: Reader<'_>,
    id: &str,
    organization: i64,
    service: Service,
) -> Result<Webhook, ApiError> {
    let sql =
        "SELECT id, organization, service, url, events, active, secret, created_at, updated_at
               FROM webhook WHERE id = ?1 AND organization = ?2 AND service = ?3";
    reader
        .find(sql, (id, organization, service.as_str()), read)?
        .ok_or_else(|| ApiError::not_found("webhook"))
}

/// Lists webhooks, oldest first.
pub(crate) fn list(
    reader: Reader<'_>,
    organization: i64,
    service: Service,
) -> Result<Vec<Webhook>, ApiError> {
    let mut statement = reader.statement(
        "SELECT id, organization, service, url, events, active, secret, created_at, updated_at
         FROM webhook WHERE organization = ?1 AND service = ?2 ORDER BY id",
    )?;
    let rows = statement.query_map((organization, service.as_str()), read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn event_names(events: &[Event]) -> String {
    events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(" ")
}
