//! The recipient guard: nothing goes around it.

use serde_json::{Value, json};
use svc_sdk::email::{Attachment, Email};
use svc_sdk::{EmailClient, Error, ErrorKind, Outcome, RecipientGuard};

use crate::mock_server::MockServer;

const ACCEPTED: &str = r#"{"id":"eml_1"}"#;

fn guarded(server: &MockServer, guard: RecipientGuard) -> EmailClient {
    server.email().recipient_guard(guard).build().unwrap()
}

/// The field and the problem.
fn refusal(error: &Error) -> (String, String) {
    assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
    match error.kind() {
        ErrorKind::RecipientGuard(refused) => {
            (refused.field.to_string(), refused.problem.to_string())
        }
        _ => panic!("{error:?}"),
    }
}

fn email(to: &str) -> Email {
    Email::new("a@shop.test", to, "Hi").text("Hello")
}

#[tokio::test]
async fn to_cc_and_bcc_of_every_send_are_checked() {
    let server = MockServer::json(202, ACCEPTED).await;
    let client = guarded(&server, RecipientGuard::allow(["@example.com", "me@x.test"]));
    let good = || email("Me <ME@X.test>").cc("a@example.com").bcc("b@EXAMPLE.com");
    for (bad, field) in [
        (email("ada@customer.test"), "to[0]"),
        (good().to("ada@customer.test"), "to[1]"),
        (good().cc("ada@customer.test"), "cc[1]"),
        (good().bcc("ada@customer.test"), "bcc[1]"),
        (good().bcc("ada@sub.example.com"), "bcc[1]"),
        (good().cc("me@x.test <ada@customer.test>"), "cc[1]"),
        (good().cc("me@x.test,ada@customer.test"), "cc[1]"),
        (good().extra("BCC", "ada@customer.test"), "BCC"),
        (good().extra("recipients", json!(["ada@customer.test"])), "recipients"),
        (good().header("bcc", "ada@customer.test"), "headers.bcc"),
        (good().header("X-A", "x\r\nBcc: ada@customer.test"), "headers.X-A"),
        (good().header("X-A: x\r\nBcc", "ada@customer.test"), "headers.X-A: x\u{fffd}\u{fffd}Bcc"),
    ] {
        let error = client.emails().send(&bad).await.unwrap_err();
        assert_eq!(refusal(&error).0, field, "{error}");
        let error = client.emails().send(&bad).to_request().unwrap_err();
        assert_eq!(refusal(&error).0, field, "{error}");
        let error = client.emails().send_batch(&[good(), bad]).await.unwrap_err();
        assert_eq!(refusal(&error).0, format!("emails[1].{field}"), "{error}");
    }
    let error = client.emails().send(email("ada@customer.test")).await.unwrap_err();
    let problem = "ada@customer.test is not allowed; allowed are only @example.com, me@x.test";
    assert_eq!(refusal(&error).1, problem);
    assert_eq!(
        error.to_string(),
        format!("email emails.send: stopped by the recipient guard: to[0]: {problem}")
    );
    assert_eq!(server.request_count(), 0);

    client.emails().send(good().extra("campaign", "spring")).await.unwrap();
    client.with_key("other").unwrap().emails().send(good()).await.unwrap();
    let error = client.with_key("other").unwrap().emails().send(email("ada@customer.test")).await;
    refusal(&error.unwrap_err());
    assert_eq!(server.request_count(), 2);
}

#[tokio::test]
async fn raw_requests_are_checked_as_they_are_sent() {
    let server = MockServer::json(202, ACCEPTED).await;
    let client = guarded(&server, RecipientGuard::allow(["me@x.test"]));
    let send = |path: &str, body: &str| {
        client.raw("POST", path).body(body.to_owned(), "application/json").into_future()
    };
    let batch = "/api/v1/emails/batch";
    for (path, body, field) in [
        ("/api/v1/emails", r#"{"to":"ada@customer.test"}"#, "to[0]"),
        ("/api/v1/emails?x=y", r#"{"to":["me@x.test"],"cc":["ada@customer.test"]}"#, "cc[0]"),
        ("/api/v1/emails", r#"{"to":"me@x.test","to":"ada@customer.test"}"#, "to"),
        ("/api/v1/emails", r#"{"to":"me@x.test","\u0054o":"ada@customer.test"}"#, "To"),
        ("/api/v1/emails", r#"{"to":"me@x.test"}{"to":"ada@customer.test"}"#, "body"),
        ("/api/v1/emails", r#"{"to":{"email":"ada@customer.test"}}"#, "to"),
        ("/api/v1/emails", r#"{"to":"me@x.test","x":"ada\u0040customer.test"}"#, "x"),
        ("/api/v1/emails", r#"{"to":"me@x.test","headers":[["Bcc","a@b"]]}"#, "headers"),
        ("/api/v1/emails", r#"{"to":"me@x.test","subject":"x\nBcc: a@b"}"#, "subject"),
        ("/api/v1/emails", r#"[{"to":"ada@customer.test"}]"#, "body"),
        ("/api/v1/emails", "to=ada@customer.test", "body"),
        (batch, r#"[{"to":"me@x.test"},{"to":"ada@customer.test"}]"#, "emails[1].to[0]"),
        (batch, r#"{"emails":[{"to":"ada@customer.test"}]}"#, "emails[0].to[0]"),
        (batch, r#"{"emails":[{"to":"me@x.test"}],"cc":"ada@customer.test"}"#, "body"),
        (batch, r#"[[{"to":"ada@customer.test"}]]"#, "emails[0]"),
        ("/api/v1/emails/", r#"{"to":"me@x.test"}"#, "path"),
        ("/api/v1/%65mails", r#"{"to":"me@x.test"}"#, "path"),
    ] {
        let error = send(path, body).await.unwrap_err();
        assert_eq!(refusal(&error).0, field, "{path} {body}");
    }
    let put = client.raw("PUT", "/api/v1/emails").await.unwrap_err();
    assert_eq!(refusal(&put).0, "path");
    assert_eq!(server.request_count(), 0);
    send("/api/v1/emails", r#" {"to":"me@x.test", "cc":null, "n": 1e2} "#).await.unwrap();
    send(batch, r#"{"emails":[{"to":["me@x.test"]}]}"#).await.unwrap();
    send("/api/v1/audiences", r#"{"name":"x"}"#).await.unwrap();
    client.raw("GET", "/api/v1/anything").await.unwrap();
    // What is allowed is sent unchanged.
    let body = &server.received_requests()[0].body;
    assert_eq!(body, r#" {"to":"me@x.test", "cc":null, "n": 1e2} "#);
}

#[tokio::test]
async fn a_redirect_keeps_the_email_and_names_the_recipients() {
    let server = MockServer::json(202, ACCEPTED).await;
    let client = guarded(&server, RecipientGuard::default().redirect_to("Me <me@x.test>"));
    let content = vec![7_u8; 40_000];
    let mail = email("Ada <ada@customer.test>")
        .to("ben@customer.test")
        .cc("cy@customer.test")
        .bcc("not an address, but @\n")
        .header("X-A", "b")
        .header("x-original-to", "forged@x.test")
        .attachment(Attachment::from_bytes("a.bin", content))
        .attachment(Attachment::from_bytes("b.txt", "small"));
    let mail = mail.tag("kind", "x");
    let unguarded = server.email().local_checks(false).build().unwrap();
    let plain: Value = serde_json::from_slice(
        &unguarded.emails().send(&mail).to_request().unwrap().body().unwrap(),
    )
    .unwrap();
    let client_unchecked = server
        .email()
        .local_checks(false)
        .recipient_guard(RecipientGuard::default().redirect_to("Me <me@x.test>"))
        .build()
        .unwrap();
    client_unchecked.emails().send(&mail).await.unwrap();
    let sent: Value = serde_json::from_str(&server.single_request().body).unwrap();
    let mut expected = plain.as_object().unwrap().clone();
    expected["to"] = json!(["Me <me@x.test>"]);
    expected.remove("cc");
    expected.remove("bcc");
    expected["headers"] = json!({
        "X-A": "b",
        "X-Original-To": "Ada <ada@customer.test>, ben@customer.test",
        "X-Original-Cc": "cy@customer.test",
        "X-Original-Bcc": "not an address, but @\u{fffd}",
    });
    assert_eq!(sent, Value::Object(expected));

    let emails = [email("ada@customer.test"), email("ben@customer.test")];
    let preview = client.emails().send_batch(&emails).to_request().unwrap();
    let batch: Value = serde_json::from_slice(&preview.body().unwrap()).unwrap();
    for (index, original) in ["ada@customer.test", "ben@customer.test"].iter().enumerate() {
        assert_eq!(batch[index]["to"], json!(["Me <me@x.test>"]));
        assert_eq!(batch[index]["headers"]["X-Original-To"], *original);
        assert_eq!(batch[index]["text"], "Hello");
    }
    let raw = client.raw("POST", "/api/v1/emails").json(&json!({"bcc": "ada@customer.test"}));
    let raw: Value = serde_json::from_slice(&raw.to_request().unwrap().body().unwrap()).unwrap();
    let headers = json!({"X-Original-Bcc": "ada@customer.test"});
    assert_eq!(raw, json!({"to": ["Me <me@x.test>"], "headers": headers}));
}

#[tokio::test]
async fn limits_count_recipients_of_requests_that_may_have_been_processed() {
    let refused = crate::mock_server::response(422, "{}");
    let accepted = crate::mock_server::response(202, ACCEPTED);
    let server = MockServer::start([refused, accepted]).await;
    let client = guarded(&server, RecipientGuard::default().max_per_run(3).max_per_hour(10));
    let two = || email("a@b.test").bcc("c@d.test");
    assert!(matches!(client.emails().send(two()).await.unwrap_err().kind(), ErrorKind::Invalid));
    client.clone().emails().send(two()).await.unwrap();
    let error = client.emails().send(two()).await.unwrap_err();
    let (field, problem) = refusal(&error);
    assert_eq!(field, "max_per_run");
    assert_eq!(problem, "2 more recipients exceed the limit of 3 per run, of which 2 are used");
    client.emails().send(email("a@b.test")).await.unwrap();
    // A dry run does not count, and reading is not sending.
    client.emails().send(two()).to_request().unwrap();
    client.emails().get("eml_1").await.unwrap();
    assert_eq!(server.request_count(), 4);

    let guard = RecipientGuard::default().max_per_hour(1);
    let client = server.email().local_checks(false).recipient_guard(guard).build().unwrap();
    // With limits alone, too, several addresses in one text do not count as one.
    let several = client.emails().send(email("a@b.test,c@d.test"));
    let error = several.await.unwrap_err();
    assert!(refusal(&error).1.contains("several addresses"), "{error}");
    client.emails().send(email("a@b.test")).await.unwrap();
    let error = client.emails().send(email("a@b.test")).await.unwrap_err();
    assert_eq!(refusal(&error).0, "max_per_hour");
}

#[test]
fn an_invalid_guard_is_an_error_of_build() {
    for (guard, problem) in [
        (RecipientGuard::allow(["example.com"]), "`example.com` is not a rule"),
        (RecipientGuard::default().redirect_to("me"), "`me` is not an address"),
        (
            RecipientGuard::allow(["@example.com"]).redirect_to("me@x.test"),
            "me@x.test matches none of its rules",
        ),
    ] {
        let error = EmailClient::builder("http://x.test", "k").recipient_guard(guard).build();
        assert!(error.unwrap_err().to_string().contains(problem), "{problem}");
    }
    let none = RecipientGuard::allow(Vec::<String>::new());
    let client = EmailClient::builder("http://x.test", "k").recipient_guard(none).build().unwrap();
    let error = client.emails().send(email("a@b.test")).to_request().unwrap_err();
    assert_eq!(refusal(&error).1, "a@b.test is not allowed; no recipient is allowed");
}
