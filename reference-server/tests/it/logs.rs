//! Logs say what happened, and nothing of what was in it: no secret, no content.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tracing_subscriber::filter::LevelFilter;

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};
use crate::receiver::Receiver;

/// Stands in everything that is a user's, here as no other test writes it.
const OURS: &str = "qzqz";

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
    /// Everything that is logged in this process from here on.
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

/// In a process of its own: it is about everything that is logged in one.
#[test]
fn neither_secrets_nor_content_are_logged() {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--ignored", "logs::child"])
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "started by the test above"]
async fn child() {
    let log = Log::start();
    let receiver = Receiver::start(&[500, 200, 500]).await;
    let mut secrets = vec![KEY.to_owned(), EXTRACTION_KEY.to_owned()];
    deliver(&receiver, &mut secrets).await;
    relay().await;

    let text = log.text();
    for line in ["ready", "path=\"/api/v1/emails\" status=202", "status=422", "status=401"] {
        assert!(text.contains(line), "nothing was logged of {line}");
    }
    let lines = text.lines().filter(|line| {
        line.to_lowercase().contains(OURS) || secrets.iter().any(|secret| line.contains(secret))
    });
    let lines: Vec<&str> = lines.collect();
    assert!(lines.is_empty(), "{lines:#?}");
}

/// What a server is asked and told on a day, good and bad.
async fn deliver(receiver: &Receiver, secrets: &mut Vec<String>) {
    let smtp = "127.0.0.1:0".parse().expect("an address");
    let sandbox = Sandbox::with(|builder| builder.smtp(smtp)).await;
    let url = format!("http://u-{OURS}:p-{OURS}@{}/hook-{OURS}?token={OURS}", receiver.addr);
    let events = r#"["email.delivered","email.opened","email.clicked","email.received"]"#;
    let hook = format!(r#"{{"url":"{url}","events":{events}}}"#);
    let made = sandbox.call("POST /api/v1/webhooks", &hook).await;
    assert_eq!(made.status, 201, "{made:?}");
    secrets.push(made.between(r#""signingSecret":""#));
    secrets.push(sandbox.email_key(r#""emails:send""#).await.1);
    let gone = format!(r#"{{"url":"http://127.0.0.1:1/{OURS}","events":{events}}}"#);
    let gone = sandbox.call("POST /api/v1/webhooks", &gone).await.id();
    sandbox.call(&format!("POST /api/v1/webhooks/{gone}/test"), "").await;

    let email = format!(
        r#"{{"from":"{OURS} <{OURS}@sandbox.test>","to":["{OURS}@x.test","bounced+{OURS}@x.test"],"bcc":"{OURS}@sandbox.test","subject":"{OURS}","text":"{OURS}","html":"<a href=\"https://{OURS}.test/\">{OURS}</a>","headers":{{"X-{OURS}":"{OURS}"}},"tags":{{"{OURS}":"{OURS}"}},"attachments":[{{"filename":"{OURS}.txt","content":"aGk="}}]}}"#
    );
    let headers = format!("authorization: Bearer {KEY}\r\nidempotency-key: {OURS}\r\n");
    let sent = sandbox.raw("POST /api/v1/emails", &headers, &email).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    sandbox.settle().await;
    for path in ["t/o/ID/0", "t/c/ID/0/0", "t/c/ID/9/9"] {
        sandbox.raw(&format!("GET /{}", path.replace("ID", &sent.id())), "", "").await;
    }
    for (line, body, status) in [
        ("POST /api/v1/emails", format!(r#"{{"from":"{OURS}","to":"{OURS}"}}"#), 422),
        (
            "POST /api/v1/emails",
            format!(r#"{{"from":"a@{OURS}.test","to":"a@b.test","subject":"s"}}"#),
            403,
        ),
        ("POST /api/v1/emails", format!("{{{OURS}"), 400),
        ("POST /api/v1/emails/batch", format!("[{email},7,{{}}]"), 200),
        ("POST /api/v1/audiences", format!(r#"{{"name":"{OURS}"}}"#), 201),
        ("POST /api/v1/domains", format!(r#"{{"name":"{OURS}.test"}}"#), 201),
    ] {
        let response = sandbox.call(line, &body).await;
        assert_eq!(response.status, status, "{response:?}");
    }
    let wrong = format!("authorization: Bearer mk_test_{OURS}\r\n");
    assert_eq!(
        sandbox.raw(&format!("GET /api/v1/audiences?q={OURS}"), &wrong, "").await.status,
        401
    );
    for (line, body) in [
        (
            "POST /_sandbox/inbound",
            format!(
                r#"{{"from":"{OURS}@a.test","to":"{OURS}@sandbox.test","subject":"{OURS}","text":"{OURS}"}}"#
            ),
        ),
        (
            "POST /_sandbox/extractions",
            format!(r#"{{"event":"extraction.completed","data":{{"{OURS}":"{OURS}"}}}}"#),
        ),
        ("PUT /_sandbox/templates/welcome", format!(r#"{{"text":"{OURS} {{{{ name }}}}"}}"#)),
        (
            "POST /_sandbox/faults",
            format!(
                r#"{{"operation":"audiences.list","status":500,"body":"{OURS}","headers":{{"x-{OURS}":"{OURS}"}}}}"#
            ),
        ),
    ] {
        let response = sandbox.control(line, &body).await;
        assert!((200..300).contains(&response.status), "{line}: {response:?}");
    }
    let filled = format!(
        r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","templateId":"welcome","variables":{{"{OURS}":"{OURS}"}}}}"#
    );
    assert_eq!(sandbox.call("POST /api/v1/emails", &filled).await.status, 422);
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 500);
    mail_in(sandbox.server.addresses().smtp.expect("a listener")).await;
    sandbox.advance("1h").await;
    assert!(receiver.received().len() > 3, "{:?}", receiver.received().len());
    sandbox.server.stop().await;
}

/// A message comes in over SMTP, and things that are none.
async fn mail_in(address: SocketAddr) {
    let mut stream = BufReader::new(TcpStream::connect(address).await.expect("a connection"));
    let commands = format!(
        "EHLO {OURS}\r\nMAIL FROM:<{OURS}@a.test>\r\nRCPT TO:<{OURS}>\r\n{OURS}\r\n\
         RCPT TO:<{OURS}@elsewhere.test>\r\nRCPT TO:<{OURS}@sandbox.test>\r\nDATA\r\n\
         Subject: {OURS}\r\nFrom: {OURS}@a.test\r\n\r\n{OURS}\r\n.\r\nQUIT\r\n"
    );
    stream.get_mut().write_all(commands.as_bytes()).await.expect("written");
    let mut last = String::new();
    let mut taken = false;
    while stream.read_line(&mut last).await.expect("read") > 0 {
        taken |= last.starts_with("250 2.0.0 taken");
        last.clear();
    }
    assert!(taken);
}

/// A relay that is not there, and its password.
async fn relay() {
    let url = format!("smtp://{OURS}:{OURS}@127.0.0.1:1");
    let sandbox = Sandbox::with(|builder| builder.relay(&url).expect("a relay")).await;
    let email = format!(
        r#"{{"from":"a@sandbox.test","to":"{OURS}@{OURS}.example","subject":"{OURS}","text":"{OURS}"}}"#
    );
    assert_eq!(sandbox.call("POST /api/v1/emails", &email).await.status, 202);
    sandbox.advance("10d").await;
    sandbox.server.stop().await;
}
