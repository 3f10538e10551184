//! Whatever arrives at the SMTP port: the session ends, nothing panics, and the next client
//! is greeted.

#![no_main]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use svc_reference_server::Server;
use tokio::runtime::Runtime;

/// A server for all inputs. A panic of one of its tasks ends the process.
fn smtp() -> SocketAddr {
    static SERVER: OnceLock<(Runtime, Server)> = OnceLock::new();
    let (_, server) = SERVER.get_or_init(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            print(panic);
            std::process::abort();
        }));
        let runtime = Runtime::new().expect("a runtime");
        let server = Server::builder().smtp(([127, 0, 0, 1], 0).into());
        let server = runtime.block_on(server.start()).expect("a server");
        (runtime, server)
    });
    server.addresses().smtp.expect("a listener")
}

fuzz_target!(|input: &[u8]| {
    let mut stream = TcpStream::connect(smtp()).expect("the server accepts connections");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("set");
    let mut greeting = [0; 4];
    stream.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"220 ");
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(input);
    let _ = stream.shutdown(Shutdown::Write);
    let mut replies = Vec::new();
    match stream.read_to_end(&mut replies) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("the session hangs"),
        _ => {}
    }
});
