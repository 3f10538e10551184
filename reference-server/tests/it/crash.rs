//! Killed at random points under load: what was answered is there, every event
//! of it arrives, and nothing arrives at a webhook that was deleted.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use svc_reference_server::{Server, find_running};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::harness::{KEY, Sandbox};
use crate::raw::{self, RawResponse};
use crate::receiver::Receiver;

/// How often the server is killed; more by `SVC_CRASH_ROUNDS`.
const ROUNDS: u32 = 5;

/// No test of its own: the process that is killed.
#[tokio::test]
#[ignore = "started and killed by the crash test"]
async fn victim() {
    let directory = std::env::var("SVC_CRASH_DIR").expect("a directory");
    let _server = Server::builder().data_dir(directory).start().await.expect("started");
    std::future::pending::<()>().await;
}

fn start_victim(directory: &Path) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["crash::victim", "--exact", "--ignored", "--nocapture"])
        .env("SVC_CRASH_DIR", directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started")
}

async fn address(directory: &Path, child: &Child) -> SocketAddr {
    for _ in 0..6000 {
        if let Some(found) = find_running(directory).filter(|found| found.pid == child.id()) {
            return found.http;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server did not start within a minute");
}

/// What the server has answered 2xx to, in all rounds.
#[derive(Default)]
struct Answered {
    emails: Vec<String>,
    registered: Vec<String>,
    /// Webhooks that were deleted, each with its path and how many deliveries
    /// had come to it when that was answered.
    deleted: Vec<(String, String, usize)>,
}

/// One round's load on one server.
#[derive(Clone)]
struct Load {
    addr: SocketAddr,
    answered: Arc<Mutex<Answered>>,
    /// Told of every answer that is noted.
    noted: Arc<Notify>,
    /// Where the webhooks that are deleted again point.
    short_lived: Receiver,
    round: u32,
}

impl Load {
    /// An answer, or none where the server is gone.
    async fn call(&self, line: &str, body: &str) -> Option<RawResponse> {
        let (addr, length) = (self.addr, body.len());
        let request = format!(
            "{line} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        raw::try_send(addr, request.as_bytes()).await
    }

    fn note(&self, note: impl FnOnce(&mut Answered)) {
        note(&mut self.answered.lock().expect("no panic"));
        self.noted.notify_waiters();
    }

    /// Waits until so many emails were accepted, in all rounds.
    async fn until(&self, emails: usize) {
        loop {
            let noted = self.noted.notified();
            tokio::pin!(noted);
            noted.as_mut().enable();
            if self.answered.lock().expect("no panic").emails.len() >= emails {
                return;
            }
            noted.await;
        }
    }

    async fn send(self, worker: usize) {
        // One of them sends so much that the log comes to its checkpoint, which
        // is written while the others go on.
        let text = "x".repeat(if worker == 0 { LARGE } else { 1 });
        for number in 0..MOST {
            let to = format!("r{}w{worker}n{number}@x.test", self.round);
            let body =
                format!(r#"{{"from":"a@sandbox.test","to":"{to}","subject":"s","text":"{text}"}}"#);
            let Some(answer) = self.call("POST /api/v1/emails", &body).await else { return };
            assert_eq!(answer.status, 202, "{answer:?}");
            self.note(|answered| answered.emails.push(answer.id()));
        }
    }

    async fn send_batches(self) {
        let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
        let batch = format!("[{}]", [email; 5].join(","));
        for _ in 0..MOST / 5 {
            let Some(answer) = self.call("POST /api/v1/emails/batch", &batch).await else { return };
            assert_eq!(answer.status, 200, "{answer:?}");
            let ids = answer.body.split(r#""id":""#).skip(1).map(|rest| rest[..40].to_owned());
            self.note(|answered| answered.emails.extend(ids));
        }
    }

    /// Makes a webhook, lets some deliveries come to it, deletes it.
    async fn register_and_delete(self) {
        for number in 0.. {
            let path = format!("/{}-{number}", self.round);
            let url = format!("http://{}{path}", self.short_lived.addr);
            let Some(id) = self.register(&url, "email.delivered").await else { return };
            tokio::time::sleep(Duration::from_millis(10)).await;
            let line = format!("DELETE /api/v1/webhooks/{id}");
            let Some(answer) = self.call(&line, "").await else { return };
            assert_eq!(answer.status, 204, "{answer:?}");
            let count = deliveries_by_path(&self.short_lived).remove(&path).unwrap_or_default();
            self.note(|answered| answered.deleted.push((id, path, count)));
        }
    }

    async fn register(&self, url: &str, event: &str) -> Option<String> {
        let body = format!(r#"{{"url":"{url}","events":["{event}"]}}"#);
        let answer = self.call("POST /api/v1/webhooks", &body).await?;
        assert_eq!(answer.status, 201, "{answer:?}");
        Some(answer.id())
    }
}

/// Emails of one worker in one round, so that what is to be delivered in the
/// end stays within bounds.
const MOST: usize = 60;

/// Bytes of a large email.
const LARGE: usize = 200 << 10;

fn deliveries_by_path(receiver: &Receiver) -> HashMap<String, usize> {
    let mut count = HashMap::new();
    receiver.look(|one| {
        let path = one.head.split(' ').nth(1).expect("a path").to_owned();
        *count.entry(path).or_default() += 1;
    });
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_answered_is_lost() {
    let rounds = std::env::var("SVC_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u32 = rounds.unwrap_or(ROUNDS);
    let directory = tempfile::tempdir().expect("a directory");
    let (kept, short_lived) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    let answered = Arc::new(Mutex::new(Answered::default()));
    for round in 0..rounds {
        let mut child = start_victim(directory.path());
        let addr = address(directory.path(), &child).await;
        let (answered, short_lived) = (Arc::clone(&answered), short_lived.clone());
        let before = answered.lock().expect("no panic").emails.len();
        let load = Load { addr, answered, noted: Arc::default(), short_lived, round };
        // The first one is to be told of everything; of the others' event there is none.
        let event = if round == 0 { "email.delivered" } else { "email.complained" };
        let id = load.register(&kept.url(), event).await.expect("an answer");
        load.note(|answered| answered.registered.push(id));
        let mut workers = JoinSet::new();
        for worker in 0..4 {
            workers.spawn(load.clone().send(worker));
        }
        workers.spawn(load.clone().send_batches());
        workers.spawn(load.clone().register_and_delete());
        // However slow the machine is: something was answered when it is killed.
        let some = tokio::time::timeout(Duration::from_secs(60), load.until(before + 3));
        some.await.expect("accepted emails");
        // Points that differ from round to round, and are the same in every run.
        tokio::time::sleep(Duration::from_millis(u64::from(5 + round * 37 % 150))).await;
        child.kill().expect("killed");
        child.wait().expect("ended");
        while let Some(worker) = workers.join_next().await {
            worker.expect("its answers were as expected");
        }
    }

    let server = Server::builder().data_dir(directory.path()).start().await.expect("started");
    let sandbox = Sandbox::of(server);
    sandbox.settle().await;
    let webhooks = sandbox.call("GET /api/v1/webhooks", "").await.body;
    sandbox.server.stop().await;
    let answered = answered.lock().expect("no panic");
    assert!(
        answered.emails.len() >= 3 * rounds as usize
            && answered.registered.len() == rounds as usize
    );
    for id in &answered.registered {
        assert!(webhooks.contains(id.as_str()), "the webhook {id} is lost");
    }
    let by_path = deliveries_by_path(&short_lived);
    for (id, path, count) in &answered.deleted {
        assert!(!webhooks.contains(id.as_str()), "the webhook {id} is back");
        assert_eq!(by_path.get(path).unwrap_or(&0), count, "{path}: delivered after its deletion");
    }

    let mut told = HashSet::new();
    kept.look(|one| {
        let (_, rest) = one.body.split_once(r#""emailId":""#).expect("which email it is about");
        told.insert(rest[..40].to_owned());
    });
    let database = rusqlite::Connection::open(directory.path().join("svc.db")).expect("opened");
    let mut status = database.prepare("SELECT status FROM email WHERE id = ?1").expect("SQL");
    for id in &answered.emails {
        let found: String = status.query_row([id], |row| row.get(0)).expect("an email");
        assert_eq!(found, "delivered", "{id}");
        assert!(told.contains(id), "no event of {id}");
    }
    assert_sound(&database);
}

/// A database as the first version left it, killed on its way to this one: what
/// was in it is there, whenever that was.
#[tokio::test]
async fn killed_while_it_brings_an_older_database_up_to_date() {
    const DELIVERIES: u32 = 20_000;
    let older = tempfile::tempdir().expect("a directory");
    let database = rusqlite::Connection::open(older.path().join("svc.db")).expect("opened");
    database.execute_batch(include_str!("../../src/store/migrations/0001_initial.sql")).unwrap();
    let content = format!(
        "PRAGMA user_version = 1;
         WITH RECURSIVE one (number) AS
             (SELECT 1 UNION ALL SELECT number + 1 FROM one WHERE number < {DELIVERIES})
         INSERT INTO delivery
         SELECT printf('%08x-0000-7000-8000-000000000000', number), 1, 'whk_1', 'email',
                'email.sent', 'delivered', 1, 1, NULL, 1, 1 FROM one"
    );
    database.execute_batch(&content).expect("filled");
    drop(database);

    for round in 0..6 {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("svc.db");
        std::fs::copy(older.path().join("svc.db"), &path).expect("copied");
        let mut child = start_victim(directory.path());
        tokio::time::sleep(Duration::from_millis(round * 18)).await;
        child.kill().expect("killed");
        child.wait().expect("ended");

        let server = Server::builder().data_dir(directory.path()).start().await.expect("started");
        let sandbox = Sandbox::of(server);
        let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
        assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
        sandbox.server.stop().await;
        let database = rusqlite::Connection::open(&path).expect("opened");
        assert_eq!(count(&database, "delivery"), i64::from(DELIVERIES));
        assert_sound(&database);
    }
}

/// A reset has happened or it has not.
#[tokio::test]
async fn killed_while_it_is_reset() {
    const EMAILS: i64 = 300;
    let directory = tempfile::tempdir().expect("a directory");
    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let batch = format!("[{}]", [email; 100].join(","));
    for round in 0..10 {
        let mut child = start_victim(directory.path());
        let load = Load {
            addr: address(directory.path(), &child).await,
            answered: Arc::default(),
            noted: Arc::default(),
            short_lived: Receiver::start(&[]).await,
            round: 0,
        };
        let reset = || load.call("POST /_sandbox/reset", "");
        assert_eq!(reset().await.expect("an answer").status, 204);
        for _ in 0..EMAILS / 100 {
            let answer = load.call("POST /api/v1/emails/batch", &batch).await;
            assert_eq!(answer.expect("an answer").status, 200);
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
        assert_sound(&database);
    }
}

fn count(database: &rusqlite::Connection, table: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    database.query_row(&sql, [], |row| row.get(0)).expect("counted")
}

fn assert_sound(database: &rusqlite::Connection) {
    let check: String =
        database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
    assert_eq!(check, "ok");
}
