//! The operations that the inbox needs of a database.

use std::time::Duration;

use svc_sql::{Row, Value};
use tokio::time::timeout;

use crate::{Error, ErrorKind};

/// The database of an inbox: [`Sqlite`](crate::Sqlite),
/// [`deadpool_postgres::Pool`](crate::deadpool_postgres::Pool) or
/// [`sqlx::PgPool`](crate::sqlx::PgPool), each with the feature of its name (`sqlite`, `postgres`,
/// `sqlx`).
///
/// It cannot be implemented outside this crate.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database of an inbox",
    note = "a pool needs the feature `postgres` or `sqlx` of `svc-webhook-inbox`",
    note = "a pool of sqlx 0.8 needs `cargo update sqlx@0.9 --precise 0.8.6`, so that the inbox uses the same version"
)]
pub trait Database: Clone + Send + Sync + 'static {
    #[doc(hidden)]
    const SCHEMA: &str;

    /// Whether processes can notify each other through it.
    #[doc(hidden)]
    const NOTIFIES: bool;

    /// How many connections it has at most.
    #[doc(hidden)]
    fn connections(&self) -> usize;

    /// Creates or expands the tables in one transaction. Several processes can do so at the same
    /// time.
    #[doc(hidden)]
    fn create(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Runs one statement in a transaction of its own, in one round trip. Its parameters are `$1`, `$2`
    /// and so on.
    #[doc(hidden)]
    fn query(
        &self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;

    /// The same with a statement that returns no rows. Returns how many it has changed.
    #[doc(hidden)]
    fn execute(
        &self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> impl Future<Output = Result<u64, Error>> + Send;
}

/// How long an operation of the inbox may take, with a new connection. A handler may take longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// Limits the duration of an operation.
pub(crate) async fn within<T>(
    operation: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(TIMEOUT, operation)
        .await
        .unwrap_or_else(|elapsed| Err(Error::new(ErrorKind::Unavailable, elapsed)))
}
