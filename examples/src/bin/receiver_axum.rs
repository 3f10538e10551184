//! Receives deliveries of the extraction service with axum.
//!
//! `WEBHOOK_SECRET=… ADDR=127.0.0.1:3000 cargo run -p svc-examples --bin receiver-axum`
#![expect(clippy::print_stdout, reason = "what it receives is what it is there to show")]

use std::error::Error;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Router};
use webhook_verify::dedup::{Dedup, MemoryStore, Once, OnceError};
use webhook_verify::{ExtractionDelivery, ExtractionEvent, ExtractionVerifier, Receiver, Secret};

/// Called with verified deliveries only; 401, 413 and 400 are answered before.
/// `once` answers 200 for a delivery that was handled before, and 503 for one
/// that is being handled.
async fn receive(
    Extension(dedup): Extension<Dedup<MemoryStore>>,
    delivery: ExtractionDelivery,
) -> Result<Once<StatusCode>, OnceError<StatusCode, std::convert::Infallible>> {
    dedup.once(&delivery, handle(&delivery)).await
}

/// An error here lets the service try again later.
async fn handle(delivery: &ExtractionDelivery) -> Result<StatusCode, StatusCode> {
    match delivery.event() {
        ExtractionEvent::Completed | ExtractionEvent::Failed => {
            println!("{} {}", delivery.event(), delivery.id().unwrap_or("-"));
        }
        other => println!("{other}, which this program does not know"),
    }
    Ok(StatusCode::NO_CONTENT)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let receiver = Receiver::new(ExtractionVerifier::new(Secret::from_env("WEBHOOK_SECRET")?));
    let app = Router::new()
        .route("/hooks", post(receive))
        .layer(Extension(Dedup::new(MemoryStore::new())))
        .with_state(receiver);

    let address = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}/hooks", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
