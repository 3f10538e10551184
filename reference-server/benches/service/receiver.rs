//! Webhook endpoint: checks every signature, counts, and responds with 200.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct Receiver {
    pub(crate) addr: SocketAddr,
    state: Arc<State>,
    _runtime: tokio::runtime::Runtime,
}

#[derive(Default)]
struct State {
    secret: OnceLock<Hmac<Sha256>>,
    received: AtomicU64,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let state = Arc::new(State::default());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::clone(&state);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self {
            addr,
            state,
            _runtime: runtime,
        }
    }

    /// Sets the secret that deliveries are signed with.
    pub(crate) fn expect(&self, secret: &str) {
        let mac = <Hmac<Sha256>>::new_from_slice(secret.as_bytes()).unwrap();
        assert!(
            self.state.secret.set(mac).is_ok(),
            "each receiver has one webhook"
        );
    }

    pub(crate) fn received(&self) -> u64 {
        self.state.received.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        let (head, end) = loop {
            if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&buffer[..at]).into_owned();
                let length: usize = field(&head, "content-length").parse().unwrap();
                if buffer.len() >= at + 4 + length {
                    break (head, at + 4 + length);
                }
            }
            match stream.read_buf(&mut buffer).await {
                Ok(count) if count > 0 => {}
                _ => return,
            }
        };
        let body = &buffer[head.len() + 4..end];
        let signature = hex::decode(field(&head, "mail-signature")).unwrap();
        let mac = state.secret.get().unwrap().clone().chain_update(body);
        mac.verify_slice(&signature).expect("a valid signature");
        buffer.drain(..end);
        state.received.fetch_add(1, Ordering::Relaxed);
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        if stream.write_all(response).await.is_err() {
            return;
        }
    }
}

fn field<'a>(head: &'a str, name: &str) -> &'a str {
    let found = head.lines().find_map(|line| {
        let (known, value) = line.split_once(": ")?;
        known.eq_ignore_ascii_case(name).then_some(value)
    });
    found.unwrap_or_default()
}
