//! `RedisStore`: a `DedupStore` in Redis, which several processes share. The value of a key is the
//! token of its claim, or `done`, and each operation is one script over one key, so it is atomic.
//! An operation that fails or is dropped discards the connection, and the next one connects anew. A
//! connection is used only after `check_eviction`: a server that evicts keys would let deliveries
//! be handled again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::sentinel::SentinelClient;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, RedisError, RedisResult, ToRedisArgs,
};

use super::store::{Claim, DedupStore, StoreFuture, Ticket};
use crate::log_text::{debug_fields, setters};
use crate::receiver::BoxError;

/// How long connecting may take, and a response.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Keeps the states of deliveries in Redis or Valkey, shared by several processes.
///
/// It connects when it is first used, and again after every error and every time-out: a server
/// that was demoted (`READONLY`, `MASTERDOWN`), is loading its data or has fallen silent is asked
/// once, and then the address is resolved anew. While Redis is unreachable, or takes longer than 2
/// seconds or [`Dedup::store_timeout`](super::Dedup::store_timeout) to respond, no handler runs,
/// and [`Dedup`](super::Dedup) returns [`DedupError::Store`](super::DedupError::Store), which the
/// adapters turn into a 503 response. Once Redis is back, so is the receiver.
///
/// **Redis must not evict keys:** an evicted delivery is handled again when it is repeated. Each
/// new connection is refused unless `maxmemory-policy` is `noeviction`, or a volatile policy that
/// you have [accepted](Self::accept_eviction). Nor may a failover lose writes that matter to you:
/// Redis replicates asynchronously, so what was handled in the moment before may be handled again.
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
/// For TLS (`rediss://`), enable a TLS feature of the crate `redis`, such as `tokio-rustls-comp`.
pub struct RedisStore {
    server: Server,
    /// The connection that the next operation uses, after it was checked.
    connection: Mutex<Option<MultiplexedConnection>>,
    prefix: Arc<str>,
    accepted_policy: Option<String>,
}

enum Server {
    Address(Client),
    /// Asks the sentinels for each connection.
    Sentinel(tokio::sync::Mutex<SentinelClient>),
}

impl RedisStore {
    /// Creates a store that connects with `client`, and whose keys start with `webhook:`.
    ///
    /// It does not connect yet: [`check`](Self::check) does.
    ///
    /// # Errors
    ///
    /// If the address needs a feature of the crate `redis` that is not enabled, such as TLS.
    pub fn new(client: Client) -> RedisResult<Self> {
        if !client.get_connection_info().addr().is_supported() {
            let text = "the address needs a feature of the crate `redis`, such as TLS";
            return Err(RedisError::from((ErrorKind::InvalidClientConfig, text)));
        }
        Ok(Self::with_server(Server::Address(client)))
    }

    /// Creates a store that asks Redis Sentinel for the primary whenever it connects.
    ///
    /// ```
    /// use redis::sentinel::{SentinelClient, SentinelServerType};
    /// use webhook_verify::dedup::RedisStore;
    ///
    /// # fn main() -> redis::RedisResult<()> {
    /// let sentinels = vec!["redis://10.0.0.1:26379", "redis://10.0.0.2:26379"];
    /// let name = "mymaster".to_owned();
    /// let client = SentinelClient::build(sentinels, name, None, SentinelServerType::Master)?;
    /// let store = RedisStore::sentinel(client);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sentinel(client: SentinelClient) -> Self {
        Self::with_server(Server::Sentinel(tokio::sync::Mutex::new(client)))
    }

    fn with_server(server: Server) -> Self {
        Self {
            server,
            connection: Mutex::new(None),
            prefix: "webhook:".into(),
            accepted_policy: None,
        }
    }

    /// Accepts a volatile eviction policy by its name, such as `volatile-ttl`: when the memory of
    /// Redis is full, deliveries are forgotten before their retention ends, and handled again if
    /// they are repeated. Default: none. A policy for all keys (`allkeys-lru`) is never accepted.
    #[must_use]
    pub fn accept_eviction(mut self, policy: impl Into<String>) -> Self {
        self.accepted_policy = Some(policy.into());
        self
    }

    /// Connects, and checks that Redis keeps what it is told. Call it when your program starts.
    ///
    /// # Errors
    ///
    /// The error of Redis, a time-out after 2 seconds, or which eviction policy is set.
    pub async fn check(&self) -> Result<(), BoxError> {
        self.keep(None);
        self.connected().await.map(drop)
    }

    /// The connection of the operation before, or a new one.
    async fn connected(&self) -> Result<MultiplexedConnection, BoxError> {
        let kept = self.kept().clone();
        if let Some(connection) = kept {
            return Ok(connection);
        }

        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT));
        let mut connection = match &self.server {
            Server::Address(client) => {
                client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await?
            }
            Server::Sentinel(client) => {
                let mut client = client.lock().await;
                client.get_async_connection_with_config(&config).await?
            }
        };
        self.check_eviction(&mut connection).await?;
        self.keep(Some(connection.clone()));
        Ok(connection)
    }

    async fn check_eviction(&self, connection: &mut MultiplexedConnection) -> Result<(), BoxError> {
        let memory: String = redis::cmd("INFO")
            .arg("memory")
            .query_async(connection)
            .await?;
        let named = |line: &str| line.strip_prefix("maxmemory_policy:").map(str::to_owned);
        let policy = memory.lines().find_map(named);
        match policy.as_deref().map(str::trim) {
            None | Some("noeviction") => Ok(()),
            Some(policy)
                if policy.starts_with("volatile-")
                    && self.accepted_policy.as_deref() == Some(policy) =>
            {
                Ok(())
            }
            Some(policy) => Err(format!(
                "Redis may evict handled deliveries (maxmemory-policy is {policy}), which would be \
                 handled again: set `noeviction`"
            )
            .into()),
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<MultiplexedConnection>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, connection: Option<MultiplexedConnection>) {
        *self.kept() = connection;
    }

    /// Runs a script over the key of a delivery.
    async fn eval<T: FromRedisValue>(
        &self,
        operation: &str,
        key: &str,
        arguments: impl ToRedisArgs,
    ) -> Result<T, BoxError> {
        let mut command = redis::cmd("EVAL");
        let key = format!("{}{key}", self.prefix);
        command.arg(SCRIPT).arg(1).arg(key);
        command.arg(operation).arg(arguments);

        // Also if it is dropped, because `Dedup` waits no longer: the server may be silent.
        let mut reconnect = Reconnect {
            store: self,
            is_needed: true,
        };
        let mut connection = self.connected().await?;
        let value = command.query_async(&mut connection).await?;
        reconnect.is_needed = false;
        Ok(value)
    }
}

/// Lets the next operation open a new connection, unless this one has succeeded.
struct Reconnect<'a> {
    store: &'a RedisStore,
    is_needed: bool,
}

impl Drop for Reconnect<'_> {
    fn drop(&mut self) {
        if self.is_needed {
            self.store.keep(None);
        }
    }
}

impl DedupStore for RedisStore {
    fn claim<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, Claim> {
        let arguments = (ticket.token(), millis(lease));
        Box::pin(async move {
            let claimed = self.eval("claim", ticket.key(), arguments).await?;
            let (state, remaining): (String, i64) = claimed;
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
        let arguments = (ticket.token(), millis(lease));
        Box::pin(self.eval("renew", ticket.key(), arguments))
    }

    fn complete<'a>(&'a self, ticket: &'a Ticket, retention: Duration) -> StoreFuture<'a, bool> {
        let arguments = (ticket.token(), millis(retention));
        Box::pin(self.eval("complete", ticket.key(), arguments))
    }

    fn release<'a>(&'a self, ticket: &'a Ticket) -> StoreFuture<'a, ()> {
        let released = self.eval::<bool>("release", ticket.key(), ticket.token());
        Box::pin(async { released.await.map(drop) })
    }

    fn forget<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(self.eval("forget", key, None::<&str>))
    }
}

setters! {
    RedisStore:

    /// Sets the prefix of the keys. Default: `webhook:`.
    ///
    /// Set different prefixes if several programs share a Redis server and each
    /// must handle every delivery.
    prefix(prefix: impl Into<Arc<str>>) = prefix.into();
}

debug_fields!(RedisStore: prefix);

/// Clamps to the expiry times that Redis accepts: more than zero, and less than
/// 2⁶³ milliseconds after 1970.
fn millis(duration: Duration) -> u64 {
    const CENTURY: u64 = 100 * 365 * 86_400_000;
    u64::try_from(duration.as_millis())
        .unwrap_or(CENTURY)
        .clamp(1, CENTURY)
}

const SCRIPT: &str = include_str!("redis.lua");
