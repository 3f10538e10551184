//! Why a job stopped before all rows were sent.

use std::error::Error as StdError;
use std::io;

use crate::{RowRefusal, Totals};

/// A job stopped before all its rows were sent.
///
/// The journal holds everything that was done; run the job again with it to continue.
#[derive(Debug, thiserror::Error)]
#[error("the job stopped before its end; run it again with the same journal to continue")]
#[non_exhaustive]
pub struct Error {
    /// Why the job stopped.
    #[source]
    pub kind: ErrorKind,
    /// What was done, in this run and those before it.
    pub totals: Totals,
}

/// Why a job stopped early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The service cannot be reached, or refuses whole requests, or several requests in a row
    /// have an unknown outcome.
    #[error("the service failed or refused a request")]
    Service(#[source] svc_sdk::Error),
    /// Several emails in a row were refused for one cause that seems to concern the whole job: the
    /// domain of the sender is not verified, the template does not exist, the key lacks a scope.
    /// Their rows count as not sent. If the cause is none of these, and other emails of the job
    /// were accepted, they count as refused; [`Journal::reopen`](crate::Journal::reopen)
    /// sends them again.
    #[error("the service refuses the emails of the job ({})", .0.code.as_deref().unwrap_or("no code"))]
    Refused(RowRefusal),
    /// The journal or Redis cannot be written or read. Nothing is sent without it.
    #[error("the journal failed")]
    Journal(#[source] io::Error),
    /// The stream of rows failed.
    #[error("the rows cannot be read")]
    Rows(#[source] Box<dyn StdError + Send + Sync>),
}
