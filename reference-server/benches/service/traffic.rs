//! A client that keeps its connection, and an endpoint that remembers what arrived.

use std::collections::HashSet;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

pub(crate) const KEY: &str = "mk_test_sandbox";

pub(crate) struct Client {
    addr: SocketAddr,
    key: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    pub(crate) fn new(addr: SocketAddr, key: &str) -> Self {
        Self {
            addr,
            key: key.to_owned(),
            stream: None,
        }
    }

    /// Sends a request. An error means that there was no complete response.
    pub(crate) fn call(&mut self, line: &str, body: &str) -> io::Result<(u16, Value)> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => BufReader::new(TcpStream::connect(self.addr)?),
        };
        stream.get_ref().set_nodelay(true)?;
        stream
            .get_ref()
            .set_read_timeout(Some(Duration::from_secs(60)))?;
        let request = format!(
            "{line} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.addr,
            self.key,
            body.len()
        );
        stream.get_mut().write_all(request.as_bytes())?;
        let (head, body) = read_message(&mut stream)?;
        let status = head.get(9..12).and_then(|text| text.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        if !head.to_ascii_lowercase().contains("connection: close") {
            self.stream = Some(stream);
        }
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }
}

/// Reads the head and the body of a request or a response.
fn read_message(stream: &mut BufReader<TcpStream>) -> io::Result<(String, Vec<u8>)> {
    let mut head = String::new();
    let mut length = 0;
    loop {
        let start = head.len();
        if stream.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = head[start..].trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text
                .trim()
                .parse()
                .map_err(|_| io::ErrorKind::InvalidData)?;
        }
    }

    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((head, body))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// How an endpoint treats deliveries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Responds with 200, and closes every connection after this many responses.
    Accept { responses: usize },
    /// Reads, and never responds.
    Hang,
}

/// An endpoint that remembers the event and the ID of what it responded to: the ID of the
/// email, or of the delivery if the event is not about an email.
pub(crate) struct Endpoint {
    pub(crate) addr: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    arrived: Mutex<HashSet<(String, String)>>,
    /// The secrets of the webhooks of the email service.
    secrets: Mutex<Vec<Hmac<Sha256>>>,
    forged: AtomicU64,
}

impl Endpoint {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // Ends when the server closes the connection.
                std::thread::spawn(move || serve(stream, manner, &state));
            }
        });
        Self { addr, state }
    }

    /// Adds the secret of a webhook.
    pub(crate) fn expect(&self, secret: &str) {
        let mac = <Hmac<Sha256>>::new_from_slice(secret.as_bytes()).unwrap();
        self.state.secrets.lock().unwrap().push(mac);
    }

    pub(crate) fn arrived(&self) -> HashSet<(String, String)> {
        self.state.arrived.lock().unwrap().clone()
    }

    /// Number of emails' deliveries without a valid signature.
    pub(crate) fn forged(&self) -> u64 {
        self.state.forged.load(Ordering::Relaxed)
    }
}

fn serve(stream: TcpStream, manner: Manner, state: &State) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.get_ref().set_nodelay(true)?;
    for count in 1.. {
        let (head, body) = read_message(&mut stream)?;
        let Manner::Accept { responses } = manner else {
            continue;
        };
        let delivery: Value = serde_json::from_slice(&body)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = delivery.pointer("/data/emailId").unwrap_or(&delivery["id"]);
        if let Some(signature) = header(&head, "mail-signature") {
            let signature = hex::decode(signature).unwrap_or_default();
            let verify = |mac: &Hmac<Sha256>| {
                mac.clone()
                    .chain_update(&body)
                    .verify_slice(&signature)
                    .is_ok()
            };
            let is_valid = state.secrets.lock().unwrap().iter().any(verify);
            state
                .forged
                .fetch_add(u64::from(!is_valid), Ordering::Relaxed);
        }
        state
            .arrived
            .lock()
            .unwrap()
            .insert((text(&delivery["event"]), text(id)));
        stream
            .get_mut()
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
        if count == responses {
            return Ok(());
        }
    }
    Ok(())
}
