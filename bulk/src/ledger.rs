//! `Ledger` stores sends, their rows and who was sent what, in SQLite or PostgreSQL. Here is what
//! an application does with it: draft a send and add rows, start, read, pause, reopen, settle and
//! remove it. What workers do is in `worker.rs`, how a statement runs in `database.rs`. A row is in
//! exactly one `RowStatus`, and a change of several rows is one transaction. Removed sends leave
//! only a keyed hash of each address. Over 500 lines, because each method stands with its SQL and
//! its documentation.

use std::time::Duration;

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use svc_sql::params;

use crate::database::{Database, Durability, Transaction};
use crate::record::{
    FinalStatus, NewRow, NewSend, RowRecord, RowRefusal, RowStatus, SendRecord, SendState, Totals,
};
use crate::{LedgerError, LedgerErrorKind};

/// The version of the tables.
const VERSION: &str = "1";

/// Rows in one statement or page.
const PAGE: usize = 1000;

const REOPEN: &str = include_str!("sql/reopen.sql");
const SETTLE_SENT: &str = include_str!("sql/settle_sent.sql");
const WITHOUT_KEYS: &str = include_str!("sql/without_keys.sql");

/// How much of an HMAC-SHA-256 identifies a person.
const PERSON_BYTES: usize = 16;

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

/// Another send with the same people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Shared {
    /// The id of the other send.
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
    /// The name that people use.
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
    pub async fn sqlite(path: impl AsRef<std::path::Path>) -> Result<Self, LedgerError> {
        let database = Database::sqlite(path.as_ref()).await?;
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
        let database = Database::postgres(pool).await?;
        Self::open(database, Duration::from_secs(15)).await
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
        let values = values.map(|(name, value)| params![name, value]);
        tx.execute_each(INSERT, values.to_vec()).await?;
        let known: Vec<(String,)> = tx.query(KNOWN, params![]).await?;
        tx.commit().await?;

        let mut known = known.into_iter().map(|(value,)| value);
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
            changed_at, space) VALUES ($1, $2, $3, $4, now_ms(), now_ms(), $5)";

        let is_visible = new.id.bytes().all(|byte| byte.is_ascii_graphic());
        if !(1..=100).contains(&new.id.len()) || !is_visible {
            let text = "the id of a send must be 1 to 100 visible ASCII characters";
            return Err(LedgerError::new(LedgerErrorKind::Database, text));
        }

        let email = new.email.as_deref();
        let settings = new.settings.to_string();
        let values = params![&new.id, email, &new.label, &settings, space(new.rate)];
        self.database.execute(INSERT, values).await?;
        Ok(())
    }

    /// Adds rows to a draft.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written, or has a row with one of the numbers.
    pub async fn add(&self, id: &str, rows: &[NewRow]) -> Result<(), LedgerError> {
        let send = self.number_of(id).await?;
        let values = rows.iter().map(|row| {
            let status = match row.left_out {
                None => RowStatus::Waiting,
                Some(_) => RowStatus::LeftOut,
            };
            let person = row.person.as_deref().map(|address| self.person(address));
            let person = person.unwrap_or_default();
            let why = row.left_out.clone().unwrap_or_default();
            let code = why.code.as_deref();
            let message = why.message.as_deref();
            params![
                send,
                row.number,
                status.as_str(),
                &row.address,
                &*person,
                &row.data,
                code,
                message
            ]
        });
        // Losing a draft in a crash does no harm.
        let insert = include_str!("sql/add.sql");
        self.database
            .execute_each(Durability::Process, insert, values.collect())
            .await?;
        Ok(())
    }

    /// Adds a file, such as an attachment, to a send.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn add_file(&self, id: &str, name: &str, content: &[u8]) -> Result<(), LedgerError> {
        const INSERT: &str = "INSERT INTO bulk_files (send, name, content) VALUES ($1, $2, $3)";
        let send = self.number_of(id).await?;
        let values = params![send, name, content];
        self.database.execute(INSERT, values).await?;
        Ok(())
    }

    /// A file of a send.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read, or has no such file.
    pub async fn file(&self, id: &str, name: &str) -> Result<Vec<u8>, LedgerError> {
        const SELECT: &str =
            "SELECT encode(content, 'hex') FROM bulk_files WHERE send = $1 AND name = $2";
        let send = self.number_of(id).await?;
        let found = self.database.first(SELECT, params![send, name]).await?;
        let missing = || LedgerError::new(LedgerErrorKind::NotFound, "no such file");
        let (content,) = found.ok_or_else(missing)?;
        Ok(content)
    }

    /// Leaves rows of a draft out, each with its reason.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn leave_out(&self, id: &str, rows: &[(u64, RowRefusal)]) -> Result<(), LedgerError> {
        let send = self.number_of(id).await?;
        let values = rows.iter().map(|(number, why)| {
            let code = why.code.as_deref();
            let message = why.message.as_deref();
            params![send, *number, code, message]
        });
        let update = include_str!("sql/leave_out.sql");
        self.database
            .execute_each(Durability::Process, update, values.collect())
            .await?;
        Ok(())
    }

    /// Leaves out the rows of a draft whose people have got its email from other sends, or may have.
    /// Returns how many there are.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn leave_out_sent(&self, id: &str) -> Result<u64, LedgerError> {
        let (send, Some(email)) = self.identity(id).await? else {
            return Ok(0);
        };
        let update = include_str!("sql/leave_out_sent.sql");
        self.database.execute(update, params![send, &email]).await
    }

    /// Removes the rows of a draft after this one.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn cut(&self, id: &str, last: u64) -> Result<(), LedgerError> {
        const DELETE: &str = "DELETE FROM bulk_rows WHERE send = $1 AND number > $2";
        let send = self.number_of(id).await?;
        self.database.execute(DELETE, params![send, last]).await?;
        Ok(())
    }

    /// How many sends were started so far, for [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read.
    pub async fn starts(&self) -> Result<u64, LedgerError> {
        const SELECT: &str = "SELECT CAST(value AS BIGINT) FROM bulk_ledger WHERE name = 'starts'";
        let found = self.database.first(SELECT, params![]).await?;
        Ok(found.map_or(0, |(starts,)| starts))
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

        let send = self.number_of(id).await?;
        let mut tx = self.database.begin(Durability::Full).await?;
        let before: Option<(u64,)> = tx.first(COUNT, params![]).await?;
        let before = before.map_or(0, |(before,)| before);
        if starts.is_some_and(|starts| starts != before) {
            return Ok(false);
        }

        let values = params![send, &settings.to_string()];
        tx.execute(include_str!("sql/start.sql"), values).await?;
        tx.end(true).await
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
        self.find(None).await
    }

    /// The ids of all sends, without drafts.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read.
    pub async fn ids(&self) -> Result<Vec<String>, LedgerError> {
        const SELECT: &str = "SELECT id FROM bulk_sends WHERE state <> 'draft' ORDER BY id";
        let found = self.database.query(SELECT, params![]).await?;
        Ok(found.into_iter().map(|(id,)| id).collect())
    }

    /// The send with this id.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read, or has no such send.
    pub async fn send(&self, id: &str) -> Result<SendRecord, LedgerError> {
        let found = self.find(Some(id)).await?.pop();
        found.ok_or_else(not_found)
    }

    async fn find(&self, id: Option<&str>) -> Result<Vec<SendRecord>, LedgerError> {
        type Columns = (
            i64,
            String,
            SendState,
            i64,
            i64,
            Text,
            String,
            bool,
            Text,
            Text,
            u64,
        );

        let select = include_str!("sql/send.sql");
        let found: Vec<Columns> = self.database.query(select, params![id]).await?;
        let mut sends = Vec::with_capacity(found.len());
        for row in found {
            let (
                send,
                id,
                state,
                created_at,
                changed_at,
                email,
                settings,
                has_cause,
                code,
                message,
                workers,
            ) = row;
            let cause = RowRefusal { code, message };
            let settings = serde_json::from_str(&settings);
            sends.push(SendRecord {
                id,
                state,
                created_at: time(created_at),
                changed_at: time(changed_at),
                email,
                settings: settings.map_err(|_| LedgerError::unreadable())?,
                totals: self.totals_of(send).await?,
                workers,
                cause: has_cause.then_some(cause),
                send,
            });
        }

        Ok(sends)
    }

    pub(crate) async fn totals_of(&self, send: i64) -> Result<Totals, LedgerError> {
        const COUNT: &str =
            "SELECT status, count(*) FROM bulk_rows WHERE send = $1 GROUP BY status";
        let mut totals = Totals::default();
        for (status, count) in self.database.query(COUNT, params![send]).await? {
            totals.add(status, count);
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
            "SELECT number, status, address, data, at, again, id, code, message, final, reason \
             FROM bulk_rows WHERE send = $1 AND number > $2 {of_status} ORDER BY number LIMIT {PAGE}"
        );
        let found = self.database.query(&select, params![send, after]).await?;
        Ok(found.into_iter().map(row_record).collect())
    }

    /// Pauses, continues or cancels a send. All its workers see it within a second.
    ///
    /// # Errors
    ///
    /// If the send was cancelled, or the ledger cannot be written.
    pub async fn set_state(&self, id: &str, state: SendState) -> Result<(), LedgerError> {
        let send = self.number_of(id).await?;
        let values = params![send, state.as_str()];
        let update = include_str!("sql/set_state.sql");
        if self.database.execute(update, values).await? == 0 {
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
        const UPDATE: &str = "UPDATE bulk_sends SET space = $2 WHERE send = $1";
        let send = self.number_of(id).await?;
        self.database
            .execute(UPDATE, params![send, space(rate)])
            .await?;
        Ok(())
    }

    /// Makes the rows with these states wait again, of those that are refused, invalid or unknown; some
    /// people then perhaps get what was unknown twice. Returns how many.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn reopen(&self, id: &str, statuses: &[RowStatus]) -> Result<u64, LedgerError> {
        let send = self.number_of(id).await?;
        let mut tx = self.database.begin(Durability::Full).await?;
        let mut count = 0;
        for status in statuses {
            let rows = params![send, 0_u64, u64::MAX, status.as_str()];
            tx.execute(WITHOUT_KEYS, rows.clone()).await?;
            count += tx.execute(REOPEN, rows).await?;
        }
        tx.end(count).await
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
        let send = self.number_of(id).await?;
        let rows = |numbers: &[u64]| {
            let numbers = numbers.iter();
            let rows = numbers.map(|row| params![send, *row, *row, RowStatus::Unknown.as_str()]);
            rows.collect::<Vec<_>>()
        };

        let sent = rows(sent);
        let resend = rows(resend);
        let mut tx = self.database.begin(Durability::Full).await?;
        let all = [sent.as_slice(), resend.as_slice()].concat();
        tx.execute_each(WITHOUT_KEYS, all).await?;
        let settled = tx.execute_each(SETTLE_SENT, sent).await?;
        let waiting = tx.execute_each(REOPEN, resend).await?;
        tx.end((settled, waiting)).await
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
        let values = known
            .iter()
            .map(|(number, known)| params![send, *number, &known.status, known.reason.as_deref()]);
        self.database
            .execute_each(Durability::Process, UPDATE, values.collect())
            .await?;
        Ok(())
    }

    /// Removes a send with its rows, or a draft that is declined. Of each person who has got the
    /// email, or may have, a keyed hash of the address is kept with the identity of the email.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be written.
    pub async fn remove(&self, id: &str) -> Result<(), LedgerError> {
        let (send, email) = self.identity(id).await?;
        let mut tx = self.database.begin(Durability::Full).await?;
        if let Some(email) = email {
            let remember = include_str!("sql/remember.sql");
            tx.execute(remember, params![send, &email]).await?;
            tx.execute(include_str!("sql/label.sql"), params![send])
                .await?;
        }

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
            "SELECT send FROM bulk_sends WHERE state = 'draft' AND created_at < now_ms() - $1";
        const OLD: &str = "SELECT at FROM bulk_sent WHERE at < now_ms() - $1 LIMIT 1";
        const FORGET: &str = "DELETE FROM bulk_sent WHERE at < now_ms() - $1";

        let drafts: Vec<(i64,)> = self.database.query(DRAFTS, params![drafts]).await?;
        for (send,) in drafts {
            let mut tx = self.database.begin(Durability::Process).await?;
            delete(&mut tx, send).await?;
            tx.commit().await?;
        }

        // Most of the time, nothing is written.
        let old: Option<(i64,)> = self.database.first(OLD, params![memory]).await?;
        if old.is_some() {
            self.database.execute(FORGET, params![memory]).await?;
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
        let send = self.number_of(id).await?;
        let select = include_str!("sql/shared.sql");
        let found = self.database.query(select, params![send]).await?;
        Ok(found
            .into_iter()
            .map(|(id, people)| Shared { id, people })
            .collect())
    }

    /// How many people of the rows that wait have got the very email from sends that were removed.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read.
    pub async fn got_before(&self, id: &str) -> Result<Option<Remembered>, LedgerError> {
        let (send, Some(email)) = self.identity(id).await? else {
            return Ok(None);
        };

        let select = include_str!("sql/got_before.sql");
        let found = self.database.first(select, params![send, &email]).await?;
        let (people, last): (u64, i64) = found.unwrap_or_default();
        Ok((people > 0).then(|| Remembered {
            email,
            label: String::new(),
            people,
            last: time(last),
        }))
    }

    /// The emails of sends that were removed, with how many people have got them.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read.
    pub async fn memory(&self) -> Result<Vec<Remembered>, LedgerError> {
        let memory = include_str!("sql/memory.sql");
        let found = self.database.query(memory, params![]).await?;
        let remembered = |(email, label, people, last)| Remembered {
            email,
            label,
            people,
            last: time(last),
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
        let count = tx.execute("DELETE FROM bulk_sent", params![]).await?;
        tx.execute("DELETE FROM bulk_emails", params![]).await?;
        tx.end(count).await
    }

    pub(crate) async fn number_of(&self, id: &str) -> Result<i64, LedgerError> {
        Ok(self.identity(id).await?.0)
    }

    async fn identity(&self, id: &str) -> Result<(i64, Option<String>), LedgerError> {
        const SELECT: &str = "SELECT send, email FROM bulk_sends WHERE id = $1";
        let found = self.database.first(SELECT, params![id]).await?;
        found.ok_or_else(not_found)
    }

    /// The keyed hash of an address: without the key of the ledger, it does not tell who it is.
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
        tx.execute(statement, params![send]).await?;
    }
    Ok(())
}

type Text = Option<String>;
type RowColumns = (
    u64,
    RowStatus,
    String,
    String,
    Option<i64>,
    bool,
    Text,
    Text,
    Text,
    Text,
    Text,
);

fn row_record(row: RowColumns) -> RowRecord {
    let (number, status, address, data, at, perhaps_twice, id, code, message, known, reason) = row;
    RowRecord {
        number,
        status,
        address,
        data,
        at: at.map(time),
        id,
        why: RowRefusal { code, message },
        perhaps_twice,
        final_status: known.map(|status| FinalStatus { status, reason }),
    }
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

pub(crate) fn time(since_epoch: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(since_epoch).unwrap_or_default()
}

fn not_found() -> LedgerError {
    LedgerError::new(LedgerErrorKind::NotFound, "no send has this id")
}
