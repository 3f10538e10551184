//! The operations of the inbox. Their statements are PostgreSQL's; `sqlite.rs` translates them.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use webhook_verify::{Delivery, Service};

use crate::database::{Database, Row, Value, within};
use crate::job::Ticket;
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
        "id, token, attempts, scope, service, event, key, body, received_at, error, ended_at"
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
        Value::Bytes(delivery.body().clone()),
    ]
}

pub(crate) fn accepted(rows: &[Row]) -> Accepted {
    if rows.is_empty() { Accepted::Duplicate } else { Accepted::New }
}

pub(crate) fn ticket(ticket: Ticket) -> Vec<Value> {
    vec![Value::Int(ticket.id), Value::Int(ticket.token)]
}

impl<D: Database> Inbox<D> {
    async fn query<const N: usize>(
        &self,
        statement: &'static str,
        parameters: [Value; N],
    ) -> Result<Vec<Row>, Error> {
        within(self.database.query(statement, parameters.into())).await
    }

    /// Whether the tables exist and are of this version.
    pub(crate) async fn check_schema(&self) -> Result<(), Error> {
        match self.query("SELECT version FROM webhook_inbox_schema", []).await?.as_slice() {
            [row] if matches!(row[..], [Value::Int(VERSION)]) => Ok(()),
            rows => {
                let found = match rows.first().map(Vec::as_slice) {
                    Some([Value::Int(found)]) => format!("version {found}"),
                    _ => "no version".to_owned(),
                };
                let text = format!("the tables have {found}, this crate needs version {VERSION}");
                Err(Error::new(ErrorKind::OtherSchema, text))
            }
        }
    }

    pub(crate) async fn insert(&self, entry: Vec<Value>) -> Result<Accepted, Error> {
        within(self.database.query(INSERT, entry)).await.map(|rows| accepted(&rows))
    }

    /// The time until the next delivery can be claimed, if there is any. It only reads, so that an
    /// idle worker takes no write lock of SQLite.
    pub(crate) async fn next_due(&self) -> Result<Option<Duration>, Error> {
        const NEXT: &str = concat!(
            "SELECT min(due_at) - ",
            now!(),
            " FROM webhook_inbox WHERE status = 'pending'"
        );
        let rows = self.query(NEXT, []).await?;
        Ok(match rows.first().map(Vec::as_slice) {
            Some([Value::Int(millis)]) => Some(Duration::from_millis((*millis).max(0) as u64)),
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
        let rows = self.query(CLAIM, [millis(lease)]).await?;
        let letter = rows.into_iter().next().map(dead_letter).transpose()?;
        Ok(letter.map(|(ticket, letter)| Job {
            ticket,
            attempt: letter.attempts,
            scope: letter.scope,
            delivery: letter.delivery,
            received_at: letter.received_at,
        }))
    }

    /// Extends the lease. Returns whether the ticket is still valid.
    pub(crate) async fn renew(&self, holder: Ticket, lease: Duration) -> Result<bool, Error> {
        const RENEW: &str = concat!(
            "UPDATE webhook_inbox SET due_at = $3 + ",
            now!(),
            " WHERE id = $1 AND token = $2 AND status = 'pending' RETURNING id"
        );
        let rows =
            self.query(RENEW, [Value::Int(holder.id), Value::Int(holder.token), millis(lease)]);
        Ok(!rows.await?.is_empty())
    }

    /// Ends a failed attempt: the delivery is due again after `retry_in`, or is a dead letter.
    /// Returns whether the ticket was still valid.
    pub(crate) async fn fail(
        &self,
        holder: Ticket,
        error: &str,
        retry_in: Option<Duration>,
    ) -> Result<bool, Error> {
        const FAIL: &str = concat!(
            "UPDATE webhook_inbox SET status = $3, due_at = $4 + ",
            now!(),
            ", error = $5, token = token + 1, ended_at = CASE WHEN $3 = 'dead' THEN ",
            now!(),
            " END WHERE id = $1 AND token = $2 AND status = 'pending' RETURNING id"
        );
        let status = if retry_in.is_some() { "pending" } else { "dead" };
        let parameters = [
            Value::Int(holder.id),
            Value::Int(holder.token),
            Value::Text(status.to_owned()),
            millis(retry_in.unwrap_or_default()),
            Value::Text(error.to_owned()),
        ];
        Ok(!self.query(FAIL, parameters).await?.is_empty())
    }

    /// Makes a claimed delivery due again, and the attempt does not count. Returns whether the
    /// ticket was still valid.
    pub(crate) async fn release(&self, holder: Ticket) -> Result<bool, Error> {
        let release = "UPDATE webhook_inbox SET attempts = attempts - 1, due_at = 0, token = token + 1 \
                       WHERE id = $1 AND token = $2 AND status = 'pending' RETURNING id";
        let rows = self.query(release, [Value::Int(holder.id), Value::Int(holder.token)]).await?;
        Ok(!rows.is_empty())
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
        let rows = self.query(PURGE, [millis(retention), Value::Int(SLICE as i64)]).await?;
        Ok(rows.len() == SLICE)
    }

    /// Whether no delivery waits or is being handled.
    pub(crate) async fn is_idle(&self) -> Result<bool, Error> {
        let pending = "SELECT id FROM webhook_inbox WHERE status = 'pending' LIMIT 1";
        Ok(self.query(pending, []).await?.is_empty())
    }

    pub(crate) async fn list_dead(&self, after: i64, limit: u32) -> Result<Vec<DeadLetter>, Error> {
        const LIST: &str = concat!(
            "SELECT ",
            columns!(),
            " FROM webhook_inbox WHERE status = 'dead' AND id > $1 ORDER BY id LIMIT $2"
        );
        let rows = self.query(LIST, [Value::Int(after), Value::Int(limit.into())]).await?;
        rows.into_iter().map(|row| dead_letter(row).map(|(_, letter)| letter)).collect()
    }

    pub(crate) async fn replay_dead(&self, ids: impl RangeBounds<i64>) -> Result<u64, Error> {
        const REPLAY: &str = concat!(
            "UPDATE webhook_inbox SET status = 'pending', due_at = 0, attempts = 0, ended_at = NULL ",
            slice_of_dead!()
        );
        self.for_each_slice(REPLAY, ids).await
    }

    pub(crate) async fn delete_dead(&self, ids: impl RangeBounds<i64>) -> Result<u64, Error> {
        self.for_each_slice(concat!("DELETE FROM webhook_inbox ", slice_of_dead!()), ids).await
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
            let slice = [Value::Int(first), Value::Int(last), Value::Int(SLICE as i64)];
            let rows = self.query(statement, slice).await?;
            count += rows.len() as u64;
            if rows.len() < SLICE {
                return Ok(count);
            }
            let ids = rows
                .iter()
                .filter_map(|row| if let [Value::Int(id)] = row[..] { Some(id) } else { None });
            first = ids.max().unwrap_or(last).saturating_add(1);
        }
    }
}

/// Reads a row of `columns!`, with its ticket. A row that is not dead has no error and no end.
fn dead_letter(row: Row) -> Result<(Ticket, DeadLetter), Error> {
    let unreadable = || Error::new(ErrorKind::OtherSchema, "a row of the table cannot be read");
    let columns = <[Value; 11]>::try_from(row).map_err(|_| unreadable())?;
    let [
        Value::Int(id),
        Value::Int(token),
        Value::Int(attempts),
        scope,
        Value::Text(service),
        Value::Text(event),
        Value::Text(key),
        Value::Bytes(body),
        Value::Int(received_at),
        error,
        ended_at,
    ] = columns
    else {
        return Err(unreadable());
    };
    let service: Service = service.parse().map_err(|_| unreadable())?;
    let letter = DeadLetter {
        id,
        delivery: Delivery::from_storage(service, &event, key, body),
        scope: if let Value::Text(scope) = scope { Some(Arc::from(scope)) } else { None },
        attempts: u32::try_from(attempts).unwrap_or(0),
        error: if let Value::Text(error) = error { error } else { String::new() },
        received_at: time(received_at),
        failed_at: time(if let Value::Int(ended_at) = ended_at { ended_at } else { 0 }),
    };
    Ok((Ticket { id, token }, letter))
}

/// A duration as a parameter, at most a thousand years, which can be added to any time.
fn millis(duration: Duration) -> Value {
    const MAX: u128 = 1000 * 366 * 86_400_000;
    Value::Int(duration.as_millis().min(MAX) as i64)
}

fn time(since_epoch: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(since_epoch.max(0) as u64)
}
