//! Requests and responses of the email operations (`docs/email-service/README.md#emails`).

use std::sync::{Arc, Mutex};

use svc_sdk::Dialect;
use svc_sdk::email::{
    Attachment, BatchItem, BatchOutcome, BatchResponse, Email, EmailRecord, EmailStatus,
    ScheduledAt,
};
use tokio::io::AsyncWriteExt;

use crate::mock_server::{MockServer, read_request};

#[tokio::test]
async fn send_serializes_every_documented_field() {
    let server = MockServer::json(
        202,
        r#"{"id":"eml_1","status":"queued","from":"a@b.test","createdAt":"2026-01-02T03:04:05Z"}"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let email = Email::new("Shop <a@b.test>", "c@d.test", "Hi \"you\"\n")
        .to("e@f.test")
        .html("<p>Hello</p>")
        .text("Hello")
        .cc("g@h.test")
        .bcc("i@j.test")
        .reply_to("k@l.test")
        .header("X-Thing", "1")
        .attachment(Attachment::from_bytes("a.txt", "hello").content_type("text/plain"))
        .attachment(Attachment::from_base64("b.bin", "AAEC"))
        .tag("kind", "note")
        .scheduled_at("2026-12-24T18:00:00Z")
        .template("tpl_1")
        .variable("count", 3)
        .variable("name", "Ada")
        .extra("priority", "high");
    let accepted = client.emails().send(&email).await.unwrap();

    let request = server.single_request();
    assert_eq!(request.line, "POST /api/v1/emails HTTP/1.1");
    assert_eq!(request.header("authorization"), Some("Bearer mk_secret"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("accept"), Some("application/json"));
    assert_eq!(request.header("user-agent"), Some("svc-sdk/0.1.0"));
    assert_eq!(request.header("idempotency-key"), None);
    assert_eq!(
        request.body,
        concat!(
            r#"{"from":"Shop <a@b.test>","to":["c@d.test","e@f.test"],"subject":"Hi \"you\"\n","#,
            r#""html":"<p>Hello</p>","text":"Hello","cc":["g@h.test"],"bcc":["i@j.test"],"#,
            r#""replyTo":["k@l.test"],"headers":{"X-Thing":"1"},"tags":{"kind":"note"},"#,
            r#""scheduledAt":"2026-12-24T18:00:00Z","templateId":"tpl_1","#,
            r#""variables":{"count":3,"name":"Ada"},"priority":"high","#,
            r#""attachments":[{"filename":"a.txt","contentType":"text/plain","content":"aGVsbG8="},"#,
            r#"{"filename":"b.bin","content":"AAEC"}]}"#
        )
    );
    assert_eq!(accepted.id, "eml_1");
    assert_eq!(accepted.status, Some(EmailStatus::Queued));
    assert_eq!(
        accepted.created_at.unwrap().to_rfc3339(),
        "2026-01-02T03:04:05+00:00"
    );
}

#[tokio::test]
async fn send_serializes_only_required_fields() {
    let server = MockServer::json(202, r#"{"id":"eml_1","status":"queued"}"#).await;
    let client = server.email().build().unwrap();
    client
        .emails()
        .send(Email::new("a@b.test", "c@d.test", "Hi"))
        .await
        .unwrap();
    assert_eq!(
        server.single_request().body,
        r#"{"from":"a@b.test","to":["c@d.test"],"subject":"Hi"}"#
    );
}

#[tokio::test]
async fn scheduled_at_formats_an_instant_as_rfc_3339() {
    let instant = chrono::DateTime::parse_from_rfc3339("2026-12-24T18:00:00.5+01:00").unwrap();
    let server = MockServer::json(202, r#"{"id":"eml_1"}"#).await;
    let client = server.email().build().unwrap();
    let email = Email::new("a@b.test", "c@d.test", "Hi").scheduled_at(ScheduledAt::at(&instant));
    client.emails().send(&email).await.unwrap();
    assert_eq!(
        server.single_request().body,
        r#"{"from":"a@b.test","to":["c@d.test"],"subject":"Hi","scheduledAt":"2026-12-24T17:00:00.500Z"}"#
    );
}

#[tokio::test]
async fn email_deserializes_from_the_documented_json() {
    let email: Email = serde_json::from_str(
        r#"{"from":"a@b","to":"c@d","subject":"s","replyTo":["e@f"],"scheduledAt":"tomorrow",
            "attachments":[{"filename":"n","content":"AA==","contentType":"x/y"}],"other":1}"#,
    )
    .unwrap();
    assert_eq!(email.to, ["c@d"]);
    assert_eq!(
        serde_json::to_string(&email).unwrap(),
        concat!(
            r#"{"from":"a@b","to":["c@d"],"subject":"s","replyTo":["e@f"],"scheduledAt":"tomorrow","#,
            r#""other":1,"attachments":[{"filename":"n","contentType":"x/y","content":"AA=="}]}"#
        )
    );
}

#[tokio::test]
async fn send_batch() {
    let server = MockServer::json(
        200,
        r#"{"results":[{"index":0,"id":"eml_1","status":"queued"},
            {"index":1,"error":{"code":"domain_not_verified","message":"no"}}]}"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let emails = [
        Email::new("a@b.test", "c@d.test", "1"),
        Email::new("a@x.test", "c@d.test", "2"),
    ];
    let response = client.emails().send_batch(&emails).await.unwrap();

    let request = server.single_request();
    assert_eq!(request.line, "POST /api/v1/emails/batch HTTP/1.1");
    assert_eq!(
        request.body,
        concat!(
            r#"[{"from":"a@b.test","to":["c@d.test"],"subject":"1"},"#,
            r#"{"from":"a@x.test","to":["c@d.test"],"subject":"2"}]"#
        )
    );
    assert!(response.is_complete());
    assert!(!response.all_accepted());

    let (index, email) = response.accepted().next().unwrap();
    assert_eq!((index, email.id.as_str()), (Some(0), "eml_1"));

    let (index, refusal) = response.refused().next().unwrap();
    assert_eq!(
        (index, refusal.code.as_deref()),
        (Some(1), Some("domain_not_verified"))
    );
    assert_eq!(refusal.message.as_deref(), Some("no"));
}

#[tokio::test]
async fn batch_shape_object_wraps_the_emails() {
    let server = MockServer::json(200, r#"[{"id":"eml_1"}]"#).await;
    let client = server
        .email()
        .dialect(Dialect::with(["batch-body=emails"]).unwrap())
        .build()
        .unwrap();
    let email =
        Email::new("a@b.test", "c@d.test", "1").attachment(Attachment::from_bytes("n", "hello"));
    let response = client.emails().send_batch(&[email]).await.unwrap();
    assert!(response.all_accepted());
    assert_eq!(
        server.single_request().body,
        concat!(
            r#"{"emails":[{"from":"a@b.test","to":["c@d.test"],"subject":"1","#,
            r#""attachments":[{"filename":"n","content":"aGVsbG8="}]}]}"#
        )
    );
}

#[tokio::test]
async fn send_batch_decodes_every_response_shape() {
    let emails = [
        Email::new("a@b.test", "c@d.test", "1"),
        Email::new("a@b.test", "c@d.test", "2"),
    ];
    for body in [
        r#"[{"id":"x"},{"error":{"code":"no","message":"m"}}]"#,
        r#"{"data":[{"id":"x"},{"error":"m","code":"no"}]}"#,
        r#"{"emails":[{"email":{"id":"x"}},{"ok":false,"code":"no","message":"m"}],"count":2}"#,
        r#"{"data":{"results":[{"id":"x"},{"status":"failed","code":"no","message":"m"}]}}"#,
        r#"{"results":[{"index":1,"error":{"code":"no","message":"m"}},{"index":0,"id":"x"}]}"#,
        r#"["x",{"errors":["m"],"code":"no"}]"#,
    ] {
        let server = MockServer::json(200, body).await;
        let client = server.email().build().unwrap();
        let response = client.emails().send_batch(&emails).await.unwrap();
        assert!(response.is_complete(), "{body}");
        let accepted: Vec<_> = response
            .accepted()
            .map(|(at, email)| (at, &*email.id))
            .collect();
        assert_eq!(accepted, [(Some(0), "x")], "{body}");
        let refused: Vec<_> = response
            .refused()
            .map(|(at, refusal)| (at, refusal.code.as_deref()))
            .collect();
        assert_eq!(refused, [(Some(1), Some("no"))], "{body}");
    }
}

/// If an accepted email were reported as refused, the application would send it again.
#[tokio::test]
async fn empty_error_fields_do_not_mean_refusal() {
    for nothing in [
        r#""error":null"#,
        r#""error":"""#,
        r#""error":{}"#,
        r#""error":false"#,
        r#""errors":[]"#,
        r#""error":null,"errors":{},"message":"queued""#,
    ] {
        let server = MockServer::json(
            200,
            &format!(r#"[{{"id":"x","status":"queued",{nothing}}}]"#),
        )
        .await;
        let client = server.email().build().unwrap();
        let email = Email::new("a@b.test", "c@d.test", "1");
        let response = client.emails().send_batch(&[email]).await.unwrap();
        assert!(response.all_accepted(), "{nothing}");
    }
}

/// Items that are not objects are returned unmodified.
/// `{"id": "2", "status": 202, "headers", "body"}` is the response to one request of several, in any
/// order; its id is that of the request.
#[tokio::test]
async fn items_that_hold_responses_are_put_to_their_requests() {
    let body = r#"{"responses":[
        {"id":"1","status":403,"body":{"error":{"code":"denied","message":"no"}}},
        {"id":"2","status":202,"headers":{"Operation-Location":"https://x.test/emails/c"},"body":null},
        {"id":"0","status":202,"headers":{"Operation-Location":"https://x.test/emails/a"},"body":null}]}"#;
    let server = MockServer::json(200, body).await;
    let client = server.email().build().unwrap();
    let email = Email::new("a@x.test", "b@x.test", "s").text("t");
    let response = client
        .emails()
        .send_batch(&[email.clone(), email.clone(), email])
        .await;
    let response = response.unwrap();

    let accepted: Vec<_> = response
        .accepted()
        .map(|(index, email)| (index, email.id.as_str()))
        .collect();
    assert_eq!(accepted, [(Some(0), "a"), (Some(2), "c")]);

    let refused: Vec<_> = response.refused().collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(
        (refused[0].0, refused[0].1.code.as_deref()),
        (Some(1), Some("denied"))
    );
}

#[tokio::test]
async fn what_failed_may_be_in_a_list_of_its_own() {
    for body in [
        r#"{"code":0,"data":{"success_list":[{"index":0,"email_id":7}],
            "fail_list":[{"index":1,"code":230013,"msg":"no"}]}}"#,
        r#"{"accepted":[{"index":0,"id":"7"}],"rejected":[{"index":1,"reason":"no"}]}"#,
    ] {
        let server = MockServer::json(200, body).await;
        let client = server.email().build().unwrap();
        let email = Email::new("a@x.test", "b@x.test", "s").text("t");
        let response = client
            .emails()
            .send_batch(&[email.clone(), email])
            .await
            .unwrap();
        let accepted: Vec<_> = response
            .accepted()
            .map(|(index, email)| (index, email.id.as_str()))
            .collect();
        assert_eq!(accepted, [(Some(0), "7")], "{body}");
        let (index, refusal) = response.refused().next().unwrap();
        assert_eq!(
            (index, refusal.message.as_deref()),
            (Some(1), Some("no")),
            "{body}"
        );
    }

    let body = r#"{"fail_list":[{"index":0,"msg":"no"},{"index":1,"msg":"no"}]}"#;
    let server = MockServer::json(200, body).await;
    let client = server.email().build().unwrap();
    let email = Email::new("a@x.test", "b@x.test", "s").text("t");
    let emails = [email.clone(), email];
    let response = client.emails().send_batch(&emails).await.unwrap();
    assert_eq!(response.refused().count(), 2);

    // Of the others, nothing is said.
    let body = r#"{"accepted":1,"errors":[{"index":1,"message":"no"}]}"#;
    let server = MockServer::json(200, body).await;
    let client = server.email().build().unwrap();
    let response = client.emails().send_batch(&emails).await.unwrap();
    assert_eq!(response.refused().next().unwrap().0, Some(1));
    assert_eq!((response.items.len(), response.is_complete()), (1, false));

    let partial = r#"{"error":{"code":"partial","message":"1 of 2 emails queued"}}"#;
    for (status, body) in [(422, body), (400, partial)] {
        let server = MockServer::json(status, body).await;
        let client = server.email().build().unwrap();
        let error = client.emails().send_batch(&emails).await.unwrap_err();
        assert_eq!(error.outcome(), svc_sdk::Outcome::Unknown, "{body}");
    }
}

#[tokio::test]
async fn an_item_is_put_to_the_email_that_it_names() {
    for (body, expected) in [
        (
            r#"[{"email":"B@x.test","status":"rejected","_id":"1"},{"email":"a@x.test","id":"2"}]"#,
            Some(1),
        ),
        (
            r#"[{"to":"Bob <b@x.test>","success":false},{"to":["a@x.test"],"id":"2"}]"#,
            Some(1),
        ),
        (
            r#"[{"request_index":1,"success":false},{"request_index":0,"id":"2"}]"#,
            Some(1),
        ),
        (
            r#"{"results":{"1":{"success":false},"0":{"id":"2"}}}"#,
            Some(1),
        ),
        // Whom it means, nobody knows.
        (
            r#"[{"email":"c@x.test","success":false},{"email":"a@x.test","id":"2"}]"#,
            None,
        ),
    ] {
        let server = MockServer::json(200, body).await;
        let client = server.email().build().unwrap();
        let email = |to| Email::new("from@x.test", to, "s").text("t");
        let emails = [email("a@x.test"), email("b@x.test")];
        let response = client.emails().send_batch(&emails).await.unwrap();
        let (refused, _) = response.refused().next().unwrap();
        assert_eq!(refused, expected, "{body}");
        let (accepted, _) = response.accepted().next().unwrap();
        assert_eq!(accepted, Some(0), "{body}");
    }
}

#[tokio::test]
async fn batch_items_of_other_types_are_unrecognized() {
    let server = MockServer::json(200, r#"[null,1.5,[{"id":"x"}],{}]"#).await;
    let client = server.email().build().unwrap();
    let emails = vec![Email::new("a@b.test", "c@d.test", "1"); 4];
    let response = client.emails().send_batch(&emails).await.unwrap();
    assert!(response.is_complete() && !response.all_accepted());
    assert_eq!(
        serde_json::to_string(&response).unwrap(),
        r#"[{"index":0,"result":null},{"index":1,"result":1.5},{"index":2,"result":[{"id":"x"}]},{"index":3}]"#
    );
}

#[tokio::test]
async fn a_batch_response_with_a_different_count_is_incomplete() {
    let server =
        MockServer::json(200, r#"{"results":[{"id":"x"},{"status":"?"},{"id":"z"}]}"#).await;
    let client = server.email().build().unwrap();
    let emails = [
        Email::new("a@b.test", "c@d.test", "1"),
        Email::new("a@b.test", "c@d.test", "2"),
    ];
    let response = client.emails().send_batch(&emails).await.unwrap();
    assert!(!response.is_complete());
    assert!(!response.all_accepted());
    assert_eq!((response.requested, response.items.len()), (2, 3));
    assert!(response.items.iter().all(|item| item.index.is_none()));
    assert!(matches!(
        response.items[1].outcome,
        BatchOutcome::Unrecognized(_)
    ));
}

/// What contradicts itself is a mismatch: no result is given to an email by a guess.
#[tokio::test]
async fn an_index_that_is_repeated_or_too_high_makes_a_batch_incomplete() {
    let emails = [
        Email::new("a@b.test", "c@d.test", "1"),
        Email::new("a@b.test", "c@d.test", "2"),
    ];
    for body in [
        r#"[{"index":0,"id":"x"},{"index":0,"id":"y"}]"#,
        r#"[{"index":1,"id":"x"},{"index":2,"id":"y"}]"#,
        r#"[{"index":1,"id":"x"},{"id":"y"}]"#,
    ] {
        let server = MockServer::json(200, body).await;
        let client = server.email().build().unwrap();
        let response = client.emails().send_batch(&emails).await.unwrap();
        assert!(
            !response.is_complete() && !response.all_accepted(),
            "{body}"
        );
        let accepted: Vec<_> = response
            .accepted()
            .map(|(at, email)| (at, &*email.id))
            .collect();
        assert_eq!(accepted, [(None, "x"), (None, "y")], "{body}");
    }

    // Also in a response that a test made.
    let items = [0, 0].map(|at| BatchItem::new(at, BatchOutcome::Accepted(EmailRecord::default())));
    assert!(!BatchResponse::new(items.into(), 2).is_complete());
}

#[tokio::test]
async fn get() {
    let server = MockServer::json(200, r#"{"id":"eml_1","status":"delivered","ip":"Hi"}"#).await;
    let client = server.email().build().unwrap();
    let email = client.emails().get("eml_1").await.unwrap();
    let request = server.single_request();
    assert_eq!(request.line, "GET /api/v1/emails/eml_1 HTTP/1.1");
    assert_eq!(
        (request.body.as_str(), request.header("content-type")),
        ("", None)
    );
    assert_eq!(email.status, Some(EmailStatus::Delivered));
    assert_eq!(email.extra.keys().collect::<Vec<_>>(), ["ip"]);
    assert_eq!(
        serde_json::to_value(&email).unwrap(),
        serde_json::json!({"id": "eml_1", "status": "delivered", "ip": "Hi"})
    );
}

#[tokio::test]
async fn cancel() {
    let server = MockServer::json(200, r#"{"id":"eml_1","status":"cancelled"}"#).await;
    let client = server.email().build().unwrap();
    let email = client.emails().cancel("eml_1").await.unwrap();
    let request = server.single_request();
    assert_eq!(request.line, "PATCH /api/v1/emails/eml_1/cancel HTTP/1.1");
    assert_eq!(request.body, "");
    assert_eq!(email.status, Some(EmailStatus::Cancelled));
    assert!(email.status.unwrap().is_final());
}

#[tokio::test]
async fn parses_documented_and_unknown_statuses() {
    for (text, status, is_final) in [
        ("queued", EmailStatus::Queued, false),
        ("sending", EmailStatus::Sending, false),
        ("sent", EmailStatus::Sent, false),
        ("delivered", EmailStatus::Delivered, true),
        ("bounced", EmailStatus::Bounced, true),
        ("failed", EmailStatus::Failed, true),
        ("complained", EmailStatus::Complained, true),
        ("cancelled", EmailStatus::Cancelled, true),
        ("suppressed", EmailStatus::Suppressed, true),
        ("scheduled", EmailStatus::Scheduled, false),
        ("Paused", EmailStatus::Other("Paused".into()), false),
    ] {
        let server = MockServer::json(200, &format!(r#"{{"id":"x","status":"{text}"}}"#)).await;
        let client = server.email().build().unwrap();
        let email = client.emails().get("x").await.unwrap();
        assert_eq!(email.status.as_ref(), Some(&status));
        assert_eq!((status.as_str(), status.is_final()), (text, is_final));
    }
}

/// Starts a server that accepts every email of a batch, and returns what it received.
async fn start_batch_server() -> (String, Arc<Mutex<Vec<Vec<String>>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let received = Arc::<Mutex<Vec<Vec<String>>>>::default();
    let batches = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let batches = Arc::clone(&batches);
            tokio::spawn(async move {
                let mut buffer = Vec::new();
                while let Some(request) = read_request(&mut stream, &mut buffer).await {
                    let emails: Vec<serde_json::Value> =
                        serde_json::from_str(&request.body).unwrap();
                    let to = emails
                        .iter()
                        .map(|email| email["to"][0].as_str().unwrap().to_owned());
                    let to: Vec<_> = to.collect();
                    let ids: Vec<_> = to
                        .iter()
                        .map(|to| format!(r#"{{"id":"for {to}"}}"#))
                        .collect();
                    batches.lock().unwrap().push(to);
                    let body = format!("[{}]", ids.join(","));
                    let response = crate::mock_server::response(202, &body);
                    stream
                        .write_all(response.to_string().as_bytes())
                        .await
                        .unwrap();
                }
            });
        }
    });
    (url, received)
}

/// 10 bad rows in 5 000 keep none of the others from being sent.
#[tokio::test]
async fn a_bad_email_stops_no_other_of_its_batch() {
    let (url, received) = start_batch_server().await;
    let client = svc_sdk::EmailClient::builder(url, "k")
        .no_proxy()
        .build()
        .unwrap();
    let is_bad = |row: usize| row % 500 == 250;
    let email = |row: usize| {
        let to = if is_bad(row) {
            "private".to_owned()
        } else {
            format!("{row}@d.test")
        };
        Email::new("a@b.test", to, "s")
    };

    let rows: Vec<_> = (0..5_000).map(email).collect();
    let mut accepted = Vec::new();
    let mut refused = Vec::new();
    for (number, chunk) in rows.chunks(100).enumerate() {
        let response = client.emails().send_batch(chunk).await.unwrap();
        assert!(response.is_complete());
        assert_eq!(response.items.len(), chunk.len());
        for (position, item) in response.items.iter().enumerate() {
            assert_eq!(item.index, Some(position), "in the order of the rows");
        }
        let row = |index: Option<usize>| number * 100 + index.unwrap();
        for (index, email) in response.accepted() {
            assert_eq!(email.id, format!("for {}@d.test", row(index)));
            accepted.push(row(index));
        }
        for (index, refusal) in response.refused() {
            assert_eq!(refusal.code.as_deref(), Some("invalid_input"));
            assert_eq!(refusal.fields[0].field, "to[0]");
            let message = refusal.message.as_deref().unwrap();
            assert_eq!(
                message,
                "to[0]: not an email address; use `a@b` or `Name <a@b>`"
            );
            assert!(!format!("{refusal:?}").contains("private"));
            refused.push(row(index));
        }
    }

    let (bad, good): (Vec<_>, Vec<_>) = (0..5_000).partition(|row| is_bad(*row));
    assert_eq!((refused, accepted.len()), (bad, good.len()));
    assert_eq!(accepted, good);
    assert_eq!(
        received.lock().unwrap().iter().map(Vec::len).sum::<usize>(),
        4_990
    );
}

/// The service's indices count what it received, the response's what was passed to the call.
#[tokio::test]
async fn indices_of_a_batch_skip_the_emails_that_were_not_sent() {
    let server = MockServer::json(
        200,
        r#"[{"index":1,"error":{"code":"no","fields":[{"field":"to","message":"m"}]}},
            {"index":0,"id":"eml_1"}]"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let emails = ["bad", "b@d.test", "bad", "d@d.test"].map(|to| Email::new("a@b.test", to, "s"));
    let response = client.emails().send_batch(&emails).await.unwrap();
    assert!(response.is_complete() && !response.all_accepted());

    let accepted: Vec<_> = response
        .accepted()
        .map(|(index, email)| (index, &*email.id))
        .collect();
    assert_eq!(accepted, [(Some(1), "eml_1")]);

    let refused: Vec<_> = response
        .refused()
        .map(|(index, refusal)| (index.unwrap(), &*refusal.fields[0].field))
        .collect();
    assert_eq!(refused, [(0, "to[0]"), (2, "to[0]"), (3, "to")]);
}
