//! An operator's work with stored deliveries: count what waits, read, retry, replay and delete
//! deliveries that a `Select` names, and pause a tenant. Changes are made in slices of `SLICE`
//! rows, each its own transaction, so that accepting and handling go on meanwhile; after an error,
//! some rows may be changed already. Rows that another transaction has locked are passed over.
//! Workers handle what is due again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use svc_sql::{Value, params};
use tokio::time::sleep;
use webhook_verify::Delivery;

use crate::database::{Database, within};
use crate::job::time;
use crate::queue::COLUMNS;
use crate::{DeadLetter, Error, Inbox, Job};

/// How many rows one statement changes at most. Between two, others can write.
const SLICE: usize = 1000;

/// Selects stored deliveries: all, or those that meet each condition.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use webhook_inbox::{Error, Inbox, Select, Sqlite};
///
/// async fn after_an_outage(inbox: &Inbox<Sqlite>) -> Result<(), Error> {
///     let hour_ago = SystemTime::now() - Duration::from_secs(3600);
///     let bounced = Select::all().tenant("acme").event("email.bounced").received_since(hour_ago);
///     println!("{} are tried again now", inbox.retry_now(&bounced).await?);
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Select {
    tenant: Option<String>,
    event: Option<String>,
    first_id: i64,
    last_id: i64,
    /// In milliseconds since 1970.
    since: i64,
    before: i64,
}

impl Select {
    /// All deliveries.
    pub fn all() -> Self {
        Self {
            tenant: None,
            event: None,
            first_id: i64::MIN,
            last_id: i64::MAX,
            since: i64::MIN,
            before: i64::MAX,
        }
    }

    /// Selects one tenant or scope. The empty text selects deliveries without one.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Selects one event, such as `email.bounced`.
    pub fn event(mut self, event: impl Into<String>) -> Self {
        self.event = Some(event.into());
        self
    }

    /// Selects one delivery by its number in the table.
    pub fn id(mut self, id: i64) -> Self {
        self.first_id = id;
        self.last_id = id;
        self
    }

    /// Selects what was accepted then or later, by the clock of the database.
    pub fn received_since(mut self, time: SystemTime) -> Self {
        self.since = millis_of(time);
        self
    }

    /// Selects what was accepted before, by the clock of the database.
    pub fn received_before(mut self, time: SystemTime) -> Self {
        self.before = millis_of(time);
        self
    }

    /// The conditions, and the parameters `$1` to `$6`.
    fn condition(&self) -> (&'static str, Vec<Value>) {
        let parameters = params![
            self.first_id,
            self.last_id,
            self.since,
            self.before,
            self.tenant.as_deref(),
            self.event.as_deref(),
        ];
        let condition = "id BETWEEN $1 AND $2 AND received_at >= $3 AND received_at < $4 \
             AND ($5 IS NULL OR coalesce(scope, '') = $5) AND ($6 IS NULL OR event = $6)";
        (condition, parameters)
    }
}

fn millis_of(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The deliveries of one tenant that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// The tenant or scope. Empty for deliveries without.
    pub tenant: String,
    /// How many deliveries wait or are being handled.
    pub pending: u64,
    /// How long ago the oldest of them was accepted.
    pub oldest: Duration,
    /// How many dead letters there are.
    pub dead: u64,
}

impl<D: Database> Inbox<D> {
    /// Waits until every accepted delivery was handled or is a dead letter. For tests: limit it
    /// with `tokio::time::timeout`, because without a worker it waits for ever.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn until_idle(&self) -> Result<(), Error> {
        let pending = "SELECT id FROM webhook_inbox WHERE status = 'pending' LIMIT 1";
        while !self.query::<(i64,)>(pending, params![]).await?.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// The deliveries that wait, and the dead letters, for each tenant that has any.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn backlog(&self) -> Result<Vec<Backlog>, Error> {
        let backlog = include_str!("sql/backlog.sql");
        let rows = self.query(backlog, params![]).await?;
        let tenants = rows
            .into_iter()
            .map(|(tenant, pending, oldest, dead): (_, _, i64, _)| Backlog {
                tenant,
                pending,
                // Negative if the clock was set back.
                oldest: Duration::from_millis(oldest.max(0).unsigned_abs()),
                dead,
            });
        Ok(tenants.collect())
    }

    /// Lists up to `limit` dead letters of all scopes whose [`id`](DeadLetter::id) is greater than
    /// `after`, in the order of their ids. Begin with 0.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn dead_letters(&self, after: i64, limit: u32) -> Result<Vec<DeadLetter>, Error> {
        let list = "SELECT id, scope, event, key, attempts, error, received_at, ended_at FROM webhook_inbox \
             WHERE status = 'dead' AND id > $1 ORDER BY id LIMIT $2";
        let rows = self.query(list, params![after, u64::from(limit)]).await?;
        let letters = rows.into_iter().map(
            |(id, scope, event, key, attempts, error, received_at, ended_at)| DeadLetter {
                id,
                scope,
                event,
                key,
                attempts,
                error,
                received_at: time(received_at),
                failed_at: time(ended_at),
            },
        );
        Ok(letters.collect())
    }

    /// Reads a stored delivery by its number in the table. `None` if there is none, or if it was
    /// handled and its body removed.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn delivery(&self, id: i64) -> Result<Option<Delivery>, Error> {
        let read =
            format!("SELECT {COLUMNS} FROM webhook_inbox WHERE id = $1 AND length(body) > 0");
        let row = within(self.database.query(&read, params![id])).await?.pop();
        Ok(row.map(Job::read).transpose()?.map(|job| job.delivery))
    }

    /// Makes selected dead letters, and deliveries that wait for their next attempt, due at once,
    /// with all their attempts again. Returns how many there were.
    ///
    /// # Errors
    ///
    /// The error of the database. Some may be due already.
    pub async fn retry_now(&self, select: &Select) -> Result<u64, Error> {
        // What was not tried yet is due.
        let which = "(status = 'dead' OR status = 'pending' AND owner IS NULL AND delay > 0)";
        self.make_due(which, select).await
    }

    /// Lets selected deliveries be handled once more that were handled within the retention by a
    /// worker that [keeps bodies](crate::Worker::keep_bodies). Returns how many there were.
    ///
    /// # Errors
    ///
    /// The error of the database. Some may be due already.
    pub async fn replay_handled(&self, select: &Select) -> Result<u64, Error> {
        self.make_due("status = 'done' AND length(body) > 0", select)
            .await
    }

    async fn make_due(&self, which: &str, select: &Select) -> Result<u64, Error> {
        let set = "UPDATE webhook_inbox SET status = 'pending', due_at = 0, delay = 0, attempts = 0, \
                   crashes = 0, ended_at = NULL";
        let count = self.change(set, which, select).await?;
        self.wake();
        tracing::info!(count, "webhook deliveries are due at once");
        Ok(count)
    }

    /// Deletes selected dead letters. Returns how many there were.
    ///
    /// A deleted delivery is not remembered: if the sender repeats it, it is new.
    ///
    /// # Errors
    ///
    /// The error of the database. Some may be deleted already.
    pub async fn delete_dead_letters(&self, select: &Select) -> Result<u64, Error> {
        self.change("DELETE FROM webhook_inbox", "status = 'dead'", select)
            .await
    }

    /// Deletes everything that is stored of a tenant or scope, but for what is being handled.
    /// Returns how many deliveries that were.
    ///
    /// # Errors
    ///
    /// The error of the database. Some may be deleted already.
    pub async fn delete_tenant(&self, tenant: &str) -> Result<u64, Error> {
        let select = Select::all().tenant(tenant);
        self.change("DELETE FROM webhook_inbox", "owner IS NULL", &select)
            .await
    }

    /// Lets the deliveries of a tenant or scope wait, until [`resume`](Self::resume). They are
    /// accepted, and what is being handled is finished. Workers notice it at their next
    /// [`poll_interval`](crate::Worker::poll_interval).
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn pause(&self, tenant: &str) -> Result<(), Error> {
        let pause = "INSERT INTO webhook_inbox_paused (scope) VALUES ($1) ON CONFLICT DO NOTHING";
        self.execute(pause, params![tenant]).await.map(drop)
    }

    /// Ends a [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn resume(&self, tenant: &str) -> Result<(), Error> {
        let resume = "DELETE FROM webhook_inbox_paused WHERE scope = $1";
        self.execute(resume, params![tenant]).await.map(drop)
    }

    /// Changes the selected rows in slices. Returns how many.
    async fn change(&self, change: &str, which: &str, select: &Select) -> Result<u64, Error> {
        let (condition, mut parameters) = select.condition();
        let statement = format!(
            "{change} WHERE id IN (SELECT id FROM webhook_inbox WHERE {which} AND {condition} \
             ORDER BY id LIMIT {SLICE} FOR UPDATE SKIP LOCKED) RETURNING id"
        );
        let mut count = 0;
        loop {
            let rows: Vec<(i64,)> = self.query(&statement, parameters.clone()).await?;
            count += rows.len() as u64;
            let Some((last,)) = rows.iter().max() else {
                return Ok(count);
            };
            parameters[0] = Value::Int(last.saturating_add(1));
        }
    }
}
