//! Runs the examples that send emails.

use std::process::{Command, Output};

use svc_reference_server::Server;
use svc_reference_server::client::MessageFilter;

use crate::program::example;

#[tokio::test(flavor = "multi_thread")]
async fn sends_and_prints_advice_on_failure() {
    let server = Server::builder().in_memory().start().await.unwrap();
    let url = server.base_url();

    let sent = run(&[("SVC_EMAIL_URL", &url)]);
    assert!(sent.status.success());
    assert!(
        stdout(&sent).starts_with("accepted as eml_"),
        "{}",
        stdout(&sent)
    );

    let unverified = run(&[("SVC_EMAIL_URL", &url), ("FROM", "hello@elsewhere.test")]);
    assert!(!unverified.status.success());
    assert!(stdout(&unverified).contains("verify the sender's domain first"));

    server.stop().await;
    let unreachable = run(&[("SVC_EMAIL_URL", &url)]);
    assert!(
        stdout(&unreachable).contains("nothing was sent"),
        "{}",
        stdout(&unreachable)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newsletter_goes_on_where_it_ended() {
    let server = Server::builder().in_memory().start().await.unwrap();
    let sandbox = server.client().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.txt");

    let send = |addresses: &str| {
        std::fs::write(&list, addresses).unwrap();
        let newsletter = Command::new(example("newsletter"))
            .env_remove("SVC_EMAIL_KEY")
            .env("SVC_EMAIL_URL", server.base_url())
            .arg(&list)
            .output();
        stdout(&newsletter.unwrap())
    };

    let first = send("ada@example.test\n");
    assert_eq!(first, "1 accepted, 0 refused, 0 unknown\n");

    let both = send("ada@example.test\nbob@example.test\n");
    assert_eq!(both, "1 accepted, 0 refused, 0 unknown\n");

    server.until_idle().await;
    let all = sandbox.messages(&MessageFilter::default()).await.unwrap();
    assert_eq!(all.data.len(), 2);
}

#[test]
fn a_reminder_is_delivered_when_the_clock_moves() {
    let reminder = Command::new(example("reminder")).output().unwrap();
    assert_eq!(
        stdout(&reminder),
        "accepted: Some(Queued)\ndelivered: Reminder\n"
    );
}

fn run(environment: &[(&str, &str)]) -> Output {
    Command::new(example("send"))
        .env_remove("SVC_EMAIL_KEY")
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
