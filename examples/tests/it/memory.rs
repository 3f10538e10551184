//! The memory of a receiver while many senders hold large bodies that are never complete.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::program::Program;
use crate::{body, signature};

const CONNECTIONS: usize = 300;
const MAX_MEMORY_KIB: u64 = 64 * 1024;

#[test]
fn axum() {
    check_memory(env!("CARGO_BIN_EXE_receiver-axum"), &[], 204);
}

#[test]
fn actix() {
    check_memory(env!("CARGO_BIN_EXE_receiver-actix"), &[], 204);
}

#[test]
fn hyper() {
    check_memory(env!("CARGO_BIN_EXE_receiver-hyper"), &[], 200);
}

#[test]
fn inbox() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("app.db").display().to_string();
    let environment = [("DATABASE", &database[..])];
    check_memory(env!("CARGO_BIN_EXE_receiver-inbox"), &environment, 200);
}

/// The signature is well-formed, and the body is one byte too short.
fn check_memory(program: &str, environment: &[(&str, &str)], handled: u16) {
    let environment = [&[("ADDR", "127.0.0.1:0")], environment].concat();
    let mut program = Program::start(program, &environment);
    let url = program.next_line();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/hooks").unwrap();

    let incomplete = vec![b' '; 1024 * 1024 - 1];
    let forged = format!("sha256={}", "0".repeat(64));
    let held: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = connect(address, &forged, 1024 * 1024);
            // The receiver may reject it at any time, to make room for another one.
            let _ = connection.write_all(&incomplete);
            connection
        })
        .collect();

    let genuine = body("genuine");
    let mut connection = connect(address, &signature(genuine.as_bytes()), genuine.len());
    connection.write_all(genuine.as_bytes()).unwrap();
    let mut status = [0; 12];
    connection.read_exact(&mut status).unwrap();
    assert_eq!(String::from_utf8_lossy(&status), format!("HTTP/1.1 {handled}"));
    assert_eq!(program.next_line(), "extraction.completed genuine");

    if let Some(peak) = program.peak_memory_kib() {
        assert!(peak < MAX_MEMORY_KIB, "{peak} KiB with {} connections", held.len());
    }
}

fn connect(address: &str, signature: &str, length: usize) -> TcpStream {
    let mut connection = TcpStream::connect(address).unwrap();
    let limit = Some(Duration::from_secs(60));
    connection.set_read_timeout(limit).unwrap();
    connection.set_write_timeout(limit).unwrap();
    let head = format!(
        "POST /hooks HTTP/1.1\r\nHost: {address}\r\nX-Service-Signature: {signature}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection
}
