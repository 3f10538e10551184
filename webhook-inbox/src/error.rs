//! `Error` and `ErrorKind` of the inbox, and `Failed`, with which a handler overrides the back-off.
//! `Error::is_outage` tells whether a failure ends by itself or by an operator, so that it must not
//! cost a delivery an attempt; `needs_somebody` whether it is logged as an error. `text_of` writes
//! an error with its sources in ASCII, which every database can store. The errors are made in the
//! modules of the databases.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

/// An error of your own: of a handler.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// An operation of the inbox failed.
///
/// After a failed [`Inbox::accept`](crate::Inbox::accept), respond 503, and the sender
/// delivers again. The delivery may have been stored: then its retry is a duplicate.
///
/// The [`source`](StdError::source) is the error of the database.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct Error {
    kind: ErrorKind,
    source: BoxError,
}

/// Why an operation of the inbox failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The database cannot be reached, restarts, or did not respond in time. Try again later.
    #[error("the database of the webhook inbox is unavailable")]
    Unavailable,
    /// The pool, or the server, has no free connection. Try again later; if it lasts, enlarge the
    /// pool or the server's `max_connections`.
    #[error("the webhook inbox gets no connection to its database")]
    NoConnection,
    /// Another transaction holds what the operation needs. Try again later; if it lasts, find that
    /// transaction.
    #[error("another transaction has locked what the webhook inbox needs")]
    Locked,
    /// The disk of the database is full. Make room.
    #[error("the disk of the webhook inbox's database is full")]
    DiskFull,
    /// The database is read-only: a standby, or a file without write permission. The inbox opens
    /// a new connection for its next attempt. If it lasts, let the address lead to the primary.
    #[error("the database of the webhook inbox is read-only")]
    ReadOnly,
    /// The database refused the password or the permission. Correct it.
    #[error("the database refuses the webhook inbox its login or a permission")]
    Denied,
    /// The tables of the inbox do not exist, or not all of them. Call
    /// [`Inbox::migrate`](crate::Inbox::migrate) when your program starts.
    #[error("the tables of the webhook inbox do not exist; call `Inbox::migrate` first")]
    NotMigrated,
    /// A newer version of this crate has changed the tables so that this version cannot use them.
    /// The source names both versions. Update the crate.
    #[error("the tables of the webhook inbox belong to a newer version of svc-webhook-inbox")]
    OtherSchema,
    /// The database refused the operation for another reason, which is the source.
    #[error("the database refused an operation of the webhook inbox")]
    Database,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, source: impl Into<BoxError>) -> Self {
        Self {
            kind,
            source: source.into(),
        }
    }

    /// An error of PostgreSQL. Without a code, the server cannot be reached.
    #[cfg(any(feature = "postgres", feature = "sqlx"))]
    pub(crate) fn postgres(code: Option<&str>, source: impl Into<BoxError>) -> Self {
        let code = code.unwrap_or_default();
        let kind = match code {
            "42P01" | "42703" | "3F000" => ErrorKind::NotMigrated,
            "25006" => ErrorKind::ReadOnly,
            "42501" => ErrorKind::Denied,
            "53100" => ErrorKind::DiskFull,
            "53300" => ErrorKind::NoConnection,
            "57014" | "55P03" => ErrorKind::Locked,
            _ => match code.get(..2).unwrap_or_default() {
                "28" => ErrorKind::Denied,
                // Connection, transaction rollback, resources, object in use, shutdown, or none.
                "" | "08" | "25" | "40" | "53" | "55" | "57" | "58" => ErrorKind::Unavailable,
                _ => ErrorKind::Database,
            },
        };
        Self::new(kind, source)
    }

    /// Why the operation failed.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether it ends by itself, and an attempt that it ended does not count.
    pub(crate) fn is_outage(&self) -> bool {
        !matches!(self.kind, ErrorKind::OtherSchema | ErrorKind::Database)
    }

    /// Whether somebody must do something.
    pub(crate) fn needs_somebody(&self) -> bool {
        !matches!(
            self.kind,
            ErrorKind::Unavailable | ErrorKind::NoConnection | ErrorKind::Locked
        )
    }
}

/// What a handler returns, as an error, if the usual back-off is wrong.
///
/// ```
/// use std::time::Duration;
/// use webhook_inbox::{BoxError, Failed};
///
/// fn check(status: u16) -> Result<(), BoxError> {
///     match status {
///         410 => Err(Failed::for_good("the customer has left").into()),
///         429 => Err(Failed::again_in(Duration::from_secs(60), "too many requests").into()),
///         _ => Ok(()),
///     }
/// }
/// # assert!(check(410).is_err());
/// ```
#[derive(Debug)]
pub struct Failed {
    again_in: Option<Duration>,
    reason: BoxError,
}

impl Failed {
    /// No other attempt will succeed: the delivery is a dead letter at once.
    pub fn for_good(reason: impl Into<BoxError>) -> Self {
        Self {
            again_in: None,
            reason: reason.into(),
        }
    }

    /// The delivery is due again after this time, at most 30 days. The attempt counts.
    pub fn again_in(delay: Duration, reason: impl Into<BoxError>) -> Self {
        const MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
        Self {
            again_in: Some(delay.min(MAX)),
            reason: reason.into(),
        }
    }

    pub(crate) fn delay(&self) -> Option<Duration> {
        self.again_in
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl StdError for Failed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.reason.source()
    }
}

/// The messages of an error and its sources, in ASCII, so that every database can store them.
pub(crate) fn text_of(error: &dyn StdError) -> String {
    /// Longest text that is stored, in characters.
    const MAX_CHARS: usize = 2000;
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let message = error.to_string();
        // Some errors repeat the message of their source.
        if !text.ends_with(&message) {
            text = format!("{text}: {message}");
        }
        source = error.source();
    }
    let mut ascii = String::new();
    for c in text.chars() {
        if c == '\n' || c == '\t' || c == ' ' || c.is_ascii_graphic() {
            ascii.push(c);
        } else {
            ascii.extend(c.escape_unicode());
        }
        if ascii.len() >= MAX_CHARS {
            ascii.truncate(MAX_CHARS);
            break;
        }
    }
    ascii
}
