//! A response with a success status that is not the success of the operation
//! (`docs/undocumented/README.md#a-success-without-an-id`).

use svc_sdk::email::{ContactUpdate, Email, NewWebhook, WebhookUpdate};
use svc_sdk::{Error, ErrorKind, Operation, Outcome};

use crate::mock_server::{MockServer, response_with_headers};

/// Calls the operation and returns the id in the response, or "" if it has none.
async fn call(server: &MockServer, operation: Operation) -> Result<String, Error> {
    let email = server.email().retries(0).build().unwrap();
    let extraction = server.extraction().retries(0).build().unwrap();
    let message = Email::new("a@b", "c@d", "s").text("t");
    let webhook = NewWebhook::new("https://x.test", ["email.sent"]);
    let endpoint = NewWebhook::new("https://x.test", ["extraction.failed"]);
    Ok(match operation {
        Operation::Me => extraction.me().await?.organization.id,
        Operation::ExtractionWebhooksCreate => extraction.webhooks().create(endpoint).await?.id,
        Operation::ExtractionWebhooksList => extraction.webhooks().list().await?.len().to_string(),
        Operation::ExtractionWebhooksDelete => deleted(extraction.webhooks().delete("x").await?),
        Operation::AudiencesCreate => email.audiences().create("x").await?.id,
        Operation::AudiencesList => email.audiences().list().await?.len().to_string(),
        Operation::AudiencesGet => email.audiences().get("x").await?.id,
        Operation::AudiencesDelete => deleted(email.audiences().delete("x").await?),
        Operation::ContactsCreate => email.contacts().create("x", "a@b").await?.id,
        Operation::ContactsList => email.contacts().list("x").await?.len().to_string(),
        Operation::ContactsUpdate => {
            email
                .contacts()
                .update("x", ContactUpdate::new().subscribed(true))
                .await?
                .id
        }
        Operation::ContactsDelete => deleted(email.contacts().delete("x").await?),
        Operation::DomainsCreate => email.domains().create("x.test").await?.id,
        Operation::DomainsList => email.domains().list().await?.len().to_string(),
        Operation::DomainsVerify => email.domains().verify("x").await?.is_verified().to_string(),
        Operation::DomainsDelete => deleted(email.domains().delete("x").await?),
        Operation::EmailsSend => email.emails().send(message).await?.id,
        Operation::EmailsSendBatch => {
            let response = email.emails().send_batch(&[message]).await?;
            response.all_accepted().to_string()
        }
        Operation::EmailsGet => email.emails().get("x").await?.id,
        Operation::EmailsCancel => email.emails().cancel("x").await?.id,
        Operation::WebhooksCreate => email.webhooks().create(webhook).await?.id,
        Operation::WebhooksList => email.webhooks().list().await?.len().to_string(),
        Operation::WebhooksUpdate => {
            email
                .webhooks()
                .update("x", WebhookUpdate::new().active(true))
                .await?
                .id
        }
        Operation::WebhooksDelete => deleted(email.webhooks().delete("x").await?),
        Operation::WebhooksTest => email.webhooks().test("x").await?.is_success().to_string(),
        other => panic!("no call of {other}"),
    })
}

fn deleted(_: svc_sdk::Deleted) -> String {
    "deleted".to_owned()
}

/// No operation takes a report of a failure or a web page for a success.
#[tokio::test]
async fn no_operation_succeeds_with_a_failure_in_the_body() {
    for body in [
        r#"{"error":{"code":"c","message":"private words"}}"#,
        r#"{"success":false,"code":"c","message":"private words"}"#,
        r#"{"ok":false,"code":"c","errors":[{"message":"private words"}]}"#,
        "<html><h1>Sign in</h1></html>",
    ] {
        for &operation in Operation::ALL {
            let server = MockServer::json(200, body).await;
            match call(&server, operation).await {
                // Their results say that it failed.
                Ok(no) => {
                    let expected = [
                        Operation::EmailsSendBatch,
                        Operation::WebhooksTest,
                        Operation::DomainsVerify,
                    ];
                    assert!(expected.contains(&operation), "{operation} accepts {body}");
                    assert_eq!(no, "false", "{operation}: {body}");
                }
                Err(error) => {
                    let outcome = if body.starts_with('{') {
                        Outcome::Refused
                    } else {
                        Outcome::Unknown
                    };
                    assert_eq!(error.outcome(), outcome, "{operation}: {body}");
                    assert_eq!(error.body(), body.as_bytes(), "the response is kept");
                    if body.starts_with('{') && operation != Operation::EmailsSendBatch {
                        assert_eq!(error.code(), Some("c"), "{operation}: {body}");
                    }
                    let shown = format!("{error} {error:?}");
                    assert!(!shown.contains("private"), "{shown}");
                }
            }
            assert_eq!(server.request_count(), 1, "{operation} is not repeated");
        }
    }
}

/// Platforms that answer everything with 200 report a failure by a code beside `"data": null`.
#[tokio::test]
async fn no_operation_succeeds_with_the_code_of_a_failure() {
    let body = r#"{"code":99991672,"msg":"the key lacks the scope","data":null,"request_id":"r"}"#;
    for &operation in Operation::ALL {
        let server = MockServer::json(200, body).await;
        match call(&server, operation).await {
            Ok(no) => {
                let tells = [Operation::WebhooksTest, Operation::DomainsVerify];
                assert!(tells.contains(&operation), "{operation} accepts {body}");
                assert_eq!(no, "false", "{operation}");
            }
            Err(error) => {
                assert_eq!(error.outcome(), Outcome::Refused, "{operation}: {error:?}");
                assert_eq!(error.code(), Some("99991672"), "{operation}");
                let is_scope = matches!(error.kind(), ErrorKind::MissingScope { .. });
                assert!(is_scope, "{operation}: {error:?}");
            }
        }
    }

    for body in [
        r#"{"errcode":40001,"errmsg":"invalid credential"}"#,
        r#"{"result":"error","reason":"bad key"}"#,
        r#"{"stat":"fail","message":"bad key"}"#,
        r#"{"ret":-1,"msg":"no permission","data":{}}"#,
        r#"{"status":"error","message":"bad key","data":null}"#,
        r#"{"code":"40001","msg":"sign error","data":[]}"#,
    ] {
        for operation in [
            Operation::EmailsCancel,
            Operation::ContactsUpdate,
            Operation::ContactsDelete,
            Operation::WebhooksUpdate,
            Operation::AudiencesGet,
            Operation::AudiencesList,
        ] {
            let server = MockServer::json(200, body).await;
            let error = call(&server, operation).await.unwrap_err();
            // What has no list is not said to be refused.
            let may_be_unreadable = operation == Operation::AudiencesList;
            assert!(
                error.outcome() == Outcome::Refused || may_be_unreadable,
                "{operation}: {body}: {error:?}"
            );
        }
    }

    for (text, kind) in [
        ("email not found", ErrorKind::NotFound),
        ("access token invalid or missing", ErrorKind::Unauthorized),
        ("contact already exists", ErrorKind::Conflict),
        ("sender domain b is not verified", ErrorKind::Forbidden),
        ("the account is overdrawn", ErrorKind::Rejected),
    ] {
        let body = format!(r#"{{"code":230013,"msg":"{text}","data":null}}"#);
        let server = MockServer::json(200, &body).await;
        for operation in [Operation::EmailsSend, Operation::EmailsGet] {
            let error = call(&server, operation).await.unwrap_err();
            let told = (error.kind(), error.outcome(), error.message());
            assert_eq!(told, (&kind, Outcome::Refused, Some(text)), "{operation}");
        }
    }

    let body = r#"{"code":404,"message":"no such contact","data":{}}"#;
    let server = MockServer::json(200, body).await;
    let error = call(&server, Operation::ContactsDelete).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NotFound);
}

#[tokio::test]
async fn a_code_that_may_mean_both_is_neither_a_success_nor_a_refusal() {
    for body in [
        r#"{"code":1,"msg":"contact","data":null}"#,
        r#"{"note":"see the log"}"#,
    ] {
        for operation in [Operation::ContactsUpdate, Operation::EmailsCancel] {
            let server = MockServer::json(200, body).await;
            let error = call(&server, operation).await.unwrap_err();
            assert_eq!(error.outcome(), Outcome::Unknown, "{operation}: {error:?}");
        }
    }

    let body = r#"{"code":1,"msg":"contact","data":null}"#;
    for operation in [
        Operation::ContactsDelete,
        Operation::AudiencesList,
        Operation::EmailsSend,
    ] {
        let server = MockServer::json(200, body).await;
        let error = call(&server, operation).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{operation}: {error:?}");
    }

    for body in [
        r#"{"code":0,"msg":"ok","data":null}"#,
        r#"{"code":1,"msg":"success","data":null}"#,
        r#"{"code":200,"message":"Done","data":[]}"#,
    ] {
        for operation in [Operation::ContactsDelete, Operation::EmailsCancel] {
            let server = MockServer::json(200, body).await;
            assert!(
                call(&server, operation).await.is_ok(),
                "{operation}: {body}"
            );
        }
        let server = MockServer::json(200, body).await;
        let count = call(&server, Operation::AudiencesList).await;
        assert_eq!(count.unwrap(), "0", "{body}");
    }
}

const CREATIONS: [Operation; 6] = [
    Operation::EmailsSend,
    Operation::AudiencesCreate,
    Operation::ContactsCreate,
    Operation::DomainsCreate,
    Operation::WebhooksCreate,
    Operation::ExtractionWebhooksCreate,
];

#[tokio::test]
async fn a_creation_without_an_id_is_an_error_of_its_own() {
    for body in [
        "null",
        "\"OK\"",
        "{}",
        "[]",
        "",
        r#"{"message":"accepted"}"#,
        r#"{"id":null}"#,
    ] {
        for operation in CREATIONS {
            let server = MockServer::json(202, body).await;
            let error = call(&server, operation).await.unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::MissingId, "{operation}: {body}");
            assert_eq!(error.outcome(), Outcome::Unknown);
            assert_eq!(
                (error.body(), error.is_retryable()),
                (body.as_bytes(), false)
            );
        }
    }

    let server = MockServer::json(202, "null").await;
    let error = call(&server, Operation::EmailsSend).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "email emails.send: the request was probably accepted, but the response contains no id \
         that the client understands (HTTP 202); the request may have been processed"
    );
}

#[tokio::test]
async fn finds_the_id_in_nested_objects() {
    for body in [
        r#"{"id":"x"}"#,
        r#"{"data":{"id":"x"}}"#,
        r#"{"data":{"email":{"id":"x"}}}"#,
        r#"{"result":{"data":{"item":{"id":"x"}}}}"#,
        r#"{"success":true,"error":null,"data":{"email":{"id":"x"}},"meta":{"took":1}}"#,
    ] {
        for operation in CREATIONS {
            let server = MockServer::json(201, body).await;
            assert_eq!(
                call(&server, operation).await.unwrap(),
                "x",
                "{operation}: {body}"
            );
        }
    }
    // The id of something else is not the contact's.
    let server = MockServer::json(201, r#"{"email":"a@b","metadata":{"id":"7"}}"#).await;
    // Nor is one needed: the documented fields are enough.
    assert_eq!(call(&server, Operation::ContactsCreate).await.unwrap(), "");
}

#[tokio::test]
async fn a_read_without_any_known_field_is_an_error() {
    for body in [
        "null",
        "\"ok\"",
        "[]",
        "{}",
        r#"{"id":null}"#,
        r#"{"other":1}"#,
    ] {
        for operation in [Operation::EmailsGet, Operation::AudiencesGet, Operation::Me] {
            let server = MockServer::json(200, body).await;
            let error = call(&server, operation).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::InvalidResponse { .. }),
                "{operation} {body}"
            );
        }
    }
    let server = MockServer::json(200, r#"{"status":"sent"}"#).await;
    assert_eq!(call(&server, Operation::EmailsGet).await.unwrap(), "");
}

#[tokio::test]
async fn a_web_page_is_not_a_deletion() {
    let typed = |body| response_with_headers(200, "Content-Type: text/html\r\n", body);
    let server = MockServer::start([typed("OK")]).await;
    assert_eq!(
        call(&server, Operation::ContactsDelete).await.unwrap(),
        "deleted"
    );

    let html = typed("<p>Sign in</p>");
    let server = MockServer::start([html]).await;
    let error = call(&server, Operation::ContactsDelete).await.unwrap_err();
    assert!(error.to_string().contains("HTML"), "{error}");

    for body in [
        r#"{"ok":false}"#,
        r#"{"deleted":false}"#,
        "false",
        r#"{"ok":tr"#,
    ] {
        let server = MockServer::json(200, body).await;
        assert!(
            call(&server, Operation::DomainsDelete).await.is_err(),
            "{body}"
        );
    }

    for body in [
        "",
        "{}",
        "null",
        "OK",
        "\"deleted\"",
        r#"{"ok":true}"#,
        r#"{"id":"x","deleted":true}"#,
    ] {
        let server = MockServer::json(200, body).await;
        assert_eq!(
            call(&server, Operation::DomainsDelete).await.unwrap(),
            "deleted",
            "{body}"
        );
    }
}
