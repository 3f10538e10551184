//! Why a job ended before all rows were sent.

use std::error::Error as StdError;
use std::{fmt, io};

use crate::Totals;

pub(crate) type Cause = Box<dyn StdError + Send + Sync>;

/// A job ended before all its rows were sent.
///
/// The journal holds everything that was done; run the job again with it to continue.
pub struct Error {
    kind: ErrorKind,
    totals: Totals,
}

/// Why a job ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The service cannot be reached, or refuses whole requests, or several requests in a row
    /// have an unknown outcome.
    Service(svc_sdk::Error),
    /// Several emails in a row were refused for one reason that concerns the whole job: the
    /// domain of the sender is not verified, the template does not exist, or the key lacks a
    /// scope. Their rows count as not sent.
    Refused {
        /// The service's code.
        code: Option<String>,
        /// The service's message.
        message: Option<String>,
    },
    /// The journal cannot be written or read. Nothing is sent without it.
    Journal(io::Error),
    /// The stream of rows failed.
    Rows(Box<dyn StdError + Send + Sync>),
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

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("kind", &self.kind).field("totals", &self.totals).finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ErrorKind::Service(_) => "the job stopped because of the service",
            ErrorKind::Refused { .. } => "the job stopped because the service refuses every email",
            ErrorKind::Journal(_) => "the job stopped because its journal failed",
            ErrorKind::Rows(_) => "the job stopped because its rows cannot be read",
        })?;
        f.write_str("; run it again with the same journal to continue")
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(match &self.kind {
            ErrorKind::Refused { .. } => return None,
            ErrorKind::Service(error) => error,
            ErrorKind::Journal(error) => error,
            ErrorKind::Rows(error) => error.as_ref(),
        })
    }
}
