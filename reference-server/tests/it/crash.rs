//! Killed at random points under load: what was answered is there, every event
//! of it arrives, and nothing arrives at a webhook that was deleted.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use svc_reference_server::{Server, running};

use crate::harness::{KEY, Sandbox};
use crate::raw;
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

async fn address(directory: &Path, child: &Child) -> std::net::SocketAddr {
    for _ in 0..1000 {
        if let Some(found) = running(directory).filter(|found| found.pid == child.id()) {
            return found.http;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server did not start within 10 s");
}

/// Sends until the server is gone; keeps the ids of what was answered 2xx.
async fn load(
    addr: std::net::SocketAddr,
    worker: usize,
    answered: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let body = format!(
            r#"{{"from":"a@sandbox.test","to":"w{worker}n{number}@x.test","subject":"s"}}"#
        );
        let length = body.len();
        let request = format!(
            "POST /api/v1/emails HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let Some(answer) = raw::try_send(addr, request.as_bytes()).await else { return };
        assert_eq!(answer.status, 202, "{answer:?}");
        answered.lock().expect("no panic").push(answer.id());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_answered_is_lost() {
    let rounds = std::env::var("SVC_CRASH_ROUNDS").ok().and_then(|text| text.parse().ok());
    let rounds: u32 = rounds.unwrap_or(ROUNDS);
    let directory = tempfile::tempdir().expect("a directory");
    let (kept, gone) = (Receiver::start(&[]).await, Receiver::start(&[]).await);
    let answered = Arc::new(Mutex::new(Vec::new()));
    let mut registered = false;
    for round in 0..rounds {
        let mut child = start_victim(directory.path());
        let addr = address(directory.path(), &child).await;
        let call = async |line: &str, body: String| {
            let length = body.len();
            let request = format!(
                "{line} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            raw::send(addr, request.as_bytes()).await
        };
        let hook = |receiver: &Receiver| {
            format!(r#"{{"url":"{}","events":["email.delivered"]}}"#, receiver.url())
        };
        if !registered {
            assert_eq!(call("POST /api/v1/webhooks", hook(&kept)).await.status, 201);
            registered = true;
        }
        let short_lived = call("POST /api/v1/webhooks", hook(&gone)).await.id();
        let stop = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                tokio::spawn(load(addr, worker, Arc::clone(&answered), Arc::clone(&stop)))
            })
            .collect();
        // Points that differ from round to round, and are the same in every run.
        let until = Duration::from_millis(20 + u64::from(round * 37 % 150));
        tokio::time::sleep(until).await;
        assert_eq!(
            call(&format!("DELETE /api/v1/webhooks/{short_lived}"), String::new()).await.status,
            204
        );
        let at_deletion = gone.received().len();
        tokio::time::sleep(until / 2).await;
        child.kill().expect("killed");
        child.wait().expect("ended");
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.await.expect("ended");
        }
        assert_eq!(gone.received().len(), at_deletion, "delivered after its webhook was deleted");
    }

    let server = Server::builder().data_dir(directory.path()).start().await.expect("started");
    let sandbox = Sandbox::of(server);
    sandbox.settle().await;
    let answered = answered.lock().expect("no panic").clone();
    assert!(answered.len() > 10, "there was no load: {}", answered.len());
    let bodies: Vec<String> = kept.received().into_iter().map(|one| one.body).collect();
    let all = bodies.concat();
    for id in &answered {
        let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
        assert_eq!(found.between(r#""status":""#), "delivered", "{id}");
        assert!(all.contains(id.as_str()), "no event of {id}");
    }
    sandbox.server.stop().await;
    let database = rusqlite::Connection::open(directory.path().join("svc.db")).expect("opened");
    let check: String =
        database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
    assert_eq!(check, "ok");
}
