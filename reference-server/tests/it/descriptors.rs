//! Exhausts the file descriptors of the server with open connections: the server keeps
//! working.
#![cfg(unix)]

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use svc_reference_server::{RunningServer, Server, find_running};
use tokio::net::TcpStream;

use crate::harness::KEY;
use crate::raw;

/// Not a test by itself: the server process with few file descriptors.
#[tokio::test]
#[ignore = "started by the test below"]
async fn server() {
    let directory = std::env::var("SVC_FEW_FILES_DIR").expect("a directory");
    let server = Server::builder()
        .data_dir(directory)
        .start()
        .await
        .expect("started");
    let (closed, stdin) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = closed.send(());
    });
    stdin.await.expect("the end of standard input");
    server.stop().await;
}

struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server that may open 64 files. It stops when its standard input is closed.
async fn start(directory: &Path) -> (KillOnDrop, SocketAddr) {
    let child = Command::new("sh")
        .args([
            "-c",
            r#"ulimit -n 64; exec "$0" descriptors::server --exact --ignored --nocapture"#,
        ])
        .arg(std::env::current_exe().expect("this program"))
        .env("SVC_FEW_FILES_DIR", directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let child = KillOnDrop(child.expect("started"));
    let addr = wait_until_running(directory).await.http;
    (child, addr)
}

fn request(addr: SocketAddr, line: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

const EMAIL: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;

#[tokio::test]
async fn survives_more_connections_than_file_descriptors() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_child, addr) = start(directory.path()).await;
    let mut open = Vec::new();
    for _ in 0..100 {
        // The kernel completes the connection even if the server cannot accept it.
        open.push(TcpStream::connect(addr).await.expect("connected"));
    }

    // A connection accepted before the limit was reached is still served.
    let request = request(addr, "POST /api/v1/emails", EMAIL);
    let response = raw::send_on(&mut open[0], request.as_bytes()).await;
    assert_eq!(response.status, 202, "{response:?}");

    drop(open);
    // New connections are served once the others are closed.
    let response = raw::send(addr, request.as_bytes()).await;
    assert_eq!(response.status, 202, "{response:?}");
}

async fn wait_until_running(directory: &Path) -> RunningServer {
    for _ in 0..6000 {
        if let Some(found) = find_running(directory) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server did not start within 60 s");
}
