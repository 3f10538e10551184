//! Requests and responses of a mock server, byte by byte. It shares no code with the client.

use tokio::io::{AsyncRead, AsyncReadExt};

/// A request as received from the socket.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    /// Header lines, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Formats an HTTP response with a JSON body.
pub(crate) fn response(status: u16, body: &str) -> String {
    response_with_headers(status, "Content-Type: application/json\r\n", body)
}

/// Formats an HTTP response with these header lines, each terminated by CRLF.
pub(crate) fn response_with_headers(status: u16, headers: &str, body: &str) -> String {
    let length = if status == 204 {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    format!("HTTP/1.1 {status} Whatever\r\n{length}{headers}\r\n{body}")
}

/// Reads one request from the stream; `None` at its end.
pub(crate) async fn read_request<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Option<ReceivedRequest> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let headers: Vec<(String, String)> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, length)| length.parse().unwrap());
    while buffer.len() < head_end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }

    let body = String::from_utf8(buffer[head_end..head_end + length].to_vec()).unwrap();
    buffer.drain(..head_end + length);
    Some(ReceivedRequest { headers, body })
}
