//! The Redis store, tested with a `redis-server` that each test starts.
//!
//! They are ignored, and run with `--include-ignored`.

use std::convert::Infallible;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use webhook_verify::Delivery;
use webhook_verify::dedup::{
    Claim, Dedup, DedupError, DedupStore as _, RedisStore, RunOnce, Ticket,
};

use crate::dedup::{BODY, check_store, delivery};

/// A Redis server on its own Unix socket, so that tests need no free port. It is
/// killed on drop.
pub(crate) struct Server {
    process: Child,
    directory: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let process = spawn(directory.path()).await;
        Self { process, directory }
    }

    pub(crate) async fn stop(&mut self) {
        self.process.kill().await.unwrap();
    }

    /// Sends a signal, such as `STOP` and `CONT`.
    pub(crate) async fn signal(&self, name: &str) {
        let process = self.process.id().expect("the server runs").to_string();
        let sent = Command::new("kill")
            .args(["-s", name, &process])
            .status()
            .await
            .unwrap();
        assert!(sent.success());
    }

    /// Starts the server again, without its data, at the same address.
    pub(crate) async fn restart(&mut self) {
        self.process = spawn(self.directory.path()).await;
    }

    pub(crate) fn client(&self) -> redis::Client {
        let url = format!(
            "redis+unix://{}",
            self.directory.path().join("redis.sock").display()
        );
        redis::Client::open(url).unwrap()
    }

    /// A store with its own connection, as in a separate process.
    fn store(&self) -> RedisStore {
        RedisStore::new(self.client()).unwrap()
    }
}

/// Starts `redis-server` in a directory and waits until it is ready.
async fn spawn(directory: &Path) -> Child {
    let started = Command::new("redis-server")
        .args([
            "--port",
            "0",
            "--save",
            "",
            "--appendonly",
            "no",
            "--daemonize",
            "no",
        ])
        .arg("--unixsocket")
        .arg(directory.join("redis.sock"))
        .arg("--dir")
        .arg(directory)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut process = started.expect("redis-server is installed");
    let mut log = BufReader::new(process.stdout.take().unwrap()).lines();
    while let Some(line) = log.next_line().await.unwrap() {
        if line.to_lowercase().contains("ready to accept connections") {
            // Keep reading, or the server blocks when the pipe is full.
            tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
            return process;
        }
    }

    panic!("redis-server exited before it was ready");
}

async fn handle(_: Delivery) -> Result<(), Infallible> {
    Ok(())
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn redis_keeps_the_rules() {
    let server = Server::start().await;
    check_store(&server.store(), tokio::time::sleep).await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn processes_share_the_states() {
    let server = Server::start().await;
    let here = Dedup::new(Arc::new(server.store()));
    let there = Dedup::new(Arc::new(server.store()));
    assert_eq!(
        here.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Handled(())
    );
    assert_eq!(
        there.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Duplicate
    );

    // Programs with other prefixes are apart.
    let other = Dedup::new(Arc::new(server.store().prefix("other:")));
    assert_eq!(
        other.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Handled(())
    );
    assert!(there.forget(delivery(BODY).key()).await.unwrap());
    assert_eq!(
        here.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Handled(())
    );
}

/// Keys and tokens are arguments of a script, never part of one.
#[tokio::test]
#[ignore = "needs redis-server"]
async fn keys_are_not_interpreted() {
    let server = Server::start().await;
    let store = server.store();
    for key in ["", "'", "\r\nDEL *\r\n", "{a}", "\0", "ü", &"x".repeat(400)] {
        let ticket = Ticket::new(key);
        assert_eq!(
            store.claim(&ticket, Duration::MAX).await.unwrap(),
            Claim::New,
            "{key:?}"
        );
        assert!(store.complete(&ticket, Duration::MAX).await.unwrap());
        assert!(store.forget(key).await.unwrap());
    }
}

/// While Redis is away, or does not answer, no handler runs. Once it is back, so is the receiver.
#[tokio::test]
#[ignore = "needs redis-server"]
async fn an_outage_of_redis_is_survived() {
    let mut server = Server::start().await;
    let dedup = Dedup::new(Arc::new(server.store()));
    let handled = async || dedup.run_once(delivery(BODY), handle).await;
    assert_eq!(handled().await.unwrap(), RunOnce::Handled(()));

    server.signal("STOP").await;
    assert!(matches!(handled().await, Err(DedupError::Store(_))));

    server.signal("CONT").await;
    let back = async |expected: RunOnce<()>| {
        let again = async {
            while handled().await.ok() != Some(expected.clone()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), again)
            .await
            .expect("Redis is back");
    };

    back(RunOnce::Duplicate).await;
    server.stop().await;
    assert!(matches!(handled().await, Err(DedupError::Store(_))));

    server.restart().await;
    back(RunOnce::Handled(())).await;
}

/// An address that can lead to another server, as a failover changes it.
struct Address {
    directory: TempDir,
}

impl Address {
    fn of(server: &Server) -> Self {
        let address = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        address.lead_to(server);
        address
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("primary.sock")
    }

    fn lead_to(&self, server: &Server) {
        let new = self.directory.path().join("new.sock");
        std::os::unix::fs::symlink(server.directory.path().join("redis.sock"), &new).unwrap();
        std::fs::rename(new, self.path()).unwrap();
    }

    fn store(&self) -> RedisStore {
        let url = format!("redis+unix://{}", self.path().display());
        RedisStore::new(redis::Client::open(url).unwrap()).unwrap()
    }
}

async fn command(server: &Server, words: &[&str]) {
    let client = server.client();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async::<()>(&mut connection).await.unwrap();
}

/// What becomes of an old primary.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// It answers READONLY.
    Demoted,
    /// It answers MASTERDOWN.
    WithoutPrimary,
    /// It answers nothing any more.
    Silent,
}

/// Its connection is not kept.
#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_demoted_or_silent_redis_is_left_for_the_new_primary() {
    for fate in [Fate::Demoted, Fate::WithoutPrimary, Fate::Silent] {
        let old = Server::start().await;
        let new = Server::start().await;
        let address = Address::of(&old);
        let dedup = Dedup::new(Arc::new(address.store()));
        let handled = async |body: &str| dedup.run_once(delivery(body), handle).await;
        assert_eq!(handled(BODY).await.unwrap(), RunOnce::Handled(()));
        address.lead_to(&new);
        if fate == Fate::WithoutPrimary {
            let stale = ["CONFIG", "SET", "replica-serve-stale-data", "no"];
            command(&old, &stale).await;
        }
        match fate {
            Fate::Silent => old.signal("STOP").await,
            _ => command(&old, &["REPLICAOF", "127.0.0.1", "1"]).await,
        }
        let other = r#"{"event":"email.sent","id":"2"}"#;
        let error = handled(other).await.expect_err("the old primary is asked");
        let DedupError::Store(error) = error;
        let says_so = fate != Fate::WithoutPrimary || format!("{error:?}").contains("MasterDown");
        assert!(says_so, "{fate:?}: {error:?}");
        assert_eq!(handled(other).await.unwrap(), RunOnce::Handled(()));
        assert_eq!(handled(other).await.unwrap(), RunOnce::Duplicate);
        old.signal("CONT").await;
    }
}

/// A server that has just started answers LOADING to everything.
#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_redis_that_is_loading_is_asked_again() {
    let server = Server::start().await;
    let address = Address::of(&server);
    let loading = address.directory.path().join("loading.sock");
    let listener = tokio::net::UnixListener::bind(&loading).unwrap();
    let answering = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    // As many answers as commands: each begins with `*`.
                    let commands = buffer.iter().filter(|byte| **byte == b'*').count();
                    let answers =
                        "-LOADING Redis is loading the dataset in memory\r\n".repeat(commands);
                    let _ = stream.write_all(answers.as_bytes()).await;
                    buffer.fill(0);
                }
            });
        }
    });
    std::fs::remove_file(address.path()).unwrap();
    std::os::unix::fs::symlink(&loading, address.path()).unwrap();
    let dedup = Dedup::new(Arc::new(address.store()));
    let handled = async || dedup.run_once(delivery(BODY), handle).await;
    for _ in 0..2 {
        let error = handled().await.expect_err("it is loading");
        assert!(format!("{error:?}").contains("oading"), "{error:?}");
    }

    address.lead_to(&server);
    assert_eq!(handled().await.unwrap(), RunOnce::Handled(()));

    answering.abort();
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_redis_that_evicts_keys_is_refused() {
    let server = Server::start().await;
    server.store().check().await.unwrap();
    for (policy, accepted, is_refused) in [
        ("allkeys-lru", None, true),
        ("allkeys-lru", Some("allkeys-lru"), true),
        ("volatile-ttl", None, true),
        ("volatile-ttl", Some("volatile-lru"), true),
        ("volatile-ttl", Some("volatile-ttl"), false),
        ("noeviction", None, false),
    ] {
        command(&server, &["CONFIG", "SET", "maxmemory-policy", policy]).await;
        let mut store = server.store();
        if let Some(accepted) = accepted {
            store = store.accept_eviction(accepted);
        }
        let checked = store.check().await;
        assert_eq!(checked.is_err(), is_refused, "{policy} {accepted:?}");
        let claimed = store.claim(&Ticket::new(policy), Duration::MAX).await;
        let text = format!("{claimed:?}");
        assert_eq!(claimed.is_err(), is_refused, "{text}");
        assert!(!is_refused || text.contains(policy), "{text}");
    }
}

/// The sentinels name the primary. Without one, no handler runs.
#[tokio::test]
#[ignore = "needs redis-server"]
async fn sentinel_names_the_primary() {
    use redis::sentinel::{SentinelClient, SentinelServerType};

    let server = Server::start().await;
    let ports = [0; 2].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [primary, sentinel] = ports.map(|port| port.local_addr().unwrap().port());
    command(&server, &["CONFIG", "SET", "port", &primary.to_string()]).await;
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("sentinel.conf");
    let text = format!("port {sentinel}\nsentinel monitor mymaster 127.0.0.1 {primary} 1\n");
    std::fs::write(&config, text).unwrap();
    let _sentinel = Command::new("redis-server")
        .arg(&config)
        .arg("--sentinel")
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let address = vec![format!("redis://127.0.0.1:{sentinel}")];
    let kind = SentinelServerType::Master;
    let client = SentinelClient::build(address, "mymaster".to_owned(), None, kind).unwrap();
    let dedup = Dedup::new(Arc::new(RedisStore::sentinel(client)));
    let handled = async {
        while dedup.run_once(delivery(BODY), handle).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(30), handled).await;
    within.expect("the sentinel names the primary");
    let there = Dedup::new(Arc::new(server.store()));
    let again = there.run_once(delivery(BODY), handle).await;
    assert_eq!(again.unwrap(), RunOnce::Duplicate);
}
