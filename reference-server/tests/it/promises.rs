//! What the documents promise holds also beside a web page, a reset, a retention and a broken client.

use std::time::Duration;

use svc_reference_server::{Builder, Network, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{KEY, Sandbox, private_dir};
use crate::receiver::within;

fn trusted(builder: Builder) -> Builder {
    let loopback = ([127, 0, 0, 1], 0).into();
    builder.network(Network::Trusted).addr(loopback)
}

/// Sends a request that names another host. Returns its status.
async fn status_for_host(sandbox: &Sandbox, line: &str, host: &str, headers: &str) -> u16 {
    let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connected");
    let request = format!("{line} HTTP/1.1\r\nhost: {host}\r\n{headers}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("read");
    response[9..12].parse().expect("a status")
}

#[tokio::test]
async fn no_web_page_can_drive_a_server_in_a_trusted_network_by_a_name_that_resolves_to_it() {
    let sandbox = Sandbox::with(|builder| trusted(builder).allow_host("mail.dev.example")).await;
    let list = "GET /_sandbox/messages";
    let reset = "POST /_sandbox/reset";
    for host in [
        "evil.example:4080",
        "sandbox.test.evil.example",
        "evil.example",
    ] {
        let own_origin = format!("origin: http://{host}\r\ncontent-length: 0\r\n");
        assert_eq!(
            status_for_host(&sandbox, list, host, "").await,
            421,
            "{host}"
        );
        assert_eq!(
            status_for_host(&sandbox, reset, host, &own_origin).await,
            421,
            "{host}"
        );
        let key = format!("authorization: Bearer {KEY}\r\n");
        let audiences = "GET /api/v1/audiences";
        assert_eq!(
            status_for_host(&sandbox, audiences, host, &key).await,
            421,
            "{host}"
        );
        let page = "GET /";
        assert_eq!(
            status_for_host(&sandbox, page, host, "").await,
            421,
            "{host}"
        );
    }

    for host in [
        "svc:4080",
        "svc.team.internal",
        "10.1.2.3:4080",
        "mail.dev.example",
        "a.test",
    ] {
        assert_eq!(
            status_for_host(&sandbox, list, host, "").await,
            200,
            "{host}"
        );
    }
}

#[tokio::test]
async fn after_a_reset_during_an_advance_the_clock_is_that_of_the_computer() {
    let directory = private_dir();
    let server = Server::builder().data_dir(directory.path()).start().await;
    let sandbox = Sandbox::of(server.expect("started"));
    // An attempt that hangs holds up the advance.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("an address"));
    let webhook = format!(r#"{{"url":"{url}","events":["email.delivered"]}}"#);
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &webhook).await.status,
        201
    );

    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"t"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", email).await.status, 202);

    let (_held, _) = silent.accept().await.expect("an attempt");

    let advance = async {
        let body = r#"{"advance":"24h"}"#;
        sandbox.control("POST /_sandbox/clock", body).await.status
    };
    let reset = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        sandbox.control("POST /_sandbox/reset", "").await.status
    };
    let (advanced, reset) = within("both", async { tokio::join!(advance, reset) }).await;
    assert_eq!((advanced, reset), (503, 204));

    let ahead = (sandbox.server.now() - chrono::Utc::now()).num_seconds();
    assert!(ahead.abs() < 60, "{ahead} s ahead");

    sandbox.server.stop().await;
    let again = Server::builder()
        .data_dir(directory.path())
        .start()
        .await
        .expect("started");
    let ahead = (again.now() - chrono::Utc::now()).num_seconds();
    assert!(ahead.abs() < 60, "{ahead} s ahead after a restart");
}

#[tokio::test]
async fn retention_keeps_what_is_due_and_counts_for_each_organization() {
    let sandbox = Sandbox::with(|builder| builder.keep(2)).await;
    let (other, _) = sandbox.organization().await;
    // Its delivery is due for ever: the endpoint does not exist and the clock is frozen.
    sandbox.freeze().await;
    let webhook = r#"{"url":"http://127.0.0.1:1/","events":["email.delivered"]}"#;
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", webhook).await.status,
        201
    );

    let email = |n: u32| {
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"due {n}","text":"t"}}"#)
    };
    assert_eq!(
        sandbox.call("POST /api/v1/emails", &email(1)).await.status,
        202
    );

    sandbox.settle().await;
    let webhooks = sandbox.call("GET /api/v1/webhooks", "").await;
    let deactivate = format!("PATCH /api/v1/webhooks/{}", webhooks.id());
    for n in 2..8 {
        assert_eq!(
            sandbox.call("POST /api/v1/emails", &email(n)).await.status,
            202
        );
    }

    let domain = sandbox
        .with_key(&other, "GET /api/v1/domains", "")
        .await
        .between(r#""name":""#);
    let of_other = email(9).replace("sandbox.test", &domain);
    for _ in 0..2 {
        let sent = sandbox
            .with_key(&other, "POST /api/v1/emails", &of_other)
            .await;
        assert_eq!(sent.status, 202);
    }

    // The pending deliveries hold all emails.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let kept = sandbox.control("GET /_sandbox/emails", "").await;
    assert_eq!(kept.body.matches("\"due ").count(), 7, "{kept:?}");

    // Without them, the newest two stay.
    assert_eq!(
        sandbox
            .call(&deactivate, r#"{"active":false}"#)
            .await
            .status,
        200
    );

    sandbox
        .control("POST /_sandbox/clock", r#"{"advance":"1h"}"#)
        .await;
    let only_two = async {
        loop {
            let kept = sandbox.control("GET /_sandbox/emails", "").await;
            if kept.body.matches("\"due ").count() == 2 {
                return kept;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let kept = within("retention", only_two).await;
    assert!(
        kept.body.contains("due 6") && kept.body.contains("due 7"),
        "{kept:?}"
    );

    let name = sandbox.control("GET /_sandbox/organizations", "").await;
    assert_eq!(name.status, 200);
}

#[tokio::test]
async fn retention_by_age_follows_the_clock_of_the_server() {
    let day = Duration::from_secs(24 * 3600);
    let sandbox = Sandbox::with(|builder| builder.keep_for(day)).await;
    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"old","text":"t"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", email).await.status, 202);

    sandbox.settle().await;

    sandbox
        .control("POST /_sandbox/clock", r#"{"advance":"25h"}"#)
        .await;
    let new = email.replace("old", "new");
    assert_eq!(sandbox.call("POST /api/v1/emails", &new).await.status, 202);

    let only_new = async {
        loop {
            let kept = sandbox.control("GET /_sandbox/emails", "").await;
            if !kept.body.contains("\"old\"") {
                return kept;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let kept = within("retention", only_new).await;
    assert!(kept.body.contains("\"new\""), "{kept:?}");
}

#[tokio::test]
async fn a_webhook_of_the_email_service_is_https_except_for_local_addresses() {
    let create = async |sandbox: &Sandbox, url: &str| {
        let body = format!(r#"{{"url":"{url}","events":["email.sent"]}}"#);
        sandbox.call("POST /api/v1/webhooks", &body).await.status
    };

    let own = Sandbox::start().await;
    for url in [
        "http://127.0.0.1:1/",
        "http://localhost:1/",
        "http://[::1]:1/",
        "https://example.com/x",
    ] {
        assert_eq!(create(&own, url).await, 201, "{url}");
    }

    for url in [
        "http://example.com/x",
        "http://10.0.0.1/",
        "http://app/",
        "http://1.1.1.1/",
    ] {
        assert_eq!(create(&own, url).await, 422, "{url}");
    }

    let team = Sandbox::with(trusted).await;
    for url in [
        "http://app:3000/",
        "http://10.0.0.1/",
        "http://ci.internal/",
        "http://a.test/",
    ] {
        assert_eq!(create(&team, url).await, 201, "{url}");
    }

    for url in [
        "http://example.com/x",
        "http://1.1.1.1/",
        "http://app.example/",
    ] {
        assert_eq!(create(&team, url).await, 422, "{url}");
    }
}

#[tokio::test]
async fn a_repeated_key_gets_its_first_answer_also_when_the_template_has_gone() {
    let sandbox = Sandbox::start().await;
    let template = r#"{"text":"Hi {{ name }}"}"#;
    assert_eq!(
        sandbox
            .control("PUT /_sandbox/templates/welcome", template)
            .await
            .status,
        200
    );

    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","templateId":"welcome","variables":{"name":"Ada"}}"#;
    let send = async || {
        let headers = format!("authorization: Bearer {KEY}\r\nidempotency-key: k1\r\n");
        sandbox.raw("POST /api/v1/emails", &headers, email).await
    };

    let first = send().await;
    assert_eq!(first.status, 202, "{first:?}");

    let deleted = sandbox
        .control("DELETE /_sandbox/templates/welcome", "")
        .await;
    assert_eq!(deleted.status, 204);

    let again = send().await;
    assert_eq!((again.status, again.body), (202, first.body));
}

#[tokio::test]
async fn a_cancel_with_an_idempotency_key_can_be_repeated() {
    let sandbox = Sandbox::start().await;
    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","scheduledAt":"2040-01-01T00:00:00Z"}"#;
    let id = sandbox.call("POST /api/v1/emails", email).await.id();
    let cancel = format!("PATCH /api/v1/emails/{id}/cancel");
    let headers = format!("authorization: Bearer {KEY}\r\nidempotency-key: k1\r\n");

    let first = sandbox.raw(&cancel, &headers, "").await;
    let again = sandbox.raw(&cancel, &headers, "").await;

    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!(first.body, again.body);
    assert_eq!(sandbox.call(&cancel, "").await.status, 409);
}

#[tokio::test]
async fn a_client_that_sends_a_large_body_reads_why_it_is_refused() {
    let sandbox = Sandbox::start().await;
    const LENGTH: usize = 80 << 20;

    let unauthorized = "";
    let authorized = format!("authorization: Bearer {KEY}\r\n");
    for (headers, status) in [(unauthorized, "401"), (authorized.as_str(), "413")] {
        let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connected");
        let head = format!(
            "POST /api/v1/emails HTTP/1.1\r\nhost: {}\r\n{headers}content-type: application/json\r\n\
             content-length: {LENGTH}\r\n\r\n",
            sandbox.addr()
        );
        stream.write_all(head.as_bytes()).await.expect("the head");
        let piece = vec![b' '; 1 << 20];
        for _ in 0..LENGTH >> 20 {
            within("a piece", stream.write_all(&piece))
                .await
                .expect("the server reads on");
        }
        let mut start = [0; 12];
        within("the status", stream.read_exact(&mut start))
            .await
            .expect("a response");
        assert_eq!(start[9..], *status.as_bytes());
    }
}

#[tokio::test]
async fn slow_uploads_do_not_hold_up_others() {
    let sandbox = Sandbox::start().await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connected");
        let head = format!(
            "POST /api/v1/emails HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {KEY}\r\n\
             content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{{\"a\":\r\n",
            sandbox.addr()
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        slow.push(stream);
    }

    let large = "x".repeat(8 << 20);
    let email =
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"{large}"}}"#);

    let sent = tokio::time::timeout(
        Duration::from_secs(8),
        sandbox.call("POST /api/v1/emails", &email),
    );

    assert_eq!(sent.await.expect("not held up").status, 202);
}

#[tokio::test]
async fn two_recipients_that_differ_in_case_are_tracked_apart() {
    let sandbox = Sandbox::start().await;
    let webhook = r#"{"url":"http://127.0.0.1:1/","events":["email.opened"]}"#;
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", webhook).await.status,
        201
    );

    let email = r#"{"from":"a@sandbox.test","to":["ada@x.test","Ada@x.test"],"subject":"s","html":"<p>t</p>"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", email).await.status, 202);

    sandbox.settle().await;

    let list = sandbox.control("GET /_sandbox/messages", "").await;
    let ids: Vec<&str> = list
        .body
        .split("\"id\":\"")
        .skip(1)
        .map(|rest| &rest[..40])
        .collect();
    assert_eq!(ids.len(), 2, "{list:?}");

    let mut pixels = Vec::new();
    for id in ids {
        let html = sandbox
            .control(&format!("GET /_sandbox/messages/{id}/html"), "")
            .await
            .body;
        let place = html.rfind("/t/o/").expect("a pixel");
        pixels.push(
            html[place..]
                .split('"')
                .next()
                .expect("an address")
                .to_owned(),
        );
    }

    pixels.sort();
    assert!(
        pixels[0].ends_with("/0") && pixels[1].ends_with("/1"),
        "{pixels:?}"
    );
}

#[tokio::test]
async fn an_address_is_one_contact_in_both_forms_of_its_domain() {
    let sandbox = Sandbox::start().await;
    let audience = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await
        .id();
    let create = format!("POST /api/v1/audiences/{audience}/contacts");
    let first = sandbox
        .call(&create, r#"{"email":"ada@bücher.example"}"#)
        .await;
    let second = sandbox
        .call(&create, r#"{"email":"Ada@xn--bcher-kva.example"}"#)
        .await;
    assert_eq!((first.status, second.status), (201, 409));
}
