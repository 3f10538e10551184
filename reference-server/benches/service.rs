//! What the server does in a second, everything switched on: auth, scopes,
//! validation, durable commits, one webhook subscribed to `email.delivered`.
//!
//! `cargo bench -p svc-reference-server`; a number as argument is the seconds
//! that each figure is measured for. The load comes from the same process, over
//! 16 kept-alive connections, so the figures are on the low side.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints what it measured")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use svc_reference_server::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const CONNECTIONS: usize = 16;
const EMAIL: &str = r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Hello there","text":"Hello Ada, this is a message of some length, so that it looks like one.","html":"<p>Hello Ada, this is a message of some length, so that it looks like one.</p>"}"#;

#[tokio::main]
async fn main() {
    let seconds = std::env::args().find_map(|text| text.parse().ok()).unwrap_or(5);
    let time = Duration::from_secs(seconds);
    let directory = tempfile::tempdir().unwrap();

    let started = Instant::now();
    let server = Server::builder().data_dir(directory.path()).start().await.unwrap();
    println!("start on disk        {:>9.1} ms", started.elapsed().as_secs_f64() * 1e3);
    println!("memory idle          {:>9.1} MiB", resident_mib());
    let started = Instant::now();
    let other = Server::builder().in_memory().start().await.unwrap();
    println!("start in memory      {:>9.1} ms", started.elapsed().as_secs_f64() * 1e3);
    other.stop().await;
    let addr = server.addresses().http;

    let batch = format!("[{}]", vec![EMAIL; 100].join(","));
    let single = |time| measure(addr, "/api/v1/emails", EMAIL.to_owned(), time);

    println!("sends                {:>9.0} /s", single(time).await);
    server.until_idle().await;
    let batches = measure(addr, "/api/v1/emails/batch", batch.clone(), time).await;
    println!("emails in batches    {:>9.0} /s", batches * 100.0);
    let started = Instant::now();
    server.until_idle().await;
    println!("  settled after      {:>9.1} s", started.elapsed().as_secs_f64());
    println!("memory then          {:>9.1} MiB", resident_mib());

    let received = Arc::new(AtomicU64::new(0));
    let receiver = receiver(Arc::clone(&received)).await;
    let hook = format!(r#"{{"url":"http://{receiver}/","events":["email.delivered"]}}"#);
    let answer = once(addr, "/api/v1/webhooks", &hook).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    for _ in 0..100 {
        once(addr, "/api/v1/emails/batch", &batch).await;
    }
    let started = Instant::now();
    let before = received.load(Ordering::Relaxed);
    server.until_idle().await;
    let delivered = received.load(Ordering::Relaxed) - before;
    println!("signed deliveries    {:>9.0} /s", delivered as f64 / started.elapsed().as_secs_f64());
    println!("sends with a webhook {:>9.0} /s", single(time).await);
    server.until_idle().await;
    server.stop().await;
}

/// Requests a second over all connections.
async fn measure(addr: SocketAddr, path: &str, body: String, time: Duration) -> f64 {
    let request: Arc<str> = request(addr, path, &body).into();
    let started = Instant::now();
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let request = Arc::clone(&request);
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(addr).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let mut buffer = Vec::with_capacity(64 << 10);
                let mut count = 0_u64;
                while started.elapsed() < time {
                    stream.write_all(request.as_bytes()).await.unwrap();
                    let answer = read_answer(&mut stream, &mut buffer).await;
                    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut all = 0;
    for worker in workers {
        all += worker.await.unwrap();
    }
    all as f64 / started.elapsed().as_secs_f64()
}

fn request(addr: SocketAddr, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer mk_test_sandbox\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

async fn once(addr: SocketAddr, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request(addr, path, body).as_bytes()).await.unwrap();
    read_answer(&mut stream, &mut Vec::new()).await
}

/// Reads one whole answer and gives its head.
async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> String {
    buffer.clear();
    loop {
        assert!(stream.read_buf(buffer).await.unwrap() > 0, "the connection ended");
        let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |text| text.parse().unwrap());
        while buffer.len() < end + 4 + length {
            assert!(stream.read_buf(buffer).await.unwrap() > 0, "the connection ended");
        }
        return head;
    }
}

/// Answers 200 to everything, and counts.
async fn receiver(received: Arc<AtomicU64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let received = Arc::clone(&received);
            tokio::spawn(async move {
                let mut buffer = Vec::with_capacity(8 << 10);
                loop {
                    buffer.clear();
                    loop {
                        match stream.read_buf(&mut buffer).await {
                            Ok(count) if count > 0 => {}
                            _ => return,
                        }
                        let head = buffer.windows(4).position(|window| window == b"\r\n\r\n");
                        let Some(end) = head else { continue };
                        let text = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
                        let length =
                            text.lines().find_map(|line| line.strip_prefix("content-length: "));
                        let length: usize = length.map_or(0, |text| text.parse().unwrap());
                        if buffer.len() >= end + 4 + length {
                            break;
                        }
                    }
                    received.fetch_add(1, Ordering::Relaxed);
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

/// The memory of this process, the load's included.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}
