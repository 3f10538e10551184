//! Errors of a ledger, and the reasons why a send stops before its end.

use std::error::Error as StdError;
use std::fmt;

use crate::{RowRefusal, Totals};

/// A send stopped before all its rows were sent.
///
/// The ledger holds everything that was done; run the send again to continue.
#[derive(Debug, thiserror::Error)]
#[error("the send stopped before its end; run it again to continue")]
#[non_exhaustive]
pub struct Error {
    /// Why it stopped.
    #[source]
    pub kind: ErrorKind,
    /// The outcome of all rows, in this run and those before it.
    pub totals: Totals,
}

/// Why a send stopped early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The service cannot be reached, or refuses whole requests, or several requests in a row
    /// have an unknown outcome. No row is refused for it.
    #[error("the service failed or refused a request")]
    Service(#[source] svc_sdk::Error),
    /// Several emails in a row were refused for one cause, which has paused the send for all its
    /// workers. If the cause concerns the whole send, such as a domain that is not verified, the
    /// rows that were refused for it in this run are waiting again.
    #[error("the service refuses the emails of the send ({})", .0.code.as_deref().unwrap_or("no code"))]
    Refused(RowRefusal),
    /// The ledger cannot be written or read. Nothing is sent without it.
    #[error("the ledger failed")]
    Ledger(#[source] LedgerError),
}

/// A ledger cannot do what it was asked for.
#[derive(Debug)]
pub struct LedgerError {
    kind: LedgerErrorKind,
    source: Box<dyn StdError + Send + Sync>,
}

/// The problem with a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerErrorKind {
    /// The database cannot be reached, or is busy or full. Try again later.
    Unavailable,
    /// The database has no send with this id.
    NotFound,
    /// The tables are of another version of this crate, or hold what it has not written.
    OtherSchema,
    /// The send was cancelled, which cannot be undone.
    Cancelled,
    /// The database refuses a statement.
    Database,
}

impl LedgerError {
    pub(crate) fn new(
        kind: LedgerErrorKind,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self {
            kind,
            source: source.into(),
        }
    }

    pub(crate) fn unreadable() -> Self {
        let text = "the ledger holds a value that cannot be read";
        Self::new(LedgerErrorKind::OtherSchema, text)
    }

    /// The problem.
    pub fn kind(&self) -> LedgerErrorKind {
        self.kind
    }

    /// Whether the same call may succeed later.
    pub fn is_unavailable(&self) -> bool {
        self.kind == LedgerErrorKind::Unavailable
    }
}

impl From<svc_sql::Error> for LedgerError {
    fn from(error: svc_sql::Error) -> Self {
        use svc_sql::ErrorKind as Kind;
        let kind = match error.kind() {
            Kind::Unavailable | Kind::NoConnection | Kind::Locked | Kind::ReadOnly => {
                LedgerErrorKind::Unavailable
            }
            _ => LedgerErrorKind::Database,
        };
        Self::new(kind, error.into_source())
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            LedgerErrorKind::Unavailable => "the ledger is not available",
            LedgerErrorKind::NotFound => "the ledger has no such send",
            LedgerErrorKind::OtherSchema => "the ledger is not one of this version",
            LedgerErrorKind::Cancelled => "the send was cancelled, which cannot be undone",
            LedgerErrorKind::Database => "the database of the ledger refuses a statement",
        };
        write!(f, "{what}: {}", self.source)
    }
}

impl StdError for LedgerError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}
