//! A webhook receiver on a real socket, which responds with given statuses and records
//! the exact bytes of every delivery.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// How long a test waits for a delivery before it fails.
const TIME_LIMIT: Duration = Duration::from_secs(100);

/// One received delivery.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Delivery {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self
            .headers
            .get(name)
            .unwrap_or_else(|| panic!("the delivery has no header {name}"));
        value.to_str().expect("an ASCII header")
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body of the delivery is JSON")
    }
}

pub(crate) struct Receiver {
    address: SocketAddr,
    deliveries: mpsc::UnboundedReceiver<Delivery>,
}

impl Receiver {
    /// Responds with each of `statuses` once, and then always with 204.
    pub(crate) async fn start(statuses: &[u16]) -> Self {
        Self::listen("127.0.0.1:0", statuses).await
    }

    /// Listens on this address, and responds with 204.
    #[cfg(target_os = "linux")]
    pub(crate) async fn at(address: &str) -> Self {
        Self::listen(address, &[]).await
    }

    async fn listen(address: &str, statuses: &[u16]) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let (sender, deliveries) = mpsc::unbounded_channel();
        let state = Shared {
            statuses: Arc::new(Mutex::new(statuses.iter().copied().collect())),
            sender,
        };
        let app = Router::new().fallback(receive).with_state(state);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self {
            address,
            deliveries,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// The next delivery, in the order of arrival.
    pub(crate) async fn next(&mut self) -> Delivery {
        tokio::time::timeout(TIME_LIMIT, self.deliveries.recv())
            .await
            .expect("a delivery arrives within 100 s")
            .expect("the receiver runs as long as the test")
    }

    /// Whether no further delivery has arrived.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.deliveries.try_recv().is_err()
    }
}

#[derive(Clone)]
struct Shared {
    statuses: Arc<Mutex<VecDeque<u16>>>,
    sender: mpsc::UnboundedSender<Delivery>,
}

async fn receive(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let status = shared.statuses.lock().expect("not poisoned").pop_front();
    // The test may have ended, and dropped the receiver.
    let _ = shared.sender.send(Delivery { headers, body });
    status.map_or(StatusCode::NO_CONTENT, |code| {
        StatusCode::from_u16(code).expect("a status")
    })
}
