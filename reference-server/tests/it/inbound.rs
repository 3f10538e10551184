//! Incoming mail by the control interface, and mail between local domains.

use crate::harness::Sandbox;

#[tokio::test]
async fn a_message_from_json_is_stored_in_its_mailbox() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"from":"Zo\u00eb <zoe@example.test>","to":["help@sandbox.test","x@elsewhere.test"],
        "subject":"Frage","text":"Wie geht das?","html":"<p>Wie?</p>"}"#;
    let response = sandbox.control("POST /_sandbox/inbound", body).await;
    assert_eq!(response.status, 202, "{response:?}");

    let id = response.id();
    assert_eq!(
        response.body,
        format!(r#"{{"messages":[{{"id":"{id}","recipient":"help@sandbox.test"}}]}}"#)
    );

    let details = sandbox
        .control(&format!("GET /_sandbox/messages/{id}"), "")
        .await;
    for part in [
        r#""direction":"incoming","emailId":null,"from":"Zoë <zoe@example.test>","tags":null,"recipient":"help@sandbox.test""#,
        r#""to":["help@sandbox.test","x@elsewhere.test"]"#,
        r#""subject":"Frage","text":"Wie geht das?","html":"<p>Wie?</p>""#,
    ] {
        assert!(details.body.contains(part), "{part} in {}", details.body);
    }

    let found = sandbox
        .control(
            "GET /_sandbox/messages?from=zoe@example.test&subject=frage",
            "",
        )
        .await;
    assert_eq!(found.id(), id);
}

#[tokio::test]
async fn a_raw_message_is_stored_unchanged() {
    let sandbox = Sandbox::start().await;
    let source = "From: a@example.test\nTo: help@sandbox.test\nSubject: Hi\n\nHello\n";
    let headers = format!(
        "content-type: message/rfc822\r\ncontent-length: {}\r\n",
        source.len()
    );
    let addr = sandbox.addr();
    let request =
        format!("POST /_sandbox/inbound HTTP/1.1\r\nhost: {addr}\r\n{headers}\r\n{source}");
    let response = crate::raw::send(addr, request.as_bytes()).await;
    assert_eq!(response.status, 202, "{response:?}");

    let raw = sandbox
        .control(&format!("GET /_sandbox/messages/{}/raw", response.id()), "")
        .await;
    assert_eq!(raw.body, source.replace('\n', "\r\n"));
}

#[tokio::test]
async fn rejects_invalid_and_unroutable_messages() {
    let sandbox = Sandbox::start().await;
    for (body, field) in [
        (
            r#"{"from":"a@b.test","to":"x@elsewhere.test","subject":"x"}"#,
            "to",
        ),
        (r#"{"from":"nobody","to":"x@sandbox.test"}"#, "from"),
        (r#"{"from":"a@b.test"}"#, "to"),
        (
            r#"{"from":"a@b.test","to":"x@sandbox.test","subject":"a\nb"}"#,
            "subject",
        ),
    ] {
        let response = sandbox.control("POST /_sandbox/inbound", body).await;
        assert_eq!(response.status, 422, "{body}: {response:?}");
        assert_eq!(response.between(r#""field":""#), field, "{body}");
    }

    // The domain belongs to another organization.
    let organization = sandbox
        .control("POST /_sandbox/organizations", "")
        .await
        .id();
    let body =
        format!(r#"{{"organization":"{organization}","from":"a@b.test","to":"x@sandbox.test"}}"#);
    let response = sandbox.control("POST /_sandbox/inbound", &body).await;
    assert_eq!(response.status, 422, "{response:?}");

    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
}

#[tokio::test]
async fn deleting_a_domain_deletes_its_mailboxes() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"from":"a@b.test","to":"x@sandbox.test","subject":"x"}"#;
    assert_eq!(
        sandbox.control("POST /_sandbox/inbound", body).await.status,
        202
    );

    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    let deleted = sandbox
        .call(&format!("DELETE /api/v1/domains/{domain}"), "")
        .await;
    assert_eq!(deleted.body, r#"{"ok":true}"#);

    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
    assert_eq!(
        sandbox.control("POST /_sandbox/inbound", body).await.status,
        422
    );
}

#[tokio::test]
async fn the_name_of_an_attachment_is_kept_or_refused() {
    let sandbox = Sandbox::start().await;
    let send = async |name: &str| {
        let body = format!(
            r#"{{"from":"a@sandbox.test","to":"x@example.test","subject":"s","attachments":[{{"filename":"{name}","content":"aGVsbG8="}}]}}"#
        );
        sandbox.call("POST /api/v1/emails", &body).await
    };

    for name in ["é".repeat(127), "x".repeat(255)] {
        assert_eq!(send(&name).await.status, 202);
        sandbox.settle().await;
        let newest = sandbox
            .control("GET /_sandbox/messages?limit=1", "")
            .await
            .id();
        let shown = sandbox
            .control(&format!("GET /_sandbox/messages/{newest}"), "")
            .await;
        assert!(shown.body.contains(&name), "{shown:?}");
    }

    let refused = send(&"x".repeat(256)).await;
    assert_eq!(
        (refused.status, refused.between(r#""field":""#).as_str()),
        (422, "attachments[0].filename")
    );
}

#[tokio::test]
async fn email_received_contains_the_parsed_message() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let receiver = crate::receiver::Receiver::start(&[]).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.received"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    // Send a message, and feed its signed source back as incoming mail.
    let body = r#"{"from":"a@sandbox.test","to":"x@example.test","subject":"Hi","text":"Hello",
        "attachments":[{"filename":"a.txt","content":"aGVsbG8="}]}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);

    let sent = sandbox
        .control("GET /_sandbox/messages/wait", "")
        .await
        .id();
    let source = sandbox
        .control(&format!("GET /_sandbox/messages/{sent}/raw"), "")
        .await
        .body;
    let head = format!(
        "content-type: message/rfc822\r\ncontent-length: {}\r\n",
        source.len()
    );
    let line = "POST /_sandbox/inbound?to=help+1@sandbox.test";
    let response = sandbox.literal(line, &head, &source).await;
    assert_eq!(response.status, 202, "{response:?}");

    sandbox.settle().await;

    let [received] = &receiver.received()[..] else {
        panic!("{:?}", receiver.received())
    };
    assert_eq!(received.header("mail-event"), "email.received");

    for part in [
        r#""data":{"from":"a@sandbox.test","to":["x@example.test"],"subject":"Hi","text":"Hello","html":null,"headers":{"#,
        r#""attachments":[{"filename":"a.txt","contentType":"text/plain","contentId":null,"size":5,"content":"aGVsbG8="}]"#,
        &format!(
            r#""spf":"none","dkim":{{"result":"pass","domain":"sandbox.test","aligned":true}},"recipient":"help+1@sandbox.test","messageId":"{}","timestamp":"{now}"}}}}"#,
            response.id()
        ),
    ] {
        assert!(received.body.contains(part), "{part} in {}", received.body);
    }

    // The event has all of a long subject, and the list of the deliveries its beginning.
    let long = format!("Subject: {}\r\n\r\nHi", "x".repeat(2_000));
    let head = format!(
        "content-type: message/rfc822\r\ncontent-length: {}\r\n",
        long.len()
    );
    assert_eq!(sandbox.literal(line, &head, &long).await.status, 202);

    sandbox.settle().await;
    assert!(receiver.received()[1].body.contains(&"x".repeat(2_000)));

    let list = sandbox.control("GET /_sandbox/deliveries", "").await;
    let subject = format!(r#""subject":"{}""#, "x".repeat(1_000));
    assert!(list.body.contains(&subject), "{list:?}");
}

#[tokio::test]
async fn mail_to_an_own_domain_is_received() {
    let sandbox = Sandbox::start().await;
    let receiver = crate::receiver::Receiver::start(&[]).await;
    let events = r#"["email.delivered","email.received"]"#;
    let hook = format!(r#"{{"url":"{}","events":{events}}}"#, receiver.url());
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &hook).await.status,
        201
    );

    let body = r#"{"from":"a@sandbox.test","to":["Me <Me@Sandbox.TEST>","you@x.test","bounced@sandbox.test"],
        "subject":"Hi","text":"Hello"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);

    sandbox.settle().await;
    let list = sandbox
        .control("GET /_sandbox/messages?to=me@sandbox.test", "")
        .await;
    assert_eq!(list.body.matches(r#""id":"#).count(), 1, "{list:?}");

    let announced: Vec<_> = receiver.received();
    let received: Vec<_> = announced
        .iter()
        .filter(|one| one.header("mail-event") == "email.received")
        .collect();
    assert_eq!((announced.len(), received.len()), (3, 1), "{announced:?}");

    for part in [
        r#""from":"a@sandbox.test","to":["Me <Me@Sandbox.TEST>","you@x.test","bounced@sandbox.test"],"subject":"Hi","text":"Hello""#,
        r#""spf":"pass","dkim":{"result":"pass","domain":"sandbox.test","aligned":true},"recipient":"Me@Sandbox.TEST""#,
        &format!(r#""messageId":"{}""#, list.id()),
    ] {
        assert!(
            received[0].body.contains(part),
            "{part} in {}",
            received[0].body
        );
    }

    let results = r#""authentication":{"spf":"pass","dkim":{"result":"pass","domain":"sandbox.test","aligned":true}}"#;
    let shown = sandbox
        .control(&format!("GET /_sandbox/messages/{}", list.id()), "")
        .await;
    assert!(shown.body.contains(results), "{}", shown.body);

    let other = sandbox
        .control("GET /_sandbox/messages/wait?to=you@x.test", "")
        .await;
    assert!(
        other.body.contains(r#""authentication":null"#),
        "{}",
        other.body
    );

    // The message is in a mailbox of the domain, and is deleted with it.
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    sandbox
        .call(&format!("DELETE /api/v1/domains/{domain}"), "")
        .await;
    let list = sandbox
        .control("GET /_sandbox/messages?to=me@sandbox.test", "")
        .await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
}

#[tokio::test]
async fn mail_to_a_domain_of_another_organization_is_received_there() {
    let sandbox = Sandbox::start().await;
    let receiver = crate::receiver::Receiver::start(&[]).await;
    let created = sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Acme"}"#)
        .await;
    let key = created.between(r#""email_key":""#);
    let domain = sandbox
        .with_key(&key, "POST /api/v1/domains", r#"{"name":"acme.test"}"#)
        .await;
    sandbox
        .control("POST /_sandbox/dns/acme.test/publish?organization=Acme", "")
        .await;
    let verify = format!("POST /api/v1/domains/{}/verify", domain.id());
    assert!(
        sandbox
            .with_key(&key, &verify, "")
            .await
            .body
            .contains(r#""verified":true"#)
    );

    let hook = format!(
        r#"{{"url":"{}","events":["email.received"]}}"#,
        receiver.url()
    );
    sandbox.with_key(&key, "POST /api/v1/webhooks", &hook).await;

    let body = r#"{"from":"a@sandbox.test","to":"ceo@acme.test","bcc":"eve@x.test","subject":"Hi","text":"Hello"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);

    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 1);
    assert!(!receiver.received()[0].body.contains("eve@x.test"));

    let received_messages = sandbox
        .control("GET /_sandbox/messages?organization=Acme", "")
        .await;
    assert!(
        received_messages.body.contains(r#""direction":"incoming""#),
        "{received_messages:?}"
    );
    assert_eq!(
        received_messages.body.matches(r#""id":"#).count(),
        1,
        "{received_messages:?}"
    );

    let sent_messages = sandbox
        .control("GET /_sandbox/messages?to=ceo@acme.test", "")
        .await;
    assert!(
        sent_messages.body.contains(r#""direction":"outgoing""#),
        "{sent_messages:?}"
    );
    assert_eq!(
        sent_messages.body.matches(r#""id":"#).count(),
        1,
        "{sent_messages:?}"
    );
}

#[tokio::test]
async fn a_server_that_keeps_the_newest_mail_forgets_the_oldest() {
    let directory = crate::harness::private_dir();
    let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path()).keep(3)).await;
    let webhook = r#"{"url":"http://127.0.0.1:9/hooks","events":["email.delivered"]}"#;
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", webhook).await.status,
        201
    );

    let mut ids = Vec::new();
    for number in 0..6 {
        let email = format!(
            r#"{{"from":"a@sandbox.test","to":"b@else.test","subject":"Out {number}","text":"x"}}"#
        );
        ids.push(sandbox.call("POST /api/v1/emails", &email).await.id());
        sandbox.advance("0s").await;
        let received =
            format!(r#"{{"from":"a@b.test","to":"c@sandbox.test","subject":"In {number}"}}"#);
        assert_eq!(
            sandbox
                .control("POST /_sandbox/inbound", &received)
                .await
                .status,
            202
        );
    }

    // One that waits for its date is not forgotten.
    let later = r#"{"from":"a@sandbox.test","to":"b@else.test","subject":"Later","text":"x","scheduledAt":"2999-01-01"}"#;
    let later = sandbox.call("POST /api/v1/emails", later).await.id();
    // Their deliveries are due until they have failed.
    sandbox.advance("1h").await;
    let forgotten = async {
        let fourth = format!("GET /api/v1/emails/{}", ids[3]);
        while sandbox.call(&fourth, "").await.status != 404 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    crate::receiver::within("retention", forgotten).await;
    for (at, id) in ids.iter().enumerate() {
        let status = sandbox
            .call(&format!("GET /api/v1/emails/{id}"), "")
            .await
            .status;
        assert_eq!(status, if at < 4 { 404 } else { 200 }, "email {at}");
    }

    assert_eq!(
        sandbox
            .call(&format!("GET /api/v1/emails/{later}"), "")
            .await
            .status,
        200
    );

    let messages = sandbox
        .control("GET /_sandbox/messages?limit=100", "")
        .await
        .body;
    let subjects = |start: &str| {
        let part = format!(r#""subject":"{start} "#);
        messages.match_indices(&part).count()
    };

    assert_eq!((subjects("Out"), subjects("In")), (2, 3), "{messages}");

    sandbox.server.stop().await;
}
