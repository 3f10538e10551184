//! What was answered 2xx survives SIGKILL, and so does what is to be delivered.

use std::collections::BTreeSet;

use serde_json::json;
use svc_sdk::EmailClient;
use svc_sdk::email::{Email, EmailStatus, NewWebhook};
use tokio::task::JoinSet;

use crate::process::ServerProcess;
use crate::receiver::{Delivery, Receiver};

#[tokio::test]
async fn an_accepted_email_and_its_pending_delivery_survive_a_kill() {
    let data = tempfile::tempdir().expect("a directory");
    let mut receiver = Receiver::start(&[500]).await;
    let server = ServerProcess::start(data.path()).await;
    let client = server.client();
    let new = NewWebhook::new(receiver.url(), ["email.delivered"]);
    client.webhooks().create(&new).await.expect("created");
    let accepted = client.emails().send(&email()).await.expect("accepted");
    let refused = receiver.next().await;
    server.kill().await;

    let server = ServerProcess::start(data.path()).await;
    let client = server.client();
    let found = client.emails().get(&accepted.id).await.expect("found");
    assert_eq!(found.status, Some(EmailStatus::Delivered));
    advance(&client, "1m").await;
    let again = receiver.next().await;

    assert_eq!(again.json()["data"]["emailId"], accepted.id);
    assert_eq!(again.body, refused.body);
}

#[tokio::test]
async fn a_kill_in_the_midst_of_sending_loses_nothing_that_was_answered() {
    let data = tempfile::tempdir().expect("a directory");
    let mut receiver = Receiver::start(&[]).await;
    let (mut answered, mut told) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..3 {
        let server = ServerProcess::start(data.path()).await;
        let client = server.client();
        if round == 0 {
            let new = NewWebhook::new(receiver.url(), ["email.delivered"]);
            client.webhooks().create(&new).await.expect("created");
        }
        let mut senders = JoinSet::new();
        for _ in 0..8 {
            senders.spawn(send_until_cut(client.clone()));
        }
        // The moment of the kill depends on what was delivered, not on time.
        for _ in 0..25 + 10 * round {
            told.insert(email_id(&receiver.next().await));
        }
        server.kill().await;
        while let Some(ids) = senders.join_next().await {
            answered.extend(ids.expect("a sender ends when the server is gone"));
        }
    }

    let server = ServerProcess::start(data.path()).await;
    let client = server.client();
    for id in &answered {
        client.emails().get(id).await.expect("an answered email is there");
    }
    advance(&client, "1h").await;
    while !answered.is_subset(&told) {
        // Ends the test when what is missing does not come.
        told.insert(email_id(&receiver.next().await));
    }
}

/// SIGTERM in the midst of sending: a success, and what was answered is there.
#[cfg(unix)]
#[tokio::test]
async fn a_stop_in_the_midst_of_sending_is_a_success() {
    let data = tempfile::tempdir().expect("a directory");
    let mut receiver = Receiver::start(&[]).await;
    let server = ServerProcess::start(data.path()).await;
    let client = server.client();
    let new = NewWebhook::new(receiver.url(), ["email.delivered"]);
    client.webhooks().create(&new).await.expect("created");
    let mut senders = JoinSet::new();
    for _ in 0..8 {
        senders.spawn(send_until_cut(client.clone()));
    }
    let mut told = BTreeSet::new();
    while told.len() < 50 {
        told.insert(email_id(&receiver.next().await));
    }
    let status = server.terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");
    let mut answered = BTreeSet::new();
    while let Some(ids) = senders.join_next().await {
        answered.extend(ids.expect("a sender ends when the server is gone"));
    }

    let server = ServerProcess::start(data.path()).await;
    advance(&server.client(), "1h").await;
    for id in &answered {
        let found = server.client().emails().get(id).await.expect("an answered email is there");
        assert_eq!(found.status, Some(EmailStatus::Delivered));
    }
    while !answered.is_subset(&told) {
        told.insert(email_id(&receiver.next().await));
    }
}

/// Sends one email after the other until the server is gone; gives the ids of
/// those that were accepted.
async fn send_until_cut(client: EmailClient) -> Vec<String> {
    let mut accepted = Vec::new();
    while let Ok(answer) = client.emails().send(&email()).retries(0).await {
        accepted.push(answer.id);
    }
    accepted
}

fn email_id(delivery: &Delivery) -> String {
    delivery.json()["data"]["emailId"].as_str().expect("which email it is about").to_owned()
}

async fn advance(client: &EmailClient, duration: &str) {
    let advance = json!({"advance": duration});
    client.raw("POST", "/_sandbox/clock").json(&advance).await.expect("the clock advances");
}

fn email() -> Email {
    Email::new("hello@sandbox.test", "ada@example.test", "Hi").text("Hello")
}
