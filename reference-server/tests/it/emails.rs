//! Sending, getting and cancelling emails (`docs/email-service/README.md#emails`).

use crate::harness::Sandbox;

const SEND: &str = "POST /api/v1/emails";

#[tokio::test]
async fn accepts_delivers_and_gets_an_email() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let body = r#"{"from":"Hello <hello@sandbox.test>","to":["ada@example.test","Bob <bob@example.test>"],"subject":"Hi","html":"<p>Hi</p>","text":"Hi","cc":"carl@example.test","bcc":["dora@example.test"],"replyTo":"r@example.test","headers":{"X-One":"1"},"attachments":[{"filename":"a.txt","content":"aGVsbG8=","contentType":"text/plain"}],"tags":{"kind":"welcome","n":1},"unknown":true}"#;
    let sent = sandbox.call(SEND, body).await;
    let id = sent.id();
    let common = r#""from":"Hello <hello@sandbox.test>","to":["ada@example.test","Bob <bob@example.test>"],"cc":["carl@example.test"],"bcc":["dora@example.test"],"replyTo":["r@example.test"],"subject":"Hi","tags":{"kind":"welcome","n":1},"scheduledAt":null,"templateId":null"#;
    let expected = format!(
        r#"{{"id":"{id}","status":"queued",{common},"createdAt":"{now}","updatedAt":"{now}","lastEvent":null}}"#
    );
    assert_eq!((sent.status, sent.body.as_str()), (202, expected.as_str()));
    assert!(id.starts_with("eml_"), "{id}");

    // It is delivered when the request is answered. The clock does not tell its messages from it.
    let messages = |after: &str| format!("GET /_sandbox/messages?after={after}");
    assert_eq!(
        sandbox
            .control(&messages(&id), "")
            .await
            .body
            .matches("\"emailId\"")
            .count(),
        4
    );
    assert_eq!(
        sandbox.control(&messages(&now), "").await.body,
        r#"{"data":[],"next":null}"#
    );

    let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
    let recipients: Vec<String> = ["ada", "bob", "carl", "dora"]
        .iter()
        .map(|name| {
            format!(r#"{{"address":"{name}@example.test","status":"delivered","detail":null}}"#)
        })
        .collect();
    let expected = format!(
        r#"{{"id":"{id}","status":"delivered",{common},"createdAt":"{now}","updatedAt":"{now}","lastEvent":"email.delivered","html":"<p>Hi</p>","text":"Hi","headers":{{"X-One":"1"}},"attachments":[{{"filename":"a.txt","contentType":"text/plain","size":5}}],"recipients":[{}]}}"#,
        recipients.join(",")
    );
    assert_eq!(
        (found.status, found.body.as_str()),
        (200, expected.as_str())
    );
}

#[tokio::test]
async fn magic_recipients_determine_the_status() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let mut ids = Vec::new();
    for (to, status, event) in [
        ("bounced+1@x.test", "bounced", "email.bounced"),
        ("complained@x.test", "complained", "email.complained"),
        ("failed@x.test", "failed", "email.failed"),
        ("delayed@x.test", "sending", ""),
        ("other@x.test", "delivered", "email.delivered"),
        ("bounced@x.example", "delivered", "email.delivered"),
    ] {
        let body = format!(r#"{{"from":"a@sandbox.test","to":"{to}","subject":"s"}}"#);
        ids.push((sandbox.call(SEND, &body).await.id(), status, event));
    }

    sandbox.settle().await;
    for (id, status, event) in &ids {
        let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
        assert_eq!(found.between(r#""status":""#), *status);
        let last = if event.is_empty() {
            "null".to_owned()
        } else {
            format!(r#""{event}""#)
        };
        assert!(
            found.body.contains(&format!(r#""lastEvent":{last}"#)),
            "{found:?}"
        );
    }

    // `delayed@` stays in `sending` for a minute of the server's clock.
    let delayed = &ids[3].0;
    sandbox.advance("59999ms").await;
    let found = sandbox
        .call(&format!("GET /api/v1/emails/{delayed}"), "")
        .await;
    assert_eq!(found.between(r#""status":""#), "sending");

    sandbox.advance("1ms").await;
    let found = sandbox
        .call(&format!("GET /api/v1/emails/{delayed}"), "")
        .await;
    assert_eq!(found.between(r#""status":""#), "delivered");
}

/// `docs/undocumented/services.md#several-recipients`.
#[tokio::test]
async fn each_recipient_has_its_own_status() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"from":"a@sandbox.test","to":["a@x.test","bounced@x.test","A@X.test","a@x.TEST"],"subject":"s"}"#;
    let id = sandbox.call(SEND, body).await.id();
    sandbox.settle().await;
    let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
    assert_eq!(found.between(r#""status":""#), "bounced");

    // The domain is case-insensitive, the local part is not.
    let recipients = &found.body[found.body.find(r#""recipients""#).unwrap()..];
    assert_eq!(
        recipients,
        r#""recipients":[{"address":"a@x.test","status":"delivered","detail":null},{"address":"bounced@x.test","status":"bounced","detail":{"reason":"550 5.1.1 no such mailbox","type":"hard"}},{"address":"A@X.test","status":"delivered","detail":null}]}"#
    );
}

#[tokio::test]
async fn a_scheduled_email_waits_and_can_be_cancelled() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let now = sandbox
        .control("GET /_sandbox/clock", "")
        .await
        .between(r#""now":""#);
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","scheduledAt":"2999-12-31T23:00:00+01:00"}"#;
    let sent = sandbox.call(SEND, body).await;
    assert_eq!(sent.status, 202);
    assert_eq!(
        sent.between(r#""scheduledAt":""#),
        "2999-12-31T22:00:00.000Z"
    );

    let id = sent.id();
    let state = sandbox.control("GET /_sandbox/clock", "").await;
    let expected = format!(
        r#"{{"now":"{now}","frozen":true,"settled":true,"next_due":"2999-12-31T22:00:00.000Z","#
    );
    assert!(state.body.starts_with(&expected), "{state:?}");

    let cancelled = sandbox
        .call(&format!("PATCH /api/v1/emails/{id}/cancel"), "")
        .await;
    assert_eq!(
        (
            cancelled.status,
            cancelled.between(r#""status":""#).as_str()
        ),
        (200, "cancelled")
    );

    let again = sandbox
        .call(&format!("PATCH /api/v1/emails/{id}/cancel"), "")
        .await;
    assert_eq!(
        (again.status, again.between(r#""code":""#).as_str()),
        (409, "not_cancellable")
    );

    let state = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(state.body.contains(r#""next_due":null,"#), "{state:?}");
}

/// The `Date` header is the scheduled time.
#[tokio::test]
async fn the_date_of_a_scheduled_email_is_the_scheduled_time() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","scheduledAt":"2999-12-31T23:00:00+01:00"}"#;
    assert_eq!(sandbox.call(SEND, body).await.status, 202);

    sandbox.advance("365000d").await;
    let message = sandbox.control("GET /_sandbox/messages", "").await.id();
    let raw = sandbox
        .control(&format!("GET /_sandbox/messages/{message}/raw"), "")
        .await;
    assert!(
        raw.body
            .contains("\r\nDate: Tue, 31 Dec 2999 22:00:00 +0000\r\n"),
        "{raw:?}"
    );
}

#[tokio::test]
async fn only_a_waiting_email_can_be_cancelled() {
    let sandbox = Sandbox::start().await;
    // An email with a time in the past is sent immediately
    // (`docs/undocumented/services.md#past-schedule`).
    let body =
        r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","scheduledAt":"2001-02-03"}"#;
    let sent = sandbox.call(SEND, body).await;
    assert_eq!(
        sent.between(r#""scheduledAt":""#),
        "2001-02-03T00:00:00.000Z"
    );

    sandbox.settle().await;
    let line = format!("PATCH /api/v1/emails/{}/cancel", sent.id());
    let rejected = sandbox.call(&line, "").await;
    assert_eq!(rejected.status, 409);
    assert_eq!(rejected.between(r#""status":""#), "delivered");
    assert_eq!(
        sandbox
            .call("PATCH /api/v1/emails/eml_x/cancel", "")
            .await
            .status,
        404
    );
}

/// Verification does not extend to subdomains; domains are case-insensitive
/// (`docs/undocumented/services.md#addresses`).
#[tokio::test]
async fn the_senders_domain_must_be_verified_itself() {
    let sandbox = Sandbox::start().await;
    for (from, status) in [
        ("a@SANDBOX.test", 202),
        ("A <a@sandbox.test>", 202),
        ("a@mail.sandbox.test", 403),
        ("a@sandbox.test.evil.test", 403),
        ("sandbox.test", 422),
        ("a@sandbox.test\\r\\nBcc: b@c.test", 422),
    ] {
        let body = format!(r#"{{"from":"{from}","to":"b@x.test","subject":"s"}}"#);
        assert_eq!(sandbox.call(SEND, &body).await.status, status, "{from}");
    }
}

#[tokio::test]
async fn reports_all_invalid_fields_in_one_response() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"from":"nobody","to":["a@b.test","x y@b.test"],"cc":"@","replyTo":["r@b.test","@"],"subject":"a\nb","scheduledAt":"soon","headers":{"Content-Type":"x","DKIM-Signature":"x","Subject":"x","X-Bad":"a\r\nb","X-Number":7,"X-Ok":"1"},"attachments":[{"filename":"a\nb","content":"!!!"},{"content":"aGk="}]}"#;
    let rejected = sandbox.call(SEND, body).await;
    assert_eq!(rejected.status, 422);

    let fields: Vec<&str> = rejected
        .body
        .split(r#""field":""#)
        .skip(1)
        .map(|rest| &rest[..rest.find('"').unwrap()])
        .collect();
    assert_eq!(
        fields,
        [
            "from",
            "to[1]",
            "cc",
            "replyTo[1]",
            "subject",
            "headers.Content-Type",
            "headers.DKIM-Signature",
            "headers.Subject",
            "headers.X-Bad",
            "headers.X-Number",
            "attachments[0].filename",
            "attachments[0].content",
            "attachments[1].filename",
            "scheduledAt",
        ],
        "{rejected:?}"
    );

    let nothing = sandbox.call(SEND, "{}").await;
    for field in ["from", "to", "subject"] {
        assert!(
            nothing.body.contains(&format!(r#""field":"{field}""#)),
            "{nothing:?}"
        );
    }
}

#[tokio::test]
async fn simulates_events_of_an_email() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let id = sandbox.call(SEND, body).await.id();
    sandbox.settle().await;
    let line = format!("POST /_sandbox/emails/{id}/events");
    for (event, status, email) in [
        ("delivered", 409, "delivered"),
        ("failed", 409, "delivered"),
        ("opened", 200, "delivered"),
        ("clicked", 200, "delivered"),
        ("complained", 200, "complained"),
        ("bounced", 409, "complained"),
        ("exploded", 422, "complained"),
    ] {
        let response = sandbox
            .control(&line, &format!(r#"{{"event":"{event}"}}"#))
            .await;
        assert_eq!(response.status, status, "{event}: {response:?}");
        let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
        assert_eq!(found.between(r#""status":""#), email, "{event}");
    }

    let other = sandbox
        .control(&line, r#"{"event":"opened","recipient":"nobody@x.test"}"#)
        .await;
    assert_eq!(other.status, 422);
}

/// `docs/control-interface.md#events`.
#[tokio::test]
async fn a_scheduled_email_is_sent_now() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let body =
        r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","scheduledAt":"2999-12-31"}"#;
    let id = sandbox.call("POST /api/v1/emails", body).await.id();
    let line = format!("POST /_sandbox/emails/{id}/send");
    let sent = sandbox.control(&line, "").await;
    assert_eq!((sent.status, sent.id()), (200, id.clone()), "{sent:?}");

    let message = sandbox
        .control("GET /_sandbox/messages/wait?to=b@x.test", "")
        .await;
    assert_eq!(message.between(r#""emailId":""#), id);

    let year = sandbox.control("GET /_sandbox/clock", "").await.body[8..12].to_owned();
    let date = message.between(r#""Date":""#);
    assert!(
        date.contains(&format!(" {year} ")),
        "{date} is not in {year}"
    );

    sandbox.advance("1ms").await;
    let refused = sandbox.control(&line, "").await;
    let text = "the email is not waiting to be sent: its status is delivered";
    assert_eq!(
        (refused.status, refused.between(r#""message":""#).as_str()),
        (409, text)
    );

    let line = format!("{line}?organization=Other");
    sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Other"}"#)
        .await;
    assert_eq!(sandbox.control(&line, "").await.status, 404);
}
