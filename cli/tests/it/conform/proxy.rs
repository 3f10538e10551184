//! An HTTP proxy in front of one address, which changes what passes through it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request or a response.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The request line, or the status line.
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut message = Self {
            line: line.trim_end().to_owned(),
            ..Self::default()
        };
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            message
                .headers
                .push((name.to_lowercase(), value.to_owned()));
        }

        let length = message
            .header("content-length")
            .and_then(|length| length.parse().ok());
        message.body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut message.body).ok()?;
        Some(message)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name)?;
        Some(&found.1)
    }

    /// The method and the path of a request.
    pub fn target(&self) -> String {
        self.line
            .rsplit_once(' ')
            .map_or("", |(target, _)| target)
            .to_owned()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn set_status(&mut self, status: u16) {
        self.line = format!("HTTP/1.1 {status} Changed");
    }

    pub fn set_body(&mut self, body: impl Into<Vec<u8>>) {
        self.body = body.into();
    }

    fn write(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut head = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            if !matches!(
                name.as_str(),
                "content-length" | "connection" | "transfer-encoding"
            ) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }

        let length = self.body.len();
        head.push_str(&format!(
            "connection: close\r\ncontent-length: {length}\r\n\r\n"
        ));
        stream.write_all(head.as_bytes())?;
        stream.write_all(&self.body)
    }
}

/// What a proxy does: it may change the request, and gets the response to it.
pub type Change = Arc<Mutex<dyn FnMut(&mut Message, Option<&mut Message>) + Send>>;

/// Starts a proxy in front of an address. Returns its own.
pub fn start(target: &str, change: Change) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let target = target.trim_start_matches("http://").to_owned();
    // The threads end with the test process.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let target = target.clone();
            let change = Arc::clone(&change);
            std::thread::spawn(move || pass(stream, &target, &change));
        }
    });
    format!("http://{address}")
}

fn pass(mut stream: TcpStream, target: &str, change: &Change) -> Option<()> {
    let mut request = Message::read(&stream)?;
    (change.lock().expect("no panic"))(&mut request, None);
    let mut server = TcpStream::connect(target).ok()?;
    let has_body = !request.body.is_empty() || !request.line.starts_with("GET");
    request
        .headers
        .retain(|(name, _)| has_body || name != "content-type");
    request.write(&mut server).ok()?;
    let mut response = Message::read(&server)?;
    (change.lock().expect("no panic"))(&mut request, Some(&mut response));
    response.write(&mut stream).ok()
}
