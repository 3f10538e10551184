//! A mock server that records complete requests and returns prepared responses, and what tests
//! with a socket of their own need.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt};

/// A request as received.
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
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

#[derive(Clone)]
pub(crate) struct MockServer {
    server: Arc<wiremock::MockServer>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    responses: VecDeque<Response>,
    received: Vec<ReceivedRequest>,
}

/// A response; its `Display` is the text that goes through a socket.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    status: u16,
    /// Lines, each terminated by CRLF.
    headers: String,
    body: String,
}

impl MockServer {
    /// Starts a server that returns these responses in order, and then the last one
    /// forever.
    pub(crate) async fn start(responses: impl IntoIterator<Item = Response>) -> Self {
        let responses = responses.into_iter().collect();
        let state = Arc::new(Mutex::new(State {
            responses,
            received: Vec::new(),
        }));
        let server = wiremock::MockServer::builder().start().await;
        let responder = Responder(Arc::clone(&state));
        wiremock::Mock::given(wiremock::matchers::any())
            .respond_with(responder)
            .mount(&server)
            .await;
        let server = Arc::new(server);
        // It answers until the process ends: a test may keep only a client.
        std::mem::forget(Arc::clone(&server));
        Self { server, state }
    }

    /// Starts a server that always returns this status and JSON body.
    pub(crate) async fn json(status: u16, body: &str) -> Self {
        Self::start([response(status, body)]).await
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        *self.server.address()
    }

    pub(crate) fn url(&self) -> String {
        self.server.uri()
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
        self.received_requests()
            .into_iter()
            .map(|request| request.line)
            .collect()
    }
}

struct Responder(Arc<Mutex<State>>);

impl wiremock::Respond for Responder {
    fn respond(&self, request: &wiremock::Request) -> wiremock::ResponseTemplate {
        let path = &request.url[url::Position::BeforePath..];
        let headers = request.headers.iter();
        let received = ReceivedRequest {
            line: format!("{} {path} HTTP/1.1", request.method),
            headers: headers
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
                .collect(),
            body: String::from_utf8(request.body.clone()).unwrap(),
        };
        let mut state = self.0.lock().unwrap();
        state.received.push(received);
        let response = match state.responses.len() {
            0 => panic!("no response to give"),
            1 => state.responses[0].clone(),
            _ => state.responses.pop_front().unwrap(),
        };
        let template = wiremock::ResponseTemplate::new(response.status);
        let template = template.set_body_bytes(response.body.clone());
        response
            .header_lines()
            .fold(template, |template, (name, value)| {
                template.append_header(name, value)
            })
    }
}

impl Response {
    fn header_lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .lines()
            .filter_map(|line| line.split_once(": "))
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            headers,
            body,
        } = self;
        let length = body.len();
        write!(
            f,
            "HTTP/1.1 {status} Whatever\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
    }
}

/// A response with a JSON body.
pub(crate) fn response(status: u16, body: &str) -> Response {
    response_with_headers(status, "Content-Type: application/json\r\n", body)
}

/// A response with these header lines, each terminated by CRLF.
pub(crate) fn response_with_headers(status: u16, headers: &str, body: &str) -> Response {
    Response {
        status,
        headers: headers.to_owned(),
        body: body.to_owned(),
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
    Some(ReceivedRequest {
        line,
        headers,
        body,
    })
}
