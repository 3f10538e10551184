//! The Redis store, tested with a `redis-server` that each test starts.
//!
//! If `redis-server` is not installed, the tests print `NOT RUN` and pass. With
//! `SVC_TEST_REDIS=1` they fail instead.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisFuture, Value};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use webhook_verify::DeliveryKey;
use webhook_verify::dedup::{Claim, Dedup, DedupStore, Outcome, RedisStore, Ticket};

use crate::dedup::{claim, claim_new, delivery};

type Store = RedisStore<MultiplexedConnection>;

const LEASE: Duration = Duration::from_secs(3600);
const BODY: &str = r#"{"event":"email.sent","id":"1"}"#;

/// A Redis server on its own Unix socket, so that tests need no free port. It is
/// killed on drop.
pub(crate) struct Server {
    process: Child,
    directory: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let process = spawn(directory.path()).await?;
        Some(Self { process, directory })
    }

    pub(crate) async fn stop(&mut self) {
        self.process.kill().await.unwrap();
    }

    /// Sends a signal, such as `STOP` and `CONT`.
    pub(crate) async fn signal(&self, name: &str) {
        let process = self.process.id().expect("the server runs").to_string();
        let sent = Command::new("kill").args(["-s", name, &process]).status().await.unwrap();
        assert!(sent.success());
    }

    /// Starts the server again, without its data, at the same address.
    pub(crate) async fn restart(&mut self) {
        self.process = spawn(self.directory.path()).await.expect("it was started before");
    }

    pub(crate) fn client(&self) -> redis::Client {
        let url = format!("redis+unix://{}", self.directory.path().join("redis.sock").display());
        redis::Client::open(url).unwrap()
    }

    pub(crate) async fn connection(&self) -> MultiplexedConnection {
        self.client().get_multiplexed_async_connection().await.unwrap()
    }

    /// A store with its own connection, as in a separate process.
    async fn store(&self) -> Store {
        RedisStore::with_connection(self.connection().await)
    }
}

/// Starts `redis-server` in a directory and waits until it is ready.
async fn spawn(directory: &Path) -> Option<Child> {
    let started = Command::new("redis-server")
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"])
        .arg("--unixsocket")
        .arg(directory.join("redis.sock"))
        .arg("--dir")
        .arg(directory)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut process = match started {
        Ok(process) => process,
        Err(error) => {
            let required = std::env::var_os("SVC_TEST_REDIS").is_some_and(|v| v == "1");
            assert!(!required, "SVC_TEST_REDIS=1, but redis-server cannot be started: {error}");
            // Written to stderr directly: the harness captures the output of passing
            // tests.
            let written = writeln!(io::stderr(), "NOT RUN: redis-server cannot start ({error})");
            written.unwrap();
            return None;
        }
    };
    let mut log = BufReader::new(process.stdout.take().unwrap()).lines();
    while let Some(line) = log.next_line().await.unwrap() {
        if line.to_lowercase().contains("ready to accept connections") {
            // Keep reading, or the server blocks when the pipe is full.
            tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
            return Some(process);
        }
    }
    panic!("redis-server exited before it was ready");
}

#[tokio::test]
async fn processes_share_the_states() {
    let Some(server) = Server::start().await else { return };
    let (here, there) = (server.store().await, server.store().await);
    let key = delivery(BODY).key();

    let ticket = claim_new(&here, &key, LEASE).await;
    let Claim::InFlight { retry_after } = claim(&there, &key, LEASE).await.1 else {
        panic!("should be in flight")
    };
    assert!(retry_after <= LEASE && retry_after > LEASE / 2, "{retry_after:?}");

    here.release(&ticket).await.unwrap();
    let ticket = claim_new(&there, &key, LEASE).await;
    assert!(there.complete(&ticket, LEASE).await.unwrap());
    assert_eq!(claim(&here, &key, LEASE).await.1, Claim::Done);
    // A done delivery cannot be released.
    there.release(&ticket).await.unwrap();
    assert_eq!(claim(&here, &key, LEASE).await.1, Claim::Done);

    // A different prefix is a separate set of deliveries.
    let other = server.store().await.prefix("other:");
    claim_new(&other, &key, LEASE).await;
}

#[tokio::test]
async fn an_expired_ticket_changes_nothing() {
    let Some(server) = Server::start().await else { return };
    let (here, there) = (server.store().await, server.store().await);
    let key = delivery(BODY).key();
    for (first, second) in [(&here, &there), (&here, &here)] {
        check_expired_ticket(&server, &key, first, second).await;
    }
}

async fn check_expired_ticket(server: &Server, key: &DeliveryKey, here: &Store, there: &Store) {
    let expired = claim_new(here, key, LEASE).await;
    // Simulates the end of the lease.
    expire(server).await;
    let current = claim_new(there, key, LEASE).await;

    assert!(!here.complete(&expired, LEASE).await.unwrap());
    here.release(&expired).await.unwrap();
    assert!(!here.renew(&expired, LEASE).await.unwrap());
    assert!(matches!(claim(here, key, LEASE).await.1, Claim::InFlight { .. }));
    assert!(there.renew(&current, LEASE).await.unwrap());
    assert!(there.complete(&current, LEASE).await.unwrap());
    assert!(here.complete(&expired, LEASE).await.unwrap(), "completing a done delivery succeeds");
    assert_eq!(claim(here, key, LEASE).await.1, Claim::Done);
    assert!(here.forget(key).await.unwrap());
    assert!(!here.forget(key).await.unwrap());
    claim_new(here, key, LEASE).await;
    assert!(!here.forget(key).await.unwrap(), "a delivery in flight is not forgotten");
    expire(server).await;
}

async fn expire(server: &Server) {
    let mut connection = server.connection().await;
    let deleted: i64 = redis::cmd("DEL")
        .arg("webhook:mail:email.sent:id:1")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(deleted, 1);
}

#[tokio::test]
async fn keys_have_an_expiry() {
    let Some(server) = Server::start().await else { return };
    let store = server.store().await;
    let key = delivery(BODY).key();
    let mut connection = server.connection().await;
    let mut expires_in = async || -> i64 {
        redis::cmd("PTTL")
            .arg("webhook:mail:email.sent:id:1")
            .query_async(&mut connection)
            .await
            .unwrap()
    };

    let ticket = claim_new(&store, &key, LEASE).await;
    assert!((1_800_000..=3_600_000).contains(&expires_in().await));
    store.complete(&ticket, 24 * LEASE).await.unwrap();
    assert!((43_200_000..=86_400_000).contains(&expires_in().await));

    // Zero and unlimited durations are accepted.
    for extreme in [Duration::ZERO, Duration::from_millis(u64::MAX), Duration::MAX] {
        let key = delivery(r#"{"event":"email.sent","id":"odd"}"#).key();
        let (ticket, _) = claim(&store, &key, extreme).await;
        store.release(&ticket).await.unwrap();
    }
}

#[tokio::test]
async fn only_one_of_many_concurrent_attempts_runs() {
    let Some(server) = Server::start().await else { return };
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let dedup = Dedup::new(server.store().await);
        tasks.spawn(async move {
            dedup.run_once(delivery(BODY), async |_| Ok::<_, Infallible>(())).await.unwrap()
        });
    }
    let outcomes = tasks.join_all().await;
    assert_eq!(
        outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Handled(()))).count(),
        1,
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn handles_a_flushed_database() {
    let Some(server) = Server::start().await else { return };
    let (here, there) = (server.store().await, server.store().await);
    let mut connection = server.connection().await;
    let mut flush = async || {
        let flushed: String = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
        assert_eq!(flushed, "OK");
    };
    let key = delivery(BODY).key();

    // The claim is lost, and no other handler has claimed the delivery since.
    let ticket = claim_new(&here, &key, LEASE).await;
    flush().await;
    assert!(here.complete(&ticket, LEASE).await.unwrap());
    assert_eq!(claim(&there, &key, LEASE).await.1, Claim::Done);
    // The done state is lost too, and the old ticket cannot affect a new claim.
    flush().await;
    here.release(&ticket).await.unwrap();
    let current = claim_new(&there, &key, LEASE).await;
    assert!(!here.complete(&ticket, LEASE).await.unwrap());
    assert!(there.complete(&current, LEASE).await.unwrap());
}

/// Sends every command twice, like a cluster connection that lost the first response.
#[derive(Clone)]
struct RepeatingConnection(MultiplexedConnection);

impl ConnectionLike for RepeatingConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            self.0.req_packed_command(command).await?;
            self.0.req_packed_command(command).await
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

#[tokio::test]
async fn scripts_are_idempotent() {
    let Some(server) = Server::start().await else { return };
    let store = RedisStore::with_connection(RepeatingConnection(server.connection().await));
    let key = delivery(BODY).key();
    for _ in 0..2 {
        let ticket = claim_new(&store, &key, LEASE).await;
        assert!(matches!(claim(&store, &key, LEASE).await.1, Claim::InFlight { .. }));
        store.release(&ticket).await.unwrap();
    }
    let ticket = claim_new(&store, &key, LEASE).await;
    assert!(store.complete(&ticket, LEASE).await.unwrap());
    assert_eq!(claim(&store, &key, LEASE).await.1, Claim::Done);
}

/// Any `id` becomes part of exactly one key. A foreign value under that key is an
/// error.
#[tokio::test]
async fn ids_cannot_inject_commands() {
    let Some(server) = Server::start().await else { return };
    let store = server.store().await;
    let mut connection = server.connection().await;
    let ids =
        ["x\r\nFLUSHALL\r\n", "x' 'PX' 1", "{a}", "a*?[b]", "\0", "1\" \"2", "]] return 1 --[["];
    for (previous, id) in ids.iter().enumerate() {
        let body = serde_json::json!({"event": "email.sent", "id": id}).to_string();
        let key = delivery(&body).key();
        assert_eq!(claim(&store, &key, LEASE).await.1, Claim::New, "{id:?}");
        let exists: bool = redis::cmd("EXISTS")
            .arg(format!("webhook:mail:email.sent:id:{id}"))
            .query_async(&mut connection)
            .await
            .unwrap();
        let keys: usize = redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap();
        assert_eq!((exists, keys), (true, previous + 1), "{id:?}");
    }

    let key = delivery(BODY).key();
    let list: i64 = redis::cmd("RPUSH")
        .arg("webhook:mail:email.sent:id:1")
        .arg("done")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(list, 1);
    assert!(store.claim(&Ticket::new(key), LEASE).await.is_err());
}
