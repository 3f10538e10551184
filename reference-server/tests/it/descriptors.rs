//! A process that may open few files: connections that nobody closes take them
//! all, and the server lives through it.
#![cfg(unix)]

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use svc_reference_server::{RunningServer, Server, find_running};
use tokio::net::TcpStream;

use crate::harness::KEY;
use crate::raw;

/// No test of its own: the process with few files.
#[tokio::test]
#[ignore = "started by the test below"]
async fn server() {
    let directory = std::env::var("SVC_FEW_FILES_DIR").expect("a directory");
    let _server = Server::builder().data_dir(directory).start().await.expect("started");
    std::future::pending::<()>().await;
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn more_connections_than_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let child = Command::new("sh")
        .args([
            "-c",
            r#"ulimit -n 64; exec "$0" descriptors::server --exact --ignored --nocapture"#,
        ])
        .arg(std::env::current_exe().expect("this program"))
        .env("SVC_FEW_FILES_DIR", directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _child = Killed(child.expect("started"));
    let addr = found(directory.path()).await.http;
    let mut open = Vec::new();
    for _ in 0..100 {
        // The system takes them; the server cannot.
        open.push(TcpStream::connect(addr).await.expect("connected"));
    }
    // One that it took while there was room is served all along.
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let length = body.len();
    let request = format!(
        "POST /api/v1/emails HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let answer = raw::send_on(&mut open[0], request.as_bytes()).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    drop(open);
    // And so are new ones, once the others are gone.
    let answer = raw::send(addr, request.as_bytes()).await;
    assert_eq!(answer.status, 202, "{answer:?}");
}

async fn found(directory: &std::path::Path) -> RunningServer {
    for _ in 0..6000 {
        if let Some(found) = find_running(directory) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the server did not start within a minute");
}
