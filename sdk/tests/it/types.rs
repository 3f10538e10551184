//! Requests and responses as values: comparing, storing, changing and creating them.

use svc_sdk::email::{
    Attachment, Contact, ContactUpdate, Email, EmailRecord, EmailStatus, NewContact, NewWebhook,
    Webhook, WebhookTest, WebhookUpdate,
};
use svc_sdk::{ErrorKind, Operation, Secret, StatusCode};

use crate::mock_server::MockServer;

fn same<T>(value: &T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
}

#[test]
fn requests_can_be_stored_and_compared() {
    let attachment = Attachment::from_base64("n", "AAAA").content_type("text/plain");
    same(
        &Email::new("a@b", ["c@d", "e@f"], "s")
            .text("t")
            .extra("x", 1)
            .attachment(attachment),
    );
    same(
        &NewContact::new("a@b")
            .name("n")
            .metadata("k", 1)
            .topic("t")
            .extra("x", 1),
    );
    same(&NewContact::new("a@b"));
    same(&NewWebhook::new("https://x.test", ["email.sent"]));
    same(&WebhookUpdate::new().active(false));
    same(&NewWebhook::new("https://x.test", ["extraction.failed"]));
    // Clearing a name is not the same as leaving it.
    for update in [
        ContactUpdate::new(),
        ContactUpdate::new().name("n"),
        ContactUpdate::new().clear_name(),
    ] {
        same(&update);
    }

    assert_ne!(ContactUpdate::new().clear_name(), ContactUpdate::new());
}

#[tokio::test]
async fn a_cleared_name_is_sent_as_null() {
    let server = MockServer::json(200, r#"{"id":"c"}"#).await;
    let client = server.email().build().unwrap();
    client
        .contacts()
        .update("c", ContactUpdate::new().clear_name())
        .await
        .unwrap();
    assert_eq!(server.single_request().body, r#"{"name":null}"#);
}

/// A JSON object with a name twice means one thing to one reader and another to the next.
#[tokio::test]
async fn a_field_cannot_be_given_twice() {
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let client = server.email().build().unwrap();
    let email = Email::new("a@b", "c@d", "s").html("h");
    let errors = [
        client
            .emails()
            .send(email.clone().extra("from", "x@y"))
            .await
            .unwrap_err(),
        client
            .emails()
            .send(email.clone().extra("html", "x"))
            .await
            .unwrap_err(),
        client
            .contacts()
            .create("a", NewContact::new("a@b").extra("email", 1))
            .await
            .unwrap_err(),
        client
            .contacts()
            .update("c", ContactUpdate::new().clear_name().extra("name", "b"))
            .await
            .unwrap_err(),
        client
            .webhooks()
            .update("w", WebhookUpdate::new().active(true).extra("active", 1))
            .await
            .unwrap_err(),
    ];
    let fields: Vec<_> = errors
        .iter()
        .map(|error| match error.kind() {
            ErrorKind::InvalidInput(invalid) => invalid.field.as_ref(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(fields, ["from", "html", "email", "name", "active"]);
    assert_eq!(server.request_count(), 0);

    // Not a limit of the service: the check cannot be turned off.
    let client = server.email().local_checks(false).build().unwrap();
    assert!(
        client
            .emails()
            .send(email.clone().extra("from", "x@y"))
            .await
            .is_err()
    );

    client
        .emails()
        .send(email.extra("text", "t"))
        .await
        .unwrap();
    let body = server.single_request().body;
    assert_eq!(
        body,
        r#"{"from":"a@b","to":["c@d"],"subject":"s","html":"h","text":"t"}"#
    );
}

/// The service might ignore `scheduled_at`, and send the email at once.
#[tokio::test]
async fn an_additional_field_is_not_called_like_a_documented_one() {
    let server = MockServer::json(202, r#"{"id":"x"}"#).await;
    let client = server.email().build().unwrap();
    let email = || Email::new("a@b", "c@d", "s");
    let logo = || Attachment::from_bytes("logo.png", "abc");
    for (misspelled, field) in [
        (
            email().extra("scheduled_at", "2030-01-01T00:00:00Z"),
            "scheduled_at",
        ),
        (email().extra("Reply-To", "r@x"), "Reply-To"),
        (
            email()
                .attachment(logo())
                .attachment(logo().extra("content_type", "image/png")),
            "attachments[1].content_type",
        ),
        (
            email().attachment(logo().extra("fileName", "a")),
            "attachments[0].fileName",
        ),
    ] {
        let error = client.emails().send(&misspelled).await.unwrap_err();
        assert_eq!(error.fields()[0].field, field);
        assert!(error.is_invalid_input(), "{error}");
        let unchecked = server.email().local_checks(false).build().unwrap();
        unchecked.emails().send(&misspelled).await.unwrap();
    }

    let known = email()
        .extra("priority", "high")
        .attachment(logo().extra("contentId", "logo"));
    client.emails().send(&known).await.unwrap();
    assert_eq!(server.request_count(), 5);
}

#[test]
fn responses_serialize_what_their_fields_hold() {
    let text = r#"{"id":"e","status":"sent","replyTo":["r@x"],"ip":"1"}"#;
    let mut email: EmailRecord = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&email).unwrap(), text);

    email.status = Some(EmailStatus::Bounced);
    email.subject = Some("Hi".to_owned());
    email.reply_to.clear();
    assert_eq!(
        serde_json::to_string(&email).unwrap(),
        r#"{"id":"e","status":"bounced","subject":"Hi","ip":"1"}"#
    );

    // Created in a test, without a response.
    let contact = Contact {
        id: "c".to_owned(),
        subscribed: Some(false),
        ..Contact::default()
    };
    assert_eq!(
        serde_json::to_string(&contact).unwrap(),
        r#"{"id":"c","subscribed":false}"#
    );

    let mut test = WebhookTest::default();
    assert!(!test.is_success());

    test.status = Some(StatusCode::NO_CONTENT);
    assert_eq!(
        serde_json::to_string(&test).unwrap(),
        r#"{"statusCode":204}"#
    );
}

#[tokio::test]
async fn a_webhook_keeps_its_secret_in_one_place() {
    let body = r#"{"data":{"id":"w","signingSecret":"whsec_1","secret":"s3cret","x":1}}"#;
    let server = MockServer::json(201, body).await;
    let new = NewWebhook::new("https://x.test", ["email.sent"]);
    let webhook = server
        .email()
        .build()
        .unwrap()
        .webhooks()
        .create(new)
        .await
        .unwrap();
    assert_eq!(
        webhook.signing_secret.as_ref().map(Secret::expose),
        Some("whsec_1")
    );
    assert_eq!(serde_json::to_string(&webhook.extra).unwrap(), r#"{"x":1}"#);

    for text in [
        format!("{webhook:?}"),
        serde_json::to_string(&webhook).unwrap(),
    ] {
        assert!(!text.contains("whsec_1"), "{text}");
    }

    let new = NewWebhook::new("https://x.test", ["extraction.failed"]);
    let endpoint = server
        .extraction()
        .build()
        .unwrap()
        .webhooks()
        .create(new)
        .await
        .unwrap();
    assert_eq!(endpoint.secret.as_ref().map(Secret::expose), Some("s3cret"));
    assert_eq!(
        serde_json::to_string(&endpoint.extra).unwrap(),
        r#"{"x":1}"#
    );
    assert!(!serde_json::to_string(&endpoint).unwrap().contains("s3cret"));

    let stored: Webhook = serde_json::from_str(r#"{"id":"w","signingSecret":"whsec_1"}"#).unwrap();
    assert!(stored.extra.is_empty());
}

/// The fields of an email that the service sends back.
#[test]
fn reads_the_typed_fields_of_an_email() {
    let email: EmailRecord = serde_json::from_str(
        r#"{"id":"e","from":"a@b","to":"c@d","cc":["e@f"],"replyTo":["r@x"],"subject":"Hi",
            "tags":{"k":1},"scheduledAt":"2030-01-01T09:00:00+01:00",
            "createdAt":"2026-01-02T03:04:05.678Z","updatedAt":null}"#,
    )
    .unwrap();
    assert_eq!(
        (email.from.as_deref(), email.subject.as_deref()),
        (Some("a@b"), Some("Hi"))
    );
    assert_eq!(
        (email.to.as_slice(), email.cc.as_slice()),
        (&["c@d".to_owned()][..], &["e@f".to_owned()][..])
    );
    assert_eq!(email.reply_to, ["r@x"]);
    assert_eq!(email.tags["k"], 1);

    let times = [email.scheduled_at, email.created_at, email.updated_at];
    let times = times.map(|time| time.map(|time| time.to_rfc3339()));
    assert_eq!(
        times.each_ref().map(Option::as_deref),
        [
            Some("2030-01-01T08:00:00+00:00"),
            Some("2026-01-02T03:04:05.678+00:00"),
            None
        ]
    );
    assert!(email.extra.is_empty() && !format!("{email:?}").contains("a@b"));
}

#[tokio::test]
async fn clients_with_other_keys_share_connections_and_options() {
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let first = server.email().header("x-app", "shop").build().unwrap();
    let second = first.with_key("mk_second").unwrap();
    first.audiences().get("1").await.unwrap();
    second.audiences().create("2").await.unwrap();
    first.audiences().get("3").await.unwrap();
    let requests = server.received_requests();
    let keys: Vec<_> = requests
        .iter()
        .map(|request| request.header("authorization").unwrap().to_owned())
        .collect();
    assert_eq!(keys[1], "Bearer mk_second");
    assert_eq!(keys[0], keys[2]);
    assert_ne!(keys[0], keys[1]);
    assert!(
        requests
            .iter()
            .all(|request| request.header("x-app") == Some("shop"))
    );

    for bad in ["", " ", "a\nb"] {
        let error = first.with_key(bad).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Config { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_key_provider_is_asked_before_each_attempt() {
    use std::sync::Arc;
    use std::sync::Mutex;

    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let key = Arc::new(Mutex::new("mk_old"));
    let current = Arc::clone(&key);
    let provide = move || Secret::new(*current.lock().unwrap());
    let client = server.email().key_provider(provide).build().unwrap();
    client.audiences().get("1").await.unwrap();
    *key.lock().unwrap() = "mk_new";
    client.audiences().get("1").await.unwrap();
    *key.lock().unwrap() = "";
    let error = client.audiences().get("1").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Config { .. }), "{error}");

    let requests = server.received_requests();
    let keys: Vec<_> = requests
        .iter()
        .map(|request| request.header("authorization"))
        .collect();
    assert_eq!(keys, [Some("Bearer mk_old"), Some("Bearer mk_new")]);
    assert_eq!(error.operation(), Some(Operation::AudiencesGet));
}

#[test]
fn an_error_names_the_invalid_fields() {
    let body = r#"{"message":"private","errors":{"to":["private"],"subject":["private"],"not a name":[1]}}"#;
    let error = svc_sdk::Error::from_response(
        Operation::EmailsSend,
        StatusCode::UNPROCESSABLE_ENTITY,
        Default::default(),
        body,
    );
    let shown = error.to_string();
    assert!(
        shown.contains("(HTTP 422): ") && shown.contains("to") && shown.contains("subject"),
        "{shown}"
    );
    assert!(
        !shown.contains("private") && !shown.contains("not a name"),
        "{shown}"
    );
    assert_eq!(error.fields().len(), 3);
}
