//! Received messages that take more memory than they have bytes. The server has a process of its own.

use std::net::SocketAddr;

use svc_reference_server::find_running;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::mail::{session, talk};
use crate::crash::{address, start_server_process};
use crate::harness::{KEY, private_dir};
use crate::raw;
use crate::receiver::within;

/// What the server promises, whatever it gets.
const MOST_MIB: usize = 512;

/// Close to the largest message.
const SIZE: usize = 24 << 20;

/// Three bytes of text for each byte of the source.
#[tokio::test]
async fn a_large_text_in_a_charset_of_dos_is_read() {
    attack("Content-Type: text/plain; charset=cp437", b"\xb0", 6).await;
}

/// Six bytes of JSON for each.
#[tokio::test]
async fn a_large_text_of_control_characters_is_read() {
    attack("Content-Type: text/plain", b"\x01", 2).await;
}

/// Five bytes of HTML for each.
#[tokio::test]
async fn a_large_text_beside_html_is_read() {
    let head = "Content-Type: multipart/mixed; boundary=b\r\n\r\n\
                --b\r\nContent-Type: text/html\r\n\r\n<p>x\r\n--b\r\nContent-Type: text/plain";
    attack(head, b"&", 1).await;
}

/// A word for each other byte.
#[tokio::test]
async fn large_html_beside_text_is_read() {
    let head = "Content-Type: multipart/mixed; boundary=b\r\n\r\n\
                --b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b\r\nContent-Type: text/html";
    attack(head, b"a ", 1).await;
}

/// Sends a message whose body repeats these bytes. Reads it alone, and then with others.
async fn attack(head: &str, repeated: &[u8], readers_at_once: usize) {
    let directory = private_dir();
    let mut server = start_server_process(directory.path());
    let http = address(directory.path(), &server).await;
    let smtp = find_running(directory.path()).and_then(|found| found.smtp);

    // Its deliveries fail, and are repeated.
    let webhook = r#"{"url":"http://127.0.0.1:9/","events":["email.received"]}"#;
    let register = format!(
        "POST /api/v1/webhooks HTTP/1.1\r\nhost: {http}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{webhook}",
        webhook.len()
    );
    assert_eq!(raw::send(http, register.as_bytes()).await.status, 201);

    let line = [repeated.repeat(900 / repeated.len()), b"\r\n".to_vec()].concat();
    let body = line.repeat(SIZE / line.len());
    let (start, end) = session("\0")
        .split_once('\0')
        .map(|(start, end)| (start.to_owned(), end.to_owned()))
        .expect("a message");
    let head = format!("{start}From: a@b.test\r\n{head}\r\n\r\n");
    let sent = [head.as_bytes(), &body, end.as_bytes()].concat();
    let replies = talk(smtp.expect("a listener"), &sent).await;
    assert!(replies.contains("250 2.0.0 queued"), "{replies}");
    assert_bounded(server.id(), "after the message");

    let list = format!("GET /_sandbox/messages HTTP/1.1\r\nhost: {http}\r\n\r\n");
    let id = raw::send(http, list.as_bytes()).await.id();
    for path in ["", "/raw", "/html"] {
        within("a response", read(http, format!("{id}{path}"))).await;
    }

    assert_bounded(server.id(), "alone");

    let mut readers = JoinSet::new();
    for _ in 0..readers_at_once {
        readers.spawn(within("a response", read(http, id.clone())));
    }

    readers.join_all().await;
    assert_bounded(server.id(), "at once");

    server.kill().expect("killed");
    server.wait().expect("ended");
}

/// Reads a response without keeping it.
async fn read(addr: SocketAddr, path: String) {
    let mut stream = TcpStream::connect(addr).await.expect("a connection");
    let request = format!(
        "GET /_sandbox/messages/{path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut piece = vec![0; 1 << 20];
    while stream.read(&mut piece).await.expect("read") > 0 {}
}

/// Fails if the process ever took more memory than promised.
#[track_caller]
fn assert_bounded(process: u32, when: &str) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("Linux");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let most = most.and_then(|line| line.trim().strip_suffix(" kB"));
    let most = most.expect("a size").parse::<usize>().expect("a number") >> 10;
    assert!(most <= MOST_MIB, "{when}: {most} MiB");
}
