//! Logs contain neither secrets nor user content.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tracing_subscriber::filter::LevelFilter;

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};
use crate::receiver::Receiver;

/// A marker that this test puts into all user content.
const MARKER: &str = "qzqz";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Captures everything that this process logs.
    fn start() -> Self {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing_subscriber::util::SubscriberInitExt::init(subscriber);
        log
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
    }
}

/// Runs in a child process, because it captures the log of the whole process.
#[test]
fn neither_secrets_nor_content_are_logged() {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--ignored", "logs::child"])
        .output()
        .expect("started");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}"
    );
}

#[tokio::test]
#[ignore = "run by neither_secrets_nor_content_are_logged"]
async fn child() {
    let log = Log::start();
    let receiver = Receiver::start(&[500, 200, 500]).await;
    let mut secrets = vec![KEY.to_owned(), EXTRACTION_KEY.to_owned()];
    exercise(&receiver, &mut secrets).await;
    exercise_relay().await;
    exercise_deleted_webhook().await;

    let text = log.text();
    for line in [
        "ready",
        "path=\"/api/v1/emails\" status=202",
        "status=422",
        "status=401",
        "the relay did not get a message",
    ] {
        assert!(text.contains(line), "the log does not contain {line}");
    }

    // Deleting a webhook during an attempt is not an error of the server.
    assert!(!text.contains("panicked"), "{text}");

    let lines = text.lines().filter(|line| {
        line.to_lowercase().contains(MARKER) || secrets.iter().any(|secret| line.contains(secret))
    });
    let lines: Vec<&str> = lines.collect();
    assert!(lines.is_empty(), "{lines:#?}");
}

/// A webhook that is deleted during an attempt.
async fn exercise_deleted_webhook() {
    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"t"}"#;
    let sandbox = Sandbox::start().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("an address"));
    let hook = format!(r#"{{"url":"{url}","events":["email.delivered"]}}"#);
    let hook = sandbox.call("POST /api/v1/webhooks", &hook).await.id();
    assert_eq!(sandbox.call("POST /api/v1/emails", email).await.status, 202);

    let _attempt = silent.accept().await.expect("an attempt");
    let deleted = sandbox
        .call(&format!("DELETE /api/v1/webhooks/{hook}"), "")
        .await;
    assert!(deleted.status < 300, "{deleted:?}");

    sandbox.settle().await;
}

/// Sends valid and invalid requests to most parts of the server.
async fn exercise(receiver: &Receiver, secrets: &mut Vec<String>) {
    let smtp = "127.0.0.1:0".parse().expect("an address");
    let sandbox = Sandbox::with(|builder| builder.smtp(smtp)).await;
    let url = format!(
        "http://u-{MARKER}:p-{MARKER}@{}/hook-{MARKER}?token={MARKER}",
        receiver.addr
    );
    let events = r#"["email.delivered","email.opened","email.clicked","email.received"]"#;
    let hook = format!(r#"{{"url":"{url}","events":{events}}}"#);
    let created = sandbox.call("POST /api/v1/webhooks", &hook).await;
    assert_eq!(created.status, 201, "{created:?}");

    secrets.push(created.between(r#""signingSecret":""#));
    secrets.push(sandbox.email_key(r#""emails:send""#).await.1);
    let missing = format!(r#"{{"url":"http://127.0.0.1:1/{MARKER}","events":{events}}}"#);
    let missing = sandbox.call("POST /api/v1/webhooks", &missing).await.id();
    sandbox
        .call(&format!("POST /api/v1/webhooks/{missing}/test"), "")
        .await;

    let email = format!(
        r#"{{"from":"{MARKER} <{MARKER}@sandbox.test>","to":["{MARKER}@x.test","bounced+{MARKER}@x.test"],"bcc":"{MARKER}@sandbox.test","subject":"{MARKER}","text":"{MARKER}","html":"<a href=\"https://{MARKER}.test/\">{MARKER}</a>","headers":{{"X-{MARKER}":"{MARKER}"}},"tags":{{"{MARKER}":"{MARKER}"}},"attachments":[{{"filename":"{MARKER}.txt","content":"aGk="}}]}}"#
    );
    let headers = format!("authorization: Bearer {KEY}\r\nidempotency-key: {MARKER}\r\n");
    let sent = sandbox.raw("POST /api/v1/emails", &headers, &email).await;
    assert_eq!(sent.status, 202, "{sent:?}");

    sandbox.settle().await;
    for path in ["t/o/ID/0", "t/c/ID/0/0", "t/c/ID/9/9"] {
        sandbox
            .raw(&format!("GET /{}", path.replace("ID", &sent.id())), "", "")
            .await;
    }

    for (line, body, status) in [
        (
            "POST /api/v1/emails",
            format!(r#"{{"from":"{MARKER}","to":"{MARKER}"}}"#),
            422,
        ),
        (
            "POST /api/v1/emails",
            format!(r#"{{"from":"a@{MARKER}.test","to":"a@b.test","subject":"s"}}"#),
            403,
        ),
        ("POST /api/v1/emails", format!("{{{MARKER}"), 400),
        (
            "POST /api/v1/emails/batch",
            format!("[{email},7,{{}}]"),
            200,
        ),
        (
            "POST /api/v1/audiences",
            format!(r#"{{"name":"{MARKER}"}}"#),
            201,
        ),
        (
            "POST /api/v1/domains",
            format!(r#"{{"name":"{MARKER}.test"}}"#),
            201,
        ),
    ] {
        let response = sandbox.call(line, &body).await;
        assert_eq!(response.status, status, "{response:?}");
    }

    let wrong = format!("authorization: Bearer mk_test_{MARKER}\r\n");
    assert_eq!(
        sandbox
            .raw(&format!("GET /api/v1/audiences?q={MARKER}"), &wrong, "")
            .await
            .status,
        401
    );

    for (line, body) in [
        (
            "POST /_sandbox/inbound",
            format!(
                r#"{{"from":"{MARKER}@a.test","to":"{MARKER}@sandbox.test","subject":"{MARKER}","text":"{MARKER}"}}"#
            ),
        ),
        (
            "POST /_sandbox/extractions",
            format!(r#"{{"event":"extraction.completed","data":{{"{MARKER}":"{MARKER}"}}}}"#),
        ),
        (
            "PUT /_sandbox/templates/welcome",
            format!(r#"{{"text":"{MARKER} {{{{ name }}}}"}}"#),
        ),
        (
            "POST /_sandbox/faults",
            format!(
                r#"{{"operation":"audiences.list","status":500,"body":"{MARKER}","headers":{{"x-{MARKER}":"{MARKER}"}}}}"#
            ),
        ),
    ] {
        let response = sandbox.control(line, &body).await;
        assert!(
            (200..300).contains(&response.status),
            "{line}: {response:?}"
        );
    }

    let filled = format!(
        r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","templateId":"welcome","variables":{{"{MARKER}":"{MARKER}"}}}}"#
    );
    assert_eq!(
        sandbox.call("POST /api/v1/emails", &filled).await.status,
        422
    );
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 500);

    receive_mail(sandbox.server.addresses().smtp.expect("a listener")).await;
    sandbox.advance("1h").await;
    assert!(
        receiver.received().len() > 3,
        "{:?}",
        receiver.received().len()
    );

    sandbox.server.stop().await;
}

/// Sends a message and invalid commands over SMTP.
async fn receive_mail(address: SocketAddr) {
    let mut stream = BufReader::new(TcpStream::connect(address).await.expect("a connection"));
    let commands = format!(
        "EHLO {MARKER}\r\nMAIL FROM:<{MARKER}@a.test>\r\nRCPT TO:<{MARKER}>\r\n{MARKER}\r\n\
         RCPT TO:<{MARKER}@elsewhere.test>\r\nRCPT TO:<{MARKER}@sandbox.test>\r\nDATA\r\n\
         Subject: {MARKER}\r\nFrom: {MARKER}@a.test\r\n\r\n{MARKER}\r\n.\r\nQUIT\r\n"
    );
    stream
        .get_mut()
        .write_all(commands.as_bytes())
        .await
        .expect("written");
    let mut last = String::new();
    let mut accepted = false;
    while stream.read_line(&mut last).await.expect("read") > 0 {
        accepted |= last.starts_with("250 2.0.0 queued");
        last.clear();
    }

    assert!(accepted, "the message was not accepted");
}

/// Sends mail through an unreachable relay whose URL contains a password.
async fn exercise_relay() {
    let url = format!("smtp://{MARKER}:{MARKER}@127.0.0.1:1");
    let sandbox = Sandbox::with(|builder| {
        builder
            .relay(&url)
            .expect("a relay")
            .relay_to("*")
            .expect("valid")
    })
    .await;
    let email = format!(
        r#"{{"from":"a@sandbox.test","to":"{MARKER}@{MARKER}.example","subject":"{MARKER}","text":"{MARKER}"}}"#
    );
    assert_eq!(
        sandbox.call("POST /api/v1/emails", &email).await.status,
        202
    );

    sandbox.advance("10d").await;
    sandbox.server.stop().await;
}
