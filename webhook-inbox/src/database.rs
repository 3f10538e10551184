//! What the inbox needs of a database.

use std::time::Duration;

use tokio::time::timeout;

use crate::{Error, ErrorKind};

/// The database of an inbox: [`Sqlite`](crate::Sqlite),
/// [`deadpool_postgres::Pool`](crate::deadpool_postgres::Pool) or
/// [`sqlx::PgPool`](crate::sqlx::PgPool), each with the feature of its name (`sqlite`, `postgres`,
/// `sqlx`).
///
/// This trait is sealed and cannot be implemented outside this crate.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database of an inbox",
    note = "a pool needs the feature `postgres` or `sqlx` of `svc-webhook-inbox`",
    note = "a pool of sqlx 0.8 needs `cargo update sqlx@0.9 --precise 0.8.6`, so that the inbox uses the same version"
)]
pub trait Database: Operations {}

impl<T: Operations> Database for T {}

/// How long an operation of the inbox may take. A handler may take longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

pub trait Operations: Clone + Send + Sync + 'static {
    const SCHEMA: &str;

    /// How many connections it has at most.
    fn connections(&self) -> usize;

    /// Runs the statements of `SCHEMA` in one transaction. Several processes can do so at the
    /// same time.
    fn create(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Runs one statement of `queue` in a transaction of its own.
    fn query(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
    ) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;
}

/// A parameter or a column.
#[derive(Clone, Debug)]
pub enum Value {
    /// Of a text.
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) type Row = Vec<Value>;

impl Value {
    /// Zero for other values.
    pub(crate) fn int(&self) -> i64 {
        if let Self::Int(value) = self {
            *value
        } else {
            0
        }
    }

    /// `None` for other values.
    pub(crate) fn text(self) -> Option<String> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }
}

/// Limits the duration of an operation.
pub(crate) async fn within<T>(
    operation: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(TIMEOUT, operation)
        .await
        .unwrap_or_else(|elapsed| Err(Error::new(ErrorKind::Unavailable, elapsed)))
}
