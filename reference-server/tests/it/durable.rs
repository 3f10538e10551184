//! Durability: confirmed data survives a restart, and one data directory has one
//! server.

use svc_reference_server::{Builder, Server, StartError, find_running};

use crate::harness::{EXTRACTION_KEY, Sandbox, private_dir, public};
use crate::receiver::Receiver;

fn on(directory: &tempfile::TempDir) -> impl FnOnce(Builder) -> Builder + use<> {
    let path = directory.path().to_owned();
    move |builder| builder.data_dir(path)
}

#[tokio::test]
async fn data_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::with(on(&directory)).await;
    let now = sandbox.freeze().await;
    let receiver = Receiver::start(&[500]).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.delivered"]}}"#,
        receiver.url()
    );
    sandbox.call("POST /api/v1/webhooks", &body).await;
    let audience = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await;
    let (id, revoked) = sandbox.email_key(r#""emails:read""#).await;
    let (_, kept) = sandbox.email_key(r#""emails:read""#).await;
    sandbox
        .control(&format!("DELETE /_sandbox/keys/{id}"), "")
        .await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"Hello"}"#;
    let email = sandbox.call("POST /api/v1/emails", body).await.id();
    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 1);

    sandbox.server.stop().await;

    let sandbox = Sandbox::with(on(&directory)).await;
    let state = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(
        state
            .body
            .starts_with(&format!(r#"{{"now":"{now}","frozen":true"#)),
        "{state:?}"
    );

    let found = sandbox
        .call(&format!("GET /api/v1/audiences/{}", audience.id()), "")
        .await;
    assert_eq!((found.status, &found.body), (200, &audience.body));

    let found = sandbox
        .call(&format!("GET /api/v1/emails/{email}"), "")
        .await;
    assert!(found.body.contains(r#""text":"Hello""#), "{found:?}");
    assert_eq!(
        sandbox
            .with_key(&revoked, "GET /api/v1/emails/x", "")
            .await
            .status,
        401
    );
    assert_eq!(
        sandbox
            .with_key(&kept, "GET /api/v1/emails/x", "")
            .await
            .status,
        404
    );

    // The DNS zone is restored, too: verification looks it up.
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    let verified = sandbox
        .call(&format!("POST /api/v1/domains/{domain}/verify"), "")
        .await;
    assert!(
        verified.body.contains(r#""verified":true,"records""#),
        "{verified:?}"
    );

    // The pending retry is made.
    sandbox.advance("2s").await;
    let received = receiver.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].body, received[1].body);
}

/// The seeded API keys and the seeded DKIM key are public.
#[tokio::test]
async fn seeded_keys_do_not_work_on_a_reachable_server() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::with(on(&directory)).await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);

    sandbox.settle().await;
    let message = sandbox.control("GET /_sandbox/messages", "").await.id();
    let raw_message = format!("GET /_sandbox/messages/{message}/raw?organization=Sandbox");
    let signed = |source: &str| source.starts_with("DKIM-Signature:");
    assert!(signed(&sandbox.control(&raw_message, "").await.body));

    sandbox.server.stop().await;

    let open = Sandbox::with(|builder| public(on(&directory)(builder))).await;
    assert_eq!(open.call("GET /api/v1/domains", "").await.status, 401);
    assert_eq!(
        open.with_key(EXTRACTION_KEY, "GET /v1/me", "").await.status,
        401
    );

    let source = open.control(&raw_message, "").await;
    assert!(source.status == 200 && !signed(&source.body), "{source:?}");

    open.server.stop().await;

    let sandbox = Sandbox::with(on(&directory)).await;
    assert_eq!(sandbox.call("GET /api/v1/domains", "").await.status, 200);
}

/// The server is dropped without a stop, as if the process was killed. The next server
/// completes the due work.
#[tokio::test]
async fn a_dropped_server_loses_no_confirmed_data() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(&[]).await;
    let sandbox = Sandbox::with(on(&directory)).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.delivered"]}}"#,
        receiver.url()
    );
    sandbox.call("POST /api/v1/webhooks", &body).await;
    let mut ids = Vec::new();
    for number in 0..50 {
        let body = format!(r#"{{"from":"a@sandbox.test","to":"r{number}@x.test","subject":"s"}}"#);
        ids.push(sandbox.call("POST /api/v1/emails", &body).await.id());
    }

    drop(sandbox);

    let sandbox = restarted(&directory).await;
    sandbox.settle().await;
    for id in &ids {
        let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
        assert_eq!(found.between(r#""status":""#), "delivered");
    }

    let received = receiver.received();
    for id in &ids {
        assert!(
            received.iter().any(|one| one.body.contains(id.as_str())),
            "no event for {id}"
        );
    }
}

/// Starts a server on the directory of a dropped one, which releases it when its last
/// task ends.
async fn restarted(directory: &tempfile::TempDir) -> Sandbox {
    for _ in 0..6000 {
        match on(directory)(Server::builder()).start().await {
            Ok(server) => return Sandbox::of(server),
            Err(StartError::InUse { .. }) => {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the data directory was not released within 60 s");
}

#[tokio::test]
async fn a_second_server_fails_and_names_the_first() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(find_running(directory.path()), None);

    let first = on(&directory)(Server::builder()).start().await.unwrap();
    let found = find_running(directory.path()).expect("the first server");
    assert_eq!(found.base_url(), first.base_url());
    assert_eq!(found.pid, std::process::id());

    let error = on(&directory)(Server::builder()).start().await.unwrap_err();
    assert!(error.to_string().contains(&first.base_url()), "{error}");

    let StartError::InUse {
        running: Some(other),
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(other.http, first.addresses().http);

    first.stop().await;
    assert_eq!(find_running(directory.path()), None);

    on(&directory)(Server::builder())
        .start()
        .await
        .unwrap()
        .stop()
        .await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_whose_directory_was_removed_leaves_that_of_the_next() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    let first = Server::builder().data_dir(&path).start().await.unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let second = Server::builder().data_dir(&path).start().await.unwrap();
    first.stop().await;
    let found = find_running(&path).expect("the second server");
    assert_eq!(found.http, second.addresses().http);

    second.stop().await;
    assert_eq!(find_running(&path), None);
    assert!(!path.join("server.json").exists());
}

/// Data written to a deleted or moved file would be lost.
#[cfg(unix)]
#[tokio::test]
async fn writes_fail_once_the_directory_is_removed() {
    const SEND: &str = "POST /api/v1/emails";
    const EMAIL: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;

    let above = private_dir();
    let [directory, elsewhere] = ["data", "elsewhere"].map(|name| above.path().join(name));
    let sandbox = Sandbox::with(|builder| builder.data_dir(&directory)).await;
    assert_eq!(sandbox.call(SEND, EMAIL).await.status, 202);

    sandbox.settle().await;

    std::fs::rename(&directory, &elsewhere).unwrap();
    let rejected = sandbox.call(SEND, EMAIL).await;
    assert_eq!(
        (rejected.status, rejected.between(r#""code":""#).as_str()),
        (503, "unavailable"),
        "{rejected:?}"
    );

    // Another server may use the directory by now.
    let other = Sandbox::with(|builder| builder.data_dir(&directory)).await;
    assert_eq!(other.call(SEND, EMAIL).await.status, 202);
    assert_eq!(sandbox.call(SEND, EMAIL).await.status, 503);

    other.server.stop().await;

    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::rename(&elsewhere, &directory).unwrap();
    assert_eq!(sandbox.call(SEND, EMAIL).await.status, 202);

    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(sandbox.call(SEND, EMAIL).await.status, 503);

    sandbox.server.stop().await;
    assert!(!directory.exists());
}

#[tokio::test]
async fn an_address_in_use_is_named_in_the_error() {
    let first = Server::builder().start().await.unwrap();
    let addr = first.addresses().http;
    let error = Server::builder().addr(addr).start().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {addr} for http")
    );
}

/// The database contains emails and secrets.
#[cfg(unix)]
#[tokio::test]
async fn files_are_readable_by_the_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = private_dir();
    let modes = || {
        let files = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|file| file.unwrap());
        let modes = files.map(|file| {
            let mode = file.metadata().unwrap().permissions().mode() & 0o777;
            (file.file_name().into_string().unwrap(), format!("{mode:o}"))
        });
        modes.collect::<std::collections::BTreeMap<_, _>>()
    };

    // A file with default permissions, as an earlier version may have left it.
    std::fs::write(directory.path().join("server.lock"), "").unwrap();
    let sandbox = Sandbox::with(on(&directory)).await;
    sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await;
    let names = [
        "server.json",
        "server.lock",
        "svc.db",
        "svc.db-shm",
        "svc.db-wal",
    ];
    let expected = names.map(|name| (name.to_owned(), "600".to_owned()));
    assert_eq!(modes(), expected.into());

    sandbox.server.stop().await;
    assert!(modes().values().all(|mode| mode == "600"), "{:?}", modes());
}
