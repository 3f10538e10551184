//! What a journal says: the entries and their JSON.

use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format that this crate writes and reads.
const VERSION: u32 = 2;

/// The longest stored message of a refusal, in characters.
const MAX_MESSAGE: usize = 200;

/// What a job is: the first line of its [`Journal`](crate::Journal).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobInfo {
    /// The id of the job, part of each idempotency key: 1 to 100 visible ASCII characters.
    pub job: String,
    /// The version of the format.
    pub version: u32,
    /// When the job was created.
    pub at: DateTime<Utc>,
    /// Identifies the rows and how they are rendered, such as a checksum. A run with another
    /// source is refused.
    pub source: String,
    /// The number of rows to send, if it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<u64>,
    /// Anything that the application needs to continue the job.
    #[serde(skip_serializing_if = "Value::is_null", default)]
    pub settings: Value,
}

impl JobInfo {
    /// Describes a new job. `source` identifies its rows and how they are rendered: use a
    /// checksum of both. The id is made from the time and a random number; any field may be changed.
    pub fn new(source: impl Into<String>) -> Self {
        let at = now();
        let job = format!("{}-{:08x}", at.format("%Y%m%d-%H%M%S"), fastrand::u32(..));
        Self {
            job,
            version: VERSION,
            at,
            source: source.into(),
            rows: None,
            settings: Value::Null,
        }
    }

    pub(crate) fn problem(&self) -> Option<String> {
        if self.version != VERSION {
            return Some(format!(
                "its format has version {}, not {VERSION}",
                self.version
            ));
        }
        let is_visible = self.job.bytes().all(|byte| byte.is_ascii_graphic());
        let is_valid = (1..=100).contains(&self.job.len()) && is_visible;
        (!is_valid)
            .then(|| "the id of the job must be 1 to 100 visible ASCII characters".to_owned())
    }
}

/// Omits the settings, which may hold content.
impl std::fmt::Debug for JobInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobInfo")
            .field("job", &self.job)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

/// Whether a job is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SendState {
    /// It is.
    Running,
    /// It waits.
    Paused,
    /// It has stopped for good.
    Cancelled,
    /// No row is left to send. Some may be unknown.
    Complete,
}

/// The current time, in milliseconds.
pub(crate) fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(3)
}

/// A line of a journal after the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JournalEntry {
    /// The emails of these rows are about to be sent in one request.
    Intent {
        /// The number of the request in this job.
        request: u64,
        /// When.
        at: DateTime<Utc>,
        /// The idempotency key of the request.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        key: Option<String>,
        /// The numbers of the rows, ascending.
        rows: Vec<u64>,
    },
    /// The service responded to a request.
    Outcome {
        /// The number of the request.
        request: u64,
        /// When.
        at: DateTime<Utc>,
        /// The outcome of each row of the request, in the order of the intent.
        results: Vec<RowOutcome>,
    },
    /// The service has not processed a request. Its rows will be sent.
    NotSent {
        /// The number of the request.
        request: u64,
    },
    /// The service may have processed a request, but its response is missing.
    Unknown {
        /// The number of the request.
        request: u64,
        /// When.
        at: DateTime<Utc>,
        /// The service's error code.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        code: Option<String>,
    },
    /// No email can be made of a row.
    Invalid {
        /// The number of the row.
        row: u64,
        /// When.
        at: DateTime<Utc>,
        /// Why.
        message: String,
    },
    /// Rows that were refused or are unknown will be sent again.
    Reopened {
        /// The numbers of the rows.
        rows: Vec<u64>,
    },
    /// Unknown rows were accepted, as someone has found out.
    Settled {
        /// The numbers of the rows.
        rows: Vec<u64>,
        /// When.
        at: DateTime<Utc>,
    },
}

impl JournalEntry {
    /// `Reopened`, if there are rows.
    pub(crate) fn reopened(rows: Vec<u64>) -> Option<Self> {
        (!rows.is_empty()).then_some(Self::Reopened { rows })
    }
}

/// How many rows the entries settle, and how many they send again.
pub(crate) fn counts(entries: &[JournalEntry]) -> (u64, u64) {
    entries
        .iter()
        .fold((0, 0), |(sent, resend), entry| match entry {
            JournalEntry::Settled { rows, .. } => (sent + rows.len() as u64, resend),
            JournalEntry::Reopened { rows } => (sent, resend + rows.len() as u64),
            _ => (sent, resend),
        })
}

/// The outcome of one row of a request. In JSON, it is the id, `{"refused":CODE,"message":…}` or
/// `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum RowOutcome {
    /// The service accepted the email, with this id.
    Accepted(String),
    /// The service refused the email.
    Refused(RowRefusal),
    /// The response does not tell.
    Unknown,
}

/// Why the service refused an email.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RowRefusal {
    /// The service's error code.
    #[serde(rename = "refused")]
    pub code: Option<String>,
    /// The start of the service's message, which may quote the email.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
}

impl RowRefusal {
    pub(crate) fn new(code: Option<&str>, message: Option<&str>) -> Self {
        let shortened = |text: &str| text.chars().take(MAX_MESSAGE).collect::<String>();
        Self {
            code: code.map(shortened),
            message: message.map(shortened),
        }
    }
}

/// Omits the message, which may quote the email.
impl std::fmt::Debug for RowRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowRefusal")
            .field("code", &self.code)
            .finish_non_exhaustive()
    }
}
