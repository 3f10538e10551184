//! Receives deliveries of the extraction service with hyper. Other servers that use the crate
//! `http` work the same way: tower services, tonic, Lambda.
//!
//! `WEBHOOK_SECRET=… ADDR=127.0.0.1:3000 cargo run -p svc-webhook-verify --example receiver_hyper`
#![expect(clippy::print_stdout, reason = "the example prints what it receives")]

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use webhook_verify::dedup::{Dedup, RunOnce};
use webhook_verify::{Delivery, Receiver, Secret, Verifier};

/// The status of the response.
async fn receive(receiver: &Receiver, dedup: &Dedup, request: Request<Incoming>) -> StatusCode {
    let delivery = match receiver.receive(request).await {
        Ok(delivery) => delivery,
        Err(rejection) => return StatusCode::from_u16(rejection.status()).unwrap_or_default(),
    };
    match dedup.run_once(delivery, handle).await {
        Ok(RunOnce::Handled(status)) => status,
        Ok(RunOnce::Duplicate) => StatusCode::OK,
        Ok(RunOnce::InFlight { .. }) | Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Called once for each verified delivery. It runs to its end even if the service disconnects.
/// Return an error to make the service retry the delivery.
async fn handle(delivery: Delivery) -> Result<StatusCode, std::io::Error> {
    println!("{} {}", delivery.event(), delivery.id().unwrap_or("-"));
    Ok(StatusCode::NO_CONTENT)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let receiver = Receiver::new(Verifier::extraction(Secret::from_env("WEBHOOK_SECRET")?));
    let dedup = Dedup::in_memory();

    let addr = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(addr).await?;
    println!("http://{}/hooks", listener.local_addr()?);
    loop {
        let (connection, _) = listener.accept().await?;
        let receiver = receiver.clone();
        let dedup = dedup.clone();
        tokio::spawn(async move {
            let service = service_fn(async |request| {
                let status = receive(&receiver, &dedup, request).await;
                let mut response = Response::new(Empty::<Bytes>::new());
                *response.status_mut() = status;
                Ok::<_, Infallible>(response)
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(connection), service);
            if let Err(error) = served.await {
                println!("connection error: {error}");
            }
        });
    }
}
