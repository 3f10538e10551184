//! The SMTP listener, spoken to by hand.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::Sandbox;
use crate::receiver::Receiver;

struct Client<S = TcpStream> {
    stream: BufReader<S>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let mut client = Self { stream: BufReader::new(stream) };
        assert_eq!(client.reply().await, "220 inbound.sandbox.localhost ESMTP");
        client
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    async fn say(&mut self, text: &str) -> String {
        self.write(&format!("{text}\r\n")).await;
        self.reply().await
    }

    async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("written");
    }

    /// The last line of the next reply; empty at the end.
    async fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await.expect("read");
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }
}

async fn sandbox() -> (Sandbox, SocketAddr) {
    let any = "127.0.0.1:0".parse().expect("an address");
    let sandbox = Sandbox::with(|builder| builder.smtp(any)).await;
    let address = sandbox.server.addresses().smtp.expect("a listener");
    (sandbox, address)
}

#[tokio::test]
async fn mail_for_a_verified_domain_is_taken_and_told() {
    let (sandbox, address) = sandbox().await;
    let receiver = Receiver::start(&[]).await;

    // A message of our own as it would come back: signed, from where SPF says.
    let body = r#"{"from":"a@sandbox.test","to":"help@sandbox.test","subject":"Hi","text":"Hello\n.\n..x\n"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
    let sent = sandbox.control("GET /_sandbox/messages/wait", "").await.id();
    // Nobody was told of it when it was delivered here.
    let body = format!(r#"{{"url":"{}","events":["email.received"]}}"#, receiver.url());
    assert_eq!(sandbox.call("POST /api/v1/webhooks", &body).await.status, 201);
    let source = sandbox.control(&format!("GET /_sandbox/messages/{sent}/raw"), "").await.body;

    let mut client = Client::connect(address).await;
    assert_eq!(client.say("EHLO client.test").await, "250 ENHANCEDSTATUSCODES");
    assert_eq!(client.say("MAIL FROM:<a@sandbox.test> BODY=8BITMIME").await, "250 2.1.0 go on");
    assert_eq!(client.say("RCPT TO:<help@sandbox.test>").await, "250 2.1.5 go on");
    assert!(client.say("DATA").await.starts_with("354 "));
    client.write(&source.replace("\r\n.", "\r\n..")).await;
    let taken = client.say(".").await;
    assert!(taken.starts_with("250 2.0.0 taken as req_"), "{taken}");
    assert_eq!(client.say("QUIT").await, "221 2.0.0 good-bye");
    assert_eq!(client.reply().await, "");
    sandbox.settle().await;

    let [received] = &receiver.received()[..] else { panic!("{:?}", receiver.received()) };
    for part in [
        r#""from":"a@sandbox.test","to":["help@sandbox.test"],"subject":"Hi","text":"Hello\r\n.\r\n..x\r\n","#,
        r#""spf":"pass","dkim":"pass","recipient":"help@sandbox.test""#,
    ] {
        assert!(received.body.contains(part), "{part} in {}", received.body);
    }
    let list = sandbox.control("GET /_sandbox/messages?limit=1", "").await;
    let raw = sandbox.control(&format!("GET /_sandbox/messages/{}/raw", list.id()), "").await;
    let trace = "Return-Path: <a@sandbox.test>\r\n\
        Authentication-Results: inbound.sandbox.localhost; spf=pass smtp.helo=client.test; dkim=pass\r\n\
        Received: from client.test ([127.0.0.1])\r\n\tby inbound.sandbox.localhost with ESMTP id req_";
    assert!(raw.body.starts_with(trace), "{}", raw.body);
    assert!(raw.body.ends_with(&source), "{}", raw.body);
}

#[tokio::test]
async fn everybody_else_is_550_and_may_go_on() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.say("HELO client.test").await;
    client.say("MAIL FROM:<>").await;
    for stranger in ["x@elsewhere.test", "x@sub.sandbox.test"] {
        let reply = client.say(&format!("RCPT TO:<{stranger}>")).await;
        let text = "550 5.7.1 no mail is taken for this domain: it is not verified here";
        assert_eq!(reply, text, "{stranger}");
    }
    assert_eq!(client.say("DATA").await, "554 5.5.1 no valid recipients");
    assert_eq!(client.say("RCPT TO:<x@SANDBOX.test>").await, "250 2.1.5 go on");
    assert!(client.say("DATA").await.starts_with("354 "));
    assert!(
        client
            .say("Subject: forged\r\nFrom: a@sandbox.test\r\n\r\nx\r\n.")
            .await
            .starts_with("250 ")
    );
    let shown = sandbox.control("GET /_sandbox/messages/wait?subject=forged", "").await;
    // The empty sender is judged by its HELO, which has no policy.
    let results = "inbound.sandbox.localhost; spf=none smtp.helo=client.test; dkim=none";
    assert!(shown.body.contains(results), "{}", shown.body);
}

#[tokio::test]
async fn commands_can_come_at_once_and_out_of_order() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    for (line, reply) in [
        ("MAIL FROM:<a@b.test>", "503 5.5.1 first EHLO"),
        ("EHLO x", "250 ENHANCEDSTATUSCODES"),
        ("RCPT TO:<a@sandbox.test>", "503 5.5.1 first MAIL"),
        ("DATA", "503 5.5.1 first MAIL and RCPT"),
        ("MAIL FROM:<a@b.test> SIZE=99999999", "552 5.3.4 a message may have 26214400 bytes"),
        ("ETRN x", "502 5.5.1 not offered"),
        ("AUTH PLAIN AGEAYg==", "502 5.5.1 not offered"),
        ("NONSENSE", "500 5.5.1 no such command"),
        ("NOOP", "250 2.0.0 fine"),
    ] {
        assert_eq!(client.say(line).await, reply, "{line}");
    }
    client
        .write("MAIL FROM:<a@b.test>\r\nRCPT TO:<c@sandbox.test>\r\nDATA\r\nSubject: all\r\n\r\nx\r\n.\r\nRSET\r\n")
        .await;
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(client.reply().await[..3].to_owned());
    }
    assert_eq!(codes, ["250", "250", "354", "250", "250"]);
    let shown = sandbox.control("GET /_sandbox/messages/wait?to=c@sandbox.test", "").await;
    assert_eq!(shown.between(r#""subject":""#), "all");
}

#[tokio::test]
async fn who_makes_no_sense_is_left() {
    let (_sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    let mut last = String::new();
    for _ in 0..20 {
        last = client.say("NONSENSE").await;
    }
    assert_eq!(last, "421 4.7.0 too many mistakes");
    assert_eq!(client.reply().await, "");

    let mut client = Client::connect(address).await;
    let long = client.say(&format!("EHLO {}", "x".repeat(10_000))).await;
    assert_eq!(long, "501 5.5.2 write EHLO domain");
    client.write(&format!("NOOP {}", "x".repeat(10_000))).await;
    assert_eq!(client.reply().await, "500 5.5.6 the line is too long");
}

#[tokio::test]
async fn an_empty_message_and_a_large_one() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.say("EHLO x").await;
    client.say("MAIL FROM:<a@b.test>").await;
    client.say("RCPT TO:<c@sandbox.test>").await;
    client.say("DATA").await;
    assert!(client.say(".").await.starts_with("250 "));
    client.say("MAIL FROM:<a@b.test>").await;
    client.say("RCPT TO:<c@sandbox.test>").await;
    client.say("DATA").await;
    let line = format!("{}\r\n", "x".repeat(998));
    for _ in 0..27 {
        client.write(&line.repeat(1000)).await;
    }
    assert_eq!(client.say(".").await, "552 5.3.4 a message may have 26214400 bytes");
    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body.matches(r#""id":"#).count(), 1, "{list:?}");
}

/// A dot after a bare line feed ends no message: what follows it would be taken
/// for commands by one server and for text by the next (SMTP smuggling).
#[tokio::test]
async fn a_message_ends_with_whole_line_ends_only() {
    let (sandbox, address) = sandbox().await;
    for end in ["\n.\n", "\n.\r\n", "\r.\r", "\r\n.\n", "\r\n.\r"] {
        let mut client = Client::connect(address).await;
        client.say("EHLO x").await;
        client.say("MAIL FROM:<a@b.test>").await;
        client.say("RCPT TO:<c@sandbox.test>").await;
        client.say("DATA").await;
        let hidden = format!("Subject: one\r\n\r\nx{end}MAIL FROM:<evil@b.test>\r\nQUIT");
        client.write(&hidden).await;
        let taken = client.say("\r\n.").await;
        assert!(taken.starts_with("250 2.0.0 taken"), "{end:?}: {taken}");
        assert_eq!(client.say("NOOP").await, "250 2.0.0 fine", "{end:?}");
    }
    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body.matches(r#""id":"#).count(), 5, "{list:?}");
}

/// What the client says of itself stands in the message: it must not end a field.
#[tokio::test]
async fn a_recipient_gets_one_message_with_a_clean_trace() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.say("EHLO a;b(c").await;
    client.say("MAIL FROM:<a@b.test>").await;
    for _ in 0..2 {
        assert_eq!(client.say("RCPT TO:<c@sandbox.test>").await, "250 2.1.5 go on");
    }
    client.say("DATA").await;
    assert!(client.say("Subject: x\r\n\r\nx\r\n.").await.starts_with("250 2.0.0 taken"));
    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body.matches(r#""id":"#).count(), 1, "{list:?}");
    let raw = sandbox.control(&format!("GET /_sandbox/messages/{}/raw", list.id()), "").await;
    assert!(raw.body.contains(" smtp.helo=abc; "), "{}", raw.body);
    assert!(raw.body.contains("\r\nReceived: from abc ([127.0.0.1])\r\n"), "{}", raw.body);
}

#[tokio::test]
async fn a_message_that_goes_in_circles_is_refused() {
    let (_sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.say("EHLO x").await;
    for (hops, reply) in [(100, "250 2.0.0 "), (101, "554 5.4.6 ")] {
        client.say("MAIL FROM:<a@b.test>").await;
        client.say("RCPT TO:<c@sandbox.test>").await;
        client.say("DATA").await;
        let trace = "Received: from x by y\r\n".repeat(hops);
        let answer = client.say(&format!("{trace}\r\nReceived: in the text\r\n.")).await;
        assert!(answer.starts_with(reply), "{hops}: {answer}");
    }
}

/// Goes on encrypted; the server must be who the certificate says.
async fn encrypted(
    client: Client,
    certificate: &rcgen::Certificate,
) -> Client<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, client.stream.into_inner()).await.expect("a handshake");
    Client { stream: BufReader::new(stream) }
}

#[tokio::test]
async fn mail_comes_in_encrypted() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let any = "127.0.0.1:0".parse().expect("an address");
    let sandbox = Sandbox::with(|builder| {
        let builder = builder.smtp(any).smtp_certificate(chain.as_bytes(), key.as_bytes());
        builder.expect("a certificate")
    })
    .await;
    let address = sandbox.server.addresses().smtp.expect("a listener");
    let mut client = Client::connect(address).await;
    client.say("EHLO client.test").await;
    client.say("MAIL FROM:<a@b.test>").await;
    // What follows in plain text was put there by somebody else: it is not obeyed.
    let reply = client.say("STARTTLS\r\nRSET").await;
    assert_eq!(reply, "220 2.0.0 go ahead");

    let mut client = encrypted(client, &made.cert).await;
    assert_eq!(client.say("MAIL FROM:<a@b.test>").await, "503 5.5.1 first EHLO");
    client.write("EHLO client.test\r\n").await;
    let mut offered = String::new();
    while !offered.contains("250 ") {
        client.stream.read_line(&mut offered).await.expect("read");
    }
    assert!(!offered.contains("STARTTLS"), "{offered}");
    assert_eq!(client.say("STARTTLS").await, "503 5.5.1 the connection is encrypted already");
    client.say("MAIL FROM:<a@b.test>").await;
    client.say("RCPT TO:<c@sandbox.test>").await;
    client.say("DATA").await;
    let taken = client.say("Subject: secret\r\n\r\nx\r\n.").await;
    assert!(taken.starts_with("250 2.0.0 taken"), "{taken}");
    let message = sandbox.control("GET /_sandbox/messages/wait?to=c@sandbox.test", "").await;
    let raw = sandbox.control(&format!("GET /_sandbox/messages/{}/raw", message.id()), "").await;
    assert!(raw.body.contains("by inbound.sandbox.localhost with ESMTPS id "), "{}", raw.body);
}
