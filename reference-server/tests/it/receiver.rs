//! A webhook receiver that responds with given statuses and records all deliveries.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// How long a test waits for something before it fails.
const TIME_LIMIT: Duration = Duration::from_secs(100);

/// Waits for a future, and panics with `what` if it is not ready in time.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(TIME_LIMIT, future).await;
    waited.unwrap_or_else(|_| panic!("waited {TIME_LIMIT:?} for {what}"))
}

/// One received delivery.
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
        found.unwrap_or_else(|| panic!("no header {name} in {}", self.head))
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
    arrived: Arc<Notify>,
}

/// Used in place of a status: the receiver reads the request and never responds.
pub(crate) const NEVER: u16 = 0;

/// 500, after three seconds.
pub(crate) const LATE: u16 = 1;

#[derive(Default)]
struct State {
    statuses: VecDeque<u16>,
    received: Vec<Received>,
    /// The number of open connections.
    open: usize,
}

impl Receiver {
    /// Responds with these statuses, one after the other, and then always with 200.
    pub(crate) async fn start(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State {
            statuses: statuses.iter().copied().collect(),
            received: Vec::new(),
            open: 0,
        }));
        let arrived = Arc::new(Notify::new());
        let shared = (Arc::clone(&state), Arc::clone(&arrived));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, arrived) = shared.clone();
                state.lock().expect("no panic").open += 1;
                tokio::spawn(async move {
                    serve(stream, &state, &arrived).await;
                    state.lock().expect("no panic").open -= 1;
                    arrived.notify_waiters();
                });
            }
        });
        Self {
            addr,
            state,
            arrived,
        }
    }

    /// Waits until `count` deliveries have arrived, and returns all of them.
    pub(crate) async fn until(&self, count: usize) -> Vec<Received> {
        let enough = async {
            loop {
                let arrived = self.arrived.notified();
                tokio::pin!(arrived);
                arrived.as_mut().enable();
                let received = self.received();
                if received.len() >= count {
                    return received;
                }
                arrived.await;
            }
        };
        let arrived = tokio::time::timeout(TIME_LIMIT, enough).await;
        arrived.unwrap_or_else(|_| {
            panic!(
                "only {} of {count} deliveries arrived in time",
                self.received().len()
            )
        })
    }

    /// Waits until all connections are closed, and what came over them has been recorded.
    pub(crate) async fn until_disconnected(&self) {
        let disconnected = async {
            loop {
                let arrived = self.arrived.notified();
                tokio::pin!(arrived);
                arrived.as_mut().enable();
                if self.state.lock().expect("no panic").open == 0 {
                    return;
                }
                arrived.await;
            }
        };
        within("the connections to be closed", disconnected).await;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.addr)
    }

    /// Calls a function with each delivery received so far.
    pub(crate) fn for_each(&self, f: impl FnMut(&Received)) {
        self.state
            .lock()
            .expect("no panic")
            .received
            .iter()
            .for_each(f);
    }

    /// All deliveries received so far, in the order of arrival.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.lock().expect("no panic").received.clone()
    }
}

async fn serve(mut stream: TcpStream, state: &Mutex<State>, arrived: &Notify) {
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
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
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
            state.received.push(Received {
                head,
                body: String::from_utf8(body).expect("text"),
            });
            state.statuses.pop_front().unwrap_or(200)
        };
        arrived.notify_waiters();
        if status == NEVER {
            // Read until the client closes the connection.
            while read_some(&mut stream, &mut bytes).await {}
            return;
        }
        let status = match status {
            LATE => {
                tokio::time::sleep(Duration::from_secs(3)).await;
                500
            }
            status => status,
        };
        let response = format!("HTTP/1.1 {status} Any\r\ncontent-length: 2\r\n\r\nok");
        if stream.write_all(response.as_bytes()).await.is_err() {
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
