//! Full and read-only disks: requests fail with 507, nothing is stored partially, and
//! the server recovers once there is space.

use crate::harness::Sandbox;
use crate::receiver::Receiver;

const LIMIT: u64 = 2 << 20;

#[tokio::test]
async fn a_full_database_returns_507_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    for on_disk in [true, false] {
        let sandbox = Sandbox::with(|builder| {
            let builder = builder.limits(|limits| limits.max_database_bytes = Some(LIMIT));
            if on_disk {
                builder.data_dir(directory.path())
            } else {
                builder
            }
        })
        .await;
        let body = format!(
            r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"{}"}}"#,
            "x".repeat(200_000)
        );
        let mut accepted = Vec::new();
        let rejected = loop {
            let response = sandbox.call("POST /api/v1/emails", &body).await;
            if response.status != 202 {
                break response;
            }
            accepted.push(response.id());
            assert!(accepted.len() < 1000, "the database never filled up");
        };
        assert_eq!(
            (rejected.status, rejected.between(r#""code":""#).as_str()),
            (507, "storage_full")
        );
        // Existing data is kept and readable.
        for id in &accepted {
            assert_eq!(
                sandbox
                    .call(&format!("GET /api/v1/emails/{id}"), "")
                    .await
                    .status,
                200
            );
        }
        assert_eq!(
            sandbox
                .control("POST /_sandbox/reset", r#"{"organization":"Sandbox"}"#)
                .await
                .status,
            204
        );
        assert_eq!(sandbox.call("POST /api/v1/emails", &body).await.status, 202);
        sandbox.settle().await;
        sandbox.server.stop().await;
    }
}

/// Otherwise the advance would wait until somebody makes room.
#[tokio::test]
async fn an_advance_fails_while_an_outcome_has_no_room() {
    let endpoint = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sandbox =
        Sandbox::with(|builder| builder.limits(|limits| limits.max_database_bytes = Some(LIMIT)))
            .await;
    let url = format!("http://{}/", endpoint.local_addr().unwrap());
    let webhook = format!(r#"{{"url":"{url}","events":["email.delivered"]}}"#);
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &webhook).await.status,
        201
    );

    let email = |more: &str| {
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"x"{more}}}"#)
    };
    assert_eq!(
        sandbox.call("POST /api/v1/emails", &email("")).await.status,
        202
    );

    let (mut attempt, _) = endpoint.accept().await.unwrap();
    // Emails that are not due for centuries take all the space.
    let later = |size: usize| {
        email(&format!(
            r#","scheduledAt":"2999-01-01","html":"{}""#,
            "x".repeat(size)
        ))
    };

    for size in [100_000, 3_000, 1] {
        while sandbox
            .call("POST /api/v1/emails", &later(size))
            .await
            .status
            == 202
        {}
    }

    // The record of the attempt needs a page for the body of the response.
    let body = "y".repeat(4096);
    let response = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    tokio::io::AsyncWriteExt::write_all(&mut attempt, response.as_bytes())
        .await
        .unwrap();
    let advance = sandbox
        .control("POST /_sandbox/clock", r#"{"advance":"1h"}"#)
        .await;
    assert_eq!(
        (advance.status, advance.between(r#""code":""#).as_str()),
        (507, "storage_full")
    );

    let reset = sandbox
        .control("POST /_sandbox/reset", r#"{"organization":"Sandbox"}"#)
        .await;
    assert_eq!(reset.status, 204);

    sandbox.advance("1h").await;
    sandbox.server.stop().await;
}

/// A full disk: the write-ahead log cannot grow, and no checkpoint can free space.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "mounts a file system in a user namespace"]
fn a_full_disk_loses_no_data_and_recovers() {
    // Full before the first checkpoint, and with a log as large as the database.
    for size in ["6m", "24m"] {
        run_on_tmpfs(&format!("size={size}"), "full::small_disk");
    }
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "mounts a file system in a user namespace"]
fn a_start_without_disk_space_fails_clearly_and_succeeds_later() {
    for options in ["size=16k", "size=200k", "ro"] {
        run_on_tmpfs(options, "full::unwritable_disk");
    }
}

/// Runs an ignored test of this program on a separate tmpfs, in a user and mount
/// namespace, which an ordinary user may create as well.
#[cfg(target_os = "linux")]
fn run_on_tmpfs(options: &str, test: &str) {
    use std::process::{Command, Stdio};

    let directory = tempfile::tempdir().expect("a directory");
    let program = std::env::current_exe().expect("this program");
    let in_namespace = |script: &str| {
        // Exits with 124 after 300 s.
        let mut command = Command::new("timeout");
        command.args(["300", "unshare", "--user", "--map-root-user", "--mount"]);
        command.args(["sh", "-c", script, "sh"]);
        command.arg(directory.path()).arg(&program);
        command.env("SVC_SMALL_DISK", directory.path());
        command.stdin(Stdio::null()).output()
    };

    let script = format!(
        r#"mount -t tmpfs -o {options} tmpfs "$1" && exec "$2" {test} --exact --ignored --nocapture"#
    );
    let output = in_namespace(&script).expect("unshare runs");
    let status = output.status;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        status.success(),
        "{test} with {options}: {status}: {stderr}"
    );
}

/// Not a test by itself: starts a server on a disk without space or write permission.
#[cfg(target_os = "linux")]
#[tokio::test]
#[ignore = "started by a test above, on a separate file system"]
async fn unwritable_disk() {
    use svc_reference_server::{Server, StartError};

    let disk = std::env::var("SVC_SMALL_DISK").expect("a directory");
    let directory = std::path::Path::new(&disk).join("data");
    let rejected = Server::builder().data_dir(&directory).start().await;
    let error = rejected.expect_err("the disk is not writable");
    let is_clear = match &error {
        StartError::Directory {
            directory: named, ..
        } => *named == directory,
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

/// Changes the options of the tmpfs.
///
/// Type and source are given explicitly. Otherwise `mount` would add the current options,
/// which include `uid=` and `gid=` with ids of the outer namespace if it runs for an
/// ordinary user. Those ids do not exist in this namespace, so the kernel rejects them.
#[cfg(target_os = "linux")]
fn remount(options: &str, disk: &str) {
    let options = format!("remount,{options}");
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", &options, "tmpfs", disk])
        .status();
    assert!(
        mount.expect("mount runs").success(),
        "cannot remount {disk} with {options}"
    );
}

/// Not a test by itself: fills a small disk and then enlarges it.
#[cfg(target_os = "linux")]
#[tokio::test]
#[ignore = "started by a test above, on a separate file system"]
async fn small_disk() {
    let disk = std::env::var("SVC_SMALL_DISK").expect("a directory");
    let directory = std::path::Path::new(&disk).join("data");
    let receiver = Receiver::start(&[]).await;
    let sandbox = Sandbox::with(|builder| builder.data_dir(&directory)).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.delivered"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    let email = |text: usize| {
        let text = "x".repeat(text);
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"{text}"}}"#)
    };

    // Large emails first, then smaller ones to use up the remaining space.
    let mut body = email(400_000);
    let before = sandbox.freeze().await;
    let mut accepted = Vec::new();
    // Due in a minute, while the clock is frozen. Processing them needs more space than
    // will be left, which is at most the size of one rejected email.
    let later = r#"{"from":"a@sandbox.test","to":"delayed@x.test","subject":"s"}"#;
    let later = format!("[{}]", [later; 100].join(","));
    let response = sandbox.call("POST /api/v1/emails/batch", &later).await;
    let ids = response
        .body
        .split(r#""id":""#)
        .skip(1)
        .filter_map(|one| one.split('"').next());
    accepted.extend(ids.map(str::to_owned));
    assert_eq!((response.status, accepted.len()), (200, 100));

    let mut rejected = 0;
    while rejected < 20 {
        let response = sandbox.call("POST /api/v1/emails", &body).await;
        match response.status {
            202 => accepted.push(response.id()),
            507 | 503 => {
                rejected += 1;
                body = email(50_000);
            }
            _ => panic!("{response:?}"),
        }
        assert!(accepted.len() < 1200, "the database never filled up");
    }

    // Reads still work.
    let found = sandbox
        .call(&format!("GET /api/v1/emails/{}", accepted[0]), "")
        .await;
    assert_eq!(found.status, 200);

    // A reset needs space, too. It fails with a clear error and changes nothing.
    let keys = sandbox.control("GET /_sandbox/keys", "").await.body;
    for what in ["", r#"{"organization":"Sandbox"}"#] {
        let response = sandbox.control("POST /_sandbox/reset", what).await;
        assert_eq!(
            (response.status, response.between(r#""code":""#).as_str()),
            (507, "storage_full")
        );
        let found = sandbox
            .call(&format!("GET /api/v1/emails/{}", accepted[0]), "")
            .await;
        assert_eq!(found.status, 200, "{found:?}");
        assert_eq!(sandbox.call("POST /api/v1/emails", &body).await.status, 507);
        assert_eq!(sandbox.control("GET /_sandbox/keys", "").await.body, keys);
    }

    let clock = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(
        clock
            .body
            .contains(&format!(r#""now":"{before}","frozen":true"#)),
        "{clock:?}"
    );

    // An advance fails. It may have processed a part of the due work before the disk
    // was full, but not all of it.
    let rejected = sandbox
        .control("POST /_sandbox/clock", r#"{"advance":"1h"}"#)
        .await;
    assert_eq!(rejected.status, 507, "{rejected:?}");

    let clock = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(clock.body.contains(r#""frozen":true"#), "{clock:?}");
    assert!(
        !clock.body.contains(r#""settled":true,"next_due":null"#),
        "{clock:?}"
    );

    // Without a single free page, the clock does not move at all.
    let mut kept = 0;
    while sandbox
        .control("POST /_sandbox/clock", r#"{"freeze":true}"#)
        .await
        .status
        != 507
    {
        kept += 1;
        assert!(kept < 1000, "the database never filled up");
    }

    let now = || async {
        sandbox
            .control("GET /_sandbox/clock", "")
            .await
            .between(r#""now":""#)
    };

    let before = now().await;
    let rejected = sandbox
        .control("POST /_sandbox/clock", r#"{"advance":"1h"}"#)
        .await;
    assert_eq!(
        (rejected.status, now().await),
        (507, before),
        "{rejected:?}"
    );

    remount("size=200m", &disk);
    let response = sandbox.call("POST /api/v1/emails", &body).await;
    assert_eq!(response.status, 202, "{response:?}");

    accepted.push(response.id());
    sandbox.advance("1h").await;
    for id in &accepted {
        let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
        assert_eq!(found.between(r#""status":""#), "delivered");
    }

    let announced: String = receiver
        .received()
        .into_iter()
        .map(|one| one.body)
        .collect();
    assert!(
        accepted.iter().all(|id| announced.contains(id.as_str())),
        "an event is missing"
    );

    sandbox.server.stop().await;
    let database = rusqlite::Connection::open(directory.join("svc.db")).expect("opened");
    let check: String = database
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("checked");
    assert_eq!(check, "ok");
}
