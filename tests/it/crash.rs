//! Confirmed emails and pending deliveries survive SIGKILL and SIGTERM.

use std::collections::BTreeSet;

use serde_json::json;
use svc_sdk::EmailClient;
use svc_sdk::email::{Email, EmailStatus, NewWebhook};
use tokio::task::JoinSet;

use crate::process::ServerProcess;
use crate::receiver::{Delivery, Receiver};

#[tokio::test]
async fn accepted_emails_and_pending_deliveries_survive_a_kill() {
    let data = tempfile::tempdir().expect("a directory");
    let mut receiver = Receiver::start(&[500]).await;
    let server = ServerProcess::start(data.path()).await;
    let client = server.client();
    let new = NewWebhook::new(receiver.url(), ["email.delivered"]);
    client.webhooks().create(&new).await.expect("created");
    let accepted = client.emails().send(email()).await.expect("accepted");
    let failed = receiver.next().await;
    server.kill().await;

    let server = ServerProcess::start(data.path()).await;
    let client = server.client();
    let found = client.emails().get(&accepted.id).await.expect("found");
    assert_eq!(found.status, Some(EmailStatus::Delivered));

    advance(&client, "1m").await;
    let retried = receiver.next().await;

    assert_eq!(retried.json()["data"]["emailId"], accepted.id);
    assert_eq!(retried.body, failed.body);
}

#[tokio::test]
async fn a_kill_under_load_loses_no_confirmed_email() {
    let data = tempfile::tempdir().expect("a directory");
    let mut receiver = Receiver::start(&[]).await;
    let mut confirmed = BTreeSet::new();
    let mut announced = BTreeSet::new();
    for round in 0..3 {
        let server = ServerProcess::start(data.path()).await;
        let client = server.client();
        if round == 0 {
            let new = NewWebhook::new(receiver.url(), ["email.delivered"]);
            client.webhooks().create(&new).await.expect("created");
        }
        let mut senders = JoinSet::new();
        for _ in 0..8 {
            senders.spawn(send_until_disconnected(client.clone()));
        }
        // The time of the kill depends on the number of deliveries, not on the clock.
        for _ in 0..25 + 10 * round {
            announced.insert(email_id(&receiver.next().await));
        }
        server.kill().await;
        while let Some(ids) = senders.join_next().await {
            confirmed.extend(ids.expect("a sender ends once the server is gone"));
        }
    }

    let server = ServerProcess::start(data.path()).await;
    let client = server.client();
    for id in &confirmed {
        client
            .emails()
            .get(id)
            .await
            .expect("a confirmed email exists");
    }

    advance(&client, "1h").await;
    while !confirmed.is_subset(&announced) {
        // `next` fails the test if the missing delivery does not arrive.
        announced.insert(email_id(&receiver.next().await));
    }
}

/// SIGTERM under load: `svc` exits with 0, and confirmed emails are kept.
#[cfg(unix)]
#[tokio::test]
async fn a_stop_under_load_succeeds_and_loses_no_confirmed_email() {
    let data = tempfile::tempdir().expect("a directory");
    let mut receiver = Receiver::start(&[]).await;
    let server = ServerProcess::start(data.path()).await;
    let client = server.client();
    let new = NewWebhook::new(receiver.url(), ["email.delivered"]);
    client.webhooks().create(&new).await.expect("created");
    let mut senders = JoinSet::new();
    for _ in 0..8 {
        senders.spawn(send_until_disconnected(client.clone()));
    }

    let mut announced = BTreeSet::new();
    while announced.len() < 50 {
        announced.insert(email_id(&receiver.next().await));
    }

    let status = server.terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");

    let mut confirmed = BTreeSet::new();
    while let Some(ids) = senders.join_next().await {
        confirmed.extend(ids.expect("a sender ends once the server is gone"));
    }

    let server = ServerProcess::start(data.path()).await;
    advance(&server.client(), "1h").await;
    for id in &confirmed {
        let found = server
            .client()
            .emails()
            .get(id)
            .await
            .expect("a confirmed email exists");
        assert_eq!(found.status, Some(EmailStatus::Delivered));
    }

    while !confirmed.is_subset(&announced) {
        announced.insert(email_id(&receiver.next().await));
    }
}

/// Sends emails until the server is gone, and returns the ids of the accepted ones.
async fn send_until_disconnected(client: EmailClient) -> Vec<String> {
    let mut accepted = Vec::new();
    while let Ok(response) = client.emails().send(email()).retries(0).await {
        accepted.push(response.id);
    }
    accepted
}

fn email_id(delivery: &Delivery) -> String {
    delivery.json()["data"]["emailId"]
        .as_str()
        .expect("an email id")
        .to_owned()
}

async fn advance(client: &EmailClient, duration: &str) {
    let advance = json!({"advance": duration});
    client
        .raw("POST", "/_sandbox/clock")
        .json(&advance)
        .await
        .expect("the clock advances");
}

fn email() -> Email {
    Email::new("hello@sandbox.test", "ada@example.test", "Hi").text("Hello")
}
