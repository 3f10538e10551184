//! A minimal HTTP client: sends literal request text and returns the status, the head and
//! the body as text.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A response as received.
#[derive(Clone, Debug)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl RawResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The text between `before` and the next `"` in the body.
    pub(crate) fn between(&self, before: &str) -> String {
        let start = self
            .body
            .find(before)
            .unwrap_or_else(|| panic!("no {before} in {self:?}"));
        let rest = &self.body[start + before.len()..];
        rest[..rest.find('"').expect("a closing quote")].to_owned()
    }

    pub(crate) fn id(&self) -> String {
        self.between(r#""id":""#)
    }
}

/// Fails tests that hang. Long enough for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(100);

/// Sends the request text on a new connection and reads one response.
pub(crate) async fn send(addr: SocketAddr, request: &[u8]) -> RawResponse {
    let response = tokio::time::timeout(TIMEOUT, exchange(addr, request)).await;
    response.expect("no response within the timeout")
}

async fn exchange(addr: SocketAddr, request: &[u8]) -> RawResponse {
    let mut stream = TcpStream::connect(addr).await.expect("connect");
    if request.starts_with(b"HEAD ") {
        // The response to HEAD announces a body, but has none.
        stream.write_all(request).await.expect("write");
        let head = read_head(&mut stream).await;
        let status = head[9..12].parse().expect("a status");
        return RawResponse {
            status,
            head,
            body: String::new(),
        };
    }
    send_on(&mut stream, request).await
}

/// Sends the request text on an existing connection and reads one response.
pub(crate) async fn send_on(stream: &mut TcpStream, request: &[u8]) -> RawResponse {
    stream.write_all(request).await.expect("write");
    read_response(stream).await
}

/// Like `send`, but returns `None` if there is no complete response.
pub(crate) async fn try_send(addr: SocketAddr, request: &[u8]) -> Option<RawResponse> {
    let mut stream = TcpStream::connect(addr).await.ok()?;
    stream.write_all(request).await.ok()?;
    try_read_response(&mut stream).await.ok()
}

/// Reads one response.
pub(crate) async fn read_response(stream: &mut TcpStream) -> RawResponse {
    try_read_response(stream)
        .await
        .expect("incomplete response")
}

async fn try_read_response(stream: &mut TcpStream) -> std::io::Result<RawResponse> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        read_some(stream, &mut bytes).await?;
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).expect("head is not UTF-8");
    let mut raw = RawResponse {
        status: 0,
        head,
        body: String::new(),
    };
    raw.status = raw.head[9..12].parse().expect("a status");
    let length: usize = raw
        .header("content-length")
        .map_or(0, |text| text.parse().expect("a length"));
    // A lease and a stream of events have no end.
    let is_endless = matches!(
        raw.header("content-type"),
        Some("text/plain" | "text/event-stream")
    );
    if raw.header("transfer-encoding") == Some("chunked") && !is_endless {
        while !bytes.ends_with(b"\r\n0\r\n\r\n") {
            read_some(stream, &mut bytes).await?;
        }
        raw.body = String::from_utf8_lossy(&without_chunks(&bytes[head_end + 4..])).into_owned();
        return Ok(raw);
    }

    while bytes.len() < head_end + 4 + length {
        read_some(stream, &mut bytes).await?;
    }

    raw.body = String::from_utf8_lossy(&bytes[head_end + 4..]).into_owned();
    Ok(raw)
}

/// Reads the head of a response and not a byte more.
pub(crate) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("incomplete head"));
    }
    String::from_utf8(head).expect("head is not UTF-8")
}

/// The content of a chunked body.
fn without_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(end) = body.windows(2).position(|pair| pair == b"\r\n") {
        let size = std::str::from_utf8(&body[..end]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        let start = end + 2;
        content.extend_from_slice(&body[start..start + size]);
        body = &body[start + size + 2..];
    }
    content
}

async fn read_some(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    let mut chunk = [0; 16 * 1024];
    let count = stream.read(&mut chunk).await?;
    bytes.extend_from_slice(&chunk[..count]);
    if count == 0 {
        Err(std::io::ErrorKind::UnexpectedEof.into())
    } else {
        Ok(())
    }
}
