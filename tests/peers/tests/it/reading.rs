//! Mail as others read it and send it: thousands of generated messages against Python's `email` and
//! nodemailer's `mailparser`, and the programs that send most mail of tests.

use tokio::process::Command;

use crate::sandbox::Sandbox;
use crate::smtp::required_var;

#[tokio::test]
async fn messages_are_read_as_they_were_written() {
    compare("compare.py", "").await;
}

/// Bounces, newsletters and damaged mail that packages of registries hold.
#[tokio::test]
async fn real_messages_are_read_as_others_read_them() {
    compare("corpus.py", &required_var("SVC_PEERS_CORPUS")).await;
}

/// Runs a script of `reading/` against a sandbox, with folders of messages.
async fn compare(script: &str, folders: &str) {
    let sandbox = Sandbox::start(|builder| builder).await;
    let compared = Command::new(required_var("SVC_PEERS_PYTHON"))
        .arg(format!("{}/reading/{script}", env!("CARGO_MANIFEST_DIR")))
        .args([sandbox.server.base_url(), required_var("SVC_PEERS_MAILPARSER")])
        .args(folders.split_whitespace())
        .status();
    assert!(compared.await.expect("Python").success());
}

/// One message from each program, to an address that only a container network has.
#[tokio::test]
async fn programs_send_mail_to_hosts_of_containers() {
    let any_port = "127.0.0.1:0".parse().expect("an address");
    let sandbox = Sandbox::start(|builder| builder.smtp(any_port)).await;
    let address = sandbox.server.addresses().smtp.expect("a listener");
    let port = address.port();
    let modules = required_var("SVC_PEERS_MAILPARSER");
    for (program, script) in [
        (
            "swaks",
            format!(
                "swaks --server 127.0.0.1:{port} --from www-data@app_web_1 --to swaks@app_web_1 \
                 --header 'Subject: code 482913' --hide-all"
            ),
        ),
        (
            "msmtp",
            format!(
                "printf 'Subject: code 482913\\n\\nx\\n' | msmtp --host=127.0.0.1 --port={port} \
                 --from=www-data@app_web_1 msmtp@app_web_1"
            ),
        ),
        (
            "nodemailer",
            format!(
                "cd {modules} && node -e 'require(\"nodemailer\").createTransport({{port: {port}}}).sendMail(\
                 {{envelope: {{from: \"www-data@app_web_1\", to: \"nodemailer@app_web_1\"}}, \
                 subject: \"code 482913\", text: \"x\"}}).catch(() => process.exit(1))'"
            ),
        ),
    ] {
        let sent = Command::new("sh").args(["-c", &script]).status().await;
        assert!(sent.expect("a shell").success(), "{program}");
        let path = format!("GET /_sandbox/messages/wait?to={program}@app_web_1&timeout=10s");
        let found = sandbox.call(&path, "").await;
        assert_eq!(found["subject"], "code 482913", "{program}");
        assert_eq!(found["recipient"], format!("{program}@app_web_1"));
    }
}
