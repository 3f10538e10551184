//! The error of the inbox.

use std::error::Error as StdError;
use std::fmt;

/// An error of your own: of a handler.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// An operation of the inbox failed.
///
/// After a failed [`Inbox::accept`](crate::Inbox::accept), respond 503, and the sender
/// delivers again. The delivery may have been stored: then its retry is a duplicate.
///
/// The [`source`](StdError::source) is the error of the database.
pub struct Error {
    kind: ErrorKind,
    source: BoxError,
}

/// Why an operation of the inbox failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The database cannot be reached, is locked, or did not respond in time. Try again
    /// later.
    Unavailable,
    /// The table of the inbox does not exist. Call [`Inbox::migrate`](crate::Inbox::migrate)
    /// when your program starts.
    NotMigrated,
    /// The database refused the operation for another reason, which is the source.
    Database,
}

impl Error {
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn new(kind: ErrorKind, source: impl Into<BoxError>) -> Self {
        Self { kind, source: source.into() }
    }

    /// Why the operation failed.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ErrorKind::Unavailable => "the database of the webhook inbox is unavailable",
            ErrorKind::NotMigrated => {
                "the table webhook_inbox does not exist; call `Inbox::migrate` first"
            }
            ErrorKind::Database => "the database refused an operation of the webhook inbox",
        })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("kind", &self.kind).field("source", &self.source).finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
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
    text.chars().take(MAX_CHARS).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect()
}
