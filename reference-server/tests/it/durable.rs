//! What was answered is there after a restart.

use svc_reference_server::{Builder, Server, StartError, find_running};

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};
use crate::raw;
use crate::receiver::Receiver;

fn on(directory: &tempfile::TempDir) -> impl FnOnce(Builder) -> Builder + use<> {
    let path = directory.path().to_owned();
    move |builder| builder.data_dir(path)
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::with(on(&directory)).await;
    let now = sandbox.freeze().await;
    let receiver = Receiver::start(&[500]).await;
    let body = format!(r#"{{"url":"{}","events":["email.delivered"]}}"#, receiver.url());
    sandbox.call("POST /api/v1/webhooks", &body).await;
    let audience = sandbox.call("POST /api/v1/audiences", r#"{"name":"a"}"#).await;
    let (id, revoked) = sandbox.email_key(r#""emails:read""#).await;
    let (_, kept) = sandbox.email_key(r#""emails:read""#).await;
    sandbox.control(&format!("DELETE /_sandbox/keys/{id}"), "").await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"Hello"}"#;
    let email = sandbox.call("POST /api/v1/emails", body).await.id();
    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 1);
    sandbox.server.stop().await;

    let sandbox = Sandbox::with(on(&directory)).await;
    let state = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(state.body.starts_with(&format!(r#"{{"now":"{now}","frozen":true"#)), "{state:?}");
    let found = sandbox.call(&format!("GET /api/v1/audiences/{}", audience.id()), "").await;
    assert_eq!((found.status, &found.body), (200, &audience.body));
    let found = sandbox.call(&format!("GET /api/v1/emails/{email}"), "").await;
    assert!(found.body.contains(r#""text":"Hello""#), "{found:?}");
    assert_eq!(sandbox.with_key(&revoked, "GET /api/v1/emails/x", "").await.status, 401);
    assert_eq!(sandbox.with_key(&kept, "GET /api/v1/emails/x", "").await.status, 404);
    // The DNS zone, too: it is looked up.
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    let verified = sandbox.call(&format!("POST /api/v1/domains/{domain}/verify"), "").await;
    assert!(verified.body.contains(r#""verified":true,"records""#), "{verified:?}");
    // And the delivery that was to be retried.
    sandbox.advance("2s").await;
    let received = receiver.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].body, received[1].body);
}

/// Everybody knows the keys of the seeds, the one that signs among them.
#[tokio::test]
async fn what_was_seeded_is_worth_nothing_once_others_reach_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::with(on(&directory)).await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
    sandbox.settle().await;
    let message = sandbox.control("GET /_sandbox/messages", "").await.id();
    let shown = format!("GET /_sandbox/messages/{message}/raw?organization=Sandbox");
    let signed = |source: &str| source.starts_with("DKIM-Signature:");
    assert!(signed(&sandbox.control(&shown, "").await.body));
    sandbox.server.stop().await;

    let open = Sandbox::with(|builder| on(&directory)(builder).public(true)).await;
    assert_eq!(open.call("GET /api/v1/domains", "").await.status, 401);
    assert_eq!(open.with_key(EXTRACTION_KEY, "GET /v1/me", "").await.status, 401);
    let source = open.control(&shown, "").await;
    assert!(source.status == 200 && !signed(&source.body), "{source:?}");
    open.server.stop().await;

    let everywhere = "0.0.0.0:0".parse().unwrap();
    let open = Sandbox::with(|builder| on(&directory)(builder).addr(everywhere)).await;
    let (host, token) = (format!("127.0.0.1:{}", open.addr().port()), open.server.control_token());
    let ask = |line: &str, key: &str| {
        let text =
            format!("{line} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\r\n");
        let addr = host.parse().unwrap();
        async move { raw::send(addr, text.as_bytes()).await }
    };
    assert_eq!(ask("GET /api/v1/domains", KEY).await.status, 401);
    let source = ask(&shown, token.expect("a token")).await;
    assert!(source.status == 200 && !signed(&source.body), "{source:?}");
    open.server.stop().await;

    let sandbox = Sandbox::with(on(&directory)).await;
    assert_eq!(sandbox.call("GET /api/v1/domains", "").await.status, 200);
}

/// Dropped in the middle, as when the process is killed: what was answered is
/// there, and what was due is done by the next one.
#[tokio::test]
async fn a_server_that_did_not_stop_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(&[]).await;
    let sandbox = Sandbox::with(on(&directory)).await;
    let body = format!(r#"{{"url":"{}","events":["email.delivered"]}}"#, receiver.url());
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
        assert!(received.iter().any(|one| one.body.contains(id.as_str())), "no event of {id}");
    }
}

/// A dropped server lets go of its directory as soon as its last task ends.
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
    panic!("the directory was not let go of");
}

#[tokio::test]
async fn a_second_server_is_refused_and_names_the_first() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(find_running(directory.path()), None);
    let first = on(&directory)(Server::builder()).start().await.unwrap();
    let found = find_running(directory.path()).expect("the first");
    assert_eq!(found.base_url(), first.base_url());
    assert_eq!(found.pid, std::process::id());

    let error = on(&directory)(Server::builder()).start().await.unwrap_err();
    assert!(error.to_string().contains(&first.base_url()), "{error}");
    let StartError::InUse { running: Some(other), .. } = error else { panic!("{error}") };
    assert_eq!(other.http, first.addresses().http);

    first.stop().await;
    assert_eq!(find_running(directory.path()), None);
    on(&directory)(Server::builder()).start().await.unwrap().stop().await;
}

/// What is written to a file that nobody can find any more is not kept.
#[cfg(unix)]
#[tokio::test]
async fn nothing_is_accepted_once_the_directory_is_gone() {
    const SEND: &str = "POST /api/v1/emails";
    const EMAIL: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let above = tempfile::tempdir().unwrap();
    let [directory, elsewhere] = ["data", "elsewhere"].map(|name| above.path().join(name));
    let sandbox = Sandbox::with(|builder| builder.data_dir(&directory)).await;
    assert_eq!(sandbox.call(SEND, EMAIL).await.status, 202);
    sandbox.settle().await;

    std::fs::rename(&directory, &elsewhere).unwrap();
    let refused = sandbox.call(SEND, EMAIL).await;
    assert_eq!(
        (refused.status, refused.between(r#""code":""#).as_str()),
        (503, "unavailable"),
        "{refused:?}"
    );
    // Another server may have the place by now.
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
async fn an_address_that_is_taken_is_named() {
    let first = Server::builder().start().await.unwrap();
    let addr = first.addresses().http;
    let error = Server::builder().addr(addr).start().await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {addr} for http"));
}

/// The database holds emails and secrets.
#[cfg(unix)]
#[tokio::test]
async fn its_files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let modes = || {
        let files = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap());
        let modes = files.map(|file| {
            let mode = file.metadata().unwrap().permissions().mode() & 0o777;
            (file.file_name().into_string().unwrap(), format!("{mode:o}"))
        });
        modes.collect::<std::collections::BTreeMap<_, _>>()
    };
    // One that an earlier version made.
    std::fs::write(directory.path().join("server.lock"), "").unwrap();
    let sandbox = Sandbox::with(on(&directory)).await;
    sandbox.call("POST /api/v1/audiences", r#"{"name":"a"}"#).await;
    let names = ["server.json", "server.lock", "svc.db", "svc.db-shm", "svc.db-wal"];
    let expected = names.map(|name| (name.to_owned(), "600".to_owned()));
    assert_eq!(modes(), expected.into());
    sandbox.server.stop().await;
    assert!(modes().values().all(|mode| mode == "600"), "{:?}", modes());
}
