//! What both drivers of PostgreSQL share.

use std::time::Duration;

use crate::database::Value;
use crate::worker::Failure;
use crate::{Error, ErrorKind};

pub(crate) const SCHEMA: &str = include_str!("schema.postgres.sql");

/// `IF NOT EXISTS` alone fails if two processes create a table at the same time.
pub(crate) const LOCK_SCHEMA: &str = "SELECT pg_advisory_xact_lock(hashtext('webhook_inbox'))";

/// Begins the transaction of an operation. The server cancels its statement when the inbox has
/// given it up (`database::TIMEOUT`).
pub(crate) const BEGIN: &str =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '5s'";

/// Begins the transaction of a handler, with its time limit.
pub(crate) const BEGIN_HANDLER: &str = "SELECT set_config('statement_timeout', $1, true), \
     set_config('idle_in_transaction_session_timeout', $1, true)";

/// Fails if the transaction was ended, or if a statement has failed whose error was ignored: then
/// a commit would roll back, and report no error.
pub(crate) const CHECK: &str = "SAVEPOINT webhook_inbox";

pub(crate) fn time_limit(limit: Duration) -> Value {
    Value::Text(limit.as_millis().to_string())
}

/// What it means if `CHECK` fails.
pub(crate) fn check_failed(error: Error) -> Failure {
    if error.kind() == ErrorKind::Unavailable {
        return error.into();
    }
    let text = "the transaction has failed or was ended while the handler ran";
    Failure::Handler(text.into())
}

/// A connection of a pool. Unless it is given back, it is closed: what was dropped halfway, such
/// as a handler at its time limit, may still run in the server.
pub(crate) struct Borrowed<C> {
    connection: Option<C>,
    close: fn(C),
}

impl<C> Borrowed<C> {
    pub(crate) fn new(connection: C, close: fn(C)) -> Self {
        Self { connection: Some(connection), close }
    }

    pub(crate) fn get(&mut self) -> &mut C {
        self.connection.as_mut().expect("only `give_back` and `drop` take it")
    }

    /// Gives the connection back to its pool, after its transaction has ended.
    pub(crate) fn give_back(mut self) {
        self.connection = None;
    }
}

impl<C> Drop for Borrowed<C> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            (self.close)(connection);
        }
    }
}
