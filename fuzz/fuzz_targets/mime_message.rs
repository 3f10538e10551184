//! Any message: it is received and shown within seconds, and nothing panics.

#![no_main]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use svc_reference_server::Server;
use tokio::runtime::Runtime;

/// A server for all inputs. A panic of one of its tasks ends the process.
fn server() -> &'static Server {
    static SERVER: OnceLock<(Runtime, Server)> = OnceLock::new();
    let (_, server) = SERVER.get_or_init(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            print(panic);
            std::process::abort();
        }));
        let runtime = Runtime::new().expect("a runtime");
        let server = runtime.block_on(Server::start()).expect("a server");
        (runtime, server)
    });
    server
}

fn request(line: &str, headers: &str, body: &[u8]) -> String {
    let address = server().addresses().http;
    let mut stream = TcpStream::connect(address).expect("the server accepts connections");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("set");
    let head = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("written");
    stream.write_all(body).expect("written");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("a response");
    String::from_utf8_lossy(&response).into_owned()
}

fuzz_target!(|input: &[u8]| {
    let started = Instant::now();
    let line = "POST /_sandbox/inbound?to=a@sandbox.test";
    let received = request(line, "content-type: message/rfc822\r\n", input);
    assert!(received.starts_with("HTTP/1.1 202"), "{received}");
    let (_, id) = received.split_once(r#""id":""#).expect("an ID");
    let id = &id[..id.find('"').expect("the end of the ID")];
    for part in ["", "/raw", "/html", "/html-check", "/links"] {
        let shown = request(&format!("GET /_sandbox/messages/{id}{part}"), "", b"");
        assert!(!shown.starts_with("HTTP/1.1 5"), "{shown}");
    }
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "the message took {:?}",
        started.elapsed()
    );
});
