//! The recipient guard: nothing goes around it.

use serde_json::{Value, json};
use svc_sdk::email::{Attachment, Email};
use svc_sdk::http::HeaderValue;
use svc_sdk::{EmailClient, Error, ErrorKind, ExtractionClient, Outcome, RecipientGuard};

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

fn logo() -> Attachment {
    Attachment::from_bytes("logo.png", "x")
}

#[tokio::test]
async fn to_cc_and_bcc_of_every_send_are_checked() {
    let server = MockServer::json(202, ACCEPTED).await;
    let client = guarded(
        &server,
        RecipientGuard::allow(["@example.com", "me@x.test"]),
    );
    let good = || {
        email("Me <ME@X.test>")
            .cc("a@example.com")
            .bcc("b@EXAMPLE.com")
    };

    let mut structured = good();
    let value = json!({"a": ["x\r\nBcc: ada@customer.test"]});
    structured.headers.insert("References".to_owned(), value);
    for (bad, field) in [
        (email("ada@customer.test"), "to[0]"),
        (good().to("ada@customer.test"), "to[1]"),
        (good().cc("ada@customer.test"), "cc[1]"),
        (good().bcc("ada@customer.test"), "bcc[1]"),
        (good().bcc("ada@sub.example.com"), "bcc[1]"),
        (good().cc("me@x.test <ada@customer.test>"), "cc[1]"),
        (good().cc("me@x.test,ada@customer.test"), "cc[1]"),
        (good().extra("BCC", "ada@customer.test"), "BCC"),
        (good().extra("b-cc", "x"), "b-cc"),
        (
            good().extra("recipients", json!(["ada@customer.test"])),
            "recipients",
        ),
        (good().header("bcc", "ada@customer.test"), "headers.bcc"),
        (
            good().header("X-A", "x\r\nBcc: ada@customer.test"),
            "headers.X-A",
        ),
        (structured, "headers.References"),
        (
            good().header("X-A: x\r\nBcc", "ada@customer.test"),
            "headers.X-A: x\u{fffd}\u{fffd}Bcc",
        ),
        (good().extra("campaign", "spring"), "campaign"),
        (good().extra("audienceId", "aud_1"), "audienceId"),
        (good().extra("to[0]", "ada@customer.test"), "to[0]"),
        (good().header("X-SMTPAPI", "{}"), "headers.X-SMTPAPI"),
        (
            good().header("References", "<a@b>\u{b}Bcc: x"),
            "headers.References",
        ),
        (good().template("tpl_1\u{2028}Bcc: x"), "templateId"),
        (good().tag("kind", "x\u{85}Bcc: y"), "tags.kind"),
        (
            good().attachment(Attachment::from_bytes("a\nBcc: x", "x")),
            "attachments[0].filename",
        ),
        (good().scheduled_at("2030-01-01\0"), "scheduledAt"),
        (
            good().attachment(logo().extra("contentId", "logo\r\nBcc: ada@customer.test")),
            "attachments[0].contentId",
        ),
        (
            good().attachment(logo().extra("contentId", json!(["logo"]))),
            "attachments[0].contentId",
        ),
        (
            good().attachment(logo().extra("recipients", "ada@customer.test")),
            "attachments[0].recipients",
        ),
        (
            good().variable("order", json!({"items": [{"bcc:": "x"}]})),
            "variables.order.items.bcc:",
        ),
        (good().tag("kind", json!({"a b": "x"})), "tags.kind.a b"),
        (good().reply_to("Me\u{2028} <a@b.test>"), "replyTo[0]"),
        (good().to("ada%customer.test@example.com"), "to[1]"),
        (
            good().to("=?utf-8?q?ada=40customer.test?= <a@example.com>"),
            "to[1]",
        ),
    ] {
        let error = client.emails().send(&bad).await.unwrap_err();
        assert_eq!(refusal(&error).0, field, "{error}");
        let error = client.emails().send(&bad).to_request().unwrap_err();
        assert_eq!(refusal(&error).0, field, "{error}");
        let error = client
            .emails()
            .send_batch(&[good(), bad])
            .await
            .unwrap_err();
        assert_eq!(refusal(&error).0, format!("emails[1].{field}"), "{error}");
    }

    let error = client
        .emails()
        .send(email("ada@customer.test"))
        .await
        .unwrap_err();
    let problem = "ada@customer.test is not allowed; allowed are only @example.com, me@x.test";
    assert_eq!(refusal(&error).1, problem);
    assert_eq!(
        error.to_string(),
        format!("email emails.send: stopped by the recipient guard: to[0]: {problem}")
    );
    assert_eq!(server.request_count(), 0);

    client
        .emails()
        .send(
            good()
                .header("x-campaign", "spring")
                .attachment(logo().extra("contentId", "logo"))
                .variable("text", "two\nlines"),
        )
        .await
        .unwrap();
    client
        .with_key("other")
        .unwrap()
        .emails()
        .send(good())
        .await
        .unwrap();
    let error = client
        .with_key("other")
        .unwrap()
        .emails()
        .send(email("ada@customer.test"))
        .await;
    refusal(&error.unwrap_err());
    assert_eq!(server.request_count(), 2);
}

#[tokio::test]
async fn raw_requests_that_may_send_are_refused() {
    let server = MockServer::json(202, ACCEPTED).await;
    let client = guarded(&server, RecipientGuard::allow(["me@x.test"]));
    let extraction = ExtractionClient::builder(server.url(), "sk_test_1")
        .recipient_guard(RecipientGuard::allow(["me@x.test"]))
        .build()
        .unwrap();
    let body = json!({"to": "me@x.test"});
    for (method, path) in [
        ("POST", "/api/v1/emails"),
        ("POST", "/api/v1/emails?x=y"),
        ("post", "/api/v1/emails/batch"),
        ("POST", "/api/v1/emails/"),
        ("POST", "/api/v1/%65mails"),
        ("PUT", "/api/v1/emails"),
        ("GET", "/api/v1/emails"),
        ("POST", "/api/v1/audiences/x%2F..%2F..%2Femails/contacts"),
        ("POST", "/api/v1/audiences?_method=PUT"),
        ("POST", "/api/v1/unknown"),
    ] {
        let error = client.raw(method, path).json(&body).await.unwrap_err();
        let field = refusal(&error).0;
        let error = client
            .raw(method, path)
            .json(&body)
            .to_request()
            .unwrap_err();
        assert_eq!(refusal(&error).0, field, "{path}");
        // The base URL of the extraction service may be that of the email service.
        let error = extraction.raw(method, path).json(&body).await.unwrap_err();
        refusal(&error);
    }

    for (name, value) in [
        ("X-HTTP-Method-Override", "POST"),
        ("x-original-url", "/api/v1/emails"),
    ] {
        let error = client.emails().get("eml_1").header(name, value).await;
        assert_eq!(
            refusal(&error.unwrap_err()).0,
            format!("header {}", name.to_lowercase())
        );
    }

    let error = client.raw("GET", "/api/v1/emails/x?_method=POST").await;
    assert_eq!(refusal(&error.unwrap_err()).0, "query");

    let hooked = server
        .email()
        .recipient_guard(RecipientGuard::default())
        .header_hook(|headers| {
            headers.insert("x-http-method", HeaderValue::from_static("POST"));
        })
        .build()
        .unwrap();
    let error = hooked.emails().get("eml_1").await.unwrap_err();
    assert_eq!(refusal(&error).0, "header x-http-method");
    assert_eq!(server.request_count(), 0);

    client
        .raw("POST", "/api/v1/audiences")
        .json(&json!({"name": "x"}))
        .await
        .unwrap();
    client.raw("GET", "/api/v1/anything").await.unwrap();
}

#[tokio::test]
async fn a_redirect_keeps_the_email_and_names_the_recipients() {
    let server = MockServer::json(202, ACCEPTED).await;
    let client = guarded(
        &server,
        RecipientGuard::default().redirect_to("Me <me@x.test>"),
    );
    let content = vec![7_u8; 40_000];
    let mail = email("Ada <ada@customer.test>")
        .to("ben@customer.test")
        .cc("cy@customer.test")
        .bcc("not an address, but @\n")
        .header("X-Campaign", "b")
        .attachment(Attachment::from_bytes("a.bin", content))
        .attachment(Attachment::from_bytes("b.txt", "small"));
    let mail = mail.tag("kind", "x");
    let unguarded = server.email().local_checks(false).build().unwrap();
    let plain: Value = serde_json::from_slice(
        &unguarded
            .emails()
            .send(&mail)
            .to_request()
            .unwrap()
            .body()
            .unwrap(),
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
        "X-Campaign": "b",
        "X-Original-To": "Ada <ada@customer.test>, ben@customer.test",
        "X-Original-Cc": "cy@customer.test",
        "X-Original-Bcc": "not an address, but @\u{fffd}",
    });
    assert_eq!(sent, Value::Object(expected));

    let emails = [email("ada@customer.test"), email("ben@customer.test")];
    let preview = client.emails().send_batch(&emails).to_request().unwrap();
    let batch: Value = serde_json::from_slice(&preview.body().unwrap()).unwrap();
    for (index, original) in ["ada@customer.test", "ben@customer.test"]
        .iter()
        .enumerate()
    {
        assert_eq!(batch[index]["to"], json!(["Me <me@x.test>"]));
        assert_eq!(batch[index]["headers"]["X-Original-To"], *original);
        assert_eq!(batch[index]["text"], "Hello");
    }
}

#[tokio::test]
async fn limits_count_recipients_of_requests_that_may_have_been_processed() {
    let refused = crate::mock_server::response(422, "{}");
    let accepted = crate::mock_server::response(202, ACCEPTED);
    let server = MockServer::start([refused, accepted]).await;
    let client = guarded(&server, RecipientGuard::default().max_per_run(3));
    let two = || email("a@b.test").bcc("c@d.test");
    assert!(matches!(
        client.emails().send(two()).await.unwrap_err().kind(),
        ErrorKind::Invalid
    ));

    client.clone().emails().send(two()).await.unwrap();
    let error = client.emails().send(two()).await.unwrap_err();
    let (field, problem) = refusal(&error);
    assert_eq!(field, "max_per_run");
    assert_eq!(
        problem,
        "2 more recipients exceed the limit of 3 per run, of which 2 are used"
    );

    client.emails().send(email("a@b.test")).await.unwrap();
    // A dry run does not count, and reading is not sending.
    client.emails().send(two()).to_request().unwrap();
    client.emails().get("eml_1").await.unwrap();
    assert_eq!(server.request_count(), 4);

    let guard = RecipientGuard::default().max_per_run(1);
    let client = server
        .email()
        .local_checks(false)
        .recipient_guard(guard)
        .build()
        .unwrap();
    // With limits alone, too, several addresses in one text do not count as one.
    let several = client.emails().send(email("a@b.test,c@d.test"));
    let error = several.await.unwrap_err();
    assert!(refusal(&error).1.contains("several addresses"), "{error}");
}

#[test]
fn an_invalid_guard_is_an_error_of_build() {
    for (guard, problem) in [
        (
            RecipientGuard::allow(["example.com"]),
            "`example.com` is not a rule",
        ),
        (
            RecipientGuard::default().redirect_to("me"),
            "the redirect address me is not an address",
        ),
        (
            RecipientGuard::allow(["@example.com"]).redirect_to("me@x.test"),
            "me@x.test matches none of its rules",
        ),
    ] {
        let error = EmailClient::builder("http://x.test", "k")
            .recipient_guard(guard)
            .build();
        assert!(
            error.unwrap_err().to_string().contains(problem),
            "{problem}"
        );
    }

    let none = RecipientGuard::allow(Vec::<String>::new());
    let client = EmailClient::builder("http://x.test", "k")
        .recipient_guard(none)
        .build()
        .unwrap();
    let error = client
        .emails()
        .send(email("a@b.test"))
        .to_request()
        .unwrap_err();
    assert_eq!(
        refusal(&error).1,
        "a@b.test is not allowed; no recipient is allowed"
    );
}
