//! How the inbox talks to PostgreSQL, with any driver: the simple query protocol. A statement and
//! the settings of its transaction are one message, so they need one round trip, and nothing has
//! a name that PgBouncer would have to know.

use std::time::Duration;

use svc_sql::with_literals;

use crate::queue::{FINISH, claim_of};
use crate::worker::Failure;
use crate::{Error, Job};

/// `IF NOT EXISTS` alone fails if two processes create a table at the same time. A lock that is
/// held for long by an application must not let others wait for this.
pub(crate) const CREATE: &str = concat!(
    "SET LOCAL lock_timeout = '5s'; SELECT pg_advisory_xact_lock(hashtext('webhook_inbox')); ",
    include_str!("schema.postgres.sql")
);

/// Commits what a handler has written. The savepoint fails if the transaction was ended, or if a
/// statement has failed whose error was ignored: a commit alone would roll back, and report no
/// error. The driver ends the empty transaction that follows.
pub(crate) const COMMIT: &str = "SAVEPOINT webhook_inbox; COMMIT AND CHAIN";

/// The isolation level of a handler's transaction in PostgreSQL. An attempt that PostgreSQL ends
/// for a conflict is repeated soon, and does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// The database's own setting, `READ COMMITTED` unless changed.
    #[default]
    Database,
    /// `READ COMMITTED`
    ReadCommitted,
    /// `REPEATABLE READ`
    RepeatableRead,
    /// `SERIALIZABLE`
    Serializable,
}

impl Isolation {
    fn clause(self) -> &'static str {
        match self {
            Self::Database => "",
            Self::ReadCommitted => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ",
            Self::RepeatableRead => "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; ",
            Self::Serializable => "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; ",
        }
    }
}

/// Follows the `BEGIN` of a handler's transaction: its settings, and the end of the delivery.
/// Divides by zero if another worker has claimed the delivery, so that nothing after it succeeds.
pub(crate) fn begin(
    job: &Job,
    isolation: Isolation,
    time_limit: Duration,
    keep_bodies: bool,
) -> String {
    let isolation = isolation.clause();
    let limit = time_limit.as_millis();
    let finish = with_literals(FINISH, &claim_of(job, keep_bodies));
    format!(
        "{isolation}SET LOCAL statement_timeout = {limit}; \
         SET LOCAL idle_in_transaction_session_timeout = {limit}; \
         WITH ended AS ({finish} RETURNING id) SELECT 1 / count(*) FROM ended"
    )
}

/// The code of a division by zero, which `begin` provokes.
pub(crate) const CLAIM_LOST: &str = "22012";

/// The meaning of a `COMMIT` that fails.
pub(crate) fn commit_failed(code: Option<&str>, error: Error) -> Failure {
    match code {
        // There is no transaction, or it has failed.
        Some("25P01" | "25P02") => {
            let text = "the transaction has failed or was ended while the handler ran";
            Failure::Handler(text.into())
        }
        _ => error.into(),
    }
}
