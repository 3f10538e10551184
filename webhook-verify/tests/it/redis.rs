//! The Redis store, tested with a `redis-server` that each test starts.
//!
//! If `redis-server` is not installed, the tests print `NOT RUN` and pass. With
//! `SVC_TEST_REDIS=1` they fail instead.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use webhook_verify::Delivery;
use webhook_verify::dedup::{
    Claim, Dedup, DedupError, DedupStore as _, Outcome, RedisStore, Ticket,
};

use crate::dedup::{BODY, check_store, delivery};

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
        let sent = Command::new("kill")
            .args(["-s", name, &process])
            .status()
            .await
            .unwrap();
        assert!(sent.success());
    }

    /// Starts the server again, without its data, at the same address.
    pub(crate) async fn restart(&mut self) {
        self.process = spawn(self.directory.path())
            .await
            .expect("it was started before");
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
async fn spawn(directory: &Path) -> Option<Child> {
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
    let mut process = match started {
        Ok(process) => process,
        Err(error) => {
            let required = std::env::var_os("SVC_TEST_REDIS").is_some_and(|v| v == "1");
            assert!(
                !required,
                "SVC_TEST_REDIS=1, but redis-server cannot be started: {error}"
            );
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

async fn handle(_: Delivery) -> Result<(), Infallible> {
    Ok(())
}

#[tokio::test]
async fn redis_keeps_the_rules() {
    let Some(server) = Server::start().await else {
        return;
    };
    check_store(&server.store(), tokio::time::sleep).await;
}

#[tokio::test]
async fn processes_share_the_states() {
    let Some(server) = Server::start().await else {
        return;
    };
    let (here, there) = (
        Dedup::new(Arc::new(server.store())),
        Dedup::new(Arc::new(server.store())),
    );
    assert_eq!(
        here.run_once(delivery(BODY), handle).await.unwrap(),
        Outcome::Handled(())
    );
    assert_eq!(
        there.run_once(delivery(BODY), handle).await.unwrap(),
        Outcome::Duplicate
    );
    // Programs with other prefixes are apart.
    let other = Dedup::new(Arc::new(server.store().prefix("other:")));
    assert_eq!(
        other.run_once(delivery(BODY), handle).await.unwrap(),
        Outcome::Handled(())
    );
    assert!(there.forget(delivery(BODY).key()).await.unwrap());
    assert_eq!(
        here.run_once(delivery(BODY), handle).await.unwrap(),
        Outcome::Handled(())
    );
}

/// Keys and tokens are arguments of a script, never part of one.
#[tokio::test]
async fn keys_are_not_interpreted() {
    let Some(server) = Server::start().await else {
        return;
    };
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
async fn an_outage_of_redis_is_survived() {
    let Some(mut server) = Server::start().await else {
        return;
    };
    let dedup = Dedup::new(Arc::new(server.store()));
    let handled = async || dedup.run_once(delivery(BODY), handle).await;
    assert_eq!(handled().await.unwrap(), Outcome::Handled(()));
    server.signal("STOP").await;
    assert!(matches!(handled().await, Err(DedupError::Store(_))));
    server.signal("CONT").await;
    let back = async |expected: Outcome<()>| {
        let again = async {
            while handled().await.ok() != Some(expected.clone()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), again)
            .await
            .expect("Redis is back");
    };
    back(Outcome::Duplicate).await;
    server.stop().await;
    assert!(matches!(handled().await, Err(DedupError::Store(_))));
    server.restart().await;
    back(Outcome::Handled(())).await;
}
