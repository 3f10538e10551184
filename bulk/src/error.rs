//! Why a job ended before all rows were sent.

use std::error::Error as StdError;
use std::io;

use crate::Totals;

pub(crate) type Cause = Box<dyn StdError + Send + Sync>;

/// A job ended before all its rows were sent.
///
/// The journal holds everything that was done; run the job again with it to continue.
#[derive(Debug, thiserror::Error)]
#[error(
    "the job stopped before all rows were sent; run it again with the same journal to continue"
)]
pub struct Error {
    #[source]
    kind: ErrorKind,
    totals: Totals,
}

/// Why a job ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The service cannot be reached, or refuses whole requests, or several requests in a row
    /// have an unknown outcome.
    #[error("the service stopped the job")]
    Service(#[source] svc_sdk::Error),
    /// Several emails in a row were refused for one reason that concerns the whole job: the
    /// domain of the sender is not verified, the template does not exist, or the key lacks a
    /// scope. Their rows count as not sent.
    #[error("the service refuses every email: {}", message.as_deref().or(code.as_deref()).unwrap_or("no reason given"))]
    Refused {
        /// The service's code.
        code: Option<String>,
        /// The service's message.
        message: Option<String>,
    },
    /// The journal cannot be written or read. Nothing is sent without it.
    #[error("the journal failed")]
    Journal(#[source] io::Error),
    /// The stream of rows failed.
    #[error("the rows cannot be read")]
    Rows(#[source] Box<dyn StdError + Send + Sync>),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, totals: Totals) -> Self {
        Self { kind, totals }
    }

    /// Why the job ended.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The kind, by value.
    pub fn into_kind(self) -> ErrorKind {
        self.kind
    }

    /// What was done, in this run and those before it.
    pub fn totals(&self) -> Totals {
        self.totals
    }
}
