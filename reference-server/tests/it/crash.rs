//! Kills the server under load: every confirmed write is kept, every event of it is
//! delivered, and a deleted webhook receives nothing more.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use svc_reference_server::{Server, find_running};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::harness::{KEY, Sandbox, private_dir};
use crate::raw::{self, RawResponse};
use crate::receiver::{Receiver, within};

/// How often the server is killed, unless `SVC_CRASH_ROUNDS` is set.
const ROUNDS: u32 = 5;

/// Not a test by itself: the server process that the other tests kill.
#[tokio::test]
#[ignore = "started and killed by the crash tests"]
async fn server_process() {
    let directory = std::env::var("SVC_CRASH_DIR").expect("a directory");
    let _server = Server::builder()
        .data_dir(directory)
        .smtp("127.0.0.1:0".parse().expect("an address"))
        .start()
        .await
        .expect("started");
    std::future::pending::<()>().await;
}

pub(crate) fn start_server_process(directory: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args([
            "crash::server_process",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env("SVC_CRASH_DIR", directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started")
}

pub(crate) async fn address(directory: &Path, child: &Child) -> SocketAddr {
    for _ in 0..6000 {
        if let Some(found) = find_running(directory).filter(|found| found.pid == child.id()) {
            return found.http;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server did not start within 60 s");
}

/// What the server has confirmed with 2xx, in all rounds.
#[derive(Default)]
struct Confirmed {
    emails: Vec<String>,
    registered: Vec<String>,
    /// Deleted webhooks, each with its path and the number of deliveries that had arrived when the
    /// deletion was confirmed; from the end of its round, of those that were on their way as well.
    deleted: Vec<(String, String, usize)>,
}

/// The load of one round on one server.
#[derive(Clone)]
struct Load {
    addr: SocketAddr,
    confirmed: Arc<Mutex<Confirmed>>,
    /// Notified of every recorded confirmation.
    confirmation: Arc<Notify>,
    /// Target of the webhooks that are created and deleted.
    short_lived: Receiver,
    round: u32,
}

impl Load {
    /// Sends a request. Returns `None` if the server was killed.
    async fn call(&self, line: &str, body: &str) -> Option<RawResponse> {
        let addr = self.addr;
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        raw::try_send(addr, request.as_bytes()).await
    }

    fn record(&self, record: impl FnOnce(&mut Confirmed)) {
        record(&mut self.confirmed.lock().expect("no panic"));
        self.confirmation.notify_waiters();
    }

    /// Waits until this many emails have been accepted in all rounds.
    async fn wait_for(&self, emails: usize) {
        loop {
            let confirmation = self.confirmation.notified();
            tokio::pin!(confirmation);
            confirmation.as_mut().enable();
            if self.confirmed.lock().expect("no panic").emails.len() >= emails {
                return;
            }
            confirmation.await;
        }
    }

    async fn send(self, worker: usize) {
        // Worker 0 sends large emails, so that SQLite runs a checkpoint during the
        // load.
        let text = "x".repeat(if worker == 0 { LARGE_EMAIL } else { 1 });
        for number in 0..MAX_EMAILS {
            let to = format!("r{}w{worker}n{number}@x.test", self.round);
            let body =
                format!(r#"{{"from":"a@sandbox.test","to":"{to}","subject":"s","text":"{text}"}}"#);
            let Some(response) = self.call("POST /api/v1/emails", &body).await else {
                return;
            };
            assert_eq!(response.status, 202, "{response:?}");
            self.record(|confirmed| confirmed.emails.push(response.id()));
        }
    }

    async fn send_batches(self) {
        let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
        let batch = format!("[{}]", [email; 5].join(","));
        for _ in 0..MAX_EMAILS / 5 {
            let Some(response) = self.call("POST /api/v1/emails/batch", &batch).await else {
                return;
            };
            assert_eq!(response.status, 200, "{response:?}");
            let ids = response
                .body
                .split(r#""id":""#)
                .skip(1)
                .map(|rest| rest[..40].to_owned());
            self.record(|confirmed| confirmed.emails.extend(ids));
        }
    }

    /// Creates webhooks, lets some deliveries arrive, and deletes them.
    async fn register_and_delete(self) {
        for number in 0.. {
            let path = format!("/{}-{number}", self.round);
            let url = format!("http://{}{path}", self.short_lived.addr);
            let Some(id) = self.register(&url, &["email.delivered"]).await else {
                return;
            };
            tokio::time::sleep(Duration::from_millis(10)).await;
            let line = format!("DELETE /api/v1/webhooks/{id}");
            let Some(response) = self.call(&line, "").await else {
                return;
            };
            assert_eq!(response.status, 204, "{response:?}");
            let count = deliveries_by_path(&self.short_lived)
                .remove(&path)
                .unwrap_or_default();
            self.record(|confirmed| confirmed.deleted.push((id, path, count)));
        }
    }

    /// Deletes the webhooks that were created but not deleted before the last kill, so that
    /// the organization does not reach its limit.
    async fn delete_leftovers(&self) {
        let list = self
            .call("GET /api/v1/webhooks", "")
            .await
            .expect("a response")
            .body;
        let mut ids: HashSet<_> = list
            .split(r#""id":""#)
            .skip(1)
            .map(|rest| &rest[..40])
            .collect();
        for id in &self.confirmed.lock().expect("no panic").registered {
            ids.remove(id.as_str());
        }

        for id in ids {
            let line = format!("DELETE /api/v1/webhooks/{id}");
            assert_eq!(self.call(&line, "").await.expect("a response").status, 204);
        }
    }

    async fn register(&self, url: &str, events: &[&str]) -> Option<String> {
        let body = format!(r#"{{"url":"{url}","events":{events:?}}}"#);
        let response = self.call("POST /api/v1/webhooks", &body).await?;
        assert_eq!(response.status, 201, "{response:?}");
        Some(response.id())
    }
}

/// Maximum number of webhooks that are kept: an organization can have 200.
const MAX_WEBHOOKS: u32 = 40;

/// Maximum number of emails per worker and round, to bound the deliveries at the end.
const MAX_EMAILS: usize = 60;

/// Maximum number of deliveries to one webhook that may be on their way when it is deleted.
const MAX_ATTEMPTS: usize = 16;

/// The events of every delivered email.
const EVENTS: [&str; 2] = ["email.sent", "email.delivered"];

/// Size of a large email in bytes.
const LARGE_EMAIL: usize = 200 << 10;

fn deliveries_by_path(receiver: &Receiver) -> HashMap<String, usize> {
    let mut count = HashMap::new();
    receiver.for_each(|one| {
        let path = one.head.split(' ').nth(1).expect("a path").to_owned();
        *count.entry(path).or_default() += 1;
    });
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_confirmed_write_is_lost() {
    let rounds = std::env::var("SVC_CRASH_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let rounds: u32 = rounds.unwrap_or(ROUNDS);
    let directory = tempfile::tempdir().expect("a directory");
    let kept = Receiver::start(&[]).await;
    let short_lived = Receiver::start(&[]).await;
    let confirmed = Arc::new(Mutex::new(Confirmed::default()));
    // After each round.
    let mut received_by_then = vec![0];
    for round in 0..rounds {
        let mut child = start_server_process(directory.path());
        let addr = address(directory.path(), &child).await;
        let confirmed = Arc::clone(&confirmed);
        let short_lived = short_lived.clone();
        let (before, deleted_before) = {
            let confirmed = confirmed.lock().expect("no panic");
            (confirmed.emails.len(), confirmed.deleted.len())
        };
        let load = Load {
            addr,
            confirmed,
            confirmation: Arc::default(),
            short_lived,
            round,
        };
        load.delete_leftovers().await;
        // The webhook of the first round receives all events; those of later rounds
        // subscribe to an event that never occurs.
        if round < MAX_WEBHOOKS {
            let events: &[&str] = if round == 0 {
                &EVENTS
            } else {
                &["email.complained"]
            };
            let id = load
                .register(&kept.url(), events)
                .await
                .expect("a response");
            load.record(|confirmed| confirmed.registered.push(id));
        }
        let mut workers = JoinSet::new();
        for worker in 0..4 {
            workers.spawn(load.clone().send(worker));
        }
        workers.spawn(load.clone().send_batches());
        workers.spawn(load.clone().register_and_delete());
        // Even on a slow machine, something must have been confirmed before the kill.
        let accepted = tokio::time::timeout(Duration::from_secs(60), load.wait_for(before + 3));
        accepted
            .await
            .expect("three emails are accepted within 60 s");
        // The time of the kill differs between rounds, and is the same in every run.
        tokio::time::sleep(Duration::from_millis(u64::from(5 + round * 37 % 150))).await;
        child.kill().expect("killed");
        child.wait().expect("ended");
        let ended = async {
            while let Some(worker) = workers.join_next().await {
                worker.expect("all responses were as expected");
            }
        };
        within("the workers to notice the kill", ended).await;
        kept.until_disconnected().await;
        received_by_then.push(kept.received().len());
        load.short_lived.until_disconnected().await;
        let by_path = deliveries_by_path(&load.short_lived);
        load.record(|confirmed| {
            for (_, path, count) in &mut confirmed.deleted[deleted_before..] {
                let arrived = by_path.get(path).copied().unwrap_or_default();
                assert!(
                    arrived - *count <= MAX_ATTEMPTS,
                    "{path}: delivered after the deletion"
                );
                *count = arrived;
            }
        });
    }

    let server = Server::builder()
        .data_dir(directory.path())
        .start()
        .await
        .expect("started");
    let sandbox = Sandbox::of(server);
    sandbox.settle().await;
    let webhooks = sandbox.call("GET /api/v1/webhooks", "").await.body;
    sandbox.server.stop().await;
    let confirmed = confirmed.lock().expect("no panic");
    assert!(
        confirmed.emails.len() >= 3 * rounds as usize
            && confirmed.registered.len() == rounds.min(MAX_WEBHOOKS) as usize
    );

    for id in &confirmed.registered {
        assert!(webhooks.contains(id.as_str()), "the webhook {id} was lost");
    }

    let by_path = deliveries_by_path(&short_lived);
    for (id, path, count) in &confirmed.deleted {
        assert!(
            !webhooks.contains(id.as_str()),
            "the deleted webhook {id} exists again"
        );
        assert_eq!(
            by_path.get(path).unwrap_or(&0),
            count,
            "{path}: delivered after the deletion"
        );
    }

    // A delivery whose outcome was not stored before the kill is sent again, once.
    let received = kept.received();
    received_by_then.push(received.len());
    for round in received_by_then.windows(2) {
        let mut ids = HashSet::new();
        for one in &received[round[0]..round[1]] {
            assert!(ids.insert(one.id()), "sent twice by one server: {one:?}");
        }
    }

    let mut announced = HashSet::new();
    kept.for_each(|one| {
        let (_, rest) = one.body.split_once(r#""emailId":""#).expect("an email id");
        announced.insert((one.header("mail-event").to_owned(), rest[..40].to_owned()));
    });
    let database = rusqlite::Connection::open(directory.path().join("svc.db")).expect("opened");
    let mut status = database
        .prepare("SELECT status FROM email WHERE id = ?1")
        .expect("SQL");
    for id in &confirmed.emails {
        let found: String = status.query_row([id], |row| row.get(0)).expect("an email");
        assert_eq!(found, "delivered", "{id}");
        for event in EVENTS {
            assert!(
                announced.contains(&(event.to_owned(), id.clone())),
                "no {event} for {id}"
            );
        }
    }

    assert_intact(&database);
}

/// Kills the server while it creates the database: the next one starts, whatever the time of
/// the kill.
#[tokio::test]
async fn a_kill_during_the_first_start() {
    for round in 0..6 {
        let directory = private_dir();
        let mut child = start_server_process(directory.path());
        tokio::time::sleep(Duration::from_millis(round * 18)).await;
        child.kill().expect("killed");
        child.wait().expect("ended");

        let server = Server::builder()
            .data_dir(directory.path())
            .start()
            .await
            .expect("started");
        let sandbox = Sandbox::of(server);
        let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
        assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
        sandbox.server.stop().await;
        assert_intact(
            &rusqlite::Connection::open(directory.path().join("svc.db")).expect("opened"),
        );
    }
}

/// A reset is atomic.
#[tokio::test]
async fn a_kill_during_a_reset_leaves_all_or_nothing() {
    const EMAILS: i64 = 300;

    let directory = tempfile::tempdir().expect("a directory");
    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let batch = format!("[{}]", [email; 100].join(","));
    for round in 0..10 {
        let mut child = start_server_process(directory.path());
        let load = Load {
            addr: address(directory.path(), &child).await,
            confirmed: Arc::default(),
            confirmation: Arc::default(),
            short_lived: Receiver::start(&[]).await,
            round: 0,
        };
        let reset = || load.call("POST /_sandbox/reset", "");
        assert_eq!(reset().await.expect("a response").status, 204);
        for _ in 0..EMAILS / 100 {
            let response = load.call("POST /api/v1/emails/batch", &batch).await;
            assert_eq!(response.expect("a response").status, 200);
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(Duration::from_millis(round)) => {}
            _ = reset() => {}
        }
        child.kill().expect("killed");
        child.wait().expect("ended");

        let database = rusqlite::Connection::open(directory.path().join("svc.db")).expect("opened");
        let emails = count(&database, "email");
        assert!(emails == 0 || emails == EMAILS, "{emails} emails");
        assert_eq!(count(&database, "email_content"), emails);
        for seed in ["organization", "domain"] {
            assert_eq!(count(&database, seed), 1, "{seed}");
        }
        assert_intact(&database);
    }
}

fn count(database: &rusqlite::Connection, table: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    database
        .query_row(&sql, [], |row| row.get(0))
        .expect("counted")
}

fn assert_intact(database: &rusqlite::Connection) {
    let check: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("checked");
    assert_eq!(check, "ok");
}
