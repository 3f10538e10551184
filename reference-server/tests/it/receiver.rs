//! A receiver of webhooks that answers what it is told to and keeps what came.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::raw::TIMEOUT;

/// One delivery as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        });
        found.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    pub(crate) fn id(&self) -> &str {
        let (_, rest) = self.body.split_once(r#""id":""#).expect("an id");
        &rest[..36]
    }
}

#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) addr: SocketAddr,
    state: Arc<Mutex<State>>,
    came: Arc<Notify>,
}

/// In place of a status: it takes the request and never answers.
pub(crate) const NEVER: u16 = 0;

#[derive(Default)]
struct State {
    answers: VecDeque<u16>,
    received: Vec<Received>,
}

impl Receiver {
    /// Answers with these statuses, one after the other, and then always 200.
    pub(crate) async fn start(answers: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State {
            answers: answers.iter().copied().collect(),
            received: Vec::new(),
        }));
        let came = Arc::new(Notify::new());
        let shared = (Arc::clone(&state), Arc::clone(&came));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Self { addr, state, came }
    }

    /// Everything so far, once it is so many deliveries.
    pub(crate) async fn until(&self, count: usize) -> Vec<Received> {
        let enough = async {
            loop {
                let came = self.came.notified();
                tokio::pin!(came);
                came.as_mut().enable();
                let received = self.received();
                if received.len() >= count {
                    return received;
                }
                came.await;
            }
        };
        let came = tokio::time::timeout(TIMEOUT, enough).await;
        came.unwrap_or_else(|_| panic!("{} of {count} deliveries came", self.received().len()))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.addr)
    }

    /// Looks at everything so far.
    pub(crate) fn look(&self, look: impl FnMut(&Received)) {
        self.state.lock().expect("no panic").received.iter().for_each(look);
    }

    /// Everything so far, in the order in which it came.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.lock().expect("no panic").received.clone()
    }
}

async fn serve(mut stream: TcpStream, (state, came): (Arc<Mutex<State>>, Arc<Notify>)) {
    let mut bytes = Vec::new();
    loop {
        let head_end = loop {
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            if !read_some(&mut stream, &mut bytes).await {
                return;
            }
        };
        let head = String::from_utf8(bytes[..head_end].to_vec()).expect("text");
        let length: usize = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
            })
            .expect("a length");
        while bytes.len() < head_end + 4 + length {
            if !read_some(&mut stream, &mut bytes).await {
                return;
            }
        }
        let body = bytes[head_end + 4..head_end + 4 + length].to_vec();
        bytes.drain(..head_end + 4 + length);
        let status = {
            let mut state = state.lock().expect("no panic");
            state.received.push(Received { head, body: String::from_utf8(body).expect("text") });
            state.answers.pop_front().unwrap_or(200)
        };
        came.notify_waiters();
        if status == NEVER {
            // Until the other side has had enough.
            while read_some(&mut stream, &mut bytes).await {}
            return;
        }
        let answer = format!("HTTP/1.1 {status} Any\r\ncontent-length: 2\r\n\r\nok");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read_some(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut piece = [0; 16 * 1024];
    match stream.read(&mut piece).await {
        Ok(count) if count > 0 => {
            bytes.extend_from_slice(&piece[..count]);
            true
        }
        _ => false,
    }
}
