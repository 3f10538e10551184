//! Adapters on real sockets: bodies that do not arrive.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use webhook_verify::{Delivery, Receiver};

use crate::receivers::{BODY, receiver, signature};

async fn handle(_: Delivery) -> &'static str {
    "handled"
}

async fn axum_server(receiver: Receiver) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/", post(handle)).with_state(receiver);
    tokio::spawn(axum::serve(listener, app).into_future());
    address
}

fn actix_server(receiver: Receiver) -> SocketAddr {
    use actix_web::{App, HttpServer, web};

    let (sender, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async {
            let app = move || {
                App::new()
                    .app_data(receiver.clone())
                    .route("/", web::post().to(handle))
            };
            let server = HttpServer::new(app)
                .workers(1)
                .disable_signals()
                .bind("127.0.0.1:0")
                .unwrap();
            sender.send(server.addrs()[0]).unwrap();
            server.run().await.unwrap();
        });
    });
    address.recv().unwrap()
}

/// Sends the start of a request, and returns the response.
async fn response(address: SocketAddr, length: usize, body: &str) -> String {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST / HTTP/1.1\r\nhost: a\r\nx-service-signature: {}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}",
        signature(BODY)
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    let read = connection.read_to_string(&mut text);
    tokio::time::timeout(Duration::from_secs(30), read)
        .await
        .expect("a response")
        .unwrap();
    text
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    let slow = || receiver().body_timeout(Duration::from_millis(50));
    for address in [axum_server(slow()).await, actix_server(slow())] {
        let text = response(address, BODY.len(), &BODY[1..]).await;
        assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
        assert!(text.ends_with("\r\n\r\n"), "no reason: {text}");
        let text = response(address, BODY.len(), BODY).await;
        assert!(
            text.starts_with("HTTP/1.1 200 ") && text.ends_with("handled"),
            "{text}"
        );
    }
}

/// The body of a request without a signature is not waited for, nor is one that is too large.
#[tokio::test]
async fn a_refused_body_is_not_read() {
    let limited = || receiver().body_limit(BODY.len());
    for address in [axum_server(limited()).await, actix_server(limited())] {
        let text = response(address, BODY.len() + 1, "{").await;
        assert!(text.starts_with("HTTP/1.1 413 "), "{text}");
    }
}
