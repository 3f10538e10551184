//! A peer in a process of its own: it reads requests and answers the same
//! bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

pub struct Peer {
    pub url: String,
    child: Child,
}

impl Peer {
    /// Answers every request with this body.
    pub fn start(answer: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["peer", answer])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer");
        let mut url = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut url).expect("its address");
        Self { url: url.trim().to_owned(), child }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn serve_for_ever(body: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("http://{}", listener.local_addr().expect("an address"));
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: req_1\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for stream in listener.incoming().flatten() {
        let answer = answer.clone();
        std::thread::spawn(move || serve(stream, answer.as_bytes()));
    }
}

fn serve(mut stream: TcpStream, answer: &[u8]) {
    stream.set_nodelay(true).expect("nodelay");
    let mut buffer = vec![0; 1 << 20];
    let mut filled = 0;
    loop {
        let head = loop {
            if let Some(at) = buffer[..filled].windows(4).position(|end| end == b"\r\n\r\n") {
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
            .map_or(0, |length| length.parse().expect("a length"));
        let mut left = length.saturating_sub(filled - head);
        while left > 0 {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(count) => left -= count,
            }
        }
        filled = 0;
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}
