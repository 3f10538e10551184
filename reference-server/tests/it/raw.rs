//! A client that knows nothing: literal request text in, status and whole body
//! text out.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Raw {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The text between `before` and the next `"` in the body.
    pub(crate) fn between(&self, before: &str) -> String {
        let start = self.body.find(before).unwrap_or_else(|| panic!("no {before} in {self:?}"));
        let rest = &self.body[start + before.len()..];
        rest[..rest.find('"').expect("a closing quote")].to_owned()
    }

    pub(crate) fn id(&self) -> String {
        self.between(r#""id":""#)
    }
}

/// Sends the text as it is and reads one answer.
pub(crate) async fn send(addr: SocketAddr, request: &[u8]) -> Raw {
    let answer = tokio::time::timeout(Duration::from_secs(20), exchange(addr, request)).await;
    answer.expect("an answer within 20 s")
}

async fn exchange(addr: SocketAddr, request: &[u8]) -> Raw {
    let mut stream = TcpStream::connect(addr).await.expect("a connection");
    stream.write_all(request).await.expect("written");
    read_answer(&mut stream).await
}

/// Reads one answer from a connection.
pub(crate) async fn read_answer(stream: &mut TcpStream) -> Raw {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        assert!(read_some(stream, &mut bytes).await, "the answer ended within its head");
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).expect("a head of text");
    let mut raw = Raw { status: 0, head, body: String::new() };
    raw.status = raw.head[9..12].parse().expect("a status");
    let length: usize =
        raw.header("content-length").map_or(0, |text| text.parse().expect("a length"));
    while bytes.len() < head_end + 4 + length {
        assert!(read_some(stream, &mut bytes).await, "the answer ended within its body");
    }
    raw.body = String::from_utf8(bytes[head_end + 4..].to_vec()).expect("a body of text");
    raw
}

async fn read_some(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut piece = [0; 16 * 1024];
    let count = stream.read(&mut piece).await.expect("read");
    bytes.extend_from_slice(&piece[..count]);
    count > 0
}
