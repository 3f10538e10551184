//! Mail that comes in by way of the control interface.

use crate::harness::Sandbox;

#[tokio::test]
async fn a_short_message_arrives_in_its_mailbox() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"from":"Zo\u00eb <zoe@example.test>","to":["help@sandbox.test","x@elsewhere.test"],
        "subject":"Frage","text":"Wie geht das?","html":"<p>Wie?</p>"}"#;
    let answer = sandbox.control("POST /_sandbox/inbound", body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = answer.id();
    assert_eq!(
        answer.body,
        format!(r#"{{"messages":[{{"id":"{id}","recipient":"help@sandbox.test"}}]}}"#)
    );
    let shown = sandbox.control(&format!("GET /_sandbox/messages/{id}"), "").await;
    for part in [
        r#""direction":"incoming","from":"Zoë <zoe@example.test>","recipient":"help@sandbox.test""#,
        r#""to":["help@sandbox.test","x@elsewhere.test"]"#,
        r#""subject":"Frage","text":"Wie geht das?","html":"<p>Wie?</p>""#,
    ] {
        assert!(shown.body.contains(part), "{part} in {}", shown.body);
    }
    let found =
        sandbox.control("GET /_sandbox/messages?from=zoe@example.test&subject=frage", "").await;
    assert_eq!(found.id(), id);
}

#[tokio::test]
async fn a_whole_message_is_kept_as_it_is_and_its_signature_judged() {
    let sandbox = Sandbox::start().await;
    let source = "From: a@example.test\nTo: help@sandbox.test\nSubject: Hi\n\nHello\n";
    let headers = format!("content-type: message/rfc822\r\ncontent-length: {}\r\n", source.len());
    let addr = sandbox.addr();
    let request =
        format!("POST /_sandbox/inbound HTTP/1.1\r\nhost: {addr}\r\n{headers}\r\n{source}");
    let answer = crate::raw::send(addr, request.as_bytes()).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let raw = sandbox.control(&format!("GET /_sandbox/messages/{}/raw", answer.id()), "").await;
    assert_eq!(raw.body, source.replace('\n', "\r\n"));
}

#[tokio::test]
async fn what_cannot_arrive_is_refused() {
    let sandbox = Sandbox::start().await;
    for (body, field) in [
        (r#"{"from":"a@b.test","to":"x@elsewhere.test","subject":"x"}"#, "to"),
        (r#"{"from":"nobody","to":"x@sandbox.test"}"#, "from"),
        (r#"{"from":"a@b.test"}"#, "to"),
        (r#"{"from":"a@b.test","to":"x@sandbox.test","subject":"a\nb"}"#, "subject"),
    ] {
        let answer = sandbox.control("POST /_sandbox/inbound", body).await;
        assert_eq!(answer.status, 422, "{body}: {answer:?}");
        assert_eq!(answer.between(r#""field":""#), field, "{body}");
    }
    // The domain is another organization's.
    let own = sandbox.control("POST /_sandbox/organizations", "").await.id();
    let body = format!(r#"{{"organization":"{own}","from":"a@b.test","to":"x@sandbox.test"}}"#);
    let answer = sandbox.control("POST /_sandbox/inbound", &body).await;
    assert_eq!(answer.status, 422, "{answer:?}");
    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
}

#[tokio::test]
async fn a_deleted_domain_takes_its_mailboxes_with_it() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"from":"a@b.test","to":"x@sandbox.test","subject":"x"}"#;
    assert_eq!(sandbox.control("POST /_sandbox/inbound", body).await.status, 202);
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    let deleted = sandbox.call(&format!("DELETE /api/v1/domains/{domain}"), "").await;
    assert_eq!(deleted.body, r#"{"ok":true}"#);
    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
    assert_eq!(sandbox.control("POST /_sandbox/inbound", body).await.status, 422);
}

#[tokio::test]
async fn email_received_fires_with_the_parsed_message() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let receiver = crate::receiver::Receiver::start(&[]).await;
    let body = format!(r#"{{"url":"{}","events":["email.received"]}}"#, receiver.url());
    assert_eq!(sandbox.call("POST /api/v1/webhooks", &body).await.status, 201);

    // A message of our own, as it would come back to us: signed.
    let body = r#"{"from":"a@sandbox.test","to":"x@example.test","subject":"Hi","text":"Hello",
        "attachments":[{"filename":"a.txt","content":"aGVsbG8="}]}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
    let sent = sandbox.control("GET /_sandbox/messages/wait", "").await.id();
    let source = sandbox.control(&format!("GET /_sandbox/messages/{sent}/raw"), "").await.body;
    let head = format!("content-type: message/rfc822\r\ncontent-length: {}\r\n", source.len());
    let line = "POST /_sandbox/inbound?to=help+1@sandbox.test";
    let answer = sandbox.literal(line, &head, &source).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    sandbox.settle().await;

    let [received] = &receiver.received()[..] else { panic!("{:?}", receiver.received()) };
    assert_eq!(received.header("mail-event"), "email.received");
    for part in [
        r#""data":{"from":"a@sandbox.test","to":["x@example.test"],"subject":"Hi","text":"Hello","html":null,"headers":{"#,
        r#""attachments":[{"filename":"a.txt","contentType":"text/plain","contentId":null,"size":5,"content":"aGVsbG8="}]"#,
        &format!(
            r#""spf":"none","dkim":"pass","recipient":"help+1@sandbox.test","messageId":"{}","timestamp":"{now}"}}}}"#,
            answer.id()
        ),
    ] {
        assert!(received.body.contains(part), "{part} in {}", received.body);
    }
}

#[tokio::test]
async fn spf_judges_the_address_that_it_is_given() {
    let sandbox = Sandbox::start().await;
    let receiver = crate::receiver::Receiver::start(&[]).await;
    let body = format!(r#"{{"url":"{}","events":["email.received"]}}"#, receiver.url());
    assert_eq!(sandbox.call("POST /api/v1/webhooks", &body).await.status, 201);
    for (from, more, verdict) in [
        ("a@sandbox.test", "", "none"),
        ("a@sandbox.test", r#","ip":"127.0.0.1""#, "pass"),
        ("a@sandbox.test", r#","ip":"192.0.2.1","helo":"mail.x.test""#, "softfail"),
        ("a@sandbox.test", r#","ip":"::1""#, "pass"),
        ("a@nowhere.test", r#","ip":"127.0.0.1""#, "none"),
    ] {
        let before = receiver.received().len();
        let body = format!(r#"{{"from":"{from}","to":"x@sandbox.test","subject":"s"{more}}}"#);
        let taken = sandbox.control("POST /_sandbox/inbound", &body).await;
        assert_eq!(taken.status, 202, "{taken:?}");
        sandbox.settle().await;
        let told = &receiver.received()[before];
        assert!(told.body.contains(&format!(r#""spf":"{verdict}""#)), "{body}: {}", told.body);
    }
    let source = "From: a@x.test\r\nTo: help@sandbox.test\r\n\r\nHello\r\n";
    let head = format!("content-type: message/rfc822\r\ncontent-length: {}\r\n", source.len());
    let line = "POST /_sandbox/inbound?ip=127.0.0.9&helo=mx.x.test&from=b@sandbox.test";
    assert_eq!(sandbox.literal(line, &head, source).await.status, 202);
    sandbox.settle().await;
    let told = receiver.received().pop().expect("a delivery");
    assert!(told.body.contains(r#""spf":"pass""#), "{}", told.body);
    for (more, field) in [(r#""ip":"x""#, "ip"), (r#""helo":"a b","ip":"::1""#, "helo")] {
        let body = format!(r#"{{"from":"a@b.test","to":"x@sandbox.test",{more}}}"#);
        let refused = sandbox.control("POST /_sandbox/inbound", &body).await;
        assert_eq!((refused.status, refused.between(r#""field":""#).as_str()), (422, field));
    }
}

#[tokio::test]
async fn mail_to_ones_own_domain_comes_home() {
    let sandbox = Sandbox::start().await;
    let receiver = crate::receiver::Receiver::start(&[]).await;
    let events = r#"["email.delivered","email.received"]"#;
    let hook = format!(r#"{{"url":"{}","events":{events}}}"#, receiver.url());
    assert_eq!(sandbox.call("POST /api/v1/webhooks", &hook).await.status, 201);
    let body = r#"{"from":"a@sandbox.test","to":["Me <Me@Sandbox.TEST>","you@x.test","bounced@sandbox.test"],
        "subject":"Hi","text":"Hello"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
    sandbox.settle().await;
    let list = sandbox.control("GET /_sandbox/messages?to=me@sandbox.test", "").await;
    assert_eq!(list.body.matches(r#""id":"#).count(), 1, "{list:?}");
    let told: Vec<_> = receiver.received();
    let received: Vec<_> =
        told.iter().filter(|one| one.header("mail-event") == "email.received").collect();
    assert_eq!((told.len(), received.len()), (3, 1), "{told:?}");
    for part in [
        r#""from":"a@sandbox.test","to":["Me <Me@Sandbox.TEST>","you@x.test","bounced@sandbox.test"],"subject":"Hi","text":"Hello""#,
        r#""spf":"pass","dkim":"pass","recipient":"Me@Sandbox.TEST""#,
        &format!(r#""messageId":"{}""#, list.id()),
    ] {
        assert!(received[0].body.contains(part), "{part} in {}", received[0].body);
    }
    // It is in a mailbox of the domain, and goes with it.
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    sandbox.call(&format!("DELETE /api/v1/domains/{domain}"), "").await;
    let list = sandbox.control("GET /_sandbox/messages?to=me@sandbox.test", "").await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
}

#[tokio::test]
async fn mail_to_another_organizations_domain_is_theirs_to_receive() {
    let sandbox = Sandbox::start().await;
    let receiver = crate::receiver::Receiver::start(&[]).await;
    let made = sandbox.control("POST /_sandbox/organizations", r#"{"name":"Acme"}"#).await;
    let key = made.between(r#""email_key":""#);
    let domain = sandbox.with_key(&key, "POST /api/v1/domains", r#"{"name":"acme.test"}"#).await;
    sandbox.control("POST /_sandbox/dns/acme.test/publish?organization=Acme", "").await;
    let verify = format!("POST /api/v1/domains/{}/verify", domain.id());
    assert!(sandbox.with_key(&key, &verify, "").await.body.contains(r#""verified":true"#));
    let hook = format!(r#"{{"url":"{}","events":["email.received"]}}"#, receiver.url());
    sandbox.with_key(&key, "POST /api/v1/webhooks", &hook).await;

    let body = r#"{"from":"a@sandbox.test","to":"ceo@acme.test","bcc":"eve@x.test","subject":"Hi","text":"Hello"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 1);
    assert!(!receiver.received()[0].body.contains("eve@x.test"));
    let theirs = sandbox.control("GET /_sandbox/messages?organization=Acme", "").await;
    assert!(theirs.body.contains(r#""direction":"incoming""#), "{theirs:?}");
    assert_eq!(theirs.body.matches(r#""id":"#).count(), 1, "{theirs:?}");
    let ours = sandbox.control("GET /_sandbox/messages?to=ceo@acme.test", "").await;
    assert!(ours.body.contains(r#""direction":"outgoing""#), "{ours:?}");
    assert_eq!(ours.body.matches(r#""id":"#).count(), 1, "{ours:?}");
}
