//! What is stored in a ledger (`NewSend`, `NewRow`) and what is read from it (`SendRecord`,
//! `RowRecord`, `Totals`), with the states of sends and rows. `Debug` of these types omits
//! addresses, settings, data and messages. The words of `SendState` and `RowStatus` are stored in
//! the database and stand in the SQL of `ledger.rs` and `worker.rs`, so they must not change.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest stored code or message of a refusal, in characters.
const MAX_MESSAGE: usize = 200;

/// A send that is to be stored.
#[derive(Clone)]
#[non_exhaustive]
pub struct NewSend {
    /// The id, 1 to 100 visible ASCII characters.
    pub id: String,
    /// Identifies the email, for example by a checksum of its texts: nobody gets the same one twice.
    /// `None` for a test, which does not count.
    pub email: Option<String>,
    /// A name of the email for people, such as its subject.
    pub label: String,
    /// Anything that the application needs to continue the send.
    pub settings: Value,
    /// Emails a second of all workers together; 0 means no limit.
    pub rate: f64,
}

impl NewSend {
    /// Describes a send of an email with this identity. The id is made from the time and a random
    /// number; any field may be changed.
    pub fn new(email: impl Into<String>) -> Self {
        let now = Utc::now().format("%Y%m%d-%H%M%S");
        Self {
            id: format!("{now}-{:08x}", fastrand::u32(..)),
            email: Some(email.into()),
            label: String::new(),
            settings: Value::Null,
            rate: 0.0,
        }
    }
}

/// Omits the settings, which may hold content.
impl fmt::Debug for NewSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewSend")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A row that is to be stored.
#[derive(Clone)]
#[non_exhaustive]
pub struct NewRow {
    /// The number of the row in its send.
    pub number: u64,
    /// The address as people know it.
    pub address: String,
    /// The address as it is compared, if it is one.
    pub person: Option<String>,
    /// The parts of the email, as JSON.
    pub data: String,
    /// Why the row is not sent, if it is left out: a code and a message.
    pub left_out: Option<RowRefusal>,
}

impl NewRow {
    /// A row with this number, for this address, from whose data the email is made.
    ///
    /// # Errors
    ///
    /// If the data cannot be written as JSON.
    pub fn new(
        number: u64,
        address: &str,
        data: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            number,
            address: address.to_owned(),
            person: Some(address.to_lowercase()),
            data: serde_json::to_string(data)?,
            left_out: None,
        })
    }
}

/// A send as it is in the ledger.
#[derive(Clone)]
#[non_exhaustive]
pub struct SendRecord {
    /// The id that `NewSend` gave it.
    pub id: String,
    /// Whether it is sent.
    pub state: SendState,
    /// When it was stored.
    pub created_at: DateTime<Utc>,
    /// When a worker has joined or left last.
    pub changed_at: DateTime<Utc>,
    /// The identity of the email, if it counts.
    pub email: Option<String>,
    /// The application's own settings.
    pub settings: Value,
    /// How many rows are in which state.
    pub totals: Totals,
    /// How many workers send it.
    pub workers: u64,
    /// Why the service refuses the emails, if that has paused it.
    pub cause: Option<RowRefusal>,
    pub(crate) send: i64,
}

impl SendRecord {
    /// Whether no row is left to send. Some may be unknown.
    pub fn is_complete(&self) -> bool {
        self.totals.not_sent + self.totals.in_flight == 0
    }
}

/// Omits the settings, which may hold content.
impl fmt::Debug for SendRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendRecord")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("totals", &self.totals)
            .finish_non_exhaustive()
    }
}

/// Whether a send may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SendState {
    /// Workers send it, if there are any.
    Running,
    /// Workers wait until it continues.
    Paused,
    /// Stopped for good.
    Cancelled,
}

impl SendState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The one state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RowStatus {
    /// Not sent yet.
    Waiting,
    /// A worker is about to send it.
    Held,
    /// In a request that was sent, or is about to be.
    InFlight,
    /// The service has accepted the email.
    Accepted,
    /// The service has refused the email.
    Refused,
    /// No valid email can be made of the row.
    Invalid,
    /// In a request whose response is missing: the service may have accepted the email.
    Unknown,
    /// Stored with a reason not to send it.
    LeftOut,
}

impl RowStatus {
    /// The word in the database, such as `in_flight`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::InFlight => "in_flight",
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
            Self::Unknown => "unknown",
            Self::LeftOut => "left_out",
        }
    }
}

/// A row with what became of it.
#[derive(Clone)]
#[non_exhaustive]
pub struct RowRecord {
    /// The number that `NewRow` gave it.
    pub number: u64,
    /// The only state that it is in.
    pub status: RowStatus,
    /// The address as people know it.
    pub address: String,
    /// The data of the email, as JSON. Empty if the row was left out.
    pub data: String,
    /// When it was sent, or got its outcome.
    pub at: Option<DateTime<Utc>>,
    /// The id of the email, if the service told it.
    pub id: Option<String>,
    /// Why it is refused, invalid, unknown or left out.
    pub why: RowRefusal,
    /// Whether an earlier request may have sent the email, too.
    pub perhaps_twice: bool,
    /// The final status of an accepted email, and why, as far as it was asked for.
    pub final_status: Option<FinalStatus>,
}

/// Omits address, data and message.
impl fmt::Debug for RowRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowRecord")
            .field("number", &self.number)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// The final status of an email, such as `delivered`.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalStatus {
    /// The word of the service.
    pub status: String,
    /// Why, if the service told it.
    pub reason: Option<String>,
}

/// How many rows are in which state, in all runs of a send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Accepted by the service.
    pub accepted: u64,
    /// Refused by the service.
    pub refused: u64,
    /// Not sent, because no valid email could be made of them.
    pub invalid: u64,
    /// Sent, but the service's response is missing: it may have accepted them. They are kept
    /// back.
    pub unknown: u64,
    /// Sent, and the response is awaited.
    pub in_flight: u64,
    /// To be sent: waiting, or held by a worker.
    pub not_sent: u64,
    /// Stored with a reason not to send them.
    pub left_out: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, status: RowStatus, count: u64) {
        let total = match status {
            RowStatus::Waiting | RowStatus::Held => &mut self.not_sent,
            RowStatus::InFlight => &mut self.in_flight,
            RowStatus::Accepted => &mut self.accepted,
            RowStatus::Refused => &mut self.refused,
            RowStatus::Invalid => &mut self.invalid,
            RowStatus::Unknown => &mut self.unknown,
            RowStatus::LeftOut => &mut self.left_out,
        };
        *total += count;
    }

    /// All rows but those that are left out.
    pub fn total(&self) -> u64 {
        let settled = self.accepted + self.refused + self.invalid;
        settled + self.unknown + self.in_flight + self.not_sent
    }
}

/// The outcome of one row of a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RowOutcome {
    /// The service accepted the email, with this id.
    Accepted(String),
    /// The service refused the email.
    Refused(RowRefusal),
    /// The response does not tell.
    Unknown,
}

/// Why an email is refused, or a row is not sent.
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RowRefusal {
    /// The error code.
    pub code: Option<String>,
    /// The start of the message, which may quote the email.
    pub message: Option<String>,
}

impl RowRefusal {
    /// A reason with at most 200 characters of each text.
    pub fn new(code: Option<&str>, message: Option<&str>) -> Self {
        let shortened = |text: &str| text.chars().take(MAX_MESSAGE).collect::<String>();
        Self {
            code: code.map(shortened),
            message: message.map(shortened),
        }
    }
}

/// Omits the message, which may quote the email.
impl fmt::Debug for RowRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowRefusal")
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}
