//! `Ledger` stores sends, their rows and who was sent what, in SQLite or PostgreSQL. Here is what
//! an application does with it: draft a send and add rows, start, read, pause, reopen, settle and
//! remove it. What workers do is in `worker.rs`, how a statement runs in `database.rs`. A row is in
//! exactly one `RowStatus`, and a change of several rows is one transaction. Removed sends leave
//! only a keyed hash of each address. Over 500 lines, because each method stands with its SQL and
//! its documentation.

#[cfg(feature = "sqlite")]
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::database::{Database, Durability, Row, Transaction, Value};
use crate::record::{
    FinalStatus, NewRow, NewSend, RowRecord, RowRefusal, RowStatus, SendRecord, SendState, Totals,
};
use crate::{LedgerError, LedgerErrorKind};

/// The version of the tables.
const VERSION: &str = "1";

/// Rows in one statement or page.
const PAGE: usize = 1000;

/// How much of an HMAC-SHA-256 identifies a person.
const PERSON_BYTES: usize = 16;

/// The columns of a send, in the order of [`Ledger::record`].
macro_rules! select_send {
    () => {
        "SELECT s.send, s.created_at, s.changed_at, (SELECT count(*) FROM bulk_workers w WHERE w.send = s.send \
         AND w.lease_until > NOW()), s.id, s.state, s.settings, s.email, s.paused_cause, s.code, \
         s.message FROM bulk_sends s"
    };
}

/// Makes rows with a status wait again.
macro_rules! reopen {
    () => {
        "UPDATE bulk_rows SET again = CASE WHEN status = 'unknown' THEN 1 ELSE again END, \
         status = 'waiting', request = NULL, code = NULL, message = NULL, cause = NULL \
         WHERE send = $1 AND status = $2"
    };
}

/// Requests with unknown rows that are settled are not repeated with their keys any more: without
/// these rows, they would be other requests.
macro_rules! without_keys {
    () => {
        "UPDATE bulk_requests SET keyed = 0 WHERE keyed = 1 AND id IN (SELECT request \
         FROM bulk_rows WHERE send = $1 AND status = 'unknown'"
    };
}

/// Records what is sent to whom, in SQLite or PostgreSQL. Clones share the connection.
///
/// Every row is in exactly one [state](RowStatus), and every change of several rows is one
/// transaction.
#[derive(Clone)]
pub struct Ledger {
    pub(crate) database: Database,
    /// How long a worker may be silent before others take its rows over.
    pub(crate) lease: Duration,
    key: [u8; 64],
}

/// Which rows are sent again.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Again {
    /// Refused rows.
    pub refused: bool,
    /// Invalid rows.
    pub invalid: bool,
    /// Unknown rows, which some people then perhaps get twice.
    pub unknown: bool,
}

impl Again {
    /// As the three say.
    pub fn new(refused: bool, invalid: bool, unknown: bool) -> Self {
        Self {
            refused,
            invalid,
            unknown,
        }
    }
}

/// Another send with the same people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Shared {
    /// Its id.
    pub id: String,
    /// How many of the rows that wait are for people who have got its email, or will.
    pub people: u64,
}

/// An email of sends that were removed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Remembered {
    /// The identity of the email.
    pub email: String,
    /// What people call it.
    pub label: String,
    /// How many people have got it.
    pub people: u64,
    /// When the last of them got it.
    pub last: DateTime<Utc>,
}

impl Ledger {
    /// Opens the ledger in this file, or creates it. Like all of SQLite, it must be on a local
    /// disk; several processes may use it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or is something else.
    #[cfg(feature = "sqlite")]
    pub async fn sqlite(path: impl AsRef<Path>) -> Result<Self, LedgerError> {
        let path = path.as_ref().to_owned();
        let open = move || crate::sqlite::Sqlite::open(&path);
        let opened = tokio::task::spawn_blocking(open).await;
        let failed = |error| LedgerError::new(LedgerErrorKind::Unavailable, error);
        let database = Database::Sqlite(opened.map_err(failed)??);
        Self::open(database, Duration::from_secs(5)).await
    }

    /// Opens the ledger in the database of this pool, and creates its tables, whose names begin
    /// with `bulk_`. Workers on any number of machines may share it.
    ///
    /// # Errors
    ///
    /// If the database cannot be reached, or has tables of another version.
    #[cfg(feature = "postgres")]
    pub async fn postgres(pool: deadpool_postgres::Pool) -> Result<Self, LedgerError> {
        crate::postgres::create_tables(&pool).await?;
        Self::open(Database::Postgres(pool), Duration::from_secs(15)).await
    }

    async fn open(database: Database, lease: Duration) -> Result<Self, LedgerError> {
        const INSERT: &str =
            "INSERT INTO bulk_ledger (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        const KNOWN: &str =
            "SELECT value FROM bulk_ledger WHERE name IN ('key', 'version') ORDER BY name";
        let fresh = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()];
        let fresh = fresh.map(|each| each.simple().to_string()).concat();
        let mut tx = database.begin(Durability::Full).await?;
        let values = [("version", VERSION), ("key", &fresh), ("starts", "0")];
        let values = values.map(|(name, value)| vec![name.into(), value.into()]);
        tx.each(INSERT, values.to_vec()).await?;
        let known = tx.query(KNOWN, Vec::new()).await?;
        tx.commit().await?;

        let mut known = known.into_iter().filter_map(|mut row| row.remove(0).text());
        let key = known.next().unwrap_or_default();
        let version = known.next().unwrap_or_default();
        if version != VERSION {
            let text = format!("its tables have version {version}, this crate needs {VERSION}");
            return Err(LedgerError::new(LedgerErrorKind::OtherSchema, text));
        }
        let key = key.into_bytes().first_chunk().copied();
        Ok(Self {
            database,
            lease,
            key: key.ok_or_else(LedgerError::unreadable)?,
        })
    }

    /// Sets how long a worker may be silent before others take its rows over; it speaks five times
    /// in this time. Default: 5 s in SQLite, 15 s in PostgreSQL.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Duration::from_millis(20), Duration::from_secs(86_400));
        self
    }

    /// Stores a send without rows. No worker sends it before [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written, or has a send with this id.
    pub async fn draft(&self, new: &NewSend) -> Result<(), LedgerError> {
        const INSERT: &str = "INSERT INTO bulk_sends (id, email, label, settings, created_at, \
            changed_at, space) VALUES ($1, $2, $3, $4, NOW(), NOW(), $5) RETURNING send";
        let is_visible = new.id.bytes().all(|byte| byte.is_ascii_graphic());
        if !(1..=100).contains(&new.id.len()) || !is_visible {
            let text = "the id of a send must be 1 to 100 visible ASCII characters";
            return Err(LedgerError::new(LedgerErrorKind::Database, text));
        }
        let values = vec![
            new.id.as_str().into(),
            Value::option(new.email.as_deref()),
            new.label.as_str().into(),
            new.settings.to_string().as_str().into(),
            space(new.rate).into(),
        ];
        self.database.query(INSERT, values).await?;
        Ok(())
    }

    /// Adds rows to a draft.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written, or has a row with one of the numbers.
    pub async fn add(&self, id: &str, rows: &[NewRow]) -> Result<(), LedgerError> {
        const INSERT: &str = "INSERT INTO bulk_rows (send, number, status, address, person, data, \
            code, message, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NOW())";
        let send = self.number_of(id).await?;
        let values = rows.iter().map(|row| {
            let status = match row.left_out {
                None => RowStatus::Waiting,
                Some(_) => RowStatus::LeftOut,
            };
            let why = row.left_out.as_ref();
            let person = row.person.as_deref().map(|address| self.person(address));
            vec![
                send.into(),
                row.number.into(),
                status.as_str().into(),
                row.address.as_str().into(),
                Value::Bytes(person.unwrap_or_default()),
                row.data.as_str().into(),
                Value::option(why.and_then(|why| why.code.as_deref())),
                Value::option(why.and_then(|why| why.message.as_deref())),
            ]
        });
        // Losing a draft in a crash does no harm.
        let mut tx = self.database.begin(Durability::Process).await?;
        tx.each(INSERT, values.collect()).await?;
        tx.commit().await
    }

    /// Adds a file, such as an attachment, to a send.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn add_file(&self, id: &str, name: &str, content: &[u8]) -> Result<(), LedgerError> {
        const INSERT: &str = "INSERT INTO bulk_files (send, name, content) VALUES ($1, $2, $3) \
            RETURNING name";
        let send = self.number_of(id).await?;
        let content = Value::Bytes(content.to_vec());
        let values = vec![send.into(), name.into(), content];
        self.database.query(INSERT, values).await?;
        Ok(())
    }

    /// A file of a send.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read, or has no such file.
    pub async fn file(&self, id: &str, name: &str) -> Result<Vec<u8>, LedgerError> {
        const SELECT: &str = "SELECT content FROM bulk_files WHERE send = $1 AND name = $2";
        let send = self.number_of(id).await?;
        let found = self
            .database
            .query(SELECT, vec![send.into(), name.into()])
            .await?;
        match found.into_iter().next().map(|mut row| row.remove(0)) {
            Some(Value::Bytes(content)) => Ok(content),
            _ => Err(LedgerError::new(LedgerErrorKind::NotFound, "no such file")),
        }
    }

    /// Leaves rows of a draft out, each with its reason.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn leave_out(&self, id: &str, rows: &[(u64, RowRefusal)]) -> Result<(), LedgerError> {
        const UPDATE: &str = "UPDATE bulk_rows SET status = 'left_out', data = '', code = $3, \
            message = $4, at = NOW() WHERE send = $1 AND number = $2 AND status = 'waiting'";
        let send = self.number_of(id).await?;
        let values = rows.iter().map(|(number, why)| {
            vec![
                send.into(),
                (*number).into(),
                Value::option(why.code.as_deref()),
                Value::option(why.message.as_deref()),
            ]
        });
        let mut tx = self.database.begin(Durability::Process).await?;
        tx.each(UPDATE, values.collect()).await?;
        tx.commit().await
    }

    /// Leaves out the rows of a draft whose people have got its email from other sends, or may have.
    /// Returns how many there are.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn leave_out_sent(&self, id: &str) -> Result<u64, LedgerError> {
        const UPDATE: &str = "UPDATE bulk_rows SET status = 'left_out', data = '', \
            code = 'sent_before', at = NOW(), \
            message = 'an earlier send has sent the email to this address' \
            WHERE send = $1 AND status = 'waiting' AND (EXISTS (SELECT 1 FROM bulk_rows r \
            JOIN bulk_sends s ON s.send = r.send WHERE r.person = bulk_rows.person \
            AND r.send <> $1 AND s.email = $2 AND s.state <> 'draft' \
            AND r.final IS DISTINCT FROM 'cancelled' \
            AND (r.again = 1 OR r.status IN ('in_flight', 'accepted', 'unknown'))) \
            OR EXISTS (SELECT 1 FROM bulk_sent m WHERE m.email = $2 \
            AND m.person = bulk_rows.person)) RETURNING number";
        let (send, email) = self.identity(id).await?;
        let Some(email) = email else { return Ok(0) };
        let values = vec![send.into(), email.as_str().into()];
        Ok(self.database.query(UPDATE, values).await?.len() as u64)
    }

    /// Removes the rows of a draft after this one.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn cut(&self, id: &str, last: u64) -> Result<(), LedgerError> {
        const DELETE: &str =
            "DELETE FROM bulk_rows WHERE send = $1 AND number > $2 RETURNING number";
        let send = self.number_of(id).await?;
        let values = vec![send.into(), last.into()];
        self.database.query(DELETE, values).await?;
        Ok(())
    }

    /// How many sends were started so far, for [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read.
    pub async fn starts(&self) -> Result<u64, LedgerError> {
        const SELECT: &str = "SELECT CAST(value AS BIGINT) FROM bulk_ledger WHERE name = 'starts'";
        let found = self.database.query(SELECT, Vec::new()).await?;
        Ok(found.first().map_or(0, |row| row[0].int() as u64))
    }

    /// Makes a draft a send that workers may send, with these settings. Returns false, and changes
    /// nothing, if not exactly `starts` sends were started before: another one may have the same
    /// people.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn start(
        &self,
        id: &str,
        settings: &serde_json::Value,
        starts: Option<u64>,
    ) -> Result<bool, LedgerError> {
        const COUNT: &str = "UPDATE bulk_ledger \
            SET value = CAST(CAST(value AS BIGINT) + 1 AS TEXT) WHERE name = 'starts' \
            RETURNING CAST(value AS BIGINT) - 1";
        const START: &str = "UPDATE bulk_sends SET state = 'running', settings = $2, \
            created_at = NOW(), changed_at = NOW() \
            WHERE send = $1 AND state = 'draft' RETURNING send";
        let send = self.number_of(id).await?;
        let settings = settings.to_string();
        let values = vec![send.into(), settings.as_str().into()];
        let mut tx = self.database.begin(Durability::Full).await?;
        let before = tx.query(COUNT, Vec::new()).await?;
        let before = before.first().map_or(0, |row| row[0].int() as u64);
        if starts.is_some_and(|starts| starts != before) {
            return Ok(false);
        }
        tx.query(START, values).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Stores a send with these rows, and starts it.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn create(
        &self,
        new: &NewSend,
        rows: impl IntoIterator<Item = NewRow>,
    ) -> Result<(), LedgerError> {
        self.draft(new).await?;
        let mut page = Vec::with_capacity(PAGE);
        for row in rows {
            page.push(row);
            if page.len() == PAGE {
                self.add(&new.id, &page).await?;
                page.clear();
            }
        }
        self.add(&new.id, &page).await?;
        self.start(&new.id, &new.settings, None).await?;
        Ok(())
    }

    /// All sends, the oldest first, without drafts.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read.
    pub async fn sends(&self) -> Result<Vec<SendRecord>, LedgerError> {
        let found = self
            .database
            .query(
                concat!(
                    select_send!(),
                    " WHERE s.state <> 'draft' ORDER BY s.created_at, s.send"
                ),
                Vec::new(),
            )
            .await?;
        let mut sends = Vec::with_capacity(found.len());
        for row in found {
            sends.push(self.record(row).await?);
        }
        Ok(sends)
    }

    /// The ids of all sends, without drafts.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read.
    pub async fn ids(&self) -> Result<Vec<String>, LedgerError> {
        const SELECT: &str = "SELECT id FROM bulk_sends WHERE state <> 'draft' ORDER BY id";
        let found = self.database.query(SELECT, Vec::new()).await?;
        Ok(found
            .into_iter()
            .filter_map(|mut row| row.remove(0).text())
            .collect())
    }

    /// The send with this id.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read, or has no such send.
    pub async fn send(&self, id: &str) -> Result<SendRecord, LedgerError> {
        let found = self
            .database
            .query(concat!(select_send!(), " WHERE s.id = $1"), vec![id.into()])
            .await?;
        match found.into_iter().next() {
            Some(row) => self.record(row).await,
            None => Err(not_found()),
        }
    }

    async fn record(&self, row: Row) -> Result<SendRecord, LedgerError> {
        let mut row = row.into_iter();
        let mut next = || row.next().unwrap_or(Value::Null);
        let send = next().int();
        let created_at = next().int();
        let changed_at = next().int();
        let workers = next().int() as u64;
        let [id, state, settings] = std::array::from_fn(|_| next().text().unwrap_or_default());
        let [email, paused, code, message] = std::array::from_fn(|_| next().text());

        let state = match state.as_str() {
            "draft" => SendState::Paused,
            text => SendState::parse(text).ok_or_else(LedgerError::unreadable)?,
        };
        let has_cause = paused.is_some() && state == SendState::Paused;
        Ok(SendRecord {
            id,
            state,
            created_at: time(created_at),
            changed_at: time(changed_at),
            email,
            settings: serde_json::from_str(&settings).map_err(|_| LedgerError::unreadable())?,
            totals: self.totals_of(send).await?,
            workers,
            cause: has_cause.then_some(RowRefusal { code, message }),
            send,
        })
    }

    pub(crate) async fn totals_of(&self, send: i64) -> Result<Totals, LedgerError> {
        const COUNT: &str =
            "SELECT status, count(*) FROM bulk_rows WHERE send = $1 GROUP BY status";
        let mut totals = Totals::default();
        for row in self.database.query(COUNT, vec![send.into()]).await? {
            let count = row[1].int() as u64;
            let status = row.into_iter().next().and_then(Value::text);
            let status = status.as_deref().and_then(RowStatus::parse);
            totals.add(status.ok_or_else(LedgerError::unreadable)?, count);
        }
        Ok(totals)
    }

    /// Up to 1000 rows with a number greater than `after`, in their order; only those with one of
    /// these states, if any are given.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read, or has no such send.
    pub async fn rows(
        &self,
        id: &str,
        after: u64,
        statuses: &[RowStatus],
    ) -> Result<Vec<RowRecord>, LedgerError> {
        let send = self.number_of(id).await?;
        let words = statuses.iter().map(|it| format!("'{}'", it.as_str()));
        let words = words.collect::<Vec<_>>().join(", ");
        let of_status = match statuses {
            [] => String::new(),
            _ => format!("AND status IN ({words})"),
        };
        let select = format!(
            "SELECT number, at, again, status, address, data, id, code, message, final, reason \
             FROM bulk_rows WHERE send = $1 AND number > $2 {of_status} ORDER BY number LIMIT {PAGE}"
        );
        let values = vec![send.into(), after.into()];
        let found = self.database.query(&select, values).await?;
        found.into_iter().map(row_record).collect()
    }

    /// Pauses, continues or cancels a send. All its workers see it within a second.
    ///
    /// # Errors
    ///
    /// If the send was cancelled, or the ledger cannot be written.
    pub async fn set_state(&self, id: &str, state: SendState) -> Result<(), LedgerError> {
        const UPDATE: &str = "UPDATE bulk_sends SET state = $2, paused_cause = NULL, \
            streak = 0, streak_cause = NULL, \
            run = CASE WHEN $2 = 'running' THEN run + 1 ELSE run END \
            WHERE send = $1 AND (state IN ('running', 'paused') OR state = $2) RETURNING send";
        let send = self.number_of(id).await?;
        let values = vec![send.into(), state.as_str().into()];
        if self.database.query(UPDATE, values).await?.is_empty() {
            let text = "send its rows as a new one";
            return Err(LedgerError::new(LedgerErrorKind::Cancelled, text));
        }
        Ok(())
    }

    /// Sets the emails a second of all workers together; 0 means no limit.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn set_rate(&self, id: &str, rate: f64) -> Result<(), LedgerError> {
        const UPDATE: &str = "UPDATE bulk_sends SET space = $2 WHERE send = $1 RETURNING send";
        let send = self.number_of(id).await?;
        let values = vec![send.into(), space(rate).into()];
        self.database.query(UPDATE, values).await?;
        Ok(())
    }

    /// Makes rows wait again. Returns how many.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn reopen(&self, id: &str, again: Again) -> Result<u64, LedgerError> {
        let send = self.number_of(id).await?;
        let asked = [
            (again.refused, RowStatus::Refused),
            (again.invalid, RowStatus::Invalid),
            (again.unknown, RowStatus::Unknown),
        ];
        let mut tx = self.database.begin(Durability::Full).await?;
        if again.unknown {
            tx.query(concat!(without_keys!(), ")"), vec![send.into()])
                .await?;
        }
        let mut count = 0;
        for (_, status) in asked.into_iter().filter(|(is_asked, _)| *is_asked) {
            let values = vec![send.into(), status.as_str().into()];
            count += tx
                .query(concat!(reopen!(), " RETURNING number"), values)
                .await?
                .len() as u64;
        }
        tx.commit().await?;
        Ok(count)
    }

    /// Settles unknown rows: those of `sent` were accepted, as somebody has found out, and those of
    /// `resend` are sent again. Returns how many of each were unknown.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn settle(
        &self,
        id: &str,
        sent: &[u64],
        resend: &[u64],
    ) -> Result<(u64, u64), LedgerError> {
        const SENT: &str = "UPDATE bulk_rows SET status = 'accepted', request = NULL, code = NULL, \
            message = 'settled by hand', at = NOW() WHERE send = $1 AND number = $2 \
            AND status = 'unknown' RETURNING number";
        const RESEND: &str = concat!(reopen!(), " AND number = $3 RETURNING number");
        let send = self.number_of(id).await?;
        let mut tx = self.database.begin(Durability::Full).await?;
        let settled = sent.iter().chain(resend);
        let settled = settled.map(|number| vec![send.into(), (*number).into()]);
        tx.each(
            concat!(without_keys!(), " AND number = $2)"),
            settled.collect(),
        )
        .await?;
        let (mut settled, mut waiting) = (0, 0);
        for number in sent {
            let values = vec![send.into(), (*number).into()];
            settled += tx.query(SENT, values).await?.len() as u64;
        }
        for number in resend {
            let values = vec![
                send.into(),
                RowStatus::Unknown.as_str().into(),
                (*number).into(),
            ];
            waiting += tx.query(RESEND, values).await?.len() as u64;
        }
        tx.commit().await?;
        Ok((settled, waiting))
    }

    /// Records the final status of accepted emails, by their rows.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn set_final(
        &self,
        id: &str,
        known: &[(u64, FinalStatus)],
    ) -> Result<(), LedgerError> {
        const UPDATE: &str = "UPDATE bulk_rows SET final = $3, reason = $4 \
            WHERE send = $1 AND number = $2 AND status = 'accepted'";
        let send = self.number_of(id).await?;
        let values = known.iter().map(|(number, known)| {
            vec![
                send.into(),
                (*number).into(),
                known.status.as_str().into(),
                Value::option(known.reason.as_deref()),
            ]
        });
        let mut tx = self.database.begin(Durability::Process).await?;
        tx.each(UPDATE, values.collect()).await?;
        tx.commit().await
    }

    /// Removes a send with its rows. Of each person who has got the email, or may have, a keyed
    /// hash of the address is kept with the identity of the email.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn remove(&self, id: &str) -> Result<(), LedgerError> {
        const REMEMBER: &str = "INSERT INTO bulk_sent (email, person, at) \
            SELECT $2, person, max(at) FROM bulk_rows WHERE send = $1 \
            AND final IS DISTINCT FROM 'cancelled' \
            AND (status IN ('in_flight', 'accepted', 'unknown') OR again = 1) GROUP BY person \
            ON CONFLICT (email, person) DO UPDATE SET at = excluded.at";
        const LABEL: &str = "INSERT INTO bulk_emails (email, label) \
            SELECT email, label FROM bulk_sends WHERE send = $1 \
            ON CONFLICT (email) DO NOTHING";
        let (send, email) = self.identity(id).await?;
        let mut tx = self.database.begin(Durability::Full).await?;
        if let Some(email) = email {
            tx.query(REMEMBER, vec![send.into(), email.as_str().into()])
                .await?;
            tx.query(LABEL, vec![send.into()]).await?;
        }
        delete(&mut tx, send).await?;
        tx.commit().await
    }

    /// Removes a draft that is declined.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn discard(&self, id: &str) -> Result<(), LedgerError> {
        let send = self.number_of(id).await?;
        let mut tx = self.database.begin(Durability::Process).await?;
        delete(&mut tx, send).await?;
        tx.commit().await
    }

    /// Removes drafts that are older than this, and forgets who was sent what longer ago than
    /// `memory`.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn clean_up(&self, drafts: Duration, memory: Duration) -> Result<(), LedgerError> {
        const DRAFTS: &str =
            "SELECT send FROM bulk_sends WHERE state = 'draft' AND created_at < NOW() - $1";
        const OLD: &str = "SELECT at FROM bulk_sent WHERE at < NOW() - $1 LIMIT 1";
        const FORGET: &str = "DELETE FROM bulk_sent WHERE at < NOW() - $1 RETURNING at";
        let drafts = self.database.query(DRAFTS, vec![millis(drafts)]).await?;
        for row in drafts {
            let mut tx = self.database.begin(Durability::Process).await?;
            delete(&mut tx, row[0].int()).await?;
            tx.commit().await?;
        }
        let old = self.database.query(OLD, vec![millis(memory)]).await?;
        if !old.is_empty() {
            self.database.query(FORGET, vec![millis(memory)]).await?;
        }
        Ok(())
    }

    /// The other sends with people of the rows of this one that wait: those who have got an email
    /// of that send, or will. Tests do not count.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read.
    pub async fn shared(&self, id: &str) -> Result<Vec<Shared>, LedgerError> {
        // CROSS JOIN, so that SQLite begins with the rows that wait.
        const SELECT: &str = "SELECT count(*), s.id FROM bulk_rows n CROSS JOIN bulk_rows r \
            JOIN bulk_sends s ON s.send = r.send WHERE n.send = $1 AND n.status = 'waiting' \
            AND r.person = n.person AND r.send <> $1 AND s.email IS NOT NULL \
            AND s.state <> 'draft' AND r.final IS DISTINCT FROM 'cancelled' AND (r.again = 1 \
            OR r.status IN ('in_flight', 'accepted', 'unknown') \
            OR (r.status IN ('waiting', 'held') AND s.state <> 'cancelled')) GROUP BY s.id";
        let send = self.number_of(id).await?;
        let found = self.database.query(SELECT, vec![send.into()]).await?;
        let shared = |row: Row| {
            let people = row[0].int() as u64;
            let id = row.into_iter().nth(1).and_then(Value::text)?;
            Some(Shared { id, people })
        };
        Ok(found.into_iter().filter_map(shared).collect())
    }

    /// How many people of the rows that wait have got the very email from sends that were removed.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read.
    pub async fn got_before(&self, id: &str) -> Result<Option<Remembered>, LedgerError> {
        const SELECT: &str = "SELECT count(*), max(m.at) FROM bulk_rows n CROSS JOIN bulk_sent m \
            WHERE n.send = $1 AND n.status = 'waiting' AND m.email = $2 AND m.person = n.person";
        let (send, email) = self.identity(id).await?;
        let Some(email) = email else { return Ok(None) };
        let values = vec![send.into(), email.as_str().into()];
        let found = self.database.query(SELECT, values).await?;
        let people = found[0][0].int() as u64;
        Ok((people > 0).then(|| Remembered {
            email,
            label: String::new(),
            people,
            last: time(found[0][1].int()),
        }))
    }

    /// The emails of sends that were removed, with how many people have got them.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read.
    pub async fn memory(&self) -> Result<Vec<Remembered>, LedgerError> {
        const SELECT: &str = "SELECT count(*), max(m.at), m.email, max(e.label) FROM bulk_sent m \
            LEFT JOIN bulk_emails e ON e.email = m.email GROUP BY m.email ORDER BY max(m.at)";
        let found = self.database.query(SELECT, Vec::new()).await?;
        let remembered = |row: Row| {
            let mut row = row.into_iter();
            let mut next = || row.next().unwrap_or(Value::Null);
            let people = next().int() as u64;
            let last = time(next().int());
            let [email, label] = std::array::from_fn(|_| next().text().unwrap_or_default());
            Remembered {
                email,
                label,
                people,
                last,
            }
        };
        Ok(found.into_iter().map(remembered).collect())
    }

    /// Forgets who was sent what by sends that were removed. Returns how many entries there were.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn forget(&self) -> Result<u64, LedgerError> {
        let mut tx = self.database.begin(Durability::Full).await?;
        let count = tx
            .query("SELECT count(*) FROM bulk_sent", Vec::new())
            .await?;
        tx.query("DELETE FROM bulk_sent", Vec::new()).await?;
        tx.query("DELETE FROM bulk_emails", Vec::new()).await?;
        tx.commit().await?;
        Ok(count[0][0].int() as u64)
    }

    pub(crate) async fn number_of(&self, id: &str) -> Result<i64, LedgerError> {
        Ok(self.identity(id).await?.0)
    }

    async fn identity(&self, id: &str) -> Result<(i64, Option<String>), LedgerError> {
        const SELECT: &str = "SELECT send, email FROM bulk_sends WHERE id = $1";
        let found = self.database.query(SELECT, vec![id.into()]).await?;
        let row = found.into_iter().next().ok_or_else(not_found)?;
        let send = row[0].int();
        Ok((send, row.into_iter().nth(1).and_then(Value::text)))
    }

    /// What is stored of an address. Without the key of the ledger, it does not tell who it is.
    fn person(&self, address: &str) -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new(&self.key.into());
        mac.update(address.as_bytes());
        mac.finalize().into_bytes()[..PERSON_BYTES].to_vec()
    }
}

/// Omits everything that identifies people.
impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

async fn delete(tx: &mut Transaction, send: i64) -> Result<(), LedgerError> {
    for statement in [
        "DELETE FROM bulk_rows WHERE send = $1",
        "DELETE FROM bulk_requests WHERE send = $1",
        "DELETE FROM bulk_workers WHERE send = $1",
        "DELETE FROM bulk_files WHERE send = $1",
        "DELETE FROM bulk_sends WHERE send = $1",
    ] {
        tx.query(statement, vec![send.into()]).await?;
    }
    Ok(())
}

fn row_record(row: Row) -> Result<RowRecord, LedgerError> {
    let mut row = row.into_iter();
    let mut next = || row.next().unwrap_or(Value::Null);
    let number = next().int() as u64;
    let at = match next() {
        Value::Int(at) => Some(time(at)),
        _ => None,
    };
    let is_again = next().int() == 1;
    let status = next().text().as_deref().and_then(RowStatus::parse);
    let status = status.ok_or_else(LedgerError::unreadable)?;
    let [address, data] = std::array::from_fn(|_| next().text().unwrap_or_default());
    let [id, code, message, final_status, reason] = std::array::from_fn(|_| next().text());
    let known = |status| FinalStatus { status, reason };
    Ok(RowRecord {
        number,
        status,
        address,
        data,
        at,
        id,
        why: RowRefusal { code, message },
        perhaps_twice: is_again,
        final_status: final_status.map(known),
    })
}

/// Microseconds between two emails at this rate, at most a year.
fn space(rate: f64) -> i64 {
    const YEAR: f64 = 365.0 * 86_400e6;
    if rate > 0.0 {
        (1e6 / rate).min(YEAR) as i64
    } else {
        0
    }
}

/// A duration as a parameter, at most a thousand years, which can be added to any time.
pub(crate) fn millis(duration: Duration) -> Value {
    const MAX: u128 = 1000 * 366 * 86_400_000;
    Value::Int(duration.as_millis().min(MAX) as i64)
}

pub(crate) fn time(since_epoch: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(since_epoch).unwrap_or_default()
}

fn not_found() -> LedgerError {
    LedgerError::new(LedgerErrorKind::NotFound, "no send has this id")
}
