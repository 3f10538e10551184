//! What the inbox needs of a database.

use std::borrow::Cow;
use std::time::Duration;

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

    /// Runs one statement in a transaction of its own. Its parameters are `$1`, `$2` and so on.
    #[doc(hidden)]
    fn query(
        &self,
        statement: Statement,
        parameters: Vec<Value>,
    ) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;
}

pub(crate) type Statement = Cow<'static, str>;

pub(crate) type Row = Vec<Value>;

/// How long an operation of the inbox may take. A handler may take longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// A parameter or a column. PostgreSQL returns integers and bytes as text.
#[derive(Clone, Debug)]
pub enum Value {
    /// Of a text.
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    /// A duration in milliseconds: at most a thousand years, which can be added to any time.
    pub(crate) fn millis(duration: Duration) -> Self {
        const MAX: u128 = 1000 * 366 * 86_400_000;
        Self::Int(duration.as_millis().min(MAX) as i64)
    }

    /// Zero for other values.
    pub(crate) fn int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            Self::Text(text) => text.parse().unwrap_or(0),
            _ => 0,
        }
    }

    /// `None` for other values.
    pub(crate) fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Bytes, or their hexadecimal digits. `None` for other values.
    pub(crate) fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Text(digits) => from_hex(&digits),
            _ => None,
        }
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| match *pair {
        [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
        _ => None,
    });
    bytes.collect()
}

/// Limits the duration of an operation.
pub(crate) async fn within<T>(
    operation: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(TIMEOUT, operation)
        .await
        .unwrap_or_else(|elapsed| Err(Error::new(ErrorKind::Unavailable, elapsed)))
}
