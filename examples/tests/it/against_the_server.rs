//! How to test a program that sends email: the reference server inside the
//! test, in memory, on a free port. Copy this file into your `tests/`.

use svc_reference_server::Server;
use svc_sdk::EmailClient;
use svc_sdk::email::{Email, EmailStatus};

/// What would be yours: some code that sends an email.
async fn welcome(client: &EmailClient, address: &str) -> Result<String, svc_sdk::Error> {
    let email = Email::new("hello@sandbox.test", address, "Welcome").text("Good to have you.");
    Ok(client.emails().send(&email).await?.id)
}

#[tokio::test]
async fn a_new_user_is_welcomed() {
    let server = Server::builder().in_memory().start().await.unwrap();
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
async fn an_address_that_bounces_is_noticed() {
    let server = Server::builder().in_memory().start().await.unwrap();
    let client = EmailClient::builder(server.base_url(), "mk_test_sandbox").build().unwrap();

    let id = welcome(&client, "bounced+new-user@example.test").await.unwrap();
    server.until_idle().await;

    let email = client.emails().get(&id).await.unwrap();
    assert_eq!(email.status, Some(EmailStatus::Bounced));
}
