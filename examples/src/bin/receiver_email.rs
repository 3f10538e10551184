//! Receives deliveries of the email service with axum, and writes nobody again
//! who cannot be reached or complained.
//!
//! `WEBHOOK_SECRET=… ADDR=127.0.0.1:3000 cargo run -p svc-examples --bin receiver-email`
//!
//! To try it: `svc --sandbox listen --forward-to http://127.0.0.1:3000/hooks`
//! says where its secret is, and `svc --sandbox emails send` to
//! `bounced@sandbox.test` makes a bounce.
#![expect(clippy::print_stdout, reason = "what it receives is what it is there to show")]

use std::error::Error;

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Extension, Router};
use serde::Deserialize;
use webhook_verify::dedup::{Dedup, MemoryStore, Once, OnceError};
use webhook_verify::{MailDelivery, MailEvent, MailVerifier, Receiver, Secret};

/// What this program needs of a delivery's data.
#[derive(Deserialize)]
struct About {
    recipient: Option<String>,
}

/// Called with verified deliveries only; 401, 413 and 400 are answered before.
async fn receive(
    Extension(dedup): Extension<Dedup<MemoryStore>>,
    delivery: MailDelivery,
) -> Result<Once<StatusCode>, OnceError<StatusCode, std::convert::Infallible>> {
    dedup.once(&delivery, handle(&delivery)).await
}

/// An error here lets the service try again later.
async fn handle(delivery: &MailDelivery) -> Result<StatusCode, StatusCode> {
    let about = delivery.data::<About>().map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?;
    let recipient = about.recipient.as_deref().unwrap_or("-");
    match delivery.event() {
        MailEvent::Bounced | MailEvent::Complained | MailEvent::Failed => {
            // In your program: take the address off your lists.
            println!("{}: do not write to {recipient} again", delivery.event());
        }
        other => println!("{other} {recipient}"),
    }
    Ok(StatusCode::NO_CONTENT)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let receiver = Receiver::new(MailVerifier::new(Secret::from_env("WEBHOOK_SECRET")?));
    let app = Router::new()
        .route("/hooks", post(receive))
        .layer(Extension(Dedup::new(MemoryStore::new())))
        .with_state(receiver);

    let address = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}/hooks", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
