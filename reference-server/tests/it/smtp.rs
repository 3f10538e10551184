//! The SMTP listener, tested with literal SMTP commands.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use base64::Engine as _;

use crate::harness::{Sandbox, public};
use crate::receiver::{Receiver, within};

struct Client<S = TcpStream> {
    stream: BufReader<S>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let connect = within("a connection", TcpStream::connect(address));
        let stream = connect.await.expect("a connection");
        let mut client = Self {
            stream: BufReader::new(stream),
        };
        assert_eq!(client.reply().await, "220 inbound.sandbox.localhost ESMTP");
        client
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    async fn command(&mut self, text: &str) -> String {
        self.write(&format!("{text}\r\n")).await;
        self.reply().await
    }

    async fn write(&mut self, text: &str) {
        let write = self.stream.write_all(text.as_bytes());
        within("the server to read", write).await.expect("written");
    }

    /// The last line of the next reply; empty if the connection was closed.
    async fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.stream.read_line(&mut line);
            within("an SMTP reply", read).await.expect("read");
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }
}

async fn sandbox() -> (Sandbox, SocketAddr) {
    let any_port = "127.0.0.1:0".parse().expect("an address");
    let sandbox = Sandbox::with(|builder| builder.smtp(any_port)).await;
    let address = sandbox.server.addresses().smtp.expect("a listener");
    (sandbox, address)
}

#[tokio::test]
async fn mail_for_a_verified_domain_is_received() {
    let (sandbox, address) = sandbox().await;
    let receiver = Receiver::start(&[]).await;

    // Send a message, and deliver its signed source from the address that SPF allows.
    let body = r#"{"from":"a@sandbox.test","to":"help@sandbox.test","subject":"Hi","text":"Hello\n.\n..x\n"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);

    let sent = sandbox
        .control("GET /_sandbox/messages/wait", "")
        .await
        .id();
    // Create the webhook only now, so that the local delivery above caused no event.
    let body = format!(
        r#"{{"url":"{}","events":["email.received"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    let source = sandbox
        .control(&format!("GET /_sandbox/messages/{sent}/raw"), "")
        .await
        .body;

    let mut client = Client::connect(address).await;
    assert_eq!(
        client.command("EHLO client.test").await,
        "250 ENHANCEDSTATUSCODES"
    );
    assert_eq!(
        client
            .command("MAIL FROM:<a@sandbox.test> BODY=8BITMIME")
            .await,
        "250 2.1.0 sender OK"
    );
    assert_eq!(
        client.command("RCPT TO:<help@sandbox.test>").await,
        "250 2.1.5 recipient OK"
    );
    assert!(client.command("DATA").await.starts_with("354 "));

    client.write(&source.replace("\r\n.", "\r\n..")).await;
    let reply = client.command(".").await;
    assert!(reply.starts_with("250 2.0.0 queued as req_"), "{reply}");
    assert_eq!(client.command("QUIT").await, "221 2.0.0 closing connection");
    assert_eq!(client.reply().await, "");

    sandbox.settle().await;

    let [received] = &receiver.received()[..] else {
        panic!("{:?}", receiver.received())
    };
    for part in [
        r#""from":"a@sandbox.test","to":["help@sandbox.test"],"subject":"Hi","text":"Hello\r\n.\r\n..x\r\n","#,
        r#""spf":"pass","dkim":{"result":"pass","domain":"sandbox.test","aligned":true},"recipient":"help@sandbox.test""#,
    ] {
        assert!(received.body.contains(part), "{part} in {}", received.body);
    }

    let list = sandbox.control("GET /_sandbox/messages?limit=1", "").await;
    let raw = sandbox
        .control(&format!("GET /_sandbox/messages/{}/raw", list.id()), "")
        .await;
    let trace = "Return-Path: <a@sandbox.test>\r\n\
        Authentication-Results: inbound.sandbox.localhost; spf=pass smtp.mailfrom=sandbox.test;\r\n\tdkim=pass header.d=sandbox.test\r\n\
        Received: from client.test ([127.0.0.1])\r\n\tby inbound.sandbox.localhost with ESMTP id req_";
    assert!(raw.body.starts_with(trace), "{}", raw.body);
    assert!(raw.body.ends_with(&source), "{}", raw.body);
}

/// As every mail catcher: the message is shown, and it is not received mail with events.
#[tokio::test]
async fn mail_to_any_address_is_caught() {
    let (sandbox, address) = sandbox().await;
    let receiver = Receiver::start(&[]).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.received"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    let mut client = Client::connect(address).await;
    client.command("EHLO client.test").await;
    client.command("MAIL FROM:<webmaster@localhost>").await;
    for recipient in ["ada@example.com", "x@sub.sandbox.test", "root@localhost"] {
        let reply = client.command(&format!("RCPT TO:<{recipient}>")).await;
        assert_eq!(reply, "250 2.1.5 recipient OK", "{recipient}");
    }

    client.command("DATA").await;
    let text = "From: webmaster@localhost\r\nSubject: caught\r\n\r\nYour code: 481516\r\n.";
    assert!(client.command(text).await.starts_with("250 2.0.0 queued"));

    for recipient in ["ada@example.com", "x@sub.sandbox.test", "root@localhost"] {
        let found = format!("GET /_sandbox/messages/wait?to={recipient}&subject=caught");
        let found = sandbox.control(&found, "").await;
        assert!(
            found.body.contains(r#""direction":"incoming""#),
            "{found:?}"
        );
        assert!(found.body.contains(r#""codes":["481516"]"#), "{found:?}");
        // Nothing was looked up for it.
        assert!(found.body.contains(r#""authentication":null"#), "{found:?}");
    }

    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 0, "no event");
}

/// The login selects the organization; any other is accepted, and selects none.
#[tokio::test]
async fn a_login_selects_the_organization() {
    let (sandbox, address) = sandbox().await;
    let shop = r#"{"name":"Shop","domain":"shop.test"}"#;
    let shop = sandbox.control("POST /_sandbox/organizations", shop).await;
    let key = shop.between(r#""email_key":""#);
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let plain = |user: &str, password: &str| {
        vec![format!(
            "AUTH PLAIN {}",
            base64(&format!("\0{user}\0{password}"))
        )]
    };

    let login =
        |user: &str, password: &str| vec!["AUTH LOGIN".to_owned(), base64(user), base64(password)];
    for (number, (lines, organization)) in [
        (plain("apikey", &key), "Shop"),
        (plain(&key, ""), "Shop"),
        (plain("Shop", "secret"), "Shop"),
        (login(&shop.id(), "secret"), "Shop"),
        (
            vec!["AUTH PLAIN".to_owned(), base64("\0user\0Shop")],
            "Shop",
        ),
        (plain("user", "secret"), "Sandbox"),
        (login("user", ""), "Sandbox"),
        (
            vec![
                format!("AUTH LOGIN {}", base64("user")),
                base64("mk_test_sandbox"),
            ],
            "Sandbox",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = Client::connect(address).await;
        client.command("EHLO client.test").await;
        let mut reply = String::new();
        for line in &lines {
            assert!(reply.is_empty() || reply.starts_with("334"), "{reply}");
            reply = client.command(line).await;
        }
        assert_eq!(reply, "235 2.7.0 authenticated", "{lines:?}");
        client.command("MAIL FROM:<a@b.test> AUTH=<>").await;
        // Also what is for the verified domain of another organization.
        client.command("RCPT TO:<x@sandbox.test>").await;
        client.command("DATA").await;
        let text = format!("Subject: n{number}.\r\n\r\nx\r\n.");
        assert!(client.command(&text).await.starts_with("250 2.0.0 queued"));
        let found = |organization: &str| {
            let query = format!("subject=n{number}.&organization={organization}");
            format!("GET /_sandbox/messages?{query}")
        };
        for other in ["Shop", "Sandbox"] {
            let found = sandbox.control(&found(other), "").await;
            let is_there = found.body.contains(r#""id""#);
            assert_eq!(is_there, other == organization, "{lines:?} in {other}");
        }
    }
}

#[tokio::test]
async fn a_login_that_is_not_one_is_refused() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    assert_eq!(
        client.command("AUTH PLAIN AHgAeQ==").await,
        "503 5.5.1 AUTH follows EHLO, once and before MAIL"
    );

    client.command("EHLO client.test").await;
    for (lines, reply) in [
        (
            &["AUTH CRAM-MD5"][..],
            "504 5.5.4 only PLAIN and LOGIN are supported",
        ),
        (&["AUTH PLAIN", "*"], "501 5.7.0 authentication cancelled"),
        (
            &["AUTH PLAIN", "x"],
            "501 5.5.2 the response is not Base64 of UTF-8",
        ),
        (
            &["AUTH PLAIN ="],
            "501 5.5.2 the response is not that of AUTH PLAIN",
        ),
        (&["AUTH PLAIN AHgAeQ=="], "235 2.7.0 authenticated"),
        (
            &["AUTH PLAIN AHgAeQ=="],
            "503 5.5.1 AUTH follows EHLO, once and before MAIL",
        ),
    ] {
        let mut last = String::new();
        for line in lines {
            last = client.command(line).await;
        }
        assert_eq!(last, reply, "{lines:?}");
    }

    drop(sandbox);
}

/// Without seed data there is no organization that catches mail, and in a network with others
/// a key goes only over TLS.
#[tokio::test]
async fn a_server_without_seed_data_catches_mail_only_with_a_login() {
    let any_port = "127.0.0.1:0".parse().expect("an address");
    for is_public in [false, true] {
        let sandbox = Sandbox::with(|builder| {
            if is_public {
                public(builder.smtp(any_port))
            } else {
                builder.smtp(any_port).seed(false)
            }
        })
        .await;
        let mut client = Client::connect(sandbox.server.addresses().smtp.unwrap()).await;
        client.command("EHLO client.test").await;
        client.command("MAIL FROM:<a@b.test>").await;
        let refused = client.command("RCPT TO:<x@example.com>").await;
        assert!(
            refused.starts_with("550 5.7.1 the domain is not verified"),
            "{refused}"
        );
        client.command("RSET").await;
        let made = sandbox
            .control("POST /_sandbox/organizations", r#"{"name":"Shop"}"#)
            .await;
        assert_eq!(made.status, 201, "{made:?}");
        // The name of the organization, twice.
        let reply = client.command("AUTH PLAIN AFNob3AAU2hvcA==").await;
        if is_public {
            assert_eq!(reply, "538 5.7.11 start TLS first");
            continue;
        }
        assert_eq!(reply, "235 2.7.0 authenticated");
        client.command("MAIL FROM:<a@b.test>").await;
        assert_eq!(
            client.command("RCPT TO:<x@example.com>").await,
            "250 2.1.5 recipient OK"
        );
    }
}

#[tokio::test]
async fn the_session_continues_after_a_refusal() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.command("HELO client.test").await;
    client.command("MAIL FROM:<>").await;
    assert_eq!(
        client.command("RCPT TO:<x@>").await,
        "501 5.1.3 invalid recipient address"
    );
    assert_eq!(
        client.command("DATA").await,
        "554 5.5.1 no valid recipients"
    );
    assert_eq!(
        client.command("RCPT TO:<x@SANDBOX.test>").await,
        "250 2.1.5 recipient OK"
    );
    assert!(client.command("DATA").await.starts_with("354 "));
    assert!(
        client
            .command("Subject: forged\r\nFrom: a@sandbox.test\r\n\r\nx\r\n.")
            .await
            .starts_with("250 ")
    );

    let message = sandbox
        .control("GET /_sandbox/messages/wait?subject=forged", "")
        .await;
    // For an empty sender, SPF uses the HELO domain, which has no policy.
    let results = "inbound.sandbox.localhost; spf=none smtp.helo=client.test; dkim=none";
    assert!(message.body.contains(results), "{}", message.body);

    let results =
        r#""authentication":{"spf":"none","dkim":{"result":"none","domain":null,"aligned":false}}"#;
    assert!(message.body.contains(results), "{}", message.body);
}

#[tokio::test]
async fn parameters_that_the_server_does_not_offer_are_refused() {
    let (_sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.command("EHLO x").await;
    for (line, reply) in [
        ("STARTTLS foo", "501 5.5.4 STARTTLS has no parameters"),
        (
            "MAIL FROM:<a@b.test> BODY=BINARYMIME",
            "504 5.5.4 BODY=BINARYMIME is not supported",
        ),
        (
            "MAIL FROM:<a@b.test> RET=HDRS",
            "555 5.5.4 a parameter is not supported",
        ),
        (
            "MAIL FROM:<a@b.test> ENVID=x",
            "555 5.5.4 a parameter is not supported",
        ),
        (
            "MAIL FROM:<a@b.test> SIZE=10 BODY=7BIT SMTPUTF8",
            "250 2.1.0 sender OK",
        ),
        (
            "RCPT TO:<c@sandbox.test> NOTIFY=SUCCESS",
            "555 5.5.4 a parameter is not supported",
        ),
        (
            "RCPT TO:<c@sandbox.test> ORCPT=rfc822;c@d.test",
            "555 5.5.4 a parameter is not supported",
        ),
        ("RCPT TO:<c@sandbox.test>", "250 2.1.5 recipient OK"),
    ] {
        assert_eq!(client.command(line).await, reply, "{line}");
    }
}

/// Every server accepts mail for its postmaster (RFC 5321 §4.5.1).
#[tokio::test]
async fn the_postmaster_needs_no_domain() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.command("EHLO x").await;
    client.command("MAIL FROM:<a@b.test>").await;
    assert_eq!(
        client.command("RCPT TO:< >").await,
        "501 5.1.3 invalid recipient address"
    );
    assert_eq!(
        client.command("RCPT TO:<Postmaster>").await,
        "250 2.1.5 recipient OK"
    );

    client.command("DATA").await;
    assert!(
        client
            .command("Subject: x\r\n\r\nx\r\n.")
            .await
            .starts_with("250 2.0.0 queued")
    );

    let wait = "GET /_sandbox/messages/wait?to=postmaster@sandbox.test";
    assert_eq!(
        sandbox.control(wait, "").await.between(r#""subject":""#),
        "x"
    );
}

#[tokio::test]
async fn supports_pipelining_and_rejects_commands_out_of_order() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    for (line, reply) in [
        ("MAIL FROM:<a@b.test>", "503 5.5.1 send EHLO first"),
        ("EHLO x", "250 ENHANCEDSTATUSCODES"),
        ("RCPT TO:<a@sandbox.test>", "503 5.5.1 send MAIL first"),
        ("DATA", "503 5.5.1 send MAIL and RCPT first"),
        (
            "MAIL FROM:<a@b.test> SIZE=99999999",
            "552 5.3.4 message exceeds the maximum size of 26214400 bytes",
        ),
        ("ETRN x", "502 5.5.1 command not implemented"),
        ("NONSENSE", "500 5.5.1 unknown command"),
        ("NOOP", "250 2.0.0 OK"),
    ] {
        assert_eq!(client.command(line).await, reply, "{line}");
    }

    client
        .write("MAIL FROM:<a@b.test>\r\nRCPT TO:<c@sandbox.test>\r\nDATA\r\nSubject: all\r\n\r\nx\r\n.\r\nRSET\r\n")
        .await;
    let mut codes = Vec::new();
    for _ in 0..5 {
        codes.push(client.reply().await[..3].to_owned());
    }

    assert_eq!(codes, ["250", "250", "354", "250", "250"]);

    let message = sandbox
        .control("GET /_sandbox/messages/wait?to=c@sandbox.test", "")
        .await;
    assert_eq!(message.between(r#""subject":""#), "all");
}

#[tokio::test]
async fn goes_on_after_errors_of_a_client_that_speaks_smtp() {
    let (_sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.command("EHLO x").await;
    for _ in 0..20 {
        assert_eq!(
            client.command("NONSENSE").await,
            "500 5.5.1 unknown command"
        );
    }

    // The session goes on after a long line.
    client.command("EHLO x").await;
    for command in ["EHLO", "NOOP"] {
        let long = client
            .command(&format!("{command} {}", "x".repeat(100_000)))
            .await;
        assert_eq!(long, "500 5.5.6 line too long");
    }

    assert_eq!(client.command("EHLO x").await, "250 ENHANCEDSTATUSCODES");
}

#[tokio::test]
async fn accepts_empty_messages_and_rejects_large_ones() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.command("EHLO x").await;
    client.command("MAIL FROM:<a@b.test>").await;
    client.command("RCPT TO:<c@sandbox.test>").await;
    client.command("DATA").await;
    assert!(client.command(".").await.starts_with("250 "));

    client.command("MAIL FROM:<a@b.test>").await;
    client.command("RCPT TO:<c@sandbox.test>").await;
    client.command("DATA").await;
    let line = format!("{}\r\n", "x".repeat(998));
    for _ in 0..27 {
        client.write(&line.repeat(1000)).await;
    }

    assert_eq!(
        client.command(".").await,
        "552 5.3.4 message exceeds the maximum size of 26214400 bytes"
    );

    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body.matches(r#""id":"#).count(), 1, "{list:?}");
}

/// A dot after a bare line feed does not end a message. Otherwise one server would take
/// the following text for commands and the next one for content (SMTP smuggling). So the message is
/// refused.
#[tokio::test]
async fn a_message_with_a_bare_cr_or_lf_is_refused() {
    let (sandbox, address) = sandbox().await;
    for end in [
        "\n.\n", "\n.\r\n", "\r.\r", "\r\n.\n", "\r\n.\r", "\r\n\n", "\r\r\n",
    ] {
        let mut client = Client::connect(address).await;
        client.command("EHLO x").await;
        client.command("MAIL FROM:<a@b.test>").await;
        client.command("RCPT TO:<c@sandbox.test>").await;
        client.command("DATA").await;
        let hidden = format!("Subject: one\r\n\r\nx{end}MAIL FROM:<evil@b.test>\r\nQUIT");
        client.write(&hidden).await;
        assert_eq!(
            client.command("\r\n.").await,
            "554 5.6.0 the message has a bare CR or LF; lines must end in <CR><LF>",
            "{end:?}"
        );
        assert_eq!(client.command("NOOP").await, "250 2.0.0 OK", "{end:?}");
    }

    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
}

/// The client's HELO name becomes part of the message. It must not end a header field.
#[tokio::test]
async fn trace_fields_are_sanitized_and_recipients_deduplicated() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.command("EHLO a;b(c").await;
    client.command("MAIL FROM:<a@b.test>").await;
    for _ in 0..2 {
        assert_eq!(
            client.command("RCPT TO:<c@sandbox.test>").await,
            "250 2.1.5 recipient OK"
        );
    }

    client.command("DATA").await;
    assert!(
        client
            .command("Subject: x\r\n\r\nx\r\n.")
            .await
            .starts_with("250 2.0.0 queued")
    );

    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body.matches(r#""id":"#).count(), 1, "{list:?}");

    let raw = sandbox
        .control(&format!("GET /_sandbox/messages/{}/raw", list.id()), "")
        .await;
    assert!(
        raw.body
            .contains(" smtp.mailfrom=b.test;\r\n\tdkim=none\r\nReceived: from abc ("),
        "{}",
        raw.body
    );
    assert!(
        raw.body
            .contains("\r\nReceived: from abc ([127.0.0.1])\r\n"),
        "{}",
        raw.body
    );
}

/// Starts TLS and verifies the server's certificate.
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
    let handshake = connector.connect(name, client.stream.into_inner());
    let stream = within("the TLS handshake", handshake)
        .await
        .expect("a handshake");
    Client {
        stream: BufReader::new(stream),
    }
}

/// Many clients start TLS whenever it is offered, and then refuse a self-signed certificate.
#[tokio::test]
async fn starttls_is_not_offered_without_a_certificate() {
    let (_sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    let offered = client.command("EHLO x").await;
    assert!(!offered.contains("STARTTLS"), "{offered}");
    assert_eq!(
        client.command("STARTTLS").await,
        "502 5.5.1 command not implemented"
    );
}

#[tokio::test]
async fn receives_mail_over_starttls() {
    let generated =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("generated");
    let chain = generated.cert.pem();
    let key = generated.signing_key.serialize_pem();
    let any_port = "127.0.0.1:0".parse().expect("an address");
    let sandbox = Sandbox::with(|builder| {
        let builder = builder
            .smtp(any_port)
            .smtp_certificate(chain.as_bytes(), key.as_bytes());
        builder.expect("a certificate")
    })
    .await;
    let address = sandbox.server.addresses().smtp.expect("a listener");
    let mut client = Client::connect(address).await;
    client.command("EHLO client.test").await;
    client.command("MAIL FROM:<a@b.test>").await;
    // Cleartext after STARTTLS may have been injected and must be ignored.
    let reply = client.command("STARTTLS\r\nRSET").await;
    assert_eq!(reply, "220 2.0.0 ready to start TLS");

    let mut client = encrypted(client, &generated.cert).await;
    assert_eq!(
        client.command("MAIL FROM:<a@b.test>").await,
        "503 5.5.1 send EHLO first"
    );

    client.write("EHLO client.test\r\n").await;
    let mut offered = String::new();
    while !offered.contains("250 ") {
        let read = client.stream.read_line(&mut offered);
        let count = within("an SMTP reply", read).await.expect("read");
        assert!(count > 0, "the connection was closed: {offered}");
    }

    assert!(!offered.contains("STARTTLS"), "{offered}");
    assert_eq!(
        client.command("STARTTLS").await,
        "503 5.5.1 TLS is already active"
    );

    client.command("MAIL FROM:<a@b.test>").await;
    client.command("RCPT TO:<c@sandbox.test>").await;
    client.command("DATA").await;
    let reply = client.command("Subject: secret\r\n\r\nx\r\n.").await;
    assert!(reply.starts_with("250 2.0.0 queued"), "{reply}");

    let message = sandbox
        .control("GET /_sandbox/messages/wait?to=c@sandbox.test", "")
        .await;
    let raw = sandbox
        .control(&format!("GET /_sandbox/messages/{}/raw", message.id()), "")
        .await;
    assert!(
        raw.body
            .contains("by inbound.sandbox.localhost with ESMTPS id "),
        "{}",
        raw.body
    );
}

/// Sends one message and returns the replies to its commands.
async fn send(client: &mut Client, from: &str, to: &str, source: &str) -> Vec<String> {
    let mut replies = vec![client.command(&format!("MAIL FROM:<{from}>")).await];
    replies.push(client.command(&format!("RCPT TO:<{to}>")).await);
    if replies.iter().all(|reply| reply.starts_with("250")) {
        client.command("DATA").await;
        replies.push(client.command(&format!("{source}\r\n.")).await);
    } else {
        client.command("RSET").await;
    }
    replies
}

#[tokio::test]
async fn the_envelope_has_what_programs_send() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.command("EHLO client.test").await;
    let long = format!("{}@b.test", "a".repeat(65));
    for to in [
        "www-data@app_web_1",
        "ada@[127.0.0.1]",
        "ada@ab--cd.test",
        "a..b@c.test",
        "\"a b>\"@c_d",
        "root",
        &long,
    ] {
        let replies = send(&mut client, "www-data@app_web_1", to, "Subject: x\r\n\r\nx").await;
        assert!(
            replies.iter().all(|reply| reply.starts_with("250")),
            "{to}: {replies:?}"
        );
        let query: String = url::form_urlencoded::byte_serialize(to.as_bytes()).collect();
        let path = format!("GET /_sandbox/messages/wait?to={query}&timeout=5s");
        let found = sandbox.control(&path, "").await;
        let recipient = serde_json::to_string(to).expect("a string");
        assert!(
            found.body.contains(&format!("\"recipient\":{recipient}")),
            "{found:?}"
        );
    }

    for wrong in ["RCPT TO:<a b@c.test>", "RCPT TO:<@b.test>", "RCPT TO:<>"] {
        client.command("MAIL FROM:<@relay.test:root@a.test>").await;
        let reply = client.command(wrong).await;
        assert!(reply.starts_with("501 "), "{wrong}: {reply}");
        client.command("RSET").await;
    }
}

#[tokio::test]
async fn a_body_without_header_stays_a_body() {
    let (sandbox, address) = sandbox().await;
    let mut client = Client::connect(address).await;
    client.command("EHLO client.test").await;
    send(
        &mut client,
        "a@a.test",
        "b@b.test",
        "code 482913\r\n\r\nNote: x",
    )
    .await;
    let found = sandbox
        .control("GET /_sandbox/messages/wait?to=b@b.test", "")
        .await;
    assert!(
        found
            .body
            .contains(r#""text":"code 482913\r\n\r\nNote: x\r\n""#),
        "{found:?}"
    );
    assert!(found.body.contains(r#""codes":["482913"]"#), "{found:?}");
}

#[tokio::test]
async fn faults_of_smtp_are_for_recipients_senders_and_steps() {
    let (sandbox, address) = sandbox().await;
    let add = async |fault: &str| {
        let added = sandbox.control("POST /_sandbox/faults", fault).await;
        assert_eq!(added.status, 201, "{added:?}");
        added.id()
    };

    let slow = add(r#"{"smtp":"rcpt","to":"*@slow.test","status":452,"times":2}"#).await;
    add(r#"{"smtp":"mail","from":"spam@*","status":550,"body":"5.7.1 no"}"#).await;
    add(r#"{"smtp":"rcpt","to":"*@grey.test","greylist":true}"#).await;
    add(r#"{"smtp":"data","to":"full@b.test","status":552,"share":0.5}"#).await;
    let mut client = Client::connect(address).await;
    client.command("EHLO client.test").await;
    let source = "Subject: x\r\n\r\nx";
    for (from, to, expected) in [
        ("a@a.test", "b@b.test", "250"),
        (
            "a@a.test",
            "b@slow.test",
            "452 4.3.0 refused by a fault of the sandbox",
        ),
        ("a@a.test", "c@SLOW.test", "452"),
        ("a@a.test", "b@slow.test", "250"),
        ("spam@a.test", "b@b.test", "550 5.7.1 no"),
        ("spam@a.test", "b@b.test", "250"),
        (
            "a@a.test",
            "b@grey.test",
            "451 4.7.1 greylisted, try again later",
        ),
        ("a@a.test", "c@grey.test", "451"),
        ("a@a.test", "b@grey.test", "250"),
        ("a@a.test", "c@grey.test", "250"),
        ("a@a.test", "full@b.test", "250"),
        ("a@a.test", "full@b.test", "552"),
        ("a@a.test", "full@b.test", "250"),
    ] {
        let replies = send(&mut client, from, to, source).await;
        let refused = replies.iter().find(|reply| !reply.starts_with("250"));
        let reply = refused.map_or("250", |reply| reply);
        assert!(reply.starts_with(expected), "{from} {to}: {replies:?}");
    }

    let hits = sandbox
        .control(&format!("GET /_sandbox/faults/{slow}"), "")
        .await;
    let hit = r#""operation":"smtp rcpt","from":"a@a.test","to":["b@slow.test"]"#;
    assert!(hits.body.contains(hit), "{hits:?}");

    let listed = sandbox
        .control("GET /_sandbox/messages?to=full@b.test", "")
        .await;
    assert_eq!(listed.body.matches("full@b.test").count(), 2);

    // No request meets them.
    sandbox
        .control("POST /_sandbox/faults", r#"{"smtp":"data","status":550}"#)
        .await;
    let email = r#"{"from":"a@sandbox.test","to":"b@b.test","subject":"x","text":"x"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", email).await.status, 202);
}

#[tokio::test]
async fn faults_of_smtp_refuse_logins_and_cut_connections() {
    let (sandbox, address) = sandbox().await;
    let add = async |fault: &str| {
        let added = sandbox.control("POST /_sandbox/faults", fault).await;
        assert_eq!(added.status, 201, "{added:?}");
    };

    add(r#"{"smtp":"connect","status":421,"body":"4.3.2 busy"}"#).await;
    add(r#"{"smtp":"auth","status":535,"body":"5.7.8 wrong password"}"#).await;
    add(r#"{"smtp":"data","drop":"after"}"#).await;
    add(r#"{"smtp":"data","drop":"before"}"#).await;
    add(r#"{"smtp":"mail","latency":"50ms","slow":true}"#).await;
    let mut refused = Client {
        stream: BufReader::new(TcpStream::connect(address).await.expect("connected")),
    };
    assert_eq!(refused.reply().await, "421 4.3.2 busy");
    assert_eq!(refused.reply().await, "");

    for (recipient, is_stored) in [("one@b.test", true), ("two@b.test", false)] {
        let mut client = Client::connect(address).await;
        client.command("EHLO client.test").await;
        if is_stored {
            let login = client.command("AUTH PLAIN AGEAYg==").await;
            assert_eq!(login, "535 5.7.8 wrong password");
        }
        let login = client.command("AUTH PLAIN AGEAYg==").await;
        assert_eq!(login, "235 2.7.0 authenticated");
        let replies = send(&mut client, "a@a.test", recipient, "Subject: x\r\n\r\nx").await;
        assert_eq!(
            replies,
            ["250 2.1.0 sender OK", "250 2.1.5 recipient OK", ""]
        );
        let list = sandbox
            .control(&format!("GET /_sandbox/messages?to={recipient}"), "")
            .await;
        assert_eq!(list.body.contains(recipient), is_stored, "{list:?}");
    }
}

#[tokio::test]
async fn a_fault_of_smtp_that_could_not_work_is_refused() {
    let (sandbox, _) = sandbox().await;
    for (fault, field) in [
        (r#"{"smtp":"rcpt"}"#, "must contain at least one"),
        (r#"{"smtp":"rcpt","status":250}"#, "status"),
        (r#"{"smtp":"rcpt","status":550,"greylist":true}"#, "status"),
        (r#"{"smtp":"data","greylist":true}"#, "greylist"),
        (r#"{"smtp":"mail","status":450,"to":"*"}"#, "to"),
        (r#"{"smtp":"auth","status":450,"from":"*"}"#, "from"),
        (
            r#"{"smtp":"rcpt","status":450,"body":"a\r\n250 ok"}"#,
            "body",
        ),
        (r#"{"smtp":"rcpt","status":450,"body":{}}"#, "body"),
        (
            r#"{"smtp":"rcpt","status":450,"operation":"me"}"#,
            "operation",
        ),
        (
            r#"{"smtp":"rcpt","status":450,"headers":{"a":"b"}}"#,
            "headers",
        ),
        (r#"{"smtp":"rcpt","drop":"midway"}"#, "drop"),
        (r#"{"smtp":"rcpt","status":450,"slow":true}"#, "slow"),
        (r#"{"status":450,"to":"*"}"#, "to"),
        (r#"{"status":450,"share":0}"#, "share"),
        (r#"{"status":450,"share":1.5}"#, "share"),
    ] {
        let refused = sandbox.control("POST /_sandbox/faults", fault).await;
        assert_eq!(refused.status, 422, "{fault}: {refused:?}");
        assert!(refused.body.contains(field), "{fault}: {refused:?}");
    }
}
