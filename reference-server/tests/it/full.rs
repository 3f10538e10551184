//! A database that cannot grow: 507, nothing half done, and well again once
//! there is room.

use crate::harness::Sandbox;
use crate::receiver::Receiver;

const LIMIT: u64 = 2 << 20;

#[tokio::test]
async fn a_full_database_answers_507_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    for on_disk in [true, false] {
        let sandbox = Sandbox::with(|builder| {
            let builder = builder.max_database_size(LIMIT);
            if on_disk { builder.data_dir(directory.path()) } else { builder }
        })
        .await;
        let body = format!(
            r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"{}"}}"#,
            "x".repeat(200_000)
        );
        let mut accepted = Vec::new();
        let refused = loop {
            let answer = sandbox.call("POST /api/v1/emails", &body).await;
            if answer.status != 202 {
                break answer;
            }
            accepted.push(answer.id());
            assert!(accepted.len() < 1000, "it never filled up");
        };
        assert_eq!(
            (refused.status, refused.between(r#""code":""#).as_str()),
            (507, "storage_full")
        );
        // What was there is there, and reading goes on.
        for id in &accepted {
            assert_eq!(sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await.status, 200);
        }
        assert_eq!(
            sandbox.control("POST /_sandbox/reset", r#"{"organization":"Sandbox"}"#).await.status,
            204
        );
        assert_eq!(sandbox.call("POST /api/v1/emails", &body).await.status, 202);
        sandbox.settle().await;
        sandbox.server.stop().await;
    }
}

/// A disk that is full for everybody: the log cannot grow, and no checkpoint
/// can make room.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing_and_recovers() {
    // Before the first checkpoint, and when the log is as large as the database.
    for size in ["6m", "24m"] {
        on_a_disk(&format!("size={size}"), "full::on_a_small_disk");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_cannot_write_says_so_and_starts_once_it_can() {
    for options in ["size=16k", "size=200k", "ro"] {
        on_a_disk(options, "full::on_a_disk_that_cannot_be_written");
    }
}

/// Runs a test on a file system of its own, in a mount namespace of its own;
/// where there is none this says so, and fails if `SVC_TEST_SMALL_DISK=1`
/// demands it.
#[cfg(target_os = "linux")]
fn on_a_disk(options: &str, test: &str) {
    use std::io::Write as _;
    use std::process::Command;

    let directory = tempfile::tempdir().expect("a directory");
    let program = std::env::current_exe().expect("this program");
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        command.arg(directory.path()).arg(&program);
        command.env("SVC_SMALL_DISK", directory.path());
        command.output()
    };
    let tried = in_namespace(r#"mount -t tmpfs -o size=1m tmpfs "$1""#);
    if !tried.as_ref().is_ok_and(|output| output.status.success()) {
        let demanded = std::env::var_os("SVC_TEST_SMALL_DISK").is_some_and(|value| value == "1");
        assert!(!demanded, "SVC_TEST_SMALL_DISK=1, but no file system can be mounted: {tried:?}");
        // Past the harness, which keeps what a passing test prints to itself.
        let said = std::io::stderr().write_all(b"NOT RUN: no file system can be mounted here\n");
        said.expect("written");
        return;
    }
    let script = format!(
        r#"mount -t tmpfs -o {options} tmpfs "$1" && exec "$2" {test} --exact --ignored --nocapture"#
    );
    let output = in_namespace(&script).expect("it runs");
    assert!(output.status.success(), "{options}: {}", String::from_utf8_lossy(&output.stderr));
}

/// No test of its own: a server that finds no room, or may not write.
#[cfg(target_os = "linux")]
#[tokio::test]
#[ignore = "started by the test above, on a disk of its own"]
async fn on_a_disk_that_cannot_be_written() {
    use svc_reference_server::{Server, StartError};

    let disk = std::env::var("SVC_SMALL_DISK").expect("a directory");
    let directory = std::path::Path::new(&disk).join("data");
    let refused = Server::builder().data_dir(&directory).start().await;
    let error = refused.expect_err("it cannot be written");
    let is_clear = match &error {
        StartError::Directory { directory: named, .. } => *named == directory,
        StartError::Database(what) => what.contains("full"),
        _ => false,
    };
    assert!(is_clear, "{error:?}");

    remount("rw,size=200m", &disk);
    let sandbox = Sandbox::with(|builder| builder.data_dir(&directory)).await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
    sandbox.server.stop().await;
}

#[cfg(target_os = "linux")]
fn remount(options: &str, disk: &str) {
    let options = format!("remount,{options}");
    let mount = std::process::Command::new("mount").args(["-o", &options, disk]).status();
    assert!(mount.expect("mount runs").success());
}

/// No test of its own: what happens on the small disk.
#[cfg(target_os = "linux")]
#[tokio::test]
#[ignore = "started by the test above, on a disk of its own"]
async fn on_a_small_disk() {
    let disk = std::env::var("SVC_SMALL_DISK").expect("a directory");
    let directory = std::path::Path::new(&disk).join("data");
    let receiver = Receiver::start(&[]).await;
    let sandbox = Sandbox::with(|builder| builder.data_dir(&directory)).await;
    let body = format!(r#"{{"url":"{}","events":["email.delivered"]}}"#, receiver.url());
    assert_eq!(sandbox.call("POST /api/v1/webhooks", &body).await.status, 201);
    let email = |text: usize| {
        let text = "x".repeat(text);
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"{text}"}}"#)
    };
    // Quickly at first, and then so that little room is left.
    let mut body = email(400_000);
    let before = sandbox.freeze().await;
    let mut accepted = Vec::new();
    // Due a minute from now, by a clock that stands still: more than the room
    // that will be left, which is at most what one refused email needs.
    let later = r#"{"from":"a@sandbox.test","to":"delayed@x.test","subject":"s"}"#;
    let later = format!("[{}]", [later; 100].join(","));
    let answer = sandbox.call("POST /api/v1/emails/batch", &later).await;
    let ids = answer.body.split(r#""id":""#).skip(1).filter_map(|one| one.split('"').next());
    accepted.extend(ids.map(str::to_owned));
    assert_eq!((answer.status, accepted.len()), (200, 100));
    let mut refused = 0;
    while refused < 20 {
        let answer = sandbox.call("POST /api/v1/emails", &body).await;
        match answer.status {
            202 => accepted.push(answer.id()),
            507 | 503 => {
                refused += 1;
                body = email(50_000);
            }
            _ => panic!("{answer:?}"),
        }
        assert!(accepted.len() < 1200, "it never filled up");
    }
    // Reading goes on.
    let found = sandbox.call(&format!("GET /api/v1/emails/{}", accepted[0]), "").await;
    assert_eq!(found.status, 200);

    // A reset needs room, too: it says so, and nothing is other than it was.
    let keys = sandbox.control("GET /_sandbox/keys", "").await.body;
    for what in ["", r#"{"organization":"Sandbox"}"#] {
        let answer = sandbox.control("POST /_sandbox/reset", what).await;
        assert_eq!((answer.status, answer.between(r#""code":""#).as_str()), (507, "storage_full"));
        assert!(answer.body.contains("stop the server and delete /"), "{answer:?}");
        let found = sandbox.call(&format!("GET /api/v1/emails/{}", accepted[0]), "").await;
        assert_eq!(found.status, 200, "{found:?}");
        assert_eq!(sandbox.call("POST /api/v1/emails", &body).await.status, 507);
        assert_eq!(sandbox.control("GET /_sandbox/keys", "").await.body, keys);
    }
    let clock = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(clock.body.contains(&format!(r#""now":"{before}","frozen":true"#)), "{clock:?}");
    // An advance would wait for what cannot be written. Whether it came to it or
    // was refused at once is a question of a few bytes: not all of it happened.
    let refused = sandbox.control("POST /_sandbox/clock", r#"{"advance":"1h"}"#).await;
    assert_eq!(refused.status, 507, "{refused:?}");
    let clock = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(clock.body.contains(r#""frozen":true"#), "{clock:?}");
    assert!(!clock.body.contains(r#""settled":true,"next_due":null"#), "{clock:?}");
    // With no page left the clock does not move at all.
    let mut kept = 0;
    while sandbox.control("POST /_sandbox/clock", r#"{"freeze":true}"#).await.status != 507 {
        kept += 1;
        assert!(kept < 1000, "it never filled up");
    }
    let now = || async { sandbox.control("GET /_sandbox/clock", "").await.between(r#""now":""#) };
    let before = now().await;
    let refused = sandbox.control("POST /_sandbox/clock", r#"{"advance":"1h"}"#).await;
    assert_eq!((refused.status, now().await), (507, before), "{refused:?}");

    remount("size=200m", &disk);
    let answer = sandbox.call("POST /api/v1/emails", &body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    accepted.push(answer.id());
    sandbox.advance("1h").await;
    for id in &accepted {
        let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
        assert_eq!(found.between(r#""status":""#), "delivered");
    }
    let told: String = receiver.received().into_iter().map(|one| one.body).collect();
    assert!(accepted.iter().all(|id| told.contains(id.as_str())), "an event is missing");
    sandbox.server.stop().await;
    let database = rusqlite::Connection::open(directory.join("svc.db")).expect("opened");
    let check: String =
        database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
    assert_eq!(check, "ok");
}
