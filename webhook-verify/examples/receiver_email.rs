//! Receives deliveries of the email service with axum, and reports recipients that
//! bounced or complained.
//!
//! `WEBHOOK_SECRET=… ADDR=127.0.0.1:3000 cargo run -p svc-webhook-verify --example receiver_email`
//!
//! To try it, run `svc --sandbox listen --forward-to http://127.0.0.1:3000/hooks`,
//! which prints the location of the secret. Then send an email to
//! `bounced@sandbox.test` with `svc --sandbox emails send` to cause a bounce.
#![expect(clippy::print_stdout, reason = "the example prints what it receives")]

use std::error::Error;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Router};
use serde::Deserialize;
use webhook_verify::dedup::Dedup;
use webhook_verify::{Delivery, Event, Receiver, Secret, Verifier};

/// The fields of a delivery's `data` that this program uses.
#[derive(Deserialize)]
struct Data {
    recipient: Option<String>,
}

/// Called with verified deliveries only. The extractor rejects other requests.
async fn receive(Extension(dedup): Extension<Dedup>, delivery: Delivery) -> impl IntoResponse {
    dedup.run_once(delivery, handle).await
}

/// Runs to its end even if the service disconnects. Return an error to make the service
/// retry the delivery.
async fn handle(delivery: Delivery) -> Result<StatusCode, StatusCode> {
    let data = delivery
        .data::<Data>()
        .map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?;
    let recipient = data.recipient.as_deref().unwrap_or("-");
    match delivery.event() {
        Event::EmailBounced | Event::EmailComplained | Event::EmailFailed => {
            // In your program, remove the address from your lists here.
            println!("{}: do not write to {recipient} again", delivery.event());
        }
        other => println!("{other} {recipient}"),
    }
    Ok(StatusCode::NO_CONTENT)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let receiver = Receiver::new(Verifier::email(Secret::from_env("WEBHOOK_SECRET")?));
    let app = Router::new()
        .route("/hooks", post(receive))
        .layer(Extension(Dedup::in_memory()))
        .with_state(receiver);

    let addr = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(addr).await?;
    println!("http://{}/hooks", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
