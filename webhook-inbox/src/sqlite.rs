//! An inbox in SQLite.

mod worker;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, TransactionBehavior, params};
use tokio::sync::Mutex;
use webhook_verify::Delivery;

use crate::database::{Entry, Operations, SLICE, WRONG_CLOCK};
use crate::inbox::result_of;
use crate::job::Ticket;
use crate::{Accepted, DeadLetter, Error, ErrorKind, Inbox, Job};

/// The database of an [`Inbox`] in SQLite (feature `sqlite`).
///
/// One connection, because SQLite has one writer at a time. Its operations run on tokio's
/// blocking threads.
#[derive(Clone)]
pub struct Sqlite {
    connection: Arc<Mutex<Connection>>,
}

/// How long an operation waits while another connection writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

impl Inbox<Sqlite> {
    /// The statements that create the table and its indexes.
    pub const SCHEMA: &str = include_str!("sqlite/schema.sql");

    /// Opens the database file of your application, or creates it.
    ///
    /// It sets the journal mode to WAL, so that readers and the writer do not wait for each
    /// other, and commits with `synchronous=FULL`: an accepted delivery survives a power
    /// failure. Like all of SQLite, it must be on a local disk.
    ///
    /// # Errors
    ///
    /// The error of SQLite.
    pub fn sqlite(path: impl AsRef<Path>) -> Result<Self, Error> {
        let open = || {
            let connection = Connection::open(path)?;
            connection.busy_timeout(BUSY_TIMEOUT)?;
            use_write_ahead_log(&connection)?;
            connection.pragma_update(None, "synchronous", "full")?;
            Ok(connection)
        };
        let connection = Arc::new(Mutex::new(open().map_err(error)?));
        Ok(Self::new(Sqlite { connection }, Arc::default()))
    }

    /// Stores a verified delivery in your own transaction, unless it is stored already.
    ///
    /// The delivery and what else the transaction writes are committed together. A
    /// [`Transaction`](rusqlite::Transaction) coerces to a `&Connection`. After the commit, call
    /// [`wake`](Self::wake), and respond 2xx. It blocks, so call it on a blocking thread.
    ///
    /// ```
    /// use rusqlite::Connection;
    /// use webhook_inbox::{BoxError, Inbox, Sqlite};
    /// use webhook_verify::Delivery;
    ///
    /// fn receive(
    ///     inbox: &Inbox<Sqlite>,
    ///     connection: &mut Connection,
    ///     delivery: &Delivery,
    /// ) -> Result<(), BoxError> {
    ///     let tx = connection.transaction()?;
    ///     tx.execute("UPDATE counters SET deliveries = deliveries + 1", [])?;
    ///     inbox.accept_in(&tx, delivery)?;
    ///     tx.commit()?;
    ///     inbox.wake();
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of SQLite. Roll back, and respond 503.
    pub fn accept_in(
        &self,
        connection: &Connection,
        delivery: &Delivery,
    ) -> Result<Accepted, Error> {
        insert(connection, &self.entry(delivery)).map_err(error)
    }
}

impl Sqlite {
    /// Runs a function with the connection on a blocking thread. A panic is resumed.
    async fn blocking<T: Send + 'static>(
        &self,
        function: impl FnOnce(&mut Connection) -> T + Send + 'static,
    ) -> T {
        let mut connection = self.connection.clone().lock_owned().await;
        result_of(tokio::task::spawn_blocking(move || function(&mut connection))).await
    }

    async fn call<T: Send + 'static>(
        &self,
        function: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        self.blocking(function).await.map_err(error)
    }
}

impl Operations for Sqlite {
    async fn migrate(&self) -> Result<(), Error> {
        self.call(|connection| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            tx.execute_batch(Inbox::<Self>::SCHEMA)?;
            tx.commit()
        })
        .await
    }

    async fn accept(&self, entry: Entry) -> Result<Accepted, Error> {
        let accept = self.call(move |connection| insert(connection, &entry));
        match tokio::time::timeout(BUSY_TIMEOUT, accept).await {
            Ok(accepted) => accepted,
            Err(elapsed) => Err(Error::new(ErrorKind::Unavailable, elapsed)),
        }
    }

    async fn claim(&self, lease: Duration) -> Result<Option<Job>, Error> {
        self.call(move |connection| {
            // Reading first: an idle worker takes no write lock.
            let due = "SELECT id FROM webhook_inbox WHERE status = 'pending' AND due_at <= ?1 \
                       ORDER BY due_at, id LIMIT 1";
            let now = now();
            if connection.query_row(due, [now], |_| Ok(())).optional()?.is_none() {
                return Ok(None);
            }
            let claim = format!(
                "UPDATE webhook_inbox SET due_at = ?2, token = token + 1, attempts = attempts + 1 \
                 WHERE id = ({due}) \
                 RETURNING id, token, attempts, scope, service, event, key, body, received_at"
            );
            connection.query_row(&claim, [now, after(now, lease)], job).optional()
        })
        .await
    }

    async fn next_due(&self) -> Result<Option<Duration>, Error> {
        self.call(|connection| {
            let last = "SELECT due_at, token FROM webhook_inbox WHERE status = 'pending' \
                        ORDER BY due_at DESC, id DESC LIMIT 1";
            let last = connection.query_row(last, [], |row| Ok((row.get(0)?, row.get(1)?)));
            let last: Option<(i64, i64)> = last.optional()?;
            let (now, limit) = (now(), after(now(), WRONG_CLOCK));
            let is_wrong = |(due, token)| due > limit || (token == 0 && due > now + 1000);
            if last.is_some_and(is_wrong) {
                let repair = "UPDATE webhook_inbox SET due_at = ?1 WHERE status = 'pending' \
                              AND (due_at > ?2 OR (token = 0 AND due_at > ?1))";
                connection.execute(repair, [now, limit])?;
            }
            let next = "SELECT min(due_at) FROM webhook_inbox WHERE status = 'pending'";
            let due: Option<i64> = connection.query_row(next, [], |row| row.get(0))?;
            Ok(due.map(|due| millis(due.saturating_sub(now))))
        })
        .await
    }

    async fn renew(&self, ticket: Ticket, lease: Duration) -> Result<bool, Error> {
        self.call(move |connection| {
            // After the commit of the handler's transaction, the ticket is still valid.
            connection
                .execute(
                    "UPDATE webhook_inbox SET due_at = ?1 WHERE id = ?2 AND token = ?3",
                    [after(now(), lease), ticket.id, ticket.token],
                )
                .map(|rows| rows > 0)
        })
        .await
    }

    async fn fail(
        &self,
        ticket: Ticket,
        error: String,
        retry_in: Option<Duration>,
    ) -> Result<bool, Error> {
        self.call(move |connection| {
            let status = if retry_in.is_some() { "pending" } else { "dead" };
            let now = now();
            connection
                .execute(
                    "UPDATE webhook_inbox \
                     SET status = ?1, due_at = ?2, error = ?3, ended_at = ?4, token = token + 1 \
                     WHERE id = ?5 AND token = ?6 AND status = 'pending'",
                    params![
                        status,
                        after(now, retry_in.unwrap_or_default()),
                        error,
                        retry_in.is_none().then_some(now),
                        ticket.id,
                        ticket.token
                    ],
                )
                .map(|rows| rows > 0)
        })
        .await
    }

    async fn release(&self, ticket: Ticket, attempts: u32) -> Result<(), Error> {
        self.call(move |connection| {
            let release = "UPDATE webhook_inbox SET attempts = ?1, due_at = ?2 \
                           WHERE id = ?3 AND token = ?4 AND status = 'pending'";
            connection.execute(release, params![attempts, now(), ticket.id, ticket.token]).map(drop)
        })
        .await
    }

    async fn dead_letters(&self, after: i64, limit: u32) -> Result<Vec<DeadLetter>, Error> {
        self.call(move |connection| {
            let mut statement = connection.prepare(
                "SELECT id, token, attempts, scope, service, event, key, body, received_at, error, \
                 ended_at FROM webhook_inbox WHERE status = 'dead' AND id > ?1 \
                 ORDER BY id LIMIT ?2",
            )?;
            let letters = statement.query_map(params![after, limit], |row| {
                let Job { ticket, attempt, scope, delivery, received_at } = job(row)?;
                Ok(DeadLetter {
                    id: ticket.id,
                    delivery,
                    scope,
                    attempts: attempt,
                    error: row.get(9)?,
                    received_at,
                    failed_at: time(row.get(10)?),
                })
            })?;
            letters.collect()
        })
        .await
    }

    async fn replay(&self, id: Option<i64>) -> Result<u64, Error> {
        self.call(move |connection| {
            connection
                .execute(
                    "UPDATE webhook_inbox SET status = 'pending', due_at = ?1, attempts = 0, \
                     ended_at = NULL WHERE status = 'dead' AND (?2 IS NULL OR id = ?2)",
                    params![now(), id],
                )
                .map(|rows| rows as u64)
        })
        .await
    }

    async fn delete_dead_letter(&self, id: i64) -> Result<bool, Error> {
        self.call(move |connection| {
            let delete = "DELETE FROM webhook_inbox WHERE status = 'dead' AND id = ?1";
            connection.execute(delete, [id]).map(|rows| rows > 0)
        })
        .await
    }

    async fn purge(&self, older_than: Duration) -> Result<u64, Error> {
        let before = now().saturating_sub(to_millis(older_than));
        let mut purged = 0;
        loop {
            // What waits for the connection is executed between two slices.
            let deleted = self
                .call(move |connection| {
                    let delete = "DELETE FROM webhook_inbox WHERE id IN (\
                                  SELECT id FROM webhook_inbox \
                                  WHERE status = 'done' AND ended_at <= ?1 \
                                  ORDER BY ended_at LIMIT ?2)";
                    connection.execute(delete, params![before, SLICE])
                })
                .await?;
            purged += deleted as u64;
            if deleted < SLICE as usize {
                return Ok(purged);
            }
        }
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").finish_non_exhaustive()
    }
}

/// SQLite does not wait for another connection that opens the new file at the same time.
fn use_write_ahead_log(connection: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        let result = connection.pragma_update(None, "journal_mode", "wal");
        let is_busy =
            |error: &rusqlite::Error| error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
        if !result.as_ref().is_err_and(is_busy) || Instant::now() > deadline {
            return result;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn insert(connection: &Connection, entry: &Entry) -> rusqlite::Result<Accepted> {
    let Entry { scope, key, delivery } = entry;
    let rows = connection.execute(
        "INSERT INTO webhook_inbox (key, scope, service, event, body, received_at, due_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (key) DO NOTHING",
        params![
            key.as_str(),
            scope.as_deref(),
            delivery.service().name(),
            delivery.event().as_str(),
            &delivery.body()[..],
            now()
        ],
    )?;
    Ok(if rows > 0 { Accepted::New } else { Accepted::Duplicate })
}

/// Reads the columns `id, token, attempts, scope, service, event, key, body, received_at`.
fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let (service, event, key) = (row.get::<_, String>(4)?, row.get::<_, String>(5)?, 6);
    let key: String = row.get(key)?;
    let service = service.parse().map_err(|_| rusqlite::Error::InvalidQuery)?;
    let delivery = Delivery::from_storage(service, &event, key, row.get::<_, Vec<u8>>(7)?);
    Ok(Job {
        ticket: Ticket { id: row.get(0)?, token: row.get(1)? },
        attempt: row.get(2)?,
        scope: row.get::<_, Option<String>>(3)?.map(Into::into),
        delivery,
        received_at: time(row.get(8)?),
    })
}

fn error(error: rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure,
        ) => ErrorKind::Unavailable,
        _ if error.to_string().contains("no such table: webhook_inbox") => ErrorKind::NotMigrated,
        _ => ErrorKind::Database,
    };
    Error::new(kind, error)
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, to_millis)
}

fn after(now: i64, duration: Duration) -> i64 {
    now.saturating_add(to_millis(duration))
}

fn to_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn time(since_epoch: i64) -> SystemTime {
    UNIX_EPOCH.checked_add(millis(since_epoch)).unwrap_or(UNIX_EPOCH)
}
