//! The three networks that a server can be for, and what each allows.

use std::net::SocketAddr;

use svc_reference_server::{Network, Server, StartError, find_running};

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox, private_dir, public};
use crate::raw::{self, RawResponse};
use crate::receiver::Receiver;

/// Sends a request under any host name, with these header lines.
async fn send(sandbox: &Sandbox, line: &str, host: &str, headers: &str, body: &str) -> RawResponse {
    let addr = SocketAddr::from(([127, 0, 0, 1], sandbox.addr().port()));
    let length = body.len();
    let content = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
    let text = format!("{line} HTTP/1.1\r\nhost: {host}\r\n{headers}{content}\r\n{body}");
    raw::send(addr, text.as_bytes()).await
}

fn key(key: &str) -> String {
    format!("authorization: Bearer {key}\r\n")
}

#[tokio::test]
async fn an_address_beyond_loopback_needs_a_network() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let error = Server::builder()
        .addr(everywhere)
        .start()
        .await
        .expect_err("refused");
    assert!(
        matches!(error, StartError::BeyondLoopback { .. }),
        "{error:?}"
    );

    let message = error.to_string();
    assert!(
        message.contains("`trusted`") && message.contains("`public`"),
        "{message}"
    );

    let error = Server::builder()
        .network(Network::Public)
        .start()
        .await
        .expect_err("refused");
    assert!(matches!(error, StartError::NoAddress), "{error:?}");
}

/// As in a network of containers: by the name of the service, with the seeded keys.
#[tokio::test]
async fn a_trusted_server_is_used_by_any_name() {
    let sandbox = Sandbox::with(|builder| builder.network(Network::Trusted)).await;
    assert!(sandbox.addr().ip().is_unspecified());
    assert_eq!(sandbox.server.control_token(), None);

    let host = format!("sandbox:{}", sandbox.addr().port());
    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let sent = send(&sandbox, "POST /api/v1/emails", &host, &key(KEY), email).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    assert_eq!(
        send(&sandbox, "GET /v1/me", &host, &key(EXTRACTION_KEY), "")
            .await
            .status,
        200
    );
    assert_eq!(
        send(&sandbox, "GET /_sandbox/keys", &host, "", "")
            .await
            .status,
        200
    );

    let foreign = "origin: http://app:3000\r\n";
    assert_eq!(
        send(&sandbox, "GET /_sandbox/keys", &host, foreign, "")
            .await
            .status,
        403
    );

    for url in [
        "http://app:3000/hooks",
        "http://10.0.0.1/",
        "http://169.254.1.2/",
    ] {
        let email = format!(r#"{{"url":"{url}","events":["email.sent"]}}"#);
        let created = send(&sandbox, "POST /api/v1/webhooks", &host, &key(KEY), &email).await;
        assert_eq!(created.status, 201, "{created:?}");
        let extraction = format!(r#"{{"url":"{url}","events":["extraction.failed"]}}"#);
        let created = send(
            &sandbox,
            "POST /v1/webhooks",
            &host,
            &key(EXTRACTION_KEY),
            &extraction,
        )
        .await;
        assert_eq!(created.status, 201, "{created:?}");
    }
}

/// Container runtimes probe by an address that the server does not know, without a token.
#[tokio::test]
async fn probes_need_neither_a_known_host_nor_the_token() {
    for sandbox in [
        Sandbox::start().await,
        Sandbox::with(|builder| builder.network(Network::Trusted)).await,
        Sandbox::public().await,
    ] {
        for path in ["/readyz", "/_sandbox/health"] {
            for host in ["sandbox:4080", "10.1.2.3:8080", "anything.test"] {
                let probe = send(&sandbox, &format!("GET {path}"), host, "", "").await;
                assert_eq!(probe.status, 200, "{path} as {host}: {probe:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_token_and_keys_of_ones_own() {
    let directory = private_dir();
    let builder = Server::builder().data_dir(directory.path());
    let builder = builder
        .email_key("mk_test_ours")
        .extraction_key("sk_test_ours");
    let builder = builder.control_token("ours");
    let sandbox = Sandbox::of(builder.start().await.expect("started"));
    assert_eq!(sandbox.server.control_token(), Some("ours"));
    assert_eq!(sandbox.raw("GET /_sandbox/keys", "", "").await.status, 401);
    assert_eq!(sandbox.control("GET /_sandbox/keys", "").await.status, 200);
    assert_eq!(sandbox.call("GET /api/v1/domains", "").await.status, 401);
    assert_eq!(
        sandbox
            .with_key("mk_test_ours", "GET /api/v1/domains", "")
            .await
            .status,
        200
    );
    assert_eq!(
        sandbox
            .with_key("sk_test_ours", "GET /v1/me", "")
            .await
            .status,
        200
    );

    // Programs of the same user find them.
    let found = find_running(directory.path()).expect("running");
    assert_eq!(
        (found.email_key(), found.control_token()),
        (Some("mk_test_ours"), Some("ours"))
    );

    let shown = format!("{found:?} {:?}", sandbox.server);
    assert!(!shown.contains("ours"), "{shown}");

    sandbox.server.stop().await;

    // A later start with other keys adds them.
    let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path())).await;
    assert_eq!(sandbox.call("GET /api/v1/domains", "").await.status, 200);
    assert_eq!(
        sandbox
            .with_key("mk_test_ours", "GET /api/v1/domains", "")
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn tracking_links_lead_to_where_the_email_was_sent() {
    let links = async |sandbox: &Sandbox, host: &str| {
        let receiver = Receiver::start(&[]).await;
        let webhook = format!(
            r#"{{"url":"{}","events":["email.clicked"]}}"#,
            receiver.url()
        );
        send(sandbox, "POST /api/v1/webhooks", host, &key(KEY), &webhook).await;
        let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","html":"<a href='https://a.test/'>A</a>"}"#;
        let id = send(sandbox, "POST /api/v1/emails", host, &key(KEY), email)
            .await
            .id();
        sandbox.settle().await;
        let list = send(sandbox, "GET /_sandbox/messages?limit=1", host, "", "").await;
        let line = format!("GET /_sandbox/messages/{}/html", list.id());
        let html = send(sandbox, &line, host, "", "").await.body;
        html.split_once(&format!("/t/c/{id}"))
            .expect("a tracked link")
            .0
            .to_owned()
    };

    let sandbox = Sandbox::with(|builder| builder.network(Network::Trusted)).await;
    let before = links(&sandbox, "sandbox:4080").await;
    assert!(before.ends_with("http://sandbox:4080"), "{before}");

    let sandbox = Sandbox::with(|builder| {
        builder
            .public_url("https://mail.example/box/")
            .expect("a URL")
    });
    let before = links(&sandbox.await, "localhost").await;
    assert!(before.ends_with("https://mail.example/box"), "{before}");

    for wrong in [
        "mail.example",
        "ftp://a.test",
        "https://u:p@a.test",
        "https://a.test/?x",
    ] {
        assert!(Server::builder().public_url(wrong).is_err(), "{wrong}");
    }
}

/// As volumes of Kubernetes and OpenShift are.
#[cfg(unix)]
#[tokio::test]
async fn a_trusted_server_accepts_a_directory_that_others_can_write_to() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = private_dir();
    let path = directory.path().join("volume");
    for mode in [0o777, 0o2775] {
        std::fs::create_dir(&path).expect("created");
        std::fs::write(path.join("lost+found"), "").expect("written");
        let set = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, set).expect("set");
        let start = |network| Server::builder().network(network).data_dir(&path).start();
        let error = start(Network::Loopback).await.expect_err("refused");
        assert!(matches!(error, StartError::Directory { .. }), "{error:?}");
        start(Network::Trusted).await.expect("started").stop().await;
        std::fs::remove_dir_all(&path).expect("removed");
    }
}

#[tokio::test]
async fn the_time_and_the_clients_of_a_server() {
    let sandbox = Sandbox::start().await;
    let frozen = sandbox.freeze().await;
    assert_eq!(
        sandbox
            .server
            .now()
            .to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        frozen
    );

    // A receiver in the same test has no TLS.
    let webhook = svc_sdk::email::NewWebhook::new("http://127.0.0.1:9/", ["email.sent"]);
    let client = sandbox.server.email_client().expect("a client");
    client.webhooks().create(&webhook).await.expect("created");
    let tenant = sandbox.server.tenant("Lovelace").await.expect("a tenant");
    tenant
        .email
        .webhooks()
        .create(&webhook)
        .await
        .expect("created");
    drop(public(Server::builder()));
}
