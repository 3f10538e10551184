//! Runs the `send_email` example.

use std::process::{Command, Output};

use svc_reference_server::Server;

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
