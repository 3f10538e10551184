//! A peer that takes whole requests off a socket, keeps their bytes, and
//! answers what it was told to, byte by byte. It knows nothing of the client.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came off the socket.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The request line, such as `GET /v1/me HTTP/1.1`.
    pub(crate) line: String,
    /// Header lines, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Clone)]
pub(crate) struct Peer {
    address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    answers: VecDeque<String>,
    seen: Vec<Seen>,
}

impl Peer {
    /// Answers these, one request after the other; the last one for ever.
    pub(crate) async fn start(answers: impl IntoIterator<Item = String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answers = answers.into_iter().collect();
        let state = Arc::new(Mutex::new(State { answers, seen: Vec::new() }));
        let peer = Self { address, state: Arc::clone(&state) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&state)));
            }
        });
        peer
    }

    /// Answers with this status and JSON body.
    pub(crate) async fn json(status: u16, body: &str) -> Self {
        Self::start([answer(status, body)]).await
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

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// The only request.
    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.into_iter().next().unwrap()
    }

    /// The lines of every request so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }
}

/// An HTTP answer.
pub(crate) fn answer(status: u16, body: &str) -> String {
    with_headers(status, "Content-Type: application/json\r\n", body)
}

/// An HTTP answer with these header lines, each with its line end.
pub(crate) fn with_headers(status: u16, headers: &str, body: &str) -> String {
    let length =
        if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("HTTP/1.1 {status} Whatever\r\n{length}{headers}\r\n{body}")
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut buffer = Vec::new();
    while let Some(seen) = read_request(&mut stream, &mut buffer).await {
        let answer = {
            let mut state = state.lock().unwrap();
            state.seen.push(seen);
            match state.answers.len() {
                0 => panic!("no answer to give"),
                1 => state.answers[0].clone(),
                _ => state.answers.pop_front().unwrap(),
            }
        };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Takes one request off the stream; `None` at its end.
pub(crate) async fn read_request<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Option<Seen> {
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
    Some(Seen { line, headers, body })
}
