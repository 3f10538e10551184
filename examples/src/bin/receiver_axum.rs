//! Receives deliveries of the extraction service with axum.
//!
//! `WEBHOOK_SECRET=… ADDR=127.0.0.1:3000 cargo run -p svc-examples --bin receiver-axum`
#![expect(clippy::print_stdout, reason = "the example prints what it receives")]

use std::error::Error;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Router};
use webhook_verify::dedup::{Dedup, DedupError, MemoryStore, Outcome};
use webhook_verify::{ExtractionDelivery, ExtractionEvent, ExtractionVerifier, Receiver, Secret};

/// Called with verified deliveries only. The extractor responds 401, 413 or 400 to
/// other requests.
///
/// The result of `run_once` becomes a 200 response for a delivery that was handled
/// before, and a 503 response for one that is being handled.
async fn receive(
    Extension(dedup): Extension<Dedup<MemoryStore>>,
    delivery: ExtractionDelivery,
) -> Result<Outcome<StatusCode>, DedupError<StatusCode, std::convert::Infallible>> {
    dedup.run_once(&delivery, handle(&delivery)).await
}

/// Return an error to make the service retry the delivery.
async fn handle(delivery: &ExtractionDelivery) -> Result<StatusCode, StatusCode> {
    match delivery.event() {
        ExtractionEvent::Completed | ExtractionEvent::Failed => {
            println!("{} {}", delivery.event(), delivery.id().unwrap_or("-"));
        }
        other => println!("unknown event {other}"),
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

    let addr = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(addr).await?;
    println!("http://{}/hooks", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
