//! A client that keeps its connection, and an endpoint that remembers what arrived.

use std::collections::HashSet;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

pub(crate) const KEY: &str = "mk_test_sandbox";

pub(crate) struct Client {
    addr: SocketAddr,
    key: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    pub(crate) fn new(addr: SocketAddr, key: &str) -> Self {
        Self { addr, key: key.to_owned(), stream: None }
    }

    /// Sends a request. An error means that there was no complete response.
    pub(crate) fn call(&mut self, line: &str, body: &str) -> io::Result<(u16, Value)> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => BufReader::new(TcpStream::connect(self.addr)?),
        };
        stream.get_ref().set_nodelay(true)?;
        stream.get_ref().set_read_timeout(Some(Duration::from_secs(60)))?;
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
    let (mut head, mut length) = (String::new(), 0);
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
            length = text.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((head, body))
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
    arrived: Arc<Mutex<HashSet<(String, String)>>>,
}

impl Endpoint {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let arrived = Arc::new(Mutex::new(HashSet::new()));
        let shared = Arc::clone(&arrived);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let arrived = Arc::clone(&shared);
                // Ends when the server closes the connection.
                std::thread::spawn(move || serve(stream, manner, &arrived));
            }
        });
        Self { addr, arrived }
    }

    pub(crate) fn arrived(&self) -> HashSet<(String, String)> {
        self.arrived.lock().unwrap().clone()
    }
}

fn serve(
    stream: TcpStream,
    manner: Manner,
    arrived: &Mutex<HashSet<(String, String)>>,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    stream.get_ref().set_nodelay(true)?;
    for count in 1.. {
        let (_, body) = read_message(&mut stream)?;
        let Manner::Accept { responses } = manner else { continue };
        let delivery: Value = serde_json::from_slice(&body)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = delivery.pointer("/data/emailId").unwrap_or(&delivery["id"]);
        arrived.lock().unwrap().insert((text(&delivery["event"]), text(id)));
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
        if count == responses {
            return Ok(());
        }
    }
    Ok(())
}
