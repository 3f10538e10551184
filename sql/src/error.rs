//! Why a statement has failed: `Error` keeps the error of the database, and its `ErrorKind` says what an
//! operator can do. Made from the SQLSTATE of PostgreSQL here, and from errors of SQLite in `sqlite.rs`.

use std::error::Error as StdError;

/// An operation of a database failed.
///
/// The [`source`](StdError::source) is the error of the database.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct Error {
    kind: ErrorKind,
    source: Box<dyn StdError + Send + Sync>,
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The database cannot be reached, restarts, or did not respond in time. Try again later.
    #[error("the database is unavailable")]
    Unavailable,
    /// The pool, or the server, has no free connection. Try again later; if it lasts, enlarge the
    /// pool or the server's `max_connections`.
    #[error("the database has no free connection")]
    NoConnection,
    /// Another transaction holds what the operation needs. Try again later; if it lasts, find that
    /// transaction.
    #[error("another transaction has locked what is needed")]
    Locked,
    /// The disk of the database is full. Make room.
    #[error("the disk of the database is full")]
    DiskFull,
    /// The database is read-only: a standby, or a file without write permission. The next attempt
    /// has a new connection. If it lasts, let the address lead to the primary.
    #[error("the database is read-only")]
    ReadOnly,
    /// The database refused the password or the permission. Correct it.
    #[error("the database refuses the login or a permission")]
    Denied,
    /// The tables do not exist, or not all of them. Call `Inbox::migrate` when your program starts.
    #[error("the tables do not exist; call `Inbox::migrate` first")]
    NotMigrated,
    /// A newer version of the crate has changed the tables so that this version cannot use them.
    /// The source names both versions. Update the crate.
    #[error("the tables belong to a newer version of the crate")]
    OtherSchema,
    /// The database refused the operation for another reason, which is the source.
    #[error("the database refused an operation")]
    Database,
}

impl Error {
    /// An error with its cause.
    pub fn new(kind: ErrorKind, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            kind,
            source: source.into(),
        }
    }

    /// An error of PostgreSQL with its SQLSTATE. Without one, the server cannot be reached.
    pub fn postgres(
        code: Option<&str>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
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

    /// The error of the database.
    pub fn into_source(self) -> Box<dyn StdError + Send + Sync> {
        self.source
    }

    /// Whether the same operation may succeed later: the database is not available, or somebody mends
    /// what is wrong with it.
    pub fn is_outage(&self) -> bool {
        !matches!(self.kind, ErrorKind::OtherSchema | ErrorKind::Database)
    }

    /// Whether somebody must do something.
    pub fn needs_somebody(&self) -> bool {
        !matches!(
            self.kind,
            ErrorKind::Unavailable | ErrorKind::NoConnection | ErrorKind::Locked
        )
    }
}
