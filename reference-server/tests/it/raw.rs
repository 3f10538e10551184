//! A client that knows nothing: literal request text in, status and whole body
//! text out.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An response as it came over the wire.
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
        let start = self.body.find(before).unwrap_or_else(|| panic!("no {before} in {self:?}"));
        let rest = &self.body[start + before.len()..];
        rest[..rest.find('"').expect("a closing quote")].to_owned()
    }

    pub(crate) fn id(&self) -> String {
        self.between(r#""id":""#)
    }
}

/// So that what hangs fails; longer than anything takes, however busy the machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(100);

/// Sends the text as it is and reads one response.
pub(crate) async fn send(addr: SocketAddr, request: &[u8]) -> RawResponse {
    let response = tokio::time::timeout(TIMEOUT, exchange(addr, request)).await;
    response.expect("an response in time")
}

async fn exchange(addr: SocketAddr, request: &[u8]) -> RawResponse {
    let mut stream = TcpStream::connect(addr).await.expect("a connection");
    if request.starts_with(b"HEAD ") {
        // It announces a body and has none.
        stream.write_all(request).await.expect("written");
        let head = read_head(&mut stream).await;
        let status = head[9..12].parse().expect("a status");
        return RawResponse { status, head, body: String::new() };
    }
    send_on(&mut stream, request).await
}

/// The same on a connection that is there.
pub(crate) async fn send_on(stream: &mut TcpStream, request: &[u8]) -> RawResponse {
    stream.write_all(request).await.expect("written");
    read_response(stream).await
}

/// Like `send`, but `None` where no complete response comes.
pub(crate) async fn try_send(addr: SocketAddr, request: &[u8]) -> Option<RawResponse> {
    let mut stream = TcpStream::connect(addr).await.ok()?;
    stream.write_all(request).await.ok()?;
    try_read_response(&mut stream).await.ok()
}

/// Reads one response from a connection.
pub(crate) async fn read_response(stream: &mut TcpStream) -> RawResponse {
    try_read_response(stream).await.expect("a whole response")
}

async fn try_read_response(stream: &mut TcpStream) -> std::io::Result<RawResponse> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        read_some(stream, &mut bytes).await?;
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).expect("a head of text");
    let mut raw = RawResponse { status: 0, head, body: String::new() };
    raw.status = raw.head[9..12].parse().expect("a status");
    let length: usize =
        raw.header("content-length").map_or(0, |text| text.parse().expect("a length"));
    while bytes.len() < head_end + 4 + length {
        read_some(stream, &mut bytes).await?;
    }
    raw.body = String::from_utf8_lossy(&bytes[head_end + 4..]).into_owned();
    Ok(raw)
}

/// Reads one head and not a byte more.
pub(crate) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a whole head"));
    }
    String::from_utf8(head).expect("a head of text")
}

async fn read_some(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    let mut piece = [0; 16 * 1024];
    let count = stream.read(&mut piece).await?;
    bytes.extend_from_slice(&piece[..count]);
    if count == 0 { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}
