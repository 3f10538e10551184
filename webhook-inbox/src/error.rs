//! The error of the inbox.

use std::error::Error as StdError;

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
    /// The database cannot be reached, is locked, or did not respond in time. Try again
    /// later.
    #[error("the database of the webhook inbox is unavailable")]
    Unavailable,
    /// The tables of the inbox do not exist. Call [`Inbox::migrate`](crate::Inbox::migrate)
    /// when your program starts.
    #[error("the table webhook_inbox does not exist; call `Inbox::migrate` first")]
    NotMigrated,
    /// The tables were created by another version of this crate. The source names both
    /// versions of the schema. Use one version of the crate in all programs that share the
    /// database.
    #[error("the table webhook_inbox belongs to another version of svc-webhook-inbox")]
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
        let kind = match code {
            Some("42P01") => ErrorKind::NotMigrated,
            // Connection, transaction rollback, resources, object in use, shutdown or time-out.
            Some(code)
                if !["08", "40", "53", "55", "57"].contains(&code.get(..2).unwrap_or("")) =>
            {
                ErrorKind::Database
            }
            _ => ErrorKind::Unavailable,
        };
        Self::new(kind, source)
    }

    /// Why the operation failed.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// The messages of an error and its sources, for a dead letter.
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
    // PostgreSQL does not store NUL in a text.
    text.chars()
        .take(MAX_CHARS)
        .map(|c| if c == '\0' { '\u{fffd}' } else { c })
        .collect()
}
