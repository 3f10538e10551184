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
    let client = server.email_client().unwrap();
    let sandbox = server.client().unwrap();

    let id = welcome(&client, "ada@example.test").await.unwrap();

    let message = sandbox.wait_for("ada@example.test").await.unwrap();
    assert_eq!(message.subject, "Welcome");

    server.until_idle().await;
    let email = client.emails().get(&id).await.unwrap();
    assert_eq!(email.status, Some(EmailStatus::Delivered));
}

#[tokio::test]
async fn a_bounce_is_reported() {
    let server = Server::start().await.unwrap();
    let client = server.email_client().unwrap();

    let id = welcome(&client, "bounced+new-user@example.test")
        .await
        .unwrap();
    server.until_idle().await;

    let email = client.emails().get(&id).await.unwrap();
    assert_eq!(email.status, Some(EmailStatus::Bounced));
}

#[tokio::test]
async fn organizations_are_isolated() {
    let server = Server::start().await.unwrap();
    let first = server.tenant("First").await.unwrap();
    let second = server.tenant("Second").await.unwrap();

    let readers = first.email.audiences().create("Readers").await.unwrap();

    assert!(first.email.audiences().get(&readers.id).await.is_ok());
    assert!(
        second
            .email
            .audiences()
            .get(&readers.id)
            .await
            .unwrap_err()
            .is_not_found()
    );
}
