//! The operations of the inbox. Their statements are PostgreSQL's; `sqlite.rs` translates them.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::sleep;
use webhook_verify::{Delivery, Service};

use crate::database::{Database, Row, Value, within};
use crate::{Accepted, DeadLetter, Error, ErrorKind, Inbox, Job};

/// The version of the schema.
const VERSION: i64 = 1;

/// How many rows one statement changes at most. Between two, others can write.
const SLICE: usize = 1000;

/// The clock of the database, in milliseconds since 1970.
macro_rules! now {
    () => {
        "(extract(epoch FROM now()) * 1000)::bigint"
    };
}

macro_rules! columns {
    () => {
        "id, token, attempts, received_at, ended_at, scope, service, event, key, error, body"
    };
}

macro_rules! slice_of_dead {
    () => {
        "WHERE id IN (SELECT id FROM webhook_inbox WHERE status = 'dead' \
         AND id BETWEEN $1 AND $2 ORDER BY id LIMIT $3) RETURNING id"
    };
}

#[cfg(feature = "sqlite")]
pub(crate) const NOW: &str = now!();

pub(crate) const INSERT: &str = concat!(
    "INSERT INTO webhook_inbox (key, scope, service, event, body, received_at) VALUES ($1, $2, $3, $4, $5, ",
    now!(),
    ") ON CONFLICT (key) DO NOTHING RETURNING id"
);

/// Ends a delivery. A handler's transaction begins with it: it locks the row until the commit.
pub(crate) const FINISH: &str = concat!(
    "UPDATE webhook_inbox SET status = 'done', error = NULL, ended_at = ",
    now!(),
    " WHERE id = $1 AND token = $2 AND status = 'pending' RETURNING id"
);

/// What `INSERT` needs to store a delivery.
pub(crate) fn entry(delivery: &Delivery, scope: Option<&str>) -> Vec<Value> {
    // PostgreSQL does not store NUL in a text.
    let text = |text: &str| Value::Text(text.replace('\0', "\u{fffd}"));
    let key = match scope {
        Some(scope) => text(&delivery.key_in_scope(scope)),
        None => text(delivery.key()),
    };
    vec![
        key,
        scope.or(delivery.tenant()).map_or(Value::Null, text),
        text(delivery.service().name()),
        text(delivery.event().as_str()),
        Value::Bytes(delivery.body().to_vec()),
    ]
}

pub(crate) fn accepted(rows: &[Row]) -> Accepted {
    if rows.is_empty() {
        Accepted::Duplicate
    } else {
        Accepted::New
    }
}

impl<D: Database> Inbox<D> {
    pub(crate) async fn query(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, Error> {
        within(self.database.query(statement, parameters)).await
    }

    /// Whether the tables exist and are of this version.
    pub(crate) async fn check_schema(&self) -> Result<(), Error> {
        let rows = self
            .query("SELECT max(version) FROM webhook_inbox_schema", vec![])
            .await?;
        let found = rows[0][0].int();
        if found == VERSION {
            return Ok(());
        }
        let text = format!("the tables have version {found}, this crate needs version {VERSION}");
        Err(Error::new(ErrorKind::OtherSchema, text))
    }

    /// The time until the next delivery can be claimed, if there is any. It only reads, so that an
    /// idle worker takes no write lock of SQLite.
    pub(crate) async fn next_due(&self) -> Result<Option<Duration>, Error> {
        const NEXT: &str = concat!(
            "SELECT min(due_at) - ",
            now!(),
            " FROM webhook_inbox WHERE status = 'pending'"
        );
        Ok(match self.query(NEXT, vec![]).await?[0][0] {
            Value::Int(millis) => Some(Duration::from_millis(millis.max(0) as u64)),
            _ => None,
        })
    }

    /// Claims the delivery that is due for the longest time, until the lease ends. The attempt
    /// counts.
    pub(crate) async fn claim(&self, lease: Duration) -> Result<Option<Job>, Error> {
        const CLAIM: &str = concat!(
            "UPDATE webhook_inbox SET due_at = $1 + ",
            now!(),
            ", token = token + 1, attempts = attempts + 1 WHERE id = (SELECT id FROM webhook_inbox \
             WHERE status = 'pending' AND due_at <= ",
            now!(),
            " ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING ",
            columns!()
        );
        let row = self.query(CLAIM, vec![millis(lease)]).await?.pop();
        Ok(row
            .map(dead_letter)
            .transpose()?
            .map(|(token, letter)| Job {
                id: letter.id,
                token,
                attempt: letter.attempts,
                scope: letter.scope,
                delivery: letter.delivery,
                received_at: letter.received_at,
            }))
    }

    /// Extends the lease. Returns whether the claim is still valid.
    pub(crate) async fn renew(&self, job: &Job, lease: Duration) -> Result<bool, Error> {
        const RENEW: &str = concat!(
            "UPDATE webhook_inbox SET due_at = $3 + ",
            now!(),
            " WHERE id = $1 AND token = $2 AND status = 'pending' RETURNING id"
        );
        let parameters = [job.claim(), vec![millis(lease)]].concat();
        Ok(!self.query(RENEW, parameters).await?.is_empty())
    }

    /// Ends a failed attempt: the delivery is due again after `retry_in`, or is a dead letter. The
    /// attempt may not count. Returns whether the claim was still valid.
    pub(crate) async fn fail(
        &self,
        job: &Job,
        error: &str,
        retry_in: Option<Duration>,
        counts: bool,
    ) -> Result<bool, Error> {
        const FAIL: &str = concat!(
            "UPDATE webhook_inbox SET status = $3, due_at = $4 + ",
            now!(),
            ", error = $5, attempts = attempts - $6, token = token + 1, \
             ended_at = CASE WHEN $3 = 'dead' THEN ",
            now!(),
            " END WHERE id = $1 AND token = $2 AND status = 'pending' RETURNING id"
        );
        let status = if retry_in.is_some() {
            "pending"
        } else {
            "dead"
        };
        let outcome = vec![
            Value::Text(status.to_owned()),
            millis(retry_in.unwrap_or_default()),
            Value::Text(error.to_owned()),
            Value::Int(i64::from(!counts)),
        ];
        Ok(!self
            .query(FAIL, [job.claim(), outcome].concat())
            .await?
            .is_empty())
    }

    /// Deletes up to `SLICE` deliveries that were handled longer ago than `retention`. Returns
    /// whether there may be more.
    pub(crate) async fn purge(&self, retention: Duration) -> Result<bool, Error> {
        const PURGE: &str = concat!(
            "DELETE FROM webhook_inbox WHERE id IN (SELECT id FROM webhook_inbox \
             WHERE status = 'done' AND ended_at <= ",
            now!(),
            " - $1 ORDER BY ended_at LIMIT $2) RETURNING id"
        );
        let rows = self
            .query(PURGE, vec![millis(retention), Value::Int(SLICE as i64)])
            .await?;
        Ok(rows.len() == SLICE)
    }

    /// Waits until every accepted delivery was handled or is a dead letter. For tests: limit it
    /// with `tokio::time::timeout`, because without a worker it waits for ever.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn until_idle(&self) -> Result<(), Error> {
        const PENDING: &str = "SELECT id FROM webhook_inbox WHERE status = 'pending' LIMIT 1";
        while !self.query(PENDING, vec![]).await?.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Lists up to `limit` dead letters of all scopes whose [`id`](DeadLetter::id) is greater than
    /// `after`, in the order of their ids. Begin with 0.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn dead_letters(&self, after: i64, limit: u32) -> Result<Vec<DeadLetter>, Error> {
        const LIST: &str = concat!(
            "SELECT ",
            columns!(),
            " FROM webhook_inbox WHERE status = 'dead' AND id > $1 ORDER BY id LIMIT $2"
        );
        let rows = self
            .query(LIST, vec![Value::Int(after), Value::Int(limit.into())])
            .await?;
        rows.into_iter()
            .map(|row| dead_letter(row).map(|(_, letter)| letter))
            .collect()
    }

    /// Makes the dead letters with these ids due at once, with all their attempts again:
    /// `id..=id` is one, `..` are all. Returns how many there were.
    ///
    /// # Errors
    ///
    /// The error of the database. Some may be due already.
    pub async fn replay_dead_letters(&self, ids: impl RangeBounds<i64>) -> Result<u64, Error> {
        const REPLAY: &str = concat!(
            "UPDATE webhook_inbox SET status = 'pending', due_at = 0, attempts = 0, ended_at = NULL ",
            slice_of_dead!()
        );
        let count = self.for_each_slice(REPLAY, ids).await?;
        self.wake();
        tracing::info!(count, "dead letters of the webhook inbox are replayed");
        Ok(count)
    }

    /// Deletes the dead letters with these ids: `id..=id` is one, `..` are all. Returns how many
    /// there were.
    ///
    /// A deleted delivery is not remembered: if the sender repeats it, it is new.
    ///
    /// # Errors
    ///
    /// The error of the database. Some may be deleted already.
    pub async fn delete_dead_letters(&self, ids: impl RangeBounds<i64>) -> Result<u64, Error> {
        self.for_each_slice(concat!("DELETE FROM webhook_inbox ", slice_of_dead!()), ids)
            .await
    }

    /// Changes the dead letters with these ids in slices. Returns how many.
    async fn for_each_slice(
        &self,
        statement: &'static str,
        ids: impl RangeBounds<i64>,
    ) -> Result<u64, Error> {
        let mut first = match ids.start_bound() {
            Bound::Included(id) => *id,
            Bound::Excluded(id) => id.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let last = match ids.end_bound() {
            Bound::Included(id) => *id,
            Bound::Excluded(id) => id.saturating_sub(1),
            Bound::Unbounded => i64::MAX,
        };
        let mut count = 0;
        loop {
            let slice = vec![
                Value::Int(first),
                Value::Int(last),
                Value::Int(SLICE as i64),
            ];
            let rows = self.query(statement, slice).await?;
            count += rows.len() as u64;
            if rows.len() < SLICE {
                return Ok(count);
            }
            first = rows
                .iter()
                .map(|row| row[0].int())
                .max()
                .unwrap_or(last)
                .saturating_add(1);
        }
    }
}

/// Reads a row of `columns!`, with its token. A row that is not dead has no error and no end.
fn dead_letter(row: Row) -> Result<(i64, DeadLetter), Error> {
    let unreadable = || Error::new(ErrorKind::OtherSchema, "a row of the table cannot be read");
    let mut columns = row.into_iter();
    let mut next = || columns.next().unwrap_or(Value::Null);
    let [id, token, attempts, received_at, ended_at] = std::array::from_fn(|_| next().int());
    let scope = next().text();
    let [service, event, key, error] = std::array::from_fn(|_| next().text().unwrap_or_default());
    let Value::Bytes(body) = next() else {
        return Err(unreadable());
    };
    let service: Service = service.parse().map_err(|_| unreadable())?;
    let letter = DeadLetter {
        id,
        delivery: Delivery::from_storage(service, &event, key, body),
        scope: scope.map(Arc::from),
        attempts: u32::try_from(attempts).unwrap_or(0),
        error,
        received_at: time(received_at),
        failed_at: time(ended_at),
    };
    Ok((token, letter))
}

/// A duration as a parameter, at most a thousand years, which can be added to any time.
fn millis(duration: Duration) -> Value {
    const MAX: u128 = 1000 * 366 * 86_400_000;
    Value::Int(duration.as_millis().min(MAX) as i64)
}

fn time(since_epoch: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(since_epoch.max(0) as u64)
}
