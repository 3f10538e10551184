//! The entries of a journal and their JSON text.

use chrono::{DateTime, SubsecRound, Utc};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The version of the format that this crate writes and reads.
const VERSION: u32 = 1;

/// The longest stored message of a refusal, in characters.
const MAX_MESSAGE: usize = 200;

/// What a journal is for: its first line.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JobInfo {
    /// The id of the job, part of each idempotency key.
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
    /// checksum of both.
    pub fn new(source: impl Into<String>) -> Self {
        let at = now();
        let job = format!("{}-{:08x}", at.format("%Y%m%d-%H%M%S"), fastrand::u32(..));
        Self { job, version: VERSION, at, source: source.into(), rows: None, settings: Value::Null }
    }

    /// Sets the id of the job: 1 to 100 visible ASCII characters. By default, it is made from
    /// the time and a random number.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.job = id.into();
        self
    }

    /// Sets the number of rows to send.
    #[must_use]
    pub fn rows(mut self, rows: u64) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Sets what the application needs to continue the job.
    #[must_use]
    pub fn settings(mut self, settings: impl Into<Value>) -> Self {
        self.settings = settings.into();
        self
    }

    pub(crate) fn problem(&self) -> Option<String> {
        if self.version != VERSION {
            return Some(format!("its format has version {}, not {VERSION}", self.version));
        }
        let valid = (1..=100).contains(&self.job.len()) && self.job.bytes().all(is_visible);
        (!valid).then(|| "the id of the job must be 1 to 100 visible ASCII characters".to_owned())
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

fn is_visible(byte: u8) -> bool {
    byte.is_ascii_graphic()
}

/// The current time, in milliseconds.
pub(crate) fn now() -> DateTime<Utc> {
    Utc::now().trunc_subsecs(3)
}

/// A line of a journal after the first.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Entry {
    /// The emails of these rows are about to be sent in one request.
    Intent {
        /// The number of the request in this job.
        chunk: u64,
        /// When.
        at: DateTime<Utc>,
        /// The idempotency key of the request.
        key: Option<String>,
        /// The numbers of the rows, ascending.
        rows: Vec<u64>,
        /// The first recipient of each row.
        to: Vec<String>,
    },
    /// The service responded to a request.
    Outcome {
        /// The number of the request.
        chunk: u64,
        /// When.
        at: DateTime<Utc>,
        /// The outcome of each row of the request, in the order of the intent.
        results: Vec<RowOutcome>,
    },
    /// The service has not processed a request. Its rows will be sent.
    NotSent {
        /// The number of the request.
        chunk: u64,
        /// When.
        at: DateTime<Utc>,
        /// The service's error code.
        code: Option<String>,
    },
    /// The service may have processed a request, but its response is missing.
    Unknown {
        /// The number of the request.
        chunk: u64,
        /// When.
        at: DateTime<Utc>,
        /// The service's error code.
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
}

/// The outcome of one row of a request.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum RowOutcome {
    /// The service accepted the email, with this id.
    Accepted(String),
    /// The service refused the email.
    Refused {
        /// The service's error code.
        code: Option<String>,
        /// The start of the service's message, which may quote the email.
        message: Option<String>,
    },
    /// The response does not tell.
    Unknown,
}

impl RowOutcome {
    pub(crate) fn refused(code: Option<&str>, message: Option<&str>) -> Self {
        let shortened = |text: &str| text.chars().take(MAX_MESSAGE).collect::<String>();
        Self::Refused { code: code.map(shortened), message: message.map(shortened) }
    }
}

/// Omits the message, which may quote the email.
impl std::fmt::Debug for RowOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Accepted(id) => f.debug_tuple("Accepted").field(id).finish(),
            Self::Refused { code, .. } => {
                f.debug_struct("Refused").field("code", code).finish_non_exhaustive()
            }
            Self::Unknown => f.write_str("Unknown"),
        }
    }
}

/// The id, `null`, or an object with the code.
impl Serialize for RowOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Accepted(id) => serializer.serialize_str(id),
            Self::Unknown => serializer.serialize_unit(),
            Self::Refused { code, message } => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("refused", code)?;
                if let Some(message) = message {
                    map.serialize_entry("message", message)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for RowOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Outcome;

        impl<'de> Visitor<'de> for Outcome {
            type Value = RowOutcome;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an id, null or a refusal")
            }

            fn visit_str<E>(self, id: &str) -> Result<RowOutcome, E> {
                Ok(RowOutcome::Accepted(id.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<RowOutcome, E> {
                Ok(RowOutcome::Unknown)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RowOutcome, A::Error> {
                let (mut code, mut message) = (None, None);
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        "refused" => code = map.next_value()?,
                        "message" => message = map.next_value()?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(RowOutcome::Refused { code, message })
            }
        }

        deserializer.deserialize_any(Outcome)
    }
}

/// A line of the file: the name of the first field tells its kind. A flat object is read
/// without buffering, which matters for a million rows.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_sent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    to: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    results: Vec<RowOutcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl From<Entry> for Line {
    fn from(entry: Entry) -> Self {
        let line = Self::default();
        match entry {
            Entry::Intent { chunk, at, key, rows, to } => {
                Self { intent: Some(chunk), at: Some(at), key, rows, to, ..line }
            }
            Entry::Outcome { chunk, at, results } => {
                Self { outcome: Some(chunk), at: Some(at), results, ..line }
            }
            Entry::NotSent { chunk, at, code } => {
                Self { not_sent: Some(chunk), at: Some(at), code, ..line }
            }
            Entry::Unknown { chunk, at, code } => {
                Self { unknown: Some(chunk), at: Some(at), code, ..line }
            }
            Entry::Invalid { row, at, message } => {
                Self { invalid: Some(row), at: Some(at), message: Some(message), ..line }
            }
        }
    }
}

impl Line {
    /// The entry; `None` if the line is not complete.
    pub(crate) fn into_entry(self) -> Option<Entry> {
        let at = self.at?;
        Some(match self {
            Self { intent: Some(chunk), key, rows, to, .. } if rows.len() == to.len() => {
                Entry::Intent { chunk, at, key, rows, to }
            }
            Self { outcome: Some(chunk), results, .. } => Entry::Outcome { chunk, at, results },
            Self { not_sent: Some(chunk), code, .. } => Entry::NotSent { chunk, at, code },
            Self { unknown: Some(chunk), code, .. } => Entry::Unknown { chunk, at, code },
            Self { invalid: Some(row), message, .. } => {
                Entry::Invalid { row, at, message: message.unwrap_or_default() }
            }
            _ => return None,
        })
    }
}
