//! The states of deliveries in Redis, for many processes.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError};

use super::{Claim, DedupStore, Ticket};
use crate::DeliveryKey;

/// Keeps the states of deliveries in Redis or Valkey, for many processes.
///
/// It takes any connection that can be cloned: `ConnectionManager`, which
/// connects again by itself, `MultiplexedConnection`, or a cluster's. Each
/// step is one script over one key, so that it is atomic in a cluster too.
///
/// While Redis cannot be reached, or does not answer within the connection's
/// response timeout (half a second unless you set another), deliveries are
/// answered 503 and nothing is handled.
///
/// ```no_run
/// use webhook_verify::dedup::{Dedup, RedisStore};
///
/// # async fn connect() -> redis::RedisResult<()> {
/// let client = redis::Client::open("redis://127.0.0.1/")?;
/// // In a server `get_connection_manager`, with `redis`'s feature of that name.
/// let connection = client.get_multiplexed_async_connection().await?;
/// let dedup = Dedup::new(RedisStore::new(connection));
/// # Ok(())
/// # }
/// ```
pub struct RedisStore<C> {
    connection: C,
    prefix: Arc<str>,
    /// Tokens are this process's random number and a count.
    process: u64,
    count: AtomicU64,
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> RedisStore<C> {
    /// A store whose keys begin with `webhook:`.
    pub fn new(connection: C) -> Self {
        Self {
            connection,
            prefix: "webhook:".into(),
            process: RandomState::new().hash_one(std::process::id()),
            count: AtomicU64::new(0),
        }
    }

    /// Another beginning for the keys, where several programs share a Redis
    /// and each has to handle every delivery.
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
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket::new(key.clone(), format!("{:016x}{count:x}", self.process));
        let mut command = self.script(CLAIM, key);
        command.arg(ticket.token()).arg(millis(lease));
        let (state, left): (String, i64) = self.run(&command).await?;
        Ok(match state.as_str() {
            "new" => Claim::New(ticket),
            "done" => Claim::Done,
            _ => Claim::InFlight {
                retry_after: Duration::from_millis(u64::try_from(left).unwrap_or(0)),
            },
        })
    }

    async fn complete(&self, ticket: &Ticket, keep: Duration) -> Result<bool, RedisError> {
        let mut command = self.script(COMPLETE, ticket.key());
        command.arg(ticket.token()).arg(millis(keep));
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

/// Redis refuses an expiry of zero, and one beyond 2⁶³ milliseconds from 1970.
fn millis(duration: Duration) -> u64 {
    const CENTURY: u64 = 100 * 365 * 86_400_000;
    u64::try_from(duration.as_millis()).unwrap_or(CENTURY).clamp(1, CENTURY)
}

/// A token holds a claim; `done` is no token, as tokens are hex digits.
///
/// All three may run twice: a cluster's connection sends a command again whose
/// answer got lost, and a claim must not take itself for somebody else's.
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
