//! How the inbox talks to PostgreSQL, with any driver: the simple query protocol. A statement and
//! the settings of its transaction are one message, so they need one round trip, and nothing has
//! a name that PgBouncer would have to know.

use std::time::Duration;

use crate::database::{TIMEOUT, Value};
use crate::queue::finish;
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
    /// What the database is set to, `READ COMMITTED` unless changed.
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
    let (isolation, limit) = (isolation.clause(), time_limit.as_millis());
    let (finish, claim) = finish(job, keep_bodies);
    let finish = with_literals(&finish, &claim);
    format!(
        "{isolation}SET LOCAL statement_timeout = {limit}; \
         SET LOCAL idle_in_transaction_session_timeout = {limit}; \
         WITH ended AS ({finish}) SELECT 1 / count(*) FROM ended"
    )
}

/// The clock of the database.
const NOW: &str = "(extract(epoch FROM now()) * 1000)::bigint";

/// The code of a division by zero, which `begin` provokes.
pub(crate) const CLAIM_LOST: &str = "22012";

/// A statement in a transaction of its own, with its parameters as literals. The server cancels it
/// when the inbox has given it up.
pub(crate) fn single(statement: &str, parameters: &[Value]) -> String {
    let limit = TIMEOUT.as_millis();
    let statement = with_literals(statement, parameters);
    format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {limit}; {statement}"
    )
}

/// A statement with its parameters as literals, in a transaction of the application.
pub(crate) fn with_literals(statement: &str, parameters: &[Value]) -> String {
    let statement = statement.replace("now_ms()", NOW);
    let mut parts = statement.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = part.split_at(digits);
        let index = number.parse::<usize>().unwrap_or_default();
        push_literal(
            &mut text,
            index.checked_sub(1).and_then(|at| parameters.get(at)),
        );
        text.push_str(rest);
    }
    text
}

/// A connection of a pool. Unless it is given back, it is closed: what was dropped halfway, such as
/// a handler at its time limit, may still run in the server, and after a failover the server may
/// be the wrong one.
pub(crate) struct Borrowed<C> {
    connection: Option<C>,
    close: fn(C),
}

impl<C> Borrowed<C> {
    pub(crate) fn new(connection: C, close: fn(C)) -> Self {
        Self {
            connection: Some(connection),
            close,
        }
    }

    pub(crate) fn get(&mut self) -> &mut C {
        self.connection
            .as_mut()
            .expect("only `give_back` and `drop` take it")
    }

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

fn push_literal(text: &mut String, value: Option<&Value>) {
    match value {
        None | Some(Value::Null) => text.push_str("NULL::text"),
        Some(Value::Int(value)) => text.push_str(&format!("({value})::bigint")),
        Some(Value::Bytes(bytes)) => push_bytes(text, bytes),
        Some(Value::Text(value)) if is_plain(value) => text.push_str(&format!("'{value}'")),
        Some(Value::Text(value)) => {
            text.push_str("convert_from(");
            push_bytes(text, value.as_bytes());
            text.push_str(", 'UTF8')");
        }
    }
}

/// Whether a text is the same in every literal: no quote, no backslash, and ASCII only.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b" .:/@_-".contains(&byte))
}

fn push_bytes(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push_str("decode('");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push_str("', 'hex')");
}

/// What it means if `COMMIT` fails.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_says_what_its_parameter_says() {
        let parameters = [
            Value::Text("it's \\ ü".to_owned()),
            Value::Int(-1),
            Value::Null,
            Value::Bytes(vec![0, 255]),
            Value::Text("email.sent".to_owned()),
        ];
        assert_eq!(
            with_literals("SELECT $1, $2, $3, $4, $5, $2", &parameters),
            "SELECT convert_from(decode('69742773205c20c3bc', 'hex'), 'UTF8'), (-1)::bigint, \
             NULL::text, decode('00ff', 'hex'), 'email.sent', (-1)::bigint"
        );
    }
}
