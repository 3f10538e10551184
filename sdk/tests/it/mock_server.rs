//! A mock server that records complete requests byte by byte and returns prepared
//! responses. It shares no code with the client.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as received from the socket.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    /// The request line, such as `GET /v1/me HTTP/1.1`.
    pub(crate) line: String,
    /// Header lines, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Clone)]
pub(crate) struct MockServer {
    address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    responses: VecDeque<String>,
    received: Vec<ReceivedRequest>,
}

impl MockServer {
    /// Starts a server that returns these responses in order, and then the last one
    /// forever.
    pub(crate) async fn start(responses: impl IntoIterator<Item = String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let responses = responses.into_iter().collect();
        let state = Arc::new(Mutex::new(State { responses, received: Vec::new() }));
        let server = Self { address, state: Arc::clone(&state) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(handle_connection(stream, Arc::clone(&state)));
            }
        });
        server
    }

    /// Starts a server that always returns this status and JSON body.
    pub(crate) async fn json(status: u16, body: &str) -> Self {
        Self::start([response(status, body)]).await
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.address.parse().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn email(&self) -> svc_sdk::EmailClientBuilder {
        svc_sdk::EmailClient::builder(self.url(), "mk_secret")
    }

    pub(crate) fn extraction(&self) -> svc_sdk::ExtractionClientBuilder {
        svc_sdk::ExtractionClient::builder(self.url(), "sk_test_secret")
    }

    /// All requests received so far.
    pub(crate) fn received_requests(&self) -> Vec<ReceivedRequest> {
        self.state.lock().unwrap().received.clone()
    }

    /// The only request received; panics if there is not exactly one.
    pub(crate) fn single_request(&self) -> ReceivedRequest {
        let request = self.received_requests();
        assert_eq!(request.len(), 1, "{request:?}");
        request.into_iter().next().unwrap()
    }

    pub(crate) fn request_count(&self) -> usize {
        self.state.lock().unwrap().received.len()
    }

    /// The request lines of all requests received so far.
    pub(crate) fn request_lines(&self) -> Vec<String> {
        self.received_requests().into_iter().map(|request| request.line).collect()
    }
}

/// Formats an HTTP response with a JSON body.
pub(crate) fn response(status: u16, body: &str) -> String {
    response_with_headers(status, "Content-Type: application/json\r\n", body)
}

/// Formats an HTTP response with these header lines, each terminated by CRLF.
pub(crate) fn response_with_headers(status: u16, headers: &str, body: &str) -> String {
    let length =
        if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("HTTP/1.1 {status} Whatever\r\n{length}{headers}\r\n{body}")
}

async fn handle_connection(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await {
        let response = {
            let mut state = state.lock().unwrap();
            state.received.push(request);
            match state.responses.len() {
                0 => panic!("no response to give"),
                1 => state.responses[0].clone(),
                _ => state.responses.pop_front().unwrap(),
            }
        };
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
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
    let mut lines = head.lines();
    let line = lines.next().unwrap().to_owned();
    let headers: Vec<(String, String)> = lines
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
    Some(ReceivedRequest { line, headers, body })
}
