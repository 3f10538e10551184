//! Requests that are small to send and large to process.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::assert_growth;
use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};
use crate::raw;
use crate::receiver::{Receiver, within};

const SEND: &str = "POST /api/v1/emails";

#[tokio::test]
async fn thousands_of_hidden_recipients() {
    let sandbox = Sandbox::start().await;
    let body = |count: usize| {
        let list: Vec<String> = (0..count).map(|n| format!(r#""r{n}@x.example""#)).collect();
        format!(
            r#"{{"from":"a@sandbox.test","to":"a@x.example","bcc":[{}],"subject":"s"}}"#,
            list.join(",")
        )
    };

    let refused = sandbox.call(SEND, &body(1_000)).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(
        refused
            .body
            .contains("1001 recipients together, at most 1000"),
        "{refused:?}"
    );
    assert_eq!(sandbox.call(SEND, &body(999)).await.status, 202);

    within("the deliveries", sandbox.settle()).await;
}

#[tokio::test]
async fn a_link_with_thousands_of_entities() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.clicked"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    let link = |entities| format!("<a href='http://a.test/?{}'>x</a>", "&".repeat(entities));
    let send = async |html: &str| {
        let body =
            format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","html":"{html}"}}"#);
        let email = sandbox.call(SEND, &body).await.id();
        within("the delivery", sandbox.settle()).await;
        email
    };
    let newest = async || {
        sandbox
            .control("GET /_sandbox/messages?limit=1", "")
            .await
            .id()
    };
    let links = async |message: &str| {
        let found = sandbox
            .control(&format!("GET /_sandbox/messages/{message}/links"), "")
            .await;
        assert!(found.body.contains("http://a.test/?&"), "{}", found.status);
    };

    send(&link(25_000)).await;
    let short = newest().await;
    // The longer one is not tracked.
    let email = send(&(link(400_000) + &link(8_000))).await;
    let click = sandbox.control(&format!("GET /t/c/{email}/0/0"), "").await;
    assert_eq!(click.status, 302);

    // 16 times as many take 256 times as long if each is looked for from the beginning.
    let long = newest().await;
    assert_growth(
        120,
        async || links(&short).await,
        async || links(&long).await,
    )
    .await;
}

#[tokio::test]
async fn an_error_for_every_item_of_a_long_list() {
    let sandbox = Sandbox::start().await;
    let list = vec![r#""no address""#; 900].join(",");
    let body =
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","cc":[{list}],"subject":"s"}}"#);
    let refused = sandbox.call(SEND, &body).await;
    assert_eq!(refused.status, 422);
    assert_eq!(refused.body.matches(r#""field":"#).count(), 100);
}

#[tokio::test]
async fn a_body_of_a_million_values() {
    let sandbox = Sandbox::start().await;
    let list = vec!["0"; 1_000_000].join(",");
    let body = format!(
        r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","tags":{{"a":[{list}]}}}}"#
    );
    let refused = sandbox.call(SEND, &body).await;
    assert_eq!(
        (refused.status, refused.between(r#""code":""#).as_str()),
        (413, "payload_too_large")
    );
    assert!(refused.body.contains(r#""limit":250000"#), "{refused:?}");

    // Separators in a text are no values.
    let text = ",".repeat(300_000);
    let body =
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"\"{text}"}}"#);
    assert_eq!(sandbox.call(SEND, &body).await.status, 202);
}

#[tokio::test]
async fn more_large_bodies_than_memory() {
    let sandbox = Sandbox::start().await;
    let json = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let body = format!("{json}{}", " ".repeat((60 << 20) - json.len()));
    let head = format!(
        "{SEND} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        sandbox.addr(),
        body.len()
    );
    // Two bodies of 60 MiB take the memory for bodies. They need not be sent.
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(sandbox.addr())
            .await
            .expect("a connection");
        stream.write_all(head.as_bytes()).await.expect("written");
        open.push(stream);
    }

    // Small requests pass. A large one waits until another ends, and is not lost.
    let third = async { sandbox.call(SEND, &body).await };
    tokio::pin!(third);
    for _ in 0..3 {
        tokio::select! {
            biased;
            early = &mut third => panic!("{early:?}"),
            small = sandbox.call(SEND, json) => assert_eq!(small.status, 202),
        }
    }

    open.pop();
    assert_eq!(within("the large request", third).await.status, 202);
}

#[tokio::test]
async fn hundreds_of_clients_that_wait_for_a_message() {
    let alone = Sandbox::start().await;
    let sandbox = Sandbox::start().await;
    let small = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let send = async |sandbox: &Sandbox| {
        for _ in 0..10 {
            assert_eq!(sandbox.call(SEND, small).await.status, 202);
        }
    };

    let request = format!(
        "GET /_sandbox/messages/wait?to=c@x.test&timeout=10m HTTP/1.1\r\nhost: {}\r\n\r\n",
        sandbox.addr()
    );
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(sandbox.addr())
            .await
            .expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("written");
        waiting.push(stream);
    }

    // A message that they wait for would end the wait, and each other one could make all of them
    // look for it.
    assert_growth(
        20,
        async || send(&alone).await,
        async || send(&sandbox).await,
    )
    .await;
    assert_eq!(
        sandbox
            .call(SEND, &small.replace("b@x", "c@x"))
            .await
            .status,
        202
    );

    for mut stream in waiting {
        let found = within("the message", raw::read_response(&mut stream)).await;
        assert_eq!(found.status, 200, "{found:?}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_its_response() {
    let limit = Duration::from_millis(300);
    let sandbox =
        Sandbox::with(|builder| builder.limits(|limits| limits.write_timeout = limit)).await;
    let text = "x".repeat(8 << 20);
    let body =
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"{text}"}}"#);
    let email = sandbox.call(SEND, &body).await.id();
    let mut stream = TcpStream::connect(sandbox.addr())
        .await
        .expect("a connection");
    let request = format!(
        "GET /api/v1/emails/{email} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {KEY}\r\n\r\n",
        sandbox.addr()
    );
    stream.write_all(request.as_bytes()).await.expect("written");
    // The request counts as in progress until its connection is given up.
    within("the server to give up", sandbox.settle()).await;
    let closed = async { while stream.write_all(b"x").await.is_ok() {} };
    within("the connection to close", closed).await;
}

#[tokio::test]
async fn templates_that_grow_without_bound() {
    let sandbox = Sandbox::start().await;
    for template in [
        "{% set a = a ~ a %}".repeat(40),
        format!("{{{{ {}1 }}}}", "-".repeat(8_000)),
        format!("{{{{ a{} }}}}", ".b".repeat(2_000)),
        "x".repeat(300_000),
    ] {
        let body = format!(r#"{{"text":"{template}"}}"#);
        let put = sandbox.control("PUT /_sandbox/templates/grow", &body).await;
        assert_eq!(put.status, 422, "{put:?}");
    }

    let body = format!(
        r#"{{"text":"{{{{ a{} }}}}"}}"#,
        "|replace('x', 'xxxxxxxxxxxxxxxx')".repeat(25)
    );
    assert_eq!(
        sandbox
            .control("PUT /_sandbox/templates/grow", &body)
            .await
            .status,
        200
    );

    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","templateId":"grow","variables":{"a":"x"}}"#;
    let refused = sandbox.call(SEND, body).await;
    assert_eq!(
        (refused.status, refused.between(r#""field":""#).as_str()),
        (422, "variables")
    );
}

#[tokio::test]
async fn a_webhook_with_thousands_of_unknown_events() {
    let sandbox = Sandbox::start().await;
    let events = vec![r#""x""#; 200_000].join(",");
    let body = format!(r#"{{"url":"https://a.test/","events":[{events}]}}"#);
    for (key, line) in [
        (KEY, "POST /api/v1/webhooks"),
        (EXTRACTION_KEY, "POST /v1/webhooks"),
    ] {
        let refused = sandbox.with_key(key, line, &body).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        assert_eq!(refused.body.matches(r#""field":"#).count(), 100, "{line}");
    }
}

/// What a list or a response repeats.
#[tokio::test]
async fn large_values_and_many_rows_in_lists() {
    let sandbox = Sandbox::start().await;
    let long = "x".repeat(1_001);
    let name = format!(r#"{{"name":"{long}"}}"#);
    let audience = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await
        .id();
    let contacts = format!("POST /api/v1/audiences/{audience}/contacts");
    let contact = sandbox
        .call(&contacts, r#"{"email":"a@x.test"}"#)
        .await
        .id();
    let update = format!("PATCH /api/v1/contacts/{contact}");
    let large = format!(r#"{{"k":"{}"}}"#, "x".repeat(70_000));
    let metadata = format!(r#"{{"email":"b@x.test","metadata":{large}}}"#);
    let topics = format!(
        r#"{{"email":"b@x.test","topics":["{}"]}}"#,
        "x".repeat(66_000)
    );
    let headers: Vec<String> = (0..40_000).map(|n| format!(r#""x-{n}":"x""#)).collect();
    let fault = format!(r#"{{"status":503,"headers":{{{}}}}}"#, headers.join(","));
    let to: Vec<String> = (0..1_001)
        .map(|n| format!(r#""r{n}@sandbox.test""#))
        .collect();
    let inbound = format!(r#"{{"from":"a@b.test","to":[{}]}}"#, to.join(","));
    let add = "POST /_sandbox/faults";
    let receive = "POST /_sandbox/inbound";
    for (line, body, message) in [
        (
            "POST /api/v1/audiences",
            name.as_str(),
            "has 1001 bytes, at most 1000",
        ),
        (
            contacts.as_str(),
            &metadata,
            "has, with name and topics, 70018 bytes as JSON; at most 65536",
        ),
        (&contacts, &topics, "has, with name and topics, 66"),
        (
            &update,
            &metadata.replace(r#""email":"b@x.test","#, ""),
            "bytes as JSON; at most 65536",
        ),
        (add, &fault, "has more than 100 headers"),
        (receive, &inbound, "has 1001 recipients, at most 1000"),
    ] {
        let refused = sandbox.call(line, body).await;
        assert_eq!(refused.status, 422, "{line}: {refused:?}");
        assert!(refused.body.contains(message), "{line}: {refused:?}");
    }

    // The merged metadata counts.
    let half = |key: &str| format!(r#"{{"metadata":{{"{key}":"{}"}}}}"#, "x".repeat(40_000));
    assert_eq!(sandbox.call(&update, &half("a")).await.status, 200);
    assert_eq!(sandbox.call(&update, &half("b")).await.status, 422);

    let body = r#"{"status":503}"#;
    for _ in 0..200 {
        assert_eq!(sandbox.control(add, body).await.status, 201);
    }

    let refused = sandbox.control(add, body).await;
    assert_eq!(
        (refused.status, refused.body.contains("200 faults")),
        (409, true),
        "{refused:?}"
    );
}

/// The bounds of the services hold for the control interface as well.
#[tokio::test]
async fn large_control_requests() {
    let sandbox = Sandbox::start().await;
    let lines = [
        "PUT /_sandbox/templates/t",
        "POST /_sandbox/faults",
        "POST /_sandbox/dns/sandbox.test/publish",
        "POST /_sandbox/inbound",
        "POST /_sandbox/extractions",
        "POST /_sandbox/organizations",
    ];
    let many = format!(r#"{{"x":[{}]}}"#, vec!["0"; 250_001].join(","));
    for line in lines {
        let refused = sandbox.control(line, &many).await;
        assert_eq!(refused.status, 413, "{line}: {refused:?}");
    }

    let records = vec![r#""none""#; 1_000].join(",");
    let body = format!(r#"{{"records":[{records}]}}"#);
    let refused = sandbox
        .control("POST /_sandbox/dns/sandbox.test/publish", &body)
        .await;
    assert_eq!(refused.status, 422);
    assert!(
        refused.body.contains(r#""field":"records[0]""#),
        "{refused:?}"
    );
    assert!(refused.body.len() < 1_000, "{refused:?}");
}
