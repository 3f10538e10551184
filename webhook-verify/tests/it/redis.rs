//! The store in Redis, against a real `redis-server` that the test starts.
//!
//! Where the program is missing the tests say that they did not run, and fail
//! if `SVC_TEST_REDIS=1` demands it.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::process::Stdio;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisFuture, Value};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use webhook_verify::DeliveryKey;
use webhook_verify::dedup::{Claim, Dedup, DedupStore, Once, OnceError, RedisStore};

use crate::dedup::delivery;

type Store = RedisStore<MultiplexedConnection>;

const LEASE: Duration = Duration::from_secs(3600);
const BODY: &str = r#"{"event":"email.sent","id":"1"}"#;

/// A server on a socket of its own, so that no port has to be free. It ends
/// with the value.
struct Server {
    process: Child,
    directory: TempDir,
}

impl Server {
    async fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let started = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"])
            .arg("--unixsocket")
            .arg(directory.path().join("redis.sock"))
            .arg("--dir")
            .arg(directory.path())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut process = match started {
            Ok(process) => process,
            Err(error) => {
                let demanded = std::env::var_os("SVC_TEST_REDIS").is_some_and(|v| v == "1");
                assert!(!demanded, "SVC_TEST_REDIS=1, but redis-server cannot be started: {error}");
                // Past the harness, which keeps what a passing test prints to itself.
                let said = writeln!(io::stderr(), "NOT RUN: redis-server cannot start ({error})");
                said.unwrap();
                return None;
            }
        };
        let mut log = BufReader::new(process.stdout.take().unwrap()).lines();
        while let Some(line) = log.next_line().await.unwrap() {
            if line.to_lowercase().contains("ready to accept connections") {
                // Read on, or the server stops when the pipe is full.
                tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
                return Some(Self { process, directory });
            }
        }
        panic!("redis-server ended before it was ready");
    }

    async fn connection(&self) -> MultiplexedConnection {
        let address =
            format!("redis+unix://{}", self.directory.path().join("redis.sock").display());
        redis::Client::open(address).unwrap().get_multiplexed_async_connection().await.unwrap()
    }

    /// A store as each of several processes has it.
    async fn store(&self) -> Store {
        RedisStore::new(self.connection().await)
    }
}

#[tokio::test]
async fn three_states_across_processes() {
    let Some(server) = Server::start().await else { return };
    let (here, there) = (server.store().await, server.store().await);
    let key = delivery(BODY).key();

    let Claim::New(ticket) = here.claim(&key, LEASE).await.unwrap() else { panic!("new") };
    let Claim::InFlight { retry_after } = there.claim(&key, LEASE).await.unwrap() else {
        panic!("in flight")
    };
    assert!(retry_after <= LEASE && retry_after > LEASE / 2, "{retry_after:?}");

    here.release(&ticket).await.unwrap();
    let Claim::New(ticket) = there.claim(&key, LEASE).await.unwrap() else { panic!("released") };
    assert!(there.complete(&ticket, LEASE).await.unwrap());
    assert_eq!(here.claim(&key, LEASE).await.unwrap(), Claim::Done);
    // Releasing what is done does not undo it.
    there.release(&ticket).await.unwrap();
    assert_eq!(here.claim(&key, LEASE).await.unwrap(), Claim::Done);

    // Another program's deliveries are its own.
    let other = server.store().await.prefix("other:");
    assert!(matches!(other.claim(&key, LEASE).await.unwrap(), Claim::New(_)));
}

#[tokio::test]
async fn a_holder_that_comes_back_too_late_changes_nothing() {
    let Some(server) = Server::start().await else { return };
    let (here, there) = (server.store().await, server.store().await);
    let key = delivery(BODY).key();
    for (late, current) in [(&here, &there), (&here, &here)] {
        comes_back_too_late(&server, &key, late, current).await;
    }
}

async fn comes_back_too_late(server: &Server, key: &DeliveryKey, here: &Store, there: &Store) {
    let Claim::New(late) = here.claim(key, LEASE).await.unwrap() else { panic!("new") };
    // As when the lease runs out.
    expire(server).await;
    let Claim::New(current) = there.claim(key, LEASE).await.unwrap() else { panic!("new") };

    assert!(!here.complete(&late, LEASE).await.unwrap());
    here.release(&late).await.unwrap();
    assert!(matches!(here.claim(key, LEASE).await.unwrap(), Claim::InFlight { .. }));
    assert!(there.complete(&current, LEASE).await.unwrap());
    assert!(here.complete(&late, LEASE).await.unwrap(), "it is done, and stays so");
    assert_eq!(here.claim(key, LEASE).await.unwrap(), Claim::Done);
    expire(server).await;
}

async fn expire(server: &Server) {
    let mut connection = server.connection().await;
    let gone: i64 = redis::cmd("DEL")
        .arg("webhook:mail:email.sent:id:1")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(gone, 1);
}

#[tokio::test]
async fn leases_and_memories_end_by_themselves() {
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

    let Claim::New(ticket) = store.claim(&key, LEASE).await.unwrap() else { panic!("new") };
    assert!((1_800_000..=3_600_000).contains(&expires_in().await));
    store.complete(&ticket, 24 * LEASE).await.unwrap();
    assert!((43_200_000..=86_400_000).contains(&expires_in().await));

    // An hour that is over at once, and one that never is, are both accepted.
    for odd in [Duration::ZERO, Duration::from_millis(u64::MAX), Duration::MAX] {
        let key = delivery(r#"{"event":"email.sent","id":"odd"}"#).key();
        let claimed = store.claim(&key, odd).await.unwrap();
        if let Claim::New(ticket) = claimed {
            store.release(&ticket).await.unwrap();
        }
    }
}

#[tokio::test]
async fn one_of_many_at_once() {
    let Some(server) = Server::start().await else { return };
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let dedup = Dedup::new(server.store().await);
        tasks.spawn(async move {
            dedup.once(&delivery(BODY), async { Ok::<_, Infallible>(()) }).await.unwrap()
        });
    }
    let all = tasks.join_all().await;
    assert_eq!(all.iter().filter(|once| matches!(once, Once::Handled(()))).count(), 1, "{all:?}");
}

/// Nothing is handled that cannot be claimed; what was handled is not called a
/// failure because it cannot be marked.
#[tokio::test]
async fn a_server_that_goes_away() {
    let Some(mut server) = Server::start().await else { return };
    let dedup = Dedup::new(server.store().await);
    let delivery = delivery(BODY);
    let first = dedup.once(&delivery, async {
        server.process.kill().await.unwrap();
        Ok::<_, Infallible>("handled")
    });
    assert_eq!(first.await.unwrap(), Once::Handled("handled"));

    let next = dedup.once(&delivery, async { Ok::<_, Infallible>("not claimed") }).await;
    assert!(matches!(next, Err(OnceError::Store(_))), "{next:?}");
}

/// The connection's own limit, half a second unless it is told another, is how
/// long a delivery waits.
#[tokio::test]
async fn a_server_that_does_not_answer() {
    let Some(server) = Server::start().await else { return };
    let dedup = Dedup::new(server.store().await);
    let mut connection = server.connection().await;
    let paused: String = redis::cmd("CLIENT")
        .arg(&["PAUSE", "3600000", "ALL"])
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(paused, "OK");
    let once = dedup.once(&delivery(BODY), async { Ok::<_, Infallible>("not claimed") }).await;
    let Err(OnceError::Store(error)) = once else { panic!("{once:?}") };
    assert!(error.is_timeout(), "{error}");
}

#[tokio::test]
async fn a_server_that_forgets_everything() {
    let Some(server) = Server::start().await else { return };
    let (here, there) = (server.store().await, server.store().await);
    let mut connection = server.connection().await;
    let mut flush = async || {
        let flushed: String = redis::cmd("FLUSHALL").query_async(&mut connection).await.unwrap();
        assert_eq!(flushed, "OK");
    };
    let key = delivery(BODY).key();

    // Nobody has claimed it in between: it is done.
    let Claim::New(ticket) = here.claim(&key, LEASE).await.unwrap() else { panic!("new") };
    flush().await;
    assert!(here.complete(&ticket, LEASE).await.unwrap());
    assert_eq!(there.claim(&key, LEASE).await.unwrap(), Claim::Done);
    // Done is forgotten too, and an old claim gives nothing back.
    flush().await;
    here.release(&ticket).await.unwrap();
    let Claim::New(current) = there.claim(&key, LEASE).await.unwrap() else { panic!("new") };
    assert!(!here.complete(&ticket, LEASE).await.unwrap());
    assert!(there.complete(&current, LEASE).await.unwrap());
}

/// Sends every command twice, as a cluster's connection does when the first
/// answer got lost on the way.
#[derive(Clone)]
struct Twice(MultiplexedConnection);

impl ConnectionLike for Twice {
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
async fn an_answer_that_got_lost() {
    let Some(server) = Server::start().await else { return };
    let store = RedisStore::new(Twice(server.connection().await));
    let key = delivery(BODY).key();
    for _ in 0..2 {
        let Claim::New(ticket) = store.claim(&key, LEASE).await.unwrap() else { panic!("new") };
        assert!(matches!(store.claim(&key, LEASE).await.unwrap(), Claim::InFlight { .. }));
        store.release(&ticket).await.unwrap();
    }
    let Claim::New(ticket) = store.claim(&key, LEASE).await.unwrap() else { panic!("new") };
    assert!(store.complete(&ticket, LEASE).await.unwrap());
    assert_eq!(store.claim(&key, LEASE).await.unwrap(), Claim::Done);
}

/// A sender's `id` is one part of one key, whatever it looks like; a value that
/// somebody else wrote there is no state.
#[tokio::test]
async fn ids_that_look_like_something_else() {
    let Some(server) = Server::start().await else { return };
    let store = server.store().await;
    let mut connection = server.connection().await;
    let ids =
        ["x\r\nFLUSHALL\r\n", "x' 'PX' 1", "{a}", "a*?[b]", "\0", "1\" \"2", "]] return 1 --[["];
    for (held, id) in ids.iter().enumerate() {
        let body = serde_json::json!({"event": "email.sent", "id": id}).to_string();
        let key = delivery(&body).key();
        assert!(matches!(store.claim(&key, LEASE).await.unwrap(), Claim::New(_)), "{id:?}");
        let exists: bool = redis::cmd("EXISTS")
            .arg(format!("webhook:mail:email.sent:id:{id}"))
            .query_async(&mut connection)
            .await
            .unwrap();
        let keys: usize = redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap();
        assert_eq!((exists, keys), (true, held + 1), "{id:?}");
    }

    let key = delivery(BODY).key();
    let list: i64 = redis::cmd("RPUSH")
        .arg("webhook:mail:email.sent:id:1")
        .arg("done")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(list, 1);
    assert!(store.claim(&key, LEASE).await.is_err());
}
