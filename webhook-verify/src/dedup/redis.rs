//! A de-duplication store in Redis, shared by several processes.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError};

use super::{Claim, DedupStore, Ticket};
use crate::DeliveryKey;

/// Keeps the states of deliveries in Redis or Valkey, shared by several processes.
///
/// It works with every connection type that can be cloned: `ConnectionManager`,
/// which reconnects automatically, `MultiplexedConnection`, or a cluster
/// connection. Each operation is one script over one key, so it is atomic in a
/// cluster too.
///
/// If Redis is unreachable, or does not respond within the connection's response
/// timeout (500 ms by default), [`Dedup`](super::Dedup) does not run the handler
/// and returns [`DedupError::Store`](super::DedupError::Store), which the adapters
/// turn into a 503 response.
///
/// ```no_run
/// use webhook_verify::dedup::{Dedup, RedisStore};
///
/// # async fn connect() -> redis::RedisResult<()> {
/// let client = redis::Client::open("redis://127.0.0.1/")?;
/// // In a server, use `get_connection_manager` (feature `connection-manager` of `redis`).
/// let connection = client.get_multiplexed_async_connection().await?;
/// let dedup = Dedup::new(RedisStore::new(connection));
/// # Ok(())
/// # }
/// ```
pub struct RedisStore<C> {
    connection: C,
    prefix: Arc<str>,
    /// A token consists of a random number for this process and a counter.
    process_id: u64,
    counter: AtomicU64,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> RedisStore<C> {
    /// Creates a store whose keys start with `webhook:`.
    pub fn new(connection: C) -> Self {
        Self {
            connection,
            prefix: "webhook:".into(),
            process_id: RandomState::new().hash_one(std::process::id()),
            counter: AtomicU64::new(0),
        }
    }

    /// Sets the prefix of the keys. Default: `webhook:`.
    ///
    /// Set different prefixes if several programs share a Redis server and each
    /// must handle every delivery.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<Arc<str>>) -> Self {
        self.prefix = prefix.into();
        self
    }

    fn script(&self, script: &str, key: &DeliveryKey) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(1).arg(format!("{}{key}", self.prefix));
        command
    }

    async fn run<T: redis::FromRedisValue>(&self, command: &Cmd) -> Result<T, RedisError> {
        command.query_async(&mut self.connection.clone()).await
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> DedupStore for RedisStore<C> {
    type Error = RedisError;

    async fn claim(&self, key: &DeliveryKey, lease: Duration) -> Result<Claim, RedisError> {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket::new(key.clone(), format!("{:016x}{counter:x}", self.process_id));
        let mut command = self.script(CLAIM, key);
        command.arg(ticket.token()).arg(millis(lease));
        let (state, remaining): (String, i64) = self.run(&command).await?;
        Ok(match state.as_str() {
            "new" => Claim::New(ticket),
            "done" => Claim::Done,
            _ => Claim::InFlight {
                retry_after: Duration::from_millis(u64::try_from(remaining).unwrap_or(0)),
            },
        })
    }

    async fn complete(&self, ticket: &Ticket, retention: Duration) -> Result<bool, RedisError> {
        let mut command = self.script(COMPLETE, ticket.key());
        command.arg(ticket.token()).arg(millis(retention));
        self.run(&command).await
    }

    async fn release(&self, ticket: &Ticket) -> Result<(), RedisError> {
        let mut command = self.script(RELEASE, ticket.key());
        command.arg(ticket.token());
        self.run::<i64>(&command).await.map(drop)
    }
}

impl<C> fmt::Debug for RedisStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Clamps to the expiry times that Redis accepts: more than zero, and less than
/// 2⁶³ milliseconds after 1970.
fn millis(duration: Duration) -> u64 {
    const CENTURY: u64 = 100 * 365 * 86_400_000;
    u64::try_from(duration.as_millis()).unwrap_or(CENTURY).clamp(1, CENTURY)
}

/// The value of a key is the token of the current claim, or `done`. Tokens are hex
/// digits, so `done` cannot be a token.
///
/// All three scripts are idempotent, because a cluster connection repeats a
/// command whose response was lost. A repeated claim must recognize its own token.
const CLAIM: &str = "
local state = redis.call('GET', KEYS[1])
if not state or state == ARGV[1] then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return {'new', 0}
elseif state == 'done' then
    return {'done', 0}
else
    return {'claimed', redis.call('PTTL', KEYS[1])}
end";

const COMPLETE: &str = "
local state = redis.call('GET', KEYS[1])
if not state or state == ARGV[1] or state == 'done' then
    redis.call('SET', KEYS[1], 'done', 'PX', ARGV[2])
    return 1
else
    return 0
end";

const RELEASE: &str = "
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
else
    return 0
end";
