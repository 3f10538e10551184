//! Messages that are hard to read, and clients that abuse the SMTP port.

use std::net::SocketAddr;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::assert_growth;
use crate::harness::Sandbox;
use crate::receiver::{Receiver, within};

pub(super) async fn sandbox() -> (Sandbox, SocketAddr) {
    let any_port = "127.0.0.1:0".parse().expect("an address");
    let limit = Duration::from_millis(300);
    let sandbox = Sandbox::with(|builder| {
        builder
            .smtp(any_port)
            .limits(|limits| limits.write_timeout = limit)
    })
    .await;
    let address = sandbox.server.addresses().smtp.expect("a listener");
    (sandbox, address)
}

/// Sends everything at once, closes its side, and returns all replies.
pub(super) async fn talk(address: SocketAddr, input: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let mut replies = String::new();
    let exchange = async {
        // The server may close the connection before it has read all.
        let _ = stream.write_all(input).await;
        let _ = stream.shutdown().await;
        let _ = stream.read_to_string(&mut replies).await;
    };
    within("the end of the session", exchange).await;
    replies
}

pub(super) fn session(message: &str) -> String {
    format!(
        "EHLO a.test\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<x@sandbox.test>\r\nDATA\r\n{message}\r\n.\r\nQUIT\r\n"
    )
}

#[tokio::test]
async fn messages_nested_thousands_deep() {
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

    let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(5_000);
    let message = format!("From: a@b.test\r\nSubject: deep\r\n{nested}end");
    let replies = talk(address, session(&message).as_bytes()).await;
    assert!(replies.contains("250 2.0.0 queued"), "{replies}");

    // The same as an email of one's own, which is judged when it is delivered.
    let body = format!(
        r#"{{"from":"a@sandbox.test","to":"x@sandbox.test","subject":"s","attachments":[{{"filename":"a.eml","contentType":"message/rfc822","content":"{}"}}]}}"#,
        base64(nested.as_bytes())
    );
    assert_eq!(sandbox.call("POST /api/v1/emails", &body).await.status, 202);

    let received = receiver.until(2).await;
    assert!(
        received[0].body.contains(r#""subject":"deep""#),
        "the message is read"
    );
    assert!(
        received[1]
            .body
            .contains(r#""contentType":"message/rfc822""#),
        "as a file"
    );

    let list = sandbox.control("GET /_sandbox/messages", "").await;
    let shown = sandbox
        .control(&format!("GET /_sandbox/messages/{}", list.id()), "")
        .await;
    assert_eq!(shown.status, 200);
}

#[tokio::test]
async fn a_parameter_in_many_pieces() {
    let (_sandbox, address) = sandbox().await;
    let send = async |count: usize| {
        let pieces: String = (0..count).map(|n| format!(";\r\n name*{n}*=x")).collect();
        let message = format!("From: a@b.test\r\nContent-Type: text/plain{pieces}\r\n\r\nend");
        let replies = talk(address, session(&message).as_bytes()).await;
        assert!(replies.contains("250 2.0.0 queued"), "{replies}");
    };
    // 20 times as many take 400 times as long if each is compared with all others.
    assert_growth(120, async || send(1_500).await, async || send(30_000).await).await;
}

#[tokio::test]
async fn a_signature_over_thousands_of_fields() {
    let (_sandbox, address) = sandbox().await;
    let hash = base64(&Sha256::digest("end\r\n"));
    let send = async |count: usize| {
        let fields = "y:\r\n".repeat(count);
        let names = ":x".repeat(count);
        let message = format!(
            "DKIM-Signature: v=1; a=rsa-sha256; d=sandbox.test; s=sandbox; bh={hash}; b=AAAA;\r\n h=from{names}\r\nFrom: a@b.test\r\n{fields}\r\nend"
        );
        let replies = talk(address, session(&message).as_bytes()).await;
        assert!(replies.contains("250 2.0.0 queued"), "{replies}");
    };

    // 20 times as many take 400 times as long if each name is looked for in all fields.
    assert_growth(120, async || send(1_500).await, async || send(30_000).await).await;
}

#[tokio::test]
async fn a_second_message_smuggled_after_an_unusual_end() {
    let (sandbox, address) = sandbox().await;
    let second =
        "MAIL FROM:<evil@b.test>\r\nRCPT TO:<y@sandbox.test>\r\nDATA\r\nSubject: smuggled\r\n\r\nx";
    for end in ["\n.\n", "\r\n.\n", "\n.\r\n", "\r.\r", "\r\n.\r\r\n"] {
        let message = format!("Subject: first\r\n\r\none{end}{second}");
        let replies = talk(address, session(&message).as_bytes()).await;
        assert!(!replies.contains("250 2.0.0 queued"), "{end:?}: {replies}");
        assert!(replies.contains("\r\n554 5.6.0 "), "{end:?}: {replies}");
    }

    let list = sandbox
        .control("GET /_sandbox/messages?to=y@sandbox.test", "")
        .await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
}

#[tokio::test]
async fn a_web_page_posts_to_the_smtp_port() {
    let (sandbox, address) = sandbox().await;
    for path in ["/".to_owned(), format!("/{}", "x".repeat(10_000))] {
        let request = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let request = request + &session("Subject: x\r\n\r\nx");
        let replies = talk(address, request.as_bytes()).await;
        assert_eq!(
            replies,
            "220 inbound.sandbox.localhost ESMTP\r\n421 4.7.0 this is an SMTP server; closing connection\r\n"
        );
    }

    let list = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(list.body, r#"{"data":[],"next":null}"#);
}

#[tokio::test]
async fn a_client_that_never_reads_loses_its_connection() {
    let (_sandbox, address) = sandbox().await;
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    // Every command has a reply, until the buffers of both sides are full and the server
    // gives up: from then on, writing fails.
    let commands = "NOOP\r\n".repeat(50_000);
    let flood = async { while stream.write_all(commands.as_bytes()).await.is_ok() {} };
    within("the server to close the connection", flood).await;
}

#[tokio::test]
async fn many_unfinished_messages() {
    let (sandbox, address) = sandbox().await;
    let head = "EHLO a.test\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<x@sandbox.test>\r\nDATA\r\n";
    let piece = "x".repeat(1 << 20);
    let mut open = Vec::new();
    // As many as may be in transfer, of 24 MiB each.
    for _ in 0..5 {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(head.as_bytes()).await.expect("written");
        read_until(&mut stream, "354 ").await;
        for _ in 0..24 {
            let write = stream.write_all(piece.as_bytes());
            within("the server to read", write).await.expect("written");
        }
        open.push(stream);
    }

    let mut next = TcpStream::connect(address).await.expect("a connection");
    let (commands, _) = head.split_at(head.len() - "DATA\r\n".len());
    next.write_all(commands.as_bytes()).await.expect("written");
    read_until(&mut next, "250 2.1.5 ").await;
    next.write_all(b"DATA\r\n").await.expect("written");
    assert_eq!(
        sandbox.control("GET /_sandbox/messages", "").await.status,
        200
    );
    assert!(
        next.try_read(&mut [0; 8]).is_err(),
        "more than 5 messages are in transfer"
    );

    // The reply comes when one of the others has ended.
    drop(open.pop());
    read_until(&mut next, "354 ").await;
    drop((open, next));
    let replies = talk(address, session("Subject: later\r\n\r\nx").as_bytes()).await;
    assert!(replies.contains("250 2.0.0 queued"), "{replies}");

    drop(sandbox);
}

/// Reads replies up to one that contains this text.
async fn read_until(stream: &mut TcpStream, text: &str) {
    let mut replies = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&replies).contains(text) {
            assert!(
                stream.read_buf(&mut replies).await.expect("read") > 0,
                "{text}"
            );
        }
    };
    within(text, read).await;
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[tokio::test]
async fn many_clients_read_a_large_message_slowly() {
    const CLIENTS: usize = 6;
    // 24 MiB each, of 128 MiB.
    const AT_ONCE: usize = 5;

    let any_port = "127.0.0.1:0".parse().expect("an address");
    let sandbox = Sandbox::with(|builder| builder.smtp(any_port)).await;
    let address = sandbox.server.addresses().smtp.expect("a listener");
    let text = format!("{}\r\n", "x".repeat(998)).repeat(23 << 10);
    let message = format!("From: a@b.test\r\nSubject: large\r\n\r\n{text}");
    let replies = talk(address, session(&message).as_bytes()).await;
    assert!(replies.contains("250 2.0.0 queued"), "{replies}");

    let id = sandbox.control("GET /_sandbox/messages", "").await.id();
    let request = format!(
        "GET /_sandbox/messages/{id}/raw HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        sandbox.addr()
    );
    // The clients read the status and nothing else.
    let (sender, mut answered) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..CLIENTS {
        let sender = sender.clone();
        let request = request.clone();
        let addr = sandbox.addr();
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(addr).await.expect("a connection");
            stream.write_all(request.as_bytes()).await.expect("written");
            let mut status = [0; 12];
            stream.read_exact(&mut status).await.expect("a status");
            assert_eq!(&status, b"HTTP/1.1 200");
            let _ = sender.send(stream);
        });
    }

    let mut open = Vec::new();
    for _ in 0..AT_ONCE {
        open.push(
            within("a response", answered.recv())
                .await
                .expect("a stream"),
        );
    }

    // Small messages do not wait. No client has hung up, so the others still wait.
    let small = sandbox.control("GET /_sandbox/messages?limit=1", "").await;
    assert_eq!(small.status, 200);
    assert!(
        answered.try_recv().is_err(),
        "more than {AT_ONCE} messages are in memory at once"
    );

    // When they hang up, the others get theirs.
    open.clear();
    for _ in AT_ONCE..CLIENTS {
        drop(
            within("the next response", answered.recv())
                .await
                .expect("a stream"),
        );
    }
}
