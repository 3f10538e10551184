//! The control interface: access, keys, organizations and reset
//! (`docs/control-interface.md`).

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};
use crate::raw;
use crate::receiver::Receiver;

#[tokio::test]
async fn health_contains_all_addresses() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let health = sandbox.control("GET /_sandbox/health", "").await;
    let expected = format!(
        r#"{{"status":"ok","version":"{}","now":"{now}","addresses":{{"http":"http://{}","smtp":null,"dns":"{}"}},"dialect":{{}},"retry_delays_ms":{{"email":[2000,8000,32000],"extraction":[2000,4000,8000,16000,32000]}},"set_aside":0}}"#,
        env!("CARGO_PKG_VERSION"),
        sandbox.addr(),
        sandbox.server.addresses().dns,
    );
    assert_eq!(
        (health.status, health.body.as_str()),
        (200, expected.as_str())
    );
}

#[tokio::test]
async fn rejects_foreign_hosts_and_origins() {
    let sandbox = Sandbox::start().await;
    let addr = sandbox.addr();
    let get = async |headers: &str| {
        let text = format!("GET /_sandbox/keys HTTP/1.1\r\n{headers}\r\n");
        raw::send(addr, text.as_bytes()).await
    };

    for (headers, status, code) in [
        (format!("host: {addr}\r\n"), 200, ""),
        (format!("host: localhost:{}\r\n", addr.port()), 200, ""),
        (
            format!("host: {addr}\r\norigin: http://{addr}\r\n"),
            200,
            "",
        ),
        ("host: evil.test\r\n".to_owned(), 421, "wrong_host"),
        (
            format!("host: evil.test:{}\r\n", addr.port()),
            421,
            "wrong_host",
        ),
        (
            format!("host: {addr}\r\norigin: http://evil.test\r\n"),
            403,
            "forbidden",
        ),
        (
            format!("host: {addr}\r\norigin: null\r\n"),
            403,
            "forbidden",
        ),
        (
            format!("host: {addr}\r\norigin: http://localhost:3000\r\n"),
            403,
            "forbidden",
        ),
    ] {
        let response = get(&headers).await;
        assert_eq!(response.status, status, "{headers}");
        if !code.is_empty() {
            assert_eq!(response.between(r#""code":""#), code, "{headers}");
        }
    }

    // The request line may contain a host, too.
    for (named, status) in [(addr.to_string(), 200), ("evil.test".to_owned(), 421)] {
        let text = format!("GET http://{named}/_sandbox/keys HTTP/1.1\r\nhost: {addr}\r\n\r\n");
        assert_eq!(
            raw::send(addr, text.as_bytes()).await.status,
            status,
            "{named}"
        );
    }
}

#[tokio::test]
async fn lists_keys_without_their_secrets() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let created = sandbox
        .control(
            "POST /_sandbox/keys",
            r#"{"service":"email","scopes":["emails:read","emails:send","emails:read"]}"#,
        )
        .await;
    let (id, key) = (created.id(), created.between(r#""key":""#));
    let shown = format!(
        r#"{{"id":"{id}","service":"email","mode":"test","scopes":["emails:read","emails:send"]"#
    );
    let rest = r#""hint":null,"sha256":null"#;
    let expected = format!(r#"{shown},"scope":null,"key":"{key}",{rest},"createdAt":"{now}"}}"#);
    assert_eq!(
        (created.status, created.body.as_str()),
        (201, expected.as_str())
    );
    assert!(key.starts_with("mk_test_"), "{key}");

    let listed = sandbox.control("GET /_sandbox/keys", "").await;
    assert!(listed.body.contains(&shown), "{listed:?}");

    for secret in [&key, KEY, EXTRACTION_KEY] {
        assert!(!listed.body.contains(secret), "{listed:?}");
    }

    for body in [
        "{}",
        r#"{"service":"email"}"#,
        r#"{"service":"email","scopes":["full"]}"#,
        r#"{"service":"email","scopes":["emails:fly"]}"#,
        r#"{"service":"extraction"}"#,
        r#"{"service":"extraction","scope":"emails:send"}"#,
        r#"{"service":"extraction","scope":"full","mode":"prod"}"#,
        r#"{"service":"sms","scopes":[]}"#,
    ] {
        assert_eq!(
            sandbox.control("POST /_sandbox/keys", body).await.status,
            422,
            "{body}"
        );
    }

    assert_eq!(
        sandbox
            .control("DELETE /_sandbox/keys/key_x", "")
            .await
            .status,
        404
    );

    let other = sandbox
        .control("GET /_sandbox/keys?organization=Unknown", "")
        .await;
    assert_eq!(other.status, 404);
}

#[tokio::test]
async fn requires_an_organization_without_seed_data() {
    let sandbox = Sandbox::with(|builder| builder.seed(false)).await;
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 401);

    let rejected = sandbox.control("GET /_sandbox/keys", "").await;
    assert_eq!(
        (rejected.status, rejected.between(r#""field":""#).as_str()),
        (422, "organization")
    );

    let created = sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Mine"}"#)
        .await;
    for name in ["Mine", &created.id()] {
        let listed = sandbox
            .control(&format!("GET /_sandbox/keys?organization={name}"), "")
            .await;
        assert_eq!(
            (listed.status, listed.body.matches("key_").count()),
            (200, 2),
            "{name}"
        );
    }
}

#[tokio::test]
async fn resets_one_organization_or_the_server() {
    let sandbox = Sandbox::start().await;
    let created = sandbox.control("POST /_sandbox/organizations", "").await;
    let key = created.between(r#""email_key":""#);
    for key in [KEY, key.as_str()] {
        sandbox
            .with_key(key, "POST /api/v1/audiences", r#"{"name":"a"}"#)
            .await;
    }

    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    sandbox
        .call(&format!("DELETE /api/v1/domains/{domain}"), "")
        .await;

    let body = format!(r#"{{"organization":"{}"}}"#, created.id());
    let reset = sandbox.control("POST /_sandbox/reset", &body).await;
    assert_eq!((reset.status, reset.body.as_str()), (204, ""));
    // Its keys stay valid, and the other organization keeps its data.
    assert_eq!(
        sandbox
            .with_key(&key, "GET /api/v1/audiences", "")
            .await
            .body,
        "[]"
    );
    assert_ne!(sandbox.call("GET /api/v1/audiences", "").await.body, "[]");

    sandbox
        .control("POST /_sandbox/clock", r#"{"freeze":true}"#)
        .await;
    let reset = sandbox.control("POST /_sandbox/reset", "").await;
    assert_eq!(reset.status, 204);
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.body, "[]");
    assert_eq!(
        sandbox
            .with_key(&key, "GET /api/v1/audiences", "")
            .await
            .status,
        401
    );

    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);

    let state = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(state.body.contains(r#""frozen":false"#), "{state:?}");
}

/// Keys, webhooks, faults and the DNS zone are cached in memory.
#[tokio::test]
async fn resetting_an_organization_clears_only_its_cached_data() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let created = sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Other"}"#)
        .await;
    let other = created.between(r#""email_key":""#);
    let hook = format!(
        r#"{{"url":"{}","events":["email.delivered"]}}"#,
        receiver.url()
    );
    let mut domains = Vec::new();
    for (key, organization, name) in [(KEY, "Sandbox", "one.test"), (&other, "Other", "two.test")] {
        let body = format!(r#"{{"name":"{name}"}}"#);
        domains.push(
            sandbox
                .with_key(key, "POST /api/v1/domains", &body)
                .await
                .id(),
        );
        let line = format!("POST /_sandbox/dns/{name}/publish?organization={organization}");
        assert_eq!(sandbox.control(&line, "").await.status, 200);
        let line = format!("POST /api/v1/domains/{}/verify", domains[domains.len() - 1]);
        assert!(
            sandbox
                .with_key(key, &line, "")
                .await
                .body
                .contains(r#""verified":true"#)
        );
        assert_eq!(
            sandbox
                .with_key(key, "POST /api/v1/webhooks", &hook)
                .await
                .status,
            201
        );
        let body = format!(
            r#"{{"organization":"{organization}","operation":"audiences.list","times":9,"status":503}}"#
        );
        assert_eq!(
            sandbox.control("POST /_sandbox/faults", &body).await.status,
            201
        );
    }

    let spare = sandbox.email_key(r#""emails:send""#).await.1;
    let reset = sandbox
        .control("POST /_sandbox/reset", r#"{"organization":"Sandbox"}"#)
        .await;
    assert_eq!(reset.status, 204, "{reset:?}");

    let list = "GET /api/v1/audiences";
    assert_eq!(sandbox.call(list, "").await.status, 200);
    assert_eq!(sandbox.with_key(&other, list, "").await.status, 503);

    let email = r#"{"from":"a@NAME","to":"b@x.test","subject":"s"}"#;
    let send = "POST /api/v1/emails";
    // Its keys stay valid.
    let sent = sandbox
        .with_key(&spare, send, &email.replace("NAME", "sandbox.test"))
        .await;
    assert_eq!(sent.status, 202, "{sent:?}");

    // The seed data exists again, and the webhooks of the organization are gone.
    let sent = sandbox
        .call(send, &email.replace("NAME", "sandbox.test"))
        .await;
    assert_eq!(sent.status, 202, "{sent:?}");

    let sent = sandbox
        .with_key(&other, send, &email.replace("NAME", "two.test"))
        .await;
    assert_eq!(sent.status, 202, "{sent:?}");

    sandbox.settle().await;
    let [received] = &receiver.received()[..] else {
        panic!("{:?}", receiver.received())
    };
    assert!(received.body.contains("a@two.test"), "{received:?}");

    // A verification shows whether the records are still in the zone.
    for (key, name, remains) in [(KEY, "one.test", false), (&other, "two.test", true)] {
        let body = format!(r#"{{"name":"{name}"}}"#);
        let created = sandbox.with_key(key, "POST /api/v1/domains", &body).await;
        assert_eq!(
            created.status,
            if remains { 409 } else { 201 },
            "{created:?}"
        );
        let id = if remains {
            domains[1].clone()
        } else {
            created.id()
        };
        let line = format!("POST /api/v1/domains/{id}/verify");
        let verified = sandbox.with_key(key, &line, "").await;
        let flag = format!(r#""mx_verified":{remains}"#);
        assert!(verified.body.contains(&flag), "{verified:?}");
    }
}

#[tokio::test]
async fn a_lease_keeps_the_server_from_being_idle() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let sandbox = Sandbox::start().await;
    let addr = sandbox.addr();
    let mut lease = tokio::net::TcpStream::connect(addr).await.unwrap();
    let request = format!("GET /_sandbox/lease HTTP/1.1\r\nhost: {addr}\r\n\r\n");
    lease.write_all(request.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    lease.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");

    let short = std::time::Duration::from_millis(100);
    assert!(
        tokio::time::timeout(short, sandbox.server.until_idle())
            .await
            .is_err()
    );

    drop(lease);
    let idle = tokio::time::timeout(raw::TIMEOUT, sandbox.server.until_idle()).await;
    idle.expect("not idle without the lease");
}

#[tokio::test]
async fn organizations_with_the_same_name_are_selected_by_id() {
    let sandbox = Sandbox::start().await;
    let make = async |name: &str| {
        let body = format!(r#"{{"name":"{name}"}}"#);
        sandbox.control("POST /_sandbox/organizations", &body).await
    };

    let first = make("Acme").await;
    let list = "GET /_sandbox/keys?organization=";
    assert_eq!(
        sandbox.control(&format!("{list}Acme"), "").await.status,
        200
    );

    let second = make("Acme").await;
    assert_ne!(first.id(), second.id());

    let rejected = sandbox.control(&format!("{list}Acme"), "").await;
    assert_eq!(
        (rejected.status, rejected.between(r#""code":""#)),
        (409, "conflict".to_owned())
    );

    for one in [&first, &second] {
        assert_eq!(
            sandbox
                .control(&format!("{list}{}", one.id()), "")
                .await
                .status,
            200
        );
    }

    // An ID takes precedence over an organization with that name.
    assert_eq!(make(&first.id()).await.status, 201);
    assert_eq!(
        sandbox
            .control(&format!("{list}{}", first.id()), "")
            .await
            .status,
        200
    );

    let control = r#"{"name":"a\u0000b"}"#.to_owned();
    for body in [
        r#"{"name":""}"#.to_owned(),
        format!(r#"{{"name":"{}"}}"#, "ü".repeat(201)),
        control,
    ] {
        let rejected = sandbox.control("POST /_sandbox/organizations", &body).await;
        let field = rejected.between(r#""field":""#);
        assert_eq!((rejected.status, field.as_str()), (422, "name"), "{body}");
    }

    assert_eq!(make(&"ü".repeat(200)).await.status, 201);

    // The name of the seeded organization, which is the default, stays unique.
    let rejected = make("Sandbox").await;
    assert_eq!(
        (rejected.status, rejected.between(r#""code":""#)),
        (409, "conflict".to_owned())
    );

    let bare = Sandbox::with(|builder| builder.seed(false)).await;
    let body = r#"{"name":"Sandbox"}"#;
    assert_eq!(
        bare.control("POST /_sandbox/organizations", body)
            .await
            .status,
        201
    );
}
