//! Receives deliveries of the extraction service with hyper and the tower layers.
//! Other frameworks built on tower work the same way.
//!
//! `WEBHOOK_SECRET=… ADDR=127.0.0.1:3000 cargo run -p svc-examples --bin receiver-hyper`
#![expect(clippy::print_stdout, reason = "the example prints what it receives")]

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{Empty, Full};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tower::ServiceBuilder;
use webhook_verify::dedup::{Dedup, DedupLayer, MemoryStore};
use webhook_verify::{ExtractionDelivery, ExtractionVerifier, Receiver, Secret, VerifyLayer};

/// Called once for each verified delivery. It runs to its end even if the service
/// disconnects. A status other than 2xx makes the service retry the delivery.
async fn receive(request: Request<Full<Bytes>>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut response = Response::new(Empty::new());
    match request.extensions().get::<ExtractionDelivery>() {
        Some(delivery) => println!("{} {}", delivery.event(), delivery.id().unwrap_or("-")),
        // Only reached if `VerifyLayer` is missing.
        None => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
    }
    Ok(response)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let receiver = Receiver::new(ExtractionVerifier::new(Secret::from_env("WEBHOOK_SECRET")?));
    let service = ServiceBuilder::new()
        .layer(VerifyLayer::new(receiver))
        .layer(DedupLayer::new(Dedup::new(MemoryStore::new())))
        .service_fn(receive);

    let addr = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(addr).await?;
    println!("http://{}/hooks", listener.local_addr()?);
    loop {
        let (connection, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(connection), service);
            if let Err(error) = served.await {
                println!("connection error: {error}");
            }
        });
    }
}
