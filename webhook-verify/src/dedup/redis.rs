//! A de-duplication store in Redis, shared by several processes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, RedisResult};

use super::store::{Claim, DedupStore, StoreFuture, Ticket};
use crate::receiver::BoxError;

/// Keeps the states of deliveries in Redis or Valkey, shared by several processes.
///
/// It connects when it is first used, and again whenever the connection is lost. While
/// Redis is unreachable, or takes longer than [`Dedup::store_timeout`](super::Dedup::store_timeout)
/// to respond, no handler runs, and [`Dedup`](super::Dedup) returns
/// [`DedupError::Store`](super::DedupError::Store), which the adapters turn into a 503
/// response. Once Redis is back, so is the receiver.
///
/// Each operation is one script over one key, so it is atomic.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use webhook_verify::dedup::{Dedup, RedisStore};
///
/// let client = redis::Client::open("redis://127.0.0.1/")?;
/// let dedup = Dedup::new(Arc::new(RedisStore::new(client)?));
/// # redis::RedisResult::Ok(())
/// # }).unwrap();
/// ```
///
/// For TLS, enable a TLS feature of the crate `redis`.
pub struct RedisStore {
    connection: ConnectionManager,
    prefix: Arc<str>,
}

impl RedisStore {
    /// Creates a store that connects with `client`, and whose keys start with `webhook:`.
    ///
    /// Call it inside a tokio runtime. It does not connect yet.
    ///
    /// # Errors
    ///
    /// The error of the client if it is configured in an unusable way.
    pub fn new(client: Client) -> RedisResult<Self> {
        // `Dedup` limits the duration of an operation. These settings only let the
        // connection come back soon after Redis does.
        const MAX_DELAY: Duration = Duration::from_millis(500);
        const CONNECT: Duration = Duration::from_secs(2);
        let config = ConnectionManagerConfig::new()
            .set_max_delay(MAX_DELAY)
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(None);
        let connection = ConnectionManager::new_lazy_with_config(client, config)?;
        Ok(Self {
            connection,
            prefix: "webhook:".into(),
        })
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

    fn script(&self, script: &str, key: &str) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command
            .arg(script)
            .arg(1)
            .arg(format!("{}{key}", self.prefix));
        command
    }

    async fn run<T: redis::FromRedisValue>(&self, command: &Cmd) -> Result<T, BoxError> {
        Ok(command.query_async(&mut self.connection.clone()).await?)
    }
}

impl DedupStore for RedisStore {
    fn claim<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, Claim> {
        Box::pin(async move {
            let mut command = self.script(CLAIM, ticket.key());
            command.arg(ticket.token()).arg(millis(lease));
            let (state, remaining): (String, i64) = self.run(&command).await?;
            Ok(match state.as_str() {
                "new" => Claim::New,
                "done" => Claim::Done,
                _ => Claim::InFlight {
                    retry_after: Duration::from_millis(u64::try_from(remaining).unwrap_or(0)),
                },
            })
        })
    }

    fn renew<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut command = self.script(RENEW, ticket.key());
            command.arg(ticket.token()).arg(millis(lease));
            self.run(&command).await
        })
    }

    fn complete<'a>(&'a self, ticket: &'a Ticket, retention: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut command = self.script(COMPLETE, ticket.key());
            command.arg(ticket.token()).arg(millis(retention));
            self.run(&command).await
        })
    }

    fn release<'a>(&'a self, ticket: &'a Ticket) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut command = self.script(RELEASE, ticket.key());
            command.arg(ticket.token());
            self.run::<i64>(&command).await.map(drop)
        })
    }

    fn forget<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move { self.run(&self.script(FORGET, key)).await })
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Clamps to the expiry times that Redis accepts: more than zero, and less than
/// 2⁶³ milliseconds after 1970.
fn millis(duration: Duration) -> u64 {
    const CENTURY: u64 = 100 * 365 * 86_400_000;
    u64::try_from(duration.as_millis())
        .unwrap_or(CENTURY)
        .clamp(1, CENTURY)
}

/// The value of a key is the token of the current claim, or `done`. Tokens are hex
/// digits, so `done` cannot be a token.
///
/// A repeated claim recognizes its own token.
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

const RENEW: &str = "
local state = redis.call('GET', KEYS[1])
if not state or state == ARGV[1] then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1
else
    return 0
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

const FORGET: &str = "
if redis.call('GET', KEYS[1]) == 'done' then
    return redis.call('DEL', KEYS[1])
else
    return 0
end";
