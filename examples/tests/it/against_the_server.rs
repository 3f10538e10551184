//! An example test of a program that sends email. The reference server runs inside
//! the test, in memory, on a free port. Copy this file into your `tests/`.

use svc_reference_server::Server;
use svc_sdk::EmailClient;
use svc_sdk::email::{Email, EmailStatus};

/// The code under test: it sends an email.
async fn welcome(client: &EmailClient, address: &str) -> Result<String, svc_sdk::Error> {
    let email = Email::new("hello@sandbox.test", address, "Welcome").text("Good to have you.");
    Ok(client.emails().send(&email).await?.id)
}

#[tokio::test]
async fn a_new_user_gets_a_welcome_email() {
    let server = Server::start().await.unwrap();
    let client = EmailClient::builder(server.base_url(), "mk_test_sandbox").build().unwrap();

    let id = welcome(&client, "ada@example.test").await.unwrap();
    server.until_idle().await;

    let email = client.emails().get(&id).await.unwrap();
    assert_eq!(email.status, Some(EmailStatus::Delivered));
    let inbox = client
        .raw("GET", "/_sandbox/messages")
        .query("to", "ada@example.test")
        .await
        .unwrap()
        .json::<serde_json::Value>()
        .unwrap();
    assert_eq!(inbox["data"][0]["subject"], "Welcome");
}

#[tokio::test]
async fn a_bounce_is_reported() {
    let server = Server::start().await.unwrap();
    let client = EmailClient::builder(server.base_url(), "mk_test_sandbox").build().unwrap();

    let id = welcome(&client, "bounced+new-user@example.test").await.unwrap();
    server.until_idle().await;

    let email = client.emails().get(&id).await.unwrap();
    assert_eq!(email.status, Some(EmailStatus::Bounced));
}

#[tokio::test]
async fn organizations_are_isolated() {
    let server = Server::start().await.unwrap();
    let first = server.create_organization("First").await.unwrap();
    let second = server.create_organization("Second").await.unwrap();
    let client = |key: &str| EmailClient::builder(server.base_url(), key).build().unwrap();
    let (first, second) = (client(&first.email_key), client(&second.email_key));

    let readers = first.audiences().create("Readers").await.unwrap();

    assert!(first.audiences().get(&readers.id).await.is_ok());
    assert!(second.audiences().get(&readers.id).await.unwrap_err().is_not_found());
}
