//! Ways in for those who should have none.

use svc_reference_server::{Network, Server};

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox, private_dir};
use crate::raw;

#[tokio::test]
async fn a_rebound_name_cannot_use_the_seeded_keys() {
    let sandbox = Sandbox::start().await;
    let port = sandbox.addr().port();
    let send = async |host: &str, path: &str, key: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n\r\n");
        raw::send(sandbox.addr(), request.as_bytes()).await
    };

    for (path, key) in [("/api/v1/domains", KEY), ("/v1/me", EXTRACTION_KEY)] {
        for host in [format!("evil.example:{port}"), "evil.example".to_owned()] {
            let refused = send(&host, path, key).await;
            assert_eq!(refused.status, 421, "{host}: {refused:?}");
        }
        for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
            assert_ne!(send(&host, path, key).await.status, 421, "{host}");
        }
    }

    // A key of one's own is secret, and works under any name.
    let (_, key) = sandbox.email_key(r#""domains:manage""#).await;
    assert_eq!(
        send("evil.example", "/api/v1/domains", &key).await.status,
        200
    );
}

#[tokio::test]
async fn a_second_origin_does_not_hide_the_first() {
    let sandbox = Sandbox::start().await;
    let own = format!("http://{}", sandbox.addr());
    let headers = format!("origin: {own}\r\norigin: http://evil.example\r\n");
    assert_eq!(
        sandbox
            .raw("GET /_sandbox/health", &headers, "")
            .await
            .status,
        403
    );

    let headers = format!("origin: {own}\r\n");
    assert_eq!(
        sandbox
            .raw("GET /_sandbox/health", &headers, "")
            .await
            .status,
        200
    );
}

/// A page can tell from an image that does not load, and from the time until then, what a search
/// finds. Such requests have no `Origin`.
#[tokio::test]
async fn a_page_that_searches_messages_by_loading_them_as_images() {
    let sandbox = Sandbox::start().await;
    let get = async |line: &str, site: &str| {
        let response = sandbox
            .raw(line, &format!("sec-fetch-site: {site}\r\n"), "")
            .await;
        assert_eq!(
            response.header("cross-origin-resource-policy"),
            Some("same-origin")
        );
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        response.status
    };

    for line in [
        "GET /_sandbox/messages?subject=code",
        "GET /_sandbox/health",
        "GET /readyz",
    ] {
        for foreign in ["cross-site", "same-site"] {
            assert_eq!(get(line, foreign).await, 403, "{line}");
        }
        for own in ["same-origin", "none"] {
            assert_eq!(get(line, own).await, 200, "{line}");
        }
    }

    assert_eq!(
        sandbox
            .raw("GET /", "sec-fetch-site: cross-site\r\n", "")
            .await
            .status,
        200
    );
}

/// What listens there is another application.
#[tokio::test]
async fn a_page_on_another_port_of_a_trusted_host() {
    let sandbox = Sandbox::with(|builder| builder.network(Network::Trusted)).await;
    let health = async |origin: &str| {
        let host = "box.internal:4080";
        let request =
            format!("GET /_sandbox/keys HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n\r\n");
        raw::send(sandbox.addr(), request.as_bytes()).await.status
    };

    for own in ["http://box.internal:4080", "https://box.internal:4080"] {
        assert_eq!(health(own).await, 200, "{own}");
    }

    for foreign in [
        "http://box.internal:81",
        "https://box.internal:81",
        "https://other.internal",
    ] {
        assert_eq!(health(foreign).await, 403, "{foreign}");
    }
}

#[tokio::test]
async fn a_misspelt_organization_does_not_empty_the_server() {
    let sandbox = Sandbox::start().await;
    assert_eq!(
        sandbox
            .call("POST /api/v1/audiences", r#"{"name":"kept"}"#)
            .await
            .status,
        201
    );

    for (line, body) in [
        ("POST /_sandbox/reset", r#"{"organisation":"Sandbox"}"#),
        ("POST /_sandbox/reset?organisation=Sandbox", ""),
        ("POST /_sandbox/reset?x=1", "{}"),
    ] {
        let refused = sandbox.control(line, body).await;
        assert_eq!(refused.status, 422, "{line}: {refused:?}");
        assert!(refused.body.contains("organization"), "{refused:?}");
    }

    assert!(
        sandbox
            .call("GET /api/v1/audiences", "")
            .await
            .body
            .contains("kept")
    );

    for (line, body) in [
        ("POST /_sandbox/organizations", r#"{"title":"x"}"#),
        (
            "POST /_sandbox/keys",
            r#"{"service":"email","scopes":[],"mod":"live"}"#,
        ),
        ("PUT /_sandbox/templates/x", r#"{"txt":"x"}"#),
        (
            "POST /_sandbox/dns/sandbox.test/publish",
            r#"{"record":["mx"]}"#,
        ),
        (
            "POST /_sandbox/inbound",
            r#"{"from":"a@b.test","to":"x@sandbox.test","txt":"x"}"#,
        ),
        (
            "POST /_sandbox/extractions",
            r#"{"event":"extraction.completed","dta":{}}"#,
        ),
        ("POST /_sandbox/clock", r#"{"freeze":true,"at":"now"}"#),
        ("POST /_sandbox/faults", r#"{"status":500,"time":2}"#),
        (
            "POST /_sandbox/emails/x/events",
            r#"{"event":"opened","receiver":"a@b.test"}"#,
        ),
        ("GET /_sandbox/messages?form=a@b.test", ""),
        ("GET /_sandbox/deliveries?hook=x", ""),
        ("GET /_sandbox/faults?limit=1", ""),
    ] {
        let refused = sandbox.control(line, body).await;
        assert_eq!(refused.status, 422, "{line}: {refused:?}");
    }
}

#[tokio::test]
async fn two_organizations_named_in_one_request() {
    let sandbox = Sandbox::start().await;
    sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Other"}"#)
        .await;
    assert_eq!(
        sandbox
            .call("POST /api/v1/audiences", r#"{"name":"kept"}"#)
            .await
            .status,
        201
    );

    let domain = "POST /_sandbox/dns/sandbox.test/publish";
    for (line, body) in [
        ("POST /_sandbox/reset", ""),
        ("POST /_sandbox/keys", r#","service":"email","scopes":[]"#),
        ("PUT /_sandbox/templates/x", r#","text":"x""#),
        (domain, ""),
        (
            "POST /_sandbox/inbound",
            r#","from":"a@b.test","to":"x@sandbox.test""#,
        ),
        (
            "POST /_sandbox/extractions",
            r#","event":"extraction.completed""#,
        ),
        ("POST /_sandbox/faults", r#","status":500"#),
        ("POST /_sandbox/emails/x/events", r#","event":"opened""#),
    ] {
        let line = format!("{line}?organization=Other");
        let body = format!(r#"{{"organization":"Sandbox"{body}}}"#);
        let refused = sandbox.control(&line, &body).await;
        assert_eq!(
            (refused.status, refused.between(r#""field":""#).as_str()),
            (422, "organization"),
            "{line}: {refused:?}"
        );
    }

    let line = "POST /_sandbox/reset?organization=Sandbox&organization=Other";
    let refused = sandbox.control(line, "").await;
    assert_eq!(
        (refused.status, refused.between(r#""field":""#).as_str()),
        (422, "organization")
    );
    assert!(
        sandbox
            .call("GET /api/v1/audiences", "")
            .await
            .body
            .contains("kept")
    );

    // The organization of a key is that of the query.
    let line = "POST /_sandbox/keys?organization=Other";
    let key = sandbox
        .control(line, r#"{"service":"email","scopes":["domains:manage"]}"#)
        .await;
    let domains = sandbox
        .with_key(&key.between(r#""key":""#), "GET /api/v1/domains", "")
        .await;
    assert!(!domains.body.contains("sandbox.test"), "{domains:?}");

    // The same organization twice is not a contradiction.
    let line = "POST /_sandbox/reset?organization=Other";
    assert_eq!(
        sandbox
            .control(line, r#"{"organization":"Other"}"#)
            .await
            .status,
        204
    );
}

#[tokio::test]
async fn a_fault_that_can_never_happen_or_contradicts_itself() {
    let sandbox = Sandbox::start().await;
    for (body, field) in [
        (r#"{"status":500,"times":0}"#, "times"),
        (r#"{"status":500,"drop":"before"}"#, "drop"),
        (r#"{"status":500,"drop":"after"}"#, "drop"),
    ] {
        let refused = sandbox.control("POST /_sandbox/faults", body).await;
        assert_eq!(
            (refused.status, refused.between(r#""field":""#).as_str()),
            (422, field),
            "{body}"
        );
    }
    assert_eq!(sandbox.control("GET /_sandbox/faults", "").await.body, "[]");
}

#[cfg(unix)]
#[tokio::test]
async fn a_data_directory_that_others_can_change() {
    use std::os::unix::fs::PermissionsExt as _;

    let directory = private_dir();
    let path = directory.path().join("data");
    std::fs::create_dir(&path).expect("created");
    let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
    let start = || Server::builder().data_dir(&path).start();
    // An empty directory is made private.
    set(0o777).expect("set");
    start().await.expect("started").stop().await;
    let mode = std::fs::metadata(&path)
        .expect("metadata")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);

    set(0o777).expect("set");
    let error = start().await.expect_err("refused");
    let source = std::error::Error::source(&error)
        .expect("a source")
        .to_string();
    assert!(source.contains("chmod go-w"), "{source}");

    set(0o700).expect("set");
}

/// Opening a pipe waits for its other end.
#[cfg(unix)]
#[tokio::test]
async fn pipes_and_links_in_place_of_files() {
    let directory = private_dir();
    let other = private_dir();
    let data = directory.path();
    let victim = other.path().join("victim");
    std::fs::write(&victim, "precious").expect("written");
    let start = || Server::builder().data_dir(data).start();
    let lock = data.join("server.lock");
    for is_pipe in [true, false] {
        if is_pipe {
            let made = std::process::Command::new("mkfifo").arg(&lock).status();
            assert!(made.expect("mkfifo runs").success());
        } else {
            std::os::unix::fs::symlink(&victim, &lock).expect("linked");
        }
        assert_eq!(svc_reference_server::find_running(data), None);
        let error = start().await.expect_err("refused");
        let source = std::error::Error::source(&error)
            .expect("a source")
            .to_string();
        assert!(
            source.contains("server.lock is not a regular file"),
            "{source}"
        );
        std::fs::remove_file(&lock).expect("removed");
    }

    std::os::unix::fs::symlink(&victim, data.join("server.json.new")).expect("linked");
    start().await.expect("started").stop().await;
    assert_eq!(std::fs::read_to_string(&victim).expect("read"), "precious");
}

/// A public server says why it does not send a webhook to a private address.
#[tokio::test]
async fn a_private_target_is_refused_with_the_reason() {
    let sandbox = Sandbox::public().await;
    let created = sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"A"}"#)
        .await;
    let key = created.between(r#""email_key":""#);
    let register = async |url: &str| {
        let body = format!(r#"{{"url":"{url}","events":["email.sent"]}}"#);
        sandbox.with_key(&key, "POST /api/v1/webhooks", &body).await
    };

    for (url, reason) in [
        (
            "https://app.localhost/",
            "127.0.0.1 is a loopback address (127.0.0.0/8); ",
        ),
        (
            "https://10.1.2.3/",
            "10.1.2.3 is a private address (10.0.0.0/8); ",
        ),
    ] {
        let refused = register(url).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.body.contains(reason), "{refused:?}");
    }

    let webhook = register("https://no-such-host.invalid/").await;
    assert_eq!(webhook.status, 201, "{webhook:?}");

    let line = format!("POST /api/v1/webhooks/{}/test", webhook.id());
    let tested = sandbox.with_key(&key, &line, "").await.body;
    assert!(
        tested.contains("the host name could not be resolved"),
        "{tested}"
    );
}
