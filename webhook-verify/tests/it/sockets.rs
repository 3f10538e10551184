//! Slow and large requests over real sockets: the deadline of a body, and the memory for
//! bodies that are not verified yet.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use actix_web::web;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tower::ServiceBuilder;
use webhook_verify::{Extraction, ExtractionDelivery, Receiver, VerifyLayer};

use crate::http::{BODY, receiver, signature};

/// The maximum duration of anything that a test waits for.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Serves a router on a free port.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

pub(crate) fn head(path: &str, signature: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         X-Service-Signature: {signature}\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// A signed request.
pub(crate) fn request_bytes(path: &str, body: &str) -> Vec<u8> {
    (head(path, &signature(body), body.len()) + body).into_bytes()
}

pub(crate) async fn send(connection: &mut TcpStream, bytes: &[u8]) {
    timeout(LIMIT, connection.write_all(bytes)).await.expect("sent").unwrap();
}

/// The status of the response, and its whole text.
pub(crate) async fn read(connection: &mut TcpStream) -> (u16, String) {
    let mut text = String::new();
    let mut buffer = [0; 1024];
    while !text.contains("\r\n\r\n") {
        let read = timeout(LIMIT, connection.read(&mut buffer)).await.expect("a response");
        match read {
            Ok(0) | Err(_) => break,
            Ok(length) => text.push_str(&String::from_utf8_lossy(&buffer[..length])),
        }
    }
    let status = text.split(' ').nth(1).unwrap_or_else(|| panic!("no response: {text:?}"));
    (status.parse().unwrap(), text.to_ascii_lowercase())
}

pub(crate) async fn response(address: SocketAddr, request: &[u8]) -> (u16, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    send(&mut connection, request).await;
    read(&mut connection).await
}

fn axum_app(receiver: Receiver<Extraction>) -> Router {
    async fn receive(_: ExtractionDelivery) -> StatusCode {
        StatusCode::NO_CONTENT
    }
    Router::new().route("/hooks", post(receive)).with_state(receiver)
}

fn tower_app(receiver: Receiver<Extraction>) -> Router {
    let service = ServiceBuilder::new().layer(VerifyLayer::new(receiver)).service_fn(
        |_: Request<Full<Bytes>>| async {
            let response = Response::builder().status(204).body(Full::<Bytes>::default());
            Ok::<_, std::convert::Infallible>(response.unwrap())
        },
    );
    Router::new().route_service("/hooks", service)
}

fn actix_app(receiver: Receiver<Extraction>) -> SocketAddr {
    async fn receive(_: ExtractionDelivery) -> actix_web::HttpResponse {
        actix_web::HttpResponse::NoContent().finish()
    }
    serve_actix(move |config| {
        config.app_data(receiver.clone()).route("/hooks", web::post().to(receive));
    })
}

/// Runs actix-web on a free port, in a thread of its own until the process exits.
pub(crate) fn serve_actix(
    configure: impl Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
) -> SocketAddr {
    start_actix(configure).0
}

/// As [`serve_actix`], with the handle that stops the server.
pub(crate) fn start_actix(
    configure: impl Fn(&mut web::ServiceConfig) + Clone + Send + 'static,
) -> (SocketAddr, ServerHandle) {
    let (sender, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let app = move || actix_web::App::new().configure(configure.clone());
            let server = actix_web::HttpServer::new(app).workers(1).disable_signals();
            let server = server.bind("127.0.0.1:0").unwrap();
            let address = server.addrs()[0];
            let server = server.run();
            sender.send((address, server.handle())).unwrap();
            server.await.unwrap();
        });
    });
    address.recv_timeout(LIMIT).expect("actix-web has started")
}

async fn every_adapter(receiver: impl Fn() -> Receiver<Extraction>) -> [SocketAddr; 3] {
    [serve(axum_app(receiver())).await, serve(tower_app(receiver())).await, actix_app(receiver())]
}

/// Sends one byte at a time until the server has responded.
#[tokio::test]
async fn a_slow_body_is_rejected_at_its_deadline() {
    let deadline = Duration::from_millis(300);
    for address in every_adapter(|| receiver().body_timeout(deadline)).await {
        let mut connection = TcpStream::connect(address).await.unwrap();
        let started = Instant::now();
        send(&mut connection, head("/hooks", &signature(BODY), 1000).as_bytes()).await;
        let (mut reading, mut writing) = connection.split();
        let drip = async {
            while writing.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let mut first = [0; 12];
        let response = timeout(LIMIT, async {
            tokio::select! {
                read = reading.read_exact(&mut first) => drop(read.unwrap()),
                () = drip => panic!("closed without a response"),
            }
        });
        response.await.expect("rejected at the deadline");
        assert_eq!(String::from_utf8_lossy(&first), "HTTP/1.1 408");
        assert!(started.elapsed() >= deadline);

        assert_eq!(response_to_delivery(address).await, 204);
    }
}

async fn response_to_delivery(address: SocketAddr) -> u16 {
    response(address, &request_bytes("/hooks", BODY)).await.0
}

/// Three bodies of 40 kB are too many for 100 kB.
#[tokio::test]
async fn the_body_that_has_waited_longest_is_rejected_for_a_new_one() {
    let receiver = || receiver().body_limit(50_000).unverified_limit(100_000);
    for address in every_adapter(receiver).await {
        let mut connections = Vec::new();
        for _ in 0..3 {
            let mut connection = TcpStream::connect(address).await.unwrap();
            send(&mut connection, head("/hooks", &signature(BODY), 50_000).as_bytes()).await;
            send(&mut connection, &[b' '; 40_000]).await;
            connections.push(connection);
        }
        let started = Instant::now();
        let (rejected, text) = tokio::select! {
            response = read_one(&mut connections) => response,
            () = tokio::time::sleep(LIMIT) => panic!("none was rejected"),
        };
        assert_eq!(rejected, 503, "after {:?}", started.elapsed());
        assert!(text.contains("retry-after: 5"), "{text}");
        // Deliveries are accepted while the other two wait.
        assert_eq!(response_to_delivery(address).await, 204);
        let large = format!(r#"{{"event":"e","data":"{}"}}"#, "x".repeat(45_000));
        assert_eq!(response(address, &request_bytes("/hooks", &large)).await.0, 204);
    }
}

/// With actix-web, the memory for a connection counts: senders that hold connections with a few
/// bytes each do not keep others out.
#[tokio::test]
async fn a_connection_of_actix_counts_for_its_buffers() {
    let address =
        actix_app(receiver().body_timeout(None).body_limit(1000).unverified_limit(500_000));
    let mut connections = Vec::new();
    for _ in 0..3 {
        let mut connection = TcpStream::connect(address).await.unwrap();
        send(&mut connection, head("/hooks", &signature(BODY), 1000).as_bytes()).await;
        connections.push(connection);
    }
    let (rejected, text) = read_one(&mut connections).await;
    assert_eq!(rejected, 503, "{text}");
    assert_eq!(response_to_delivery(address).await, 204);
}

/// The first response on any of the connections.
async fn read_one(connections: &mut [TcpStream]) -> (u16, String) {
    let reading: Vec<_> =
        connections.iter_mut().map(|connection| Box::pin(read(connection))).collect();
    futures_util::future::select_all(reading).await.0
}
