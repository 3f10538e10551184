//! Webhooks of both services, and the registry that caches all of them in memory: an
//! event without subscribers costs nothing, and every attempt uses the current URL and
//! secret (`docs/undocumented/email-service.md#retry-schedule`).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rusqlite::Connection;
use svc_sdk::Service;
use tokio::sync::Notify;
use url::Url;

use crate::app::App;
use crate::error::{ApiError, Code, Problems};
use crate::id::{self, Prefix};
use crate::keys::{random_hex, service_from};
use crate::outbound::is_loopback;
use crate::store::{self, Tx};

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

macro_rules! events {
    ($($variant:ident $name:literal $service:ident,)*) => {
        /// A documented event of one of the services.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Event { $($variant,)* }

        impl Event {
            /// All events that a webhook can subscribe to.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub(crate) const fn service(self) -> Service {
                match self { $(Self::$variant => Service::$service,)* }
            }
        }
    };
}

events! {
    EmailSent "email.sent" Email,
    EmailDelivered "email.delivered" Email,
    EmailBounced "email.bounced" Email,
    EmailOpened "email.opened" Email,
    EmailClicked "email.clicked" Email,
    EmailComplained "email.complained" Email,
    EmailFailed "email.failed" Email,
    EmailReceived "email.received" Email,
    ExtractionCompleted "extraction.completed" Extraction,
    ExtractionFailed "extraction.failed" Extraction,
}

impl Event {
    /// Event name of the test operation. Webhooks cannot subscribe to it
    /// (`docs/undocumented/email-service.md#webhook-test`).
    pub(crate) const TEST: &str = "webhook.test";

    pub(crate) fn parse(service: Service, name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|event| event.service() == service && event.as_str() == name)
    }

    /// The event names of a service, for error messages.
    pub(crate) fn names(service: Service) -> String {
        let all = Self::ALL.iter().filter(|event| event.service() == service);
        all.map(|event| event.as_str()).collect::<Vec<_>>().join(", ")
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

    /// The active webhooks of an organization that subscribe to this event.
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
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let webhook = registry.by_id.get(id).filter(|webhook| webhook.active)?;
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
    pub(crate) fn load(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
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

// Operations that the webhooks of both services share.

/// Validates the URL and the events of a new webhook.
pub(crate) fn check_new(
    service: Service,
    public: bool,
    url: Option<String>,
    events: Option<Vec<String>>,
) -> Result<(String, Vec<Event>), ApiError> {
    let mut problems = Problems::default();
    match &url {
        None => problems.add("url", "is required"),
        Some(url) => {
            if let Err(message) = check_url(service, public, url) {
                problems.add("url", message);
            }
        }
    }
    let events = match events {
        None => {
            problems.add("events", "is required");
            Vec::new()
        }
        Some(names) => check_events(service, &names, &mut problems),
    };
    problems.check()?;
    Ok((url.unwrap_or_default(), events))
}

/// Validates a webhook URL. The extraction service accepts any absolute http(s) URL
/// (`docs/undocumented/extraction-service.md#webhook-registration`). The email service
/// requires https, except for loopback targets
/// (`docs/undocumented/email-service.md#webhook-urls`).
pub(crate) fn check_url(service: Service, public: bool, text: &str) -> Result<(), &'static str> {
    let not_a_url = "must be an absolute http(s) URL";
    // The URL parser drops white space, but the stored URL must be the one that is
    // called.
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("must not contain white space or control characters");
    }
    let url = Url::parse(text).map_err(|_| not_a_url)?;
    // The URL parser also accepts `https:a.test` and `https:///a.test`.
    let rest = text.split_once("://").map(|(_, rest)| rest);
    let has_host = rest.is_some_and(|rest| !rest.starts_with(['/', '\\']));
    if !matches!(url.scheme(), "http" | "https") || !has_host {
        return Err(not_a_url);
    }
    if text.len() > 2048 {
        return Err("must not be longer than 2048 bytes");
    }
    if service == Service::Email && url.scheme() == "http" && (public || !is_loopback(&url)) {
        return Err("must be an https URL; http is accepted for loopback addresses only");
    }
    Ok(())
}

/// Validates event names: at least one, all known. Duplicates are dropped.
pub(crate) fn check_events(
    service: Service,
    names: &[String],
    problems: &mut Problems,
) -> Vec<Event> {
    if names.is_empty() {
        problems.add("events", "must name at least one event");
    }
    let mut events = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match Event::parse(service, name) {
            Some(event) if events.contains(&event) => {}
            Some(event) => events.push(event),
            None => problems.add(
                format!("events[{index}]"),
                format!(
                    "is not an event of the {service} service; valid events: {}",
                    Event::names(service)
                ),
            ),
        }
    }
    events
}

/// Maximum number of webhooks of an organization, of both services: each event is written
/// once for each of them (`docs/undocumented/both-services.md#bounds`).
const MAX_WEBHOOKS: i64 = 200;

/// Inserts a new webhook with a random signing secret.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    app: &Arc<App>,
    organization: i64,
    service: Service,
    url: String,
    events: Vec<Event>,
) -> Result<Webhook, ApiError> {
    let sql = "SELECT COUNT(*) FROM webhook WHERE organization = ?1";
    let count: i64 = tx.connection().query_row(sql, [organization], |row| row.get(0))?;
    if count >= MAX_WEBHOOKS {
        let message = format!("an organization can have at most {MAX_WEBHOOKS} webhooks");
        return Err(ApiError::new(Code::Conflict, message)
            .with(|details| details.limit = Some(MAX_WEBHOOKS as usize)));
    }
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
    let (webhooks, added) = (Arc::clone(&app.webhooks), webhook.clone());
    tx.after_commit(move || webhooks.put(added));
    Ok(webhook)
}

pub(crate) fn update(tx: &mut Tx<'_>, app: &Arc<App>, webhook: &Webhook) -> Result<(), ApiError> {
    tx.execute(
        "UPDATE webhook SET url = ?2, events = ?3, active = ?4, updated_at = ?5 WHERE id = ?1",
        (
            &webhook.id,
            &webhook.url,
            event_names(&webhook.events),
            webhook.active,
            webhook.updated_at,
        ),
    )?;
    let (webhooks, changed) = (Arc::clone(&app.webhooks), webhook.clone());
    tx.after_commit(move || webhooks.put(changed));
    Ok(())
}

/// Deletes a webhook. Its pending deliveries are dropped.
pub(crate) async fn delete(
    app: &Arc<App>,
    id: String,
    organization: i64,
    service: Service,
) -> Result<(), ApiError> {
    let (webhooks, gone) = (Arc::clone(&app.webhooks), id.clone());
    app.store
        .write(move |tx| {
            find(tx.connection(), &id, organization, service)?;
            tx.execute("DELETE FROM webhook WHERE id = ?1", [&id])?;
            tx.execute(
                "UPDATE delivery SET state = 'dropped', due_at = NULL, updated_at = ?2
                 WHERE webhook = ?1 AND due_at IS NOT NULL",
                (&id, tx.now),
            )?;
            tx.after_commit(move || webhooks.remove(&id));
            Ok(())
        })
        .await?;
    app.webhooks.wait_until_idle(&gone).await;
    Ok(())
}

pub(crate) fn find(
    connection: &Connection,
    id: &str,
    organization: i64,
    service: Service,
) -> Result<Webhook, ApiError> {
    let sql =
        "SELECT id, organization, service, url, events, active, secret, created_at, updated_at
               FROM webhook WHERE id = ?1 AND organization = ?2 AND service = ?3";
    store::find(connection, sql, (id, organization, service.as_str()), read)?
        .ok_or_else(|| ApiError::not_found("webhook"))
}

/// Lists webhooks, oldest first.
pub(crate) fn list(
    connection: &Connection,
    organization: i64,
    service: Service,
) -> Result<Vec<Webhook>, ApiError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, organization, service, url, events, active, secret, created_at, updated_at
         FROM webhook WHERE organization = ?1 AND service = ?2 ORDER BY id",
    )?;
    let rows = statement.query_map((organization, service.as_str()), read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn event_names(events: &[Event]) -> String {
    events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(" ")
}
