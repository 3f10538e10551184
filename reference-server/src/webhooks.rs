//! Who is to hear of what: every webhook of both services, kept in memory
//! beside the database, so that an event without subscribers costs nothing and
//! an attempt reads url and secret as they are at that moment (`docs/undocumented/email-service.md#retry-schedule`).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rusqlite::Connection;
use svc_sdk::Service;
use tokio::sync::Notify;
use url::Url;

use crate::app::App;
use crate::error::{ApiError, Problems};
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
        /// A documented event of one of the services, or the test event (`docs/undocumented/email-service.md#webhook-test`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Event { $($variant,)* }

        impl Event {
            /// The events that a webhook can subscribe to.
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
    /// The event of the test operation, which nobody subscribes to.
    pub(crate) const TEST: &str = "webhook.test";

    pub(crate) fn parse(service: Service, name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|event| event.service() == service && event.as_str() == name)
    }

    /// The names of a service's events, for an error that lists them.
    pub(crate) fn names(service: Service) -> String {
        let all = Self::ALL.iter().filter(|event| event.service() == service);
        all.map(|event| event.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// All webhooks as they are committed.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    registry: RwLock<Registry>,
    /// Told whenever an attempt ends.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Registry {
    /// Attempts under way, by webhook.
    under_way: HashMap<String, usize>,
    by_id: HashMap<String, Arc<Webhook>>,
    by_organization: HashMap<i64, Vec<Arc<Webhook>>>,
}

impl Webhooks {
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Webhook>> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).by_id.get(id).cloned()
    }

    /// The active webhooks of an organization that hear of this event.
    pub(crate) fn subscribers(&self, organization: i64, event: Event) -> Vec<Arc<Webhook>> {
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        let Some(webhooks) = registry.by_organization.get(&organization) else {
            return Vec::new();
        };
        let hears = |hook: &&Arc<Webhook>| hook.active && hook.events.contains(&event);
        webhooks.iter().filter(hears).cloned().collect()
    }

    /// Begins an attempt: the webhook as it is now, where it is active.
    pub(crate) fn begin(self: &Arc<Self>, id: &str) -> Option<UnderWay> {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let webhook = registry.by_id.get(id).filter(|webhook| webhook.active)?;
        let webhook = Arc::clone(webhook);
        *registry.under_way.entry(id.to_owned()).or_default() += 1;
        Some(UnderWay { webhook, webhooks: Arc::clone(self) })
    }

    /// Waits until no attempt at this webhook is under way any more, but not
    /// for long: what has not ended by then has been sent.
    pub(crate) async fn until_quiet(&self, id: &str) {
        let quiet = async {
            loop {
                let ended = self.ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                if !self.is_busy(id) {
                    return;
                }
                ended.await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(2), quiet).await;
    }

    fn is_busy(&self, id: &str) -> bool {
        let registry = self.registry.read().unwrap_or_else(PoisonError::into_inner);
        registry.under_way.contains_key(id)
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

    /// Takes all webhooks of an organization away.
    pub(crate) fn forget(&self, organization: i64) {
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

    /// Reads all webhooks from the database anew.
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
        loaded.under_way = std::mem::take(&mut registry.under_way);
        *registry = loaded;
        Ok(())
    }
}

/// An attempt under way; it ends with this.
pub(crate) struct UnderWay {
    pub(crate) webhook: Arc<Webhook>,
    webhooks: Arc<Webhooks>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut registry = self.webhooks.registry.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = registry.under_way.get_mut(&self.webhook.id) {
            *count -= 1;
            if *count == 0 {
                registry.under_way.remove(&self.webhook.id);
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

/// Reads a row of all columns in the order of the table.
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

// What the webhooks of both services have in common.

/// Checks the url and the events of a new webhook.
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

/// The extraction service takes any absolute http(s) URL (`docs/undocumented/extraction-service.md#webhook-registration`), the email
/// service https, and http where it stays on this machine (`docs/undocumented/email-service.md#webhook-urls`).
pub(crate) fn check_url(service: Service, public: bool, text: &str) -> Result<(), &'static str> {
    let no_url = "must be an absolute http(s) URL";
    // The parser drops white space, and what is stored must be what is called.
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("must not contain white space or control characters");
    }
    let url = Url::parse(text).map_err(|_| no_url)?;
    // The parser also finds a host in `https:a.test` and in `https:///a.test`.
    let rest = text.split_once("://").map(|(_, rest)| rest);
    let has_host = rest.is_some_and(|rest| !rest.starts_with(['/', '\\']));
    if !matches!(url.scheme(), "http" | "https") || !has_host {
        return Err(no_url);
    }
    if text.len() > 2048 {
        return Err("must not be longer than 2048 bytes");
    }
    if service == Service::Email && url.scheme() == "http" && (public || !is_loopback(&url)) {
        return Err("must be an https URL; http is accepted for loopback addresses only");
    }
    Ok(())
}

/// Known events, each once, at least one.
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
                format!("is no event of the {service} service: {}", Event::names(service)),
            ),
        }
    }
    events
}

/// Puts a new webhook into the database, with a secret of its own.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    app: &Arc<App>,
    organization: i64,
    service: Service,
    url: String,
    events: Vec<Event>,
) -> Result<Webhook, ApiError> {
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
            joined(&webhook.events),
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
        (&webhook.id, &webhook.url, joined(&webhook.events), webhook.active, webhook.updated_at),
    )?;
    let (webhooks, changed) = (Arc::clone(&app.webhooks), webhook.clone());
    tx.after_commit(move || webhooks.put(changed));
    Ok(())
}

/// Removes a webhook; what was to be delivered to it is dropped.
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
    app.webhooks.until_quiet(&gone).await;
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

/// Newest last.
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

fn joined(events: &[Event]) -> String {
    events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(" ")
}
