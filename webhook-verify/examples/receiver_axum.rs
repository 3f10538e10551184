//! Receives deliveries of the extraction service with axum.
//!
//! `WEBHOOK_SECRET=… ADDR=127.0.0.1:3000 cargo run -p svc-webhook-verify --example receiver_axum`
#![expect(clippy::print_stdout, reason = "the example prints what it receives")]

use std::error::Error;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use webhook_verify::dedup::Dedup;
use webhook_verify::{Delivery, Event, Receiver, Secret, Verifier};

/// The state of the application. The extractor takes the receiver from it.
#[derive(Clone)]
struct App {
    receiver: Receiver,
    dedup: Dedup,
}

impl FromRef<App> for Receiver {
    fn from_ref(app: &App) -> Self {
        app.receiver.clone()
    }
}

/// Called with verified deliveries only. The extractor rejects other requests.
///
/// `run_once` runs the handler to its end even if the service disconnects. Its result
/// becomes a 200 response for a delivery that was handled before, and a 503 response for
/// one that is being handled.
async fn receive(State(app): State<App>, delivery: Delivery) -> impl IntoResponse {
    app.dedup.run_once(delivery, handle).await
}

/// Return an error to make the service retry the delivery.
async fn handle(delivery: Delivery) -> Result<StatusCode, StatusCode> {
    match delivery.event() {
        Event::ExtractionCompleted | Event::ExtractionFailed => {
            println!("{} {}", delivery.event(), delivery.id().unwrap_or("-"));
        }
        other => println!("unknown event {other}"),
    }
    Ok(StatusCode::NO_CONTENT)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let receiver = Receiver::new(Verifier::extraction(Secret::from_env("WEBHOOK_SECRET")?));
    let dedup = Dedup::in_memory();
    let app = Router::new()
        .route("/hooks", post(receive))
        .with_state(App {
            receiver,
            dedup: dedup.clone(),
        });

    let addr = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(addr).await?;
    println!("http://{}/hooks", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(stop())
        .await?;
    // Handlers whose sender has disconnected are not part of the graceful shutdown.
    dedup.idle().await;
    Ok(())
}

async fn stop() {
    // Without a handler for Ctrl-C, the process runs until it is killed.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
