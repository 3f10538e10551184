//! The relay against an SMTP server (aiosmtpd), and the listener against an SMTP client
//! (Python's smtplib). `tests/peers/run` installs both.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::sandbox::Sandbox;

/// How long a test waits for the other program before it fails.
const TIME_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn required_var(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run the tests with tests/peers/run"))
}

struct MailServer {
    port: u16,
    messages: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl MailServer {
    async fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let mut process = Command::new(required_var("SVC_PEERS_PYTHON"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/mail_server.py"))
            .args([
                required_var("SVC_PEERS_CERT"),
                required_var("SVC_PEERS_KEY"),
                port.to_string(),
            ])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("Python");
        let mut messages = BufReader::new(process.stdout.take().expect("its output")).lines();
        let ready = timeout(TIME_LIMIT, messages.next_line()).await;
        let ready = ready.expect("aiosmtpd starts within 60 s").expect("read");
        assert_eq!(ready.as_deref(), Some("ready"));

        Self {
            port,
            messages,
            _process: process,
        }
    }

    async fn next(&mut self) -> Value {
        let line = timeout(TIME_LIMIT, self.messages.next_line()).await;
        let line = line
            .expect("a message arrives within 60 s")
            .expect("read")
            .expect("a message");
        serde_json::from_str(&line).expect("JSON")
    }
}

#[tokio::test]
async fn relays_mail_over_tls_with_authentication() {
    let mut mail = MailServer::start().await;
    let url = format!("smtp://ada:p%40ss%20word@localhost:{}", mail.port);
    let sandbox = Sandbox::start(|builder| builder.relay(&url).expect("a relay").relay_to("*").expect("valid")).await;
    sandbox
        .call("POST /_sandbox/clock", r#"{"freeze":true}"#)
        .await;
    let body = r#"{"from":"Zoë <hello@sandbox.test>","to":["ada@out.example","no@out.example","later@out.example"],
        "subject":"Grüße","text":"Hello\n.\n..dots\n","html":"<p>Hällo</p>"}"#;
    let sent = sandbox.call("POST /api/v1/emails", body).await;
    sandbox.server.until_idle().await;
    let first = mail.next().await;
    assert_eq!(first["from"], "hello@sandbox.test");
    assert_eq!(first["to"], serde_json::json!(["ada@out.example"]));
    assert_eq!(
        (&first["tls"], &first["authenticated"]),
        (&true.into(), &true.into())
    );

    let source = first["source"].as_str().expect("a source");
    assert!(source.starts_with("DKIM-Signature: "), "{source}");
    assert!(source.contains("\r\nHello\r\n.\r\n..dots\r\n"), "{source}");

    sandbox
        .call("POST /_sandbox/clock", r#"{"advance":"30s"}"#)
        .await;
    let second = mail.next().await;
    assert_eq!(second["to"], serde_json::json!(["later@out.example"]));
    assert_eq!(second["source"], first["source"]);
    // Both messages use one connection.
    assert_eq!(second["peer"], first["peer"]);

    let id = sent["id"].as_str().expect("an id");
    let found = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
    let statuses: Vec<_> = found["recipients"]
        .as_array()
        .expect("recipients")
        .iter()
        .map(|recipient| recipient["status"].as_str().expect("a status"))
        .collect();
    assert_eq!(statuses, ["delivered", "bounced", "delivered"]);
}

#[tokio::test]
async fn receives_mail_from_smtplib() {
    let any_port = "127.0.0.1:0".parse().expect("an address");
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
    let chain = certified.cert.pem();
    let key = certified.signing_key.serialize_pem();
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut file, chain.as_bytes()).expect("written");
    let sandbox = Sandbox::start(|builder| {
        let builder = builder
            .smtp(any_port)
            .smtp_certificate(chain.as_bytes(), key.as_bytes());
        builder.expect("a certificate")
    })
    .await;
    let address = sandbox.server.addresses().smtp.expect("a listener");
    let script = format!(
        r#"
import smtplib
import ssl
from email.message import EmailMessage
message = EmailMessage()
message["From"] = "Zoë <zoe@out.example>"
message["To"] = "help@sandbox.test"
message["Subject"] = "Grüße"
message.set_content("Hällo\n.\n")
message.add_attachment(b"\x00\x01", maintype="application", subtype="x-y", filename="größe.bin")
client = smtplib.SMTP("127.0.0.1", {})
client.starttls(context=ssl.create_default_context(cafile={:?}))
assert not client.has_extn("starttls")
assert client.send_message(message, to_addrs=["help@sandbox.test", "x@elsewhere.test"]) == {{}}
# Any login is accepted, by the mechanisms that the module knows.
for mechanism in client.auth_plain, client.auth_login:
    client.user, client.password = "user", "secret"
    assert client.auth(mechanism.__name__[5:], mechanism)[0] == 235
    client.quit()
    client.connect("127.0.0.1", {})
    client.ehlo()
client.quit()
"#,
        address.port(),
        file.path(),
        address.port()
    );
    let ran = Command::new(required_var("SVC_PEERS_PYTHON"))
        .args(["-c", &script])
        .status()
        .await;
    assert!(ran.expect("Python").success());

    let found = sandbox
        .call("GET /_sandbox/messages/wait?to=help@sandbox.test", "")
        .await;
    assert_eq!(found["from"], "Zoë <zoe@out.example>");
    assert_eq!(found["subject"], "Grüße");
    assert_eq!(found["attachments"][0]["filename"], "größe.bin");
    assert_eq!(found["attachments"][0]["size"], 2);

    let caught = sandbox
        .call("GET /_sandbox/messages/wait?to=x@elsewhere.test", "")
        .await;
    assert_eq!(caught["attachments"], found["attachments"]);
}
