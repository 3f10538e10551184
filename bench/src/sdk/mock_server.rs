//! A mock server in a separate process that returns the same response to every request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

pub struct MockServer {
    pub url: String,
    child: Child,
}

impl MockServer {
    /// Starts a server that responds to every request with this body.
    pub fn start(response: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("path of this program"))
            .args(["server", response])
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the server process");
        let mut url = String::new();
        let out = child.stdout.take().expect("piped stdout");
        BufReader::new(out)
            .read_line(&mut url)
            .expect("read the URL");
        Self {
            url: url.trim().to_owned(),
            child,
        }
    }
}

impl Drop for MockServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn run(body: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind a port");
    println!("http://{}", listener.local_addr().expect("local address"));
    let response = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: req_1\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for stream in listener.incoming().flatten() {
        let response = response.clone();
        std::thread::spawn(move || serve(stream, response.as_bytes()));
    }
}

fn serve(mut stream: TcpStream, response: &[u8]) {
    stream.set_nodelay(true).expect("set TCP_NODELAY");
    let mut buffer = vec![0; 1 << 20];
    let mut filled = 0;
    loop {
        let head = loop {
            if let Some(at) = buffer[..filled]
                .windows(4)
                .position(|end| end == b"\r\n\r\n")
            {
                break at + 4;
            }
            match stream.read(&mut buffer[filled..]) {
                Ok(0) | Err(_) => return,
                Ok(count) => filled += count,
            }
        };
        let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
        let length: usize = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().expect("valid Content-Length"));
        let mut left = length.saturating_sub(filled - head);
        while left > 0 {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(count) => left -= count,
            }
        }
        filled = 0;
        if stream.write_all(response).is_err() {
            return;
        }
    }
}
