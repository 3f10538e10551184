//! The emails in every status, an email's story, and the request log of the control interface.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use svc_reference_server::Server;
use svc_reference_server::client::{
    DeliveryState, DropPoint, EmailEvent, EmailFilter, EmailStatus, EmailSummary, LoggedRequest,
    NewFault, NewKey, Page, Request, RequestFilter,
};
use svc_sdk::email::{Attachment, Email, NewWebhook, WebhookUpdate};
use svc_sdk::{EmailClient, Operation};

use crate::harness::{KEY, Sandbox};
use crate::raw;
use crate::receiver::{Receiver, within};

fn email(to: &str, subject: &str) -> Email {
    Email::new("Shop <hello@sandbox.test>", to, subject).text("Hello")
}

#[tokio::test]
async fn lists_emails_in_every_status() {
    let server = Server::start().await.unwrap();
    let client = server.email_client().unwrap();
    let sandbox = server.client().unwrap();
    let sent = client.emails();
    let first = email("Ada <ada@example.test>", "Welcome, Ada").tag("campaign", "spring");
    let first = sent.send(&first).await.unwrap().id;
    sent.send(email("bounced@x.test", "Lost").cc("Ada@example.test"))
        .await
        .unwrap();
    server.until_idle().await;
    sandbox.freeze().await.unwrap();
    let at = "2999-01-01T00:00:00Z";
    let later = sent
        .send(email("bob@example.test", "Later").scheduled_at(at))
        .await
        .unwrap();
    let cancelled = email("bob@example.test", "Never").scheduled_at(at);
    let cancelled = sent.send(&cancelled).await.unwrap();
    sent.cancel(&cancelled.id).await.unwrap();

    let subjects = async |request: Request<Page<EmailSummary>>| {
        let page = request.await.unwrap();
        page.data
            .into_iter()
            .map(|email| email.subject)
            .collect::<Vec<_>>()
    };

    let list = |filter: EmailFilter| sandbox.emails(&filter);
    let all = EmailFilter::default;
    assert_eq!(
        subjects(list(all())).await,
        ["Never", "Later", "Lost", "Welcome, Ada"]
    );

    for (status, expected) in [
        (EmailStatus::Delivered, &["Welcome, Ada"][..]),
        (EmailStatus::Bounced, &["Lost"]),
        (EmailStatus::Queued, &["Later"]),
        (EmailStatus::Cancelled, &["Never"]),
        (EmailStatus::Sending, &[]),
    ] {
        assert_eq!(
            subjects(list(EmailFilter {
                status: Some(status),
                ..all()
            }))
            .await,
            expected,
            "{status:?}"
        );
    }

    let some = |text: &str| Some(text.to_owned());
    let of = |address| {
        list(EmailFilter {
            address: some(address),
            ..all()
        })
    };

    assert_eq!(
        subjects(of("ADA@example.test")).await,
        ["Lost", "Welcome, Ada"]
    );
    assert_eq!(subjects(of("hello@sandbox.test").limit(1)).await, ["Never"]);

    let about = list(EmailFilter {
        subject: some("LATE"),
        ..all()
    });
    assert_eq!(subjects(about).await, ["Later"]);

    let tagged = |tag| {
        list(EmailFilter {
            tag: some(tag),
            ..all()
        })
    };

    assert_eq!(subjects(tagged("campaign")).await, ["Welcome, Ada"]);
    assert_eq!(subjects(tagged("campaign=spring")).await, ["Welcome, Ada"]);
    assert!(subjects(tagged("campaign=fall")).await.is_empty());

    let between = |after, before| {
        list(EmailFilter {
            after,
            before,
            ..all()
        })
    };

    assert_eq!(
        subjects(between(some(&first), some(&cancelled.id))).await,
        ["Later", "Lost"]
    );
    assert_eq!(subjects(between(some(&later.id), None)).await, ["Never"]);
    assert!(subjects(between(None, some("2000-01-01"))).await.is_empty());
    assert!(subjects(between(some("2999-01-01"), None)).await.is_empty());

    let page = list(all()).limit(3).await.unwrap();
    let rest = list(all()).cursor(page.next.unwrap()).await.unwrap();
    assert_eq!(
        (rest.data[0].id.as_str(), rest.next),
        (first.as_str(), None)
    );

    // Nothing of another organization.
    let other = server.tenant("Other").await.unwrap().organization;
    assert!(
        subjects(sandbox.of(&other.id).emails(&all()))
            .await
            .is_empty()
    );

    let error = sandbox.of(&other.id).email_story(&first).await.unwrap_err();
    assert_eq!(error.code(), Some("not_found"));
    assert!(
        error.to_string().contains("the organization \"Sandbox\""),
        "{error}"
    );
}

#[tokio::test]
async fn a_story_says_why_a_webhook_got_nothing() {
    let server = Server::start().await.unwrap();
    let client = server.email_client().unwrap();
    let sandbox = server.client().unwrap();
    let webhook = async |path: &str, events: &[&str]| {
        let new = NewWebhook::new(format!("http://127.0.0.1:9/{path}"), events.iter().copied());
        client.webhooks().create(new).await.unwrap().id
    };
    let missing = async |id: &str| {
        let story = sandbox.email_story(id).await.unwrap();
        let reasons = story.missing.into_iter();
        let reasons = reasons.map(|one| {
            format!(
                "{} {}",
                one.url.replace("http://127.0.0.1:9", ""),
                one.reason
            )
        });
        reasons.collect::<Vec<_>>()
    };

    sandbox.freeze().await.unwrap();
    let id = client
        .emails()
        .send(email("ada@example.test", "Hi"))
        .await
        .unwrap()
        .id;
    server.until_idle().await;
    assert!(missing(&id).await.is_empty());

    sandbox.advance(Duration::from_secs(1)).await.unwrap();
    webhook("late", &["email.sent", "email.delivered"]).await;
    webhook("bounces", &["email.bounced"]).await;
    let paused = webhook("paused", &["email.delivered"]).await;
    client
        .webhooks()
        .update(&paused, WebhookUpdate::new().active(false))
        .await
        .unwrap();
    assert_eq!(
        missing(&id).await,
        [
            "/late was created after email.delivered, email.sent happened",
            "/bounces subscribes to email.bounced, which has not happened to this email",
            "/paused was created after email.delivered happened; it is paused",
        ]
    );

    let id = client
        .emails()
        .send(email("grace@example.test", "Hi"))
        .await
        .unwrap()
        .id;
    server.until_idle().await;
    assert_eq!(
        missing(&id).await,
        [
            "/bounces subscribes to email.bounced, which has not happened to this email",
            "/paused is paused, so it was not sent email.delivered",
        ]
    );

    // Nothing listens there: the second delivery waits for the first one.
    let deliveries = sandbox.email_story(&id).await.unwrap().deliveries;
    let due: Vec<_> = deliveries
        .iter()
        .map(|one| (one.state, one.next_due_at.is_some()))
        .collect();
    assert_eq!(
        due,
        [
            (DeliveryState::Pending, true),
            (DeliveryState::Pending, false)
        ]
    );

    client
        .webhooks()
        .update(&paused, WebhookUpdate::new().active(true))
        .await
        .unwrap();
    let last = missing(&id).await.pop().unwrap();
    let expected = "/paused was paused, or not subscribed, when email.delivered happened: it was changed since";
    assert_eq!(last, expected);
}

#[tokio::test]
async fn an_emails_story_has_its_request_changes_messages_and_deliveries() {
    let server = Server::start().await.unwrap();
    let client = server.email_client().unwrap();
    let sandbox = server.client().unwrap();
    let receiver = Receiver::start(&[500, 200]).await;
    let events = ["email.delivered", "email.opened"];
    let hook = serde_json::json!({"url": receiver.url(), "events": events});
    client
        .raw("POST", "/api/v1/webhooks")
        .json(&hook)
        .await
        .unwrap();
    sandbox.freeze().await.unwrap();
    let sent = client
        .emails()
        .send(email("ada@example.test", "Hi"))
        .await
        .unwrap();
    client
        .emails()
        .send(email("ada@example.test", "Another"))
        .await
        .unwrap();
    sandbox.advance(Duration::from_secs(60)).await.unwrap();
    sandbox
        .simulate_event(&sent.id, &EmailEvent::new("opened"))
        .await
        .unwrap();
    server.until_idle().await;

    let story = sandbox.email_story(&sent.id).await.unwrap();
    assert_eq!(
        (story.email.id.as_str(), story.email.status),
        (&*sent.id, EmailStatus::Delivered)
    );
    assert_eq!(story.recipients[0].address, "ada@example.test");

    let request = story.request.expect("the request");
    assert_eq!(request.summary.operation, "emails.send");
    assert!(
        request
            .request_body
            .expect("a body")
            .text
            .contains(r#""subject":"Hi""#)
    );

    let changes: Vec<_> = story
        .timeline
        .iter()
        .map(|change| change.event.as_deref())
        .collect();
    let expected = [
        None,
        Some("email.sent"),
        Some("email.delivered"),
        Some("email.opened"),
    ];
    assert_eq!(changes, expected);
    assert_eq!(story.timeline[0].status, EmailStatus::Queued);
    assert_eq!(
        story.timeline[2].recipient.as_deref(),
        Some("ada@example.test")
    );

    let open = *story.timeline[3].at - *story.timeline[0].at;
    assert_eq!(open.num_seconds(), 60);
    assert_eq!(story.messages.len(), 1);
    assert_eq!(story.messages[0].subject, "Hi");

    let events: Vec<_> = story
        .deliveries
        .iter()
        .map(|one| one.event.as_str())
        .collect();
    assert_eq!(events, ["email.delivered", "email.opened"]);
    assert!(
        story
            .deliveries
            .iter()
            .all(|delivery| delivery.state == DeliveryState::Delivered)
    );

    let attempts = story.deliveries[0].attempts.as_ref().expect("attempts");
    assert!(!attempts.is_empty() && attempts.len() <= 2, "{attempts:?}");
}

/// The response to a batch is longer than what the log has of it.
#[tokio::test]
async fn each_email_of_a_batch_has_the_request_of_the_batch() {
    let server = Server::start().await.unwrap();
    let client = server.email_client().unwrap();
    let sandbox = server.client().unwrap();
    let emails: Vec<Email> = (0..100)
        .map(|number| email("ada@example.test", &format!("Number {number}")))
        .collect();
    assert!(
        client
            .emails()
            .send_batch(&emails)
            .await
            .unwrap()
            .all_accepted()
    );

    let filter = EmailFilter {
        subject: Some("Number 99".to_owned()),
        ..Default::default()
    };
    let last = sandbox.emails(&filter).await.unwrap().data.remove(0);
    let request = sandbox
        .email_story(&last.id)
        .await
        .unwrap()
        .request
        .expect("the request");
    assert_eq!(request.summary.operation, "emails.send_batch");
    assert!(request.response_body.expect("a body").truncated);

    server.stop().await;
}

#[tokio::test]
async fn an_emails_story_survives_a_restart() {
    let directory = crate::harness::private_dir();
    let start = async || {
        Server::builder()
            .data_dir(directory.path())
            .start()
            .await
            .unwrap()
    };

    let server = start().await;
    let sent = server.email_client().unwrap();
    let sent = sent
        .emails()
        .send(email("bounced@x.test", "Hi"))
        .await
        .unwrap();
    server.until_idle().await;
    server.stop().await;
    let server = start().await;
    let story = server
        .client()
        .unwrap()
        .email_story(&sent.id)
        .await
        .unwrap();
    assert_eq!(
        story.timeline.last().unwrap().event.as_deref(),
        Some("email.bounced")
    );
    assert!(story.request.is_none(), "the request log is in memory");

    server.stop().await;
}

#[tokio::test]
async fn requests_are_logged_with_their_bodies_and_without_secrets() {
    let sandbox = Sandbox::start().await;
    let server = &sandbox.server;
    let control = server.client().unwrap();
    let hook = r#"{"url":"https://ada:pw123@shop.test/hook","events":["email.sent"]}"#;
    let created = sandbox.call("POST /api/v1/webhooks", hook).await;
    let secret = created.between(r#""signingSecret":""#);
    let large = format!(
        r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"{}"}}"#,
        "x".repeat(5000)
    );
    let headers =
        format!("authorization: Bearer {KEY}\r\nidempotency-key: once\r\nuser-agent: test/1\r\n");
    let sent = sandbox
        .raw("POST /api/v1/emails?trace=1", &headers, &large)
        .await;
    assert_eq!(sent.status, 202, "{sent:?}");

    sandbox
        .with_key("mk_wrong_key_123", "GET /api/v1/domains", "")
        .await;
    assert_eq!(sandbox.call("POST /api/v1/emails", "{").await.status, 400);

    let raw = sandbox.control("GET /_sandbox/requests", "").await;
    for secret in [secret.as_str(), KEY, "mk_wrong_key_123", "pw123"] {
        assert!(!raw.body.contains(secret), "{secret} in {}", raw.body);
    }

    let all = control
        .requests(&RequestFilter::default())
        .await
        .unwrap()
        .data;
    let seen: Vec<_> = all
        .iter()
        .map(|one| (one.summary.operation.as_str(), one.summary.status))
        .collect();
    assert_eq!(
        seen,
        [
            ("emails.send", Some(400)),
            ("domains.list", Some(401)),
            ("emails.send", Some(202)),
            ("webhooks.create", Some(201)),
        ]
    );

    let [invalid, unknown_key, send, webhook] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(unknown_key.summary.key, None);
    assert_eq!(Some(send.summary.id.as_str()), sent.header("x-request-id"));
    assert_eq!(send.summary.path, "/api/v1/emails?trace=1");
    assert_eq!(send.summary.idempotency_key.as_deref(), Some("once"));
    assert_eq!(send.summary.user_agent.as_deref(), Some("test/1"));

    let body = send.request_body.as_ref().expect("a body");
    assert_eq!(
        (body.size, body.text.len(), body.truncated),
        (large.len(), 4096, true)
    );
    assert_eq!(send.response_body.as_ref().expect("a body").text, sent.body);
    assert_eq!(invalid.request_body.as_ref().expect("a body").text, "{");

    let body = &webhook.request_body.as_ref().expect("a body").text;
    assert_eq!(
        body,
        r#"{"url":"https://ada:[redacted]@shop.test/hook","events":["email.sent"]}"#
    );

    let ids = async |request: Request<Page<LoggedRequest>>| {
        let page = request.await.unwrap();
        page.data
            .into_iter()
            .map(|one| one.summary.id)
            .collect::<Vec<_>>()
    };

    let list = |filter: RequestFilter| control.requests(&filter);
    let all = RequestFilter::default;
    let operation = Some(Operation::EmailsSend.to_string());
    assert_eq!(
        ids(list(RequestFilter { operation, ..all() })).await.len(),
        2
    );

    let of = |status: &str| {
        list(RequestFilter {
            status: Some(status.to_owned()),
            ..all()
        })
    };

    assert_eq!(ids(of("4xx")).await.len(), 2);
    assert_eq!(ids(of("202")).await, [send.summary.id.as_str()]);

    let after = Some(send.summary.id.clone());
    assert_eq!(ids(list(RequestFilter { after, ..all() })).await.len(), 2);

    let key = send.summary.key.clone();
    assert_eq!(ids(list(RequestFilter { key, ..all() })).await.len(), 3);

    let page = list(all()).limit(3).await.unwrap();
    let rest = ids(list(all()).cursor(page.next.unwrap())).await;
    assert_eq!(rest, [webhook.summary.id.as_str()]);

    let one = control.request(&send.summary.id).await.unwrap();
    assert_eq!(one.summary.id, send.summary.id);
    assert_eq!(
        sandbox
            .control("GET /_sandbox/requests?status=9xx", "")
            .await
            .status,
        422
    );
    assert_eq!(
        sandbox
            .control("GET /_sandbox/requests/req_none", "")
            .await
            .status,
        404
    );

    // Another organization sees none of it, not even the request without a valid key.
    let other = server.tenant("Other").await.unwrap().organization;
    assert!(ids(control.of(&other.id).requests(&all())).await.is_empty());

    control.reset_organization("Sandbox").await.unwrap();
    assert!(
        ids(list(all())).await.is_empty(),
        "the log survived a reset"
    );
}

#[tokio::test]
async fn a_request_without_a_response_is_logged_with_its_fault() {
    let sandbox = Sandbox::start().await;
    let control = sandbox.server.client().unwrap();
    let fault = NewFault {
        drop: Some(DropPoint::After),
        ..NewFault::default()
    };
    let fault = control.add_fault(&fault).await.unwrap();
    sandbox.expect_faults();
    let text = format!(
        "GET /api/v1/domains HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {KEY}\r\n\r\n",
        sandbox.addr()
    );
    assert!(
        raw::try_send(sandbox.addr(), text.as_bytes())
            .await
            .is_none()
    );

    let logged = async {
        loop {
            if let Some(logged) = control
                .requests(&RequestFilter::default())
                .await
                .unwrap()
                .data
                .pop()
            {
                return logged;
            }
            tokio::task::yield_now().await;
        }
    };
    let logged = within("the request in the log", logged).await;
    assert_eq!(
        (logged.summary.status, logged.summary.fault),
        (None, Some(fault.id))
    );
}

#[tokio::test]
async fn a_program_gets_each_request_of_its_server() {
    let handled = Arc::new(Mutex::new(Vec::new()));
    let calls = Arc::clone(&handled);
    let options =
        Server::builder().on_request(move |request| calls.lock().unwrap().push(request.clone()));
    let server = options.start().await.unwrap();
    let client = server.email_client().unwrap();
    client
        .emails()
        .send(email("ada@example.test", "Hi"))
        .await
        .unwrap();
    let handled = handled.lock().unwrap();
    assert_eq!(
        (
            handled[0].summary.operation.as_str(),
            handled[0].summary.status
        ),
        ("emails.send", Some(202))
    );
}

#[tokio::test]
async fn requests_belong_to_the_organization_of_their_key() {
    let server = Server::start().await.unwrap();
    let one = server.tenant("One").await.unwrap();
    let two = server.tenant("Two").await.unwrap();
    one.email.domains().list().await.unwrap();
    let key = one
        .sandbox
        .create_key(&NewKey::email(["domains:manage"]))
        .await
        .unwrap();
    let client = EmailClient::builder(server.base_url(), key.key.unwrap())
        .build()
        .unwrap();
    client.domains().list().await.unwrap();
    let seen = one
        .sandbox
        .requests(&RequestFilter::default())
        .await
        .unwrap()
        .data;
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].summary.key.as_deref(), Some(key.id.as_str()));
    assert!(
        two.sandbox
            .requests(&RequestFilter::default())
            .await
            .unwrap()
            .data
            .is_empty()
    );
}

#[tokio::test]
async fn attachments_are_never_run_by_a_browser() {
    let sandbox = Sandbox::start().await;
    let control = sandbox.server.client().unwrap();
    let page = "<script>alert(1)</script>";
    let mail = email("ada@example.test", "Files")
        .attachment(Attachment::from_bytes("Grüße \"1\".html", page))
        .attachment(Attachment::from_bytes("notes.txt", "hello"));
    let client = sandbox.server.email_client().unwrap();
    client.emails().send(&mail).await.unwrap();
    let message = control.wait_for("ada@example.test").await.unwrap();
    let path = format!("GET /_sandbox/messages/{}/attachments", message.id);
    let got = sandbox.control(&format!("{path}/1"), "").await;
    assert_eq!((got.status, got.body.as_str()), (200, page));
    assert_eq!(got.header("content-type"), Some("text/html"));
    assert_eq!(
        got.header("content-disposition"),
        Some("attachment; filename*=UTF-8''Gr%C3%BC%C3%9Fe%20%221%22%2Ehtml")
    );
    assert_eq!(got.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(
        got.header("content-security-policy"),
        Some("sandbox; default-src 'none'")
    );
    assert_eq!(
        got.header("cross-origin-resource-policy"),
        Some("same-origin")
    );
    assert_eq!(control.attachment(&message.id, 2).await.unwrap(), "hello");

    for none in ["0", "3", "x"] {
        assert_eq!(
            sandbox.control(&format!("{path}/{none}"), "").await.status,
            404,
            "{none}"
        );
    }
}

/// The response is longer than what the log keeps of it.
#[tokio::test]
async fn every_email_of_a_batch_has_its_request() {
    let sandbox = Sandbox::start().await;
    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let batch = format!("[{}]", [email; 100].join(","));
    let sent = sandbox.call("POST /api/v1/emails/batch", &batch).await;
    let request = sent.header("x-request-id").expect("an ID").to_owned();
    let ids: Vec<&str> = sent
        .body
        .split(r#""id":""#)
        .skip(1)
        .map(|rest| &rest[..40])
        .collect();
    for id in [ids[0], ids[99]] {
        let story = sandbox
            .control(&format!("GET /_sandbox/emails/{id}/story"), "")
            .await;
        assert!(
            story
                .body
                .contains(&format!(r#""request":{{"id":"{request}""#)),
            "{story:?}"
        );
    }
}
