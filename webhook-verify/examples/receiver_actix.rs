//! Receives deliveries of the extraction service with actix-web.
//!
//! `WEBHOOK_SECRET=… ADDR=127.0.0.1:3000 cargo run -p svc-webhook-verify --example receiver_actix`
#![expect(clippy::print_stdout, reason = "the example prints what it receives")]

use std::error::Error;

use actix_web::dev::ServerHandle;
use actix_web::http::StatusCode;
use actix_web::rt::System;
use actix_web::{App, HttpServer, Responder, web};
use webhook_verify::dedup::Dedup;
use webhook_verify::{Delivery, Receiver, Secret, Verifier};

/// Called with verified deliveries only. The extractor rejects other requests.
async fn receive(dedup: web::Data<Dedup>, delivery: Delivery) -> impl Responder {
    dedup.run_once(delivery, handle).await
}

/// Runs to its end even if the service disconnects. Return an error to make the service
/// retry the delivery.
async fn handle(delivery: Delivery) -> Result<StatusCode, std::io::Error> {
    println!("{} {}", delivery.event(), delivery.id().unwrap_or("-"));
    Ok(StatusCode::NO_CONTENT)
}

fn main() -> Result<(), Box<dyn Error>> {
    let receiver = Receiver::new(Verifier::extraction(Secret::from_env("WEBHOOK_SECRET")?));
    let dedup = web::Data::new(Dedup::in_memory());

    let addr = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    System::new().block_on(async move {
        let shared = dedup.clone();
        let server = HttpServer::new(move || {
            App::new()
                .app_data(receiver.clone())
                .app_data(shared.clone())
                .route("/hooks", web::post().to(receive))
        });
        // For each worker: actix-web buffers about 192 KiB for every connection.
        let server = server
            .workers(2)
            .max_connections(40)
            .disable_signals()
            .bind(addr)?;
        for addr in server.addrs() {
            println!("http://{addr}/hooks");
        }
        let server = server.run();
        actix_web::rt::spawn(stop(server.handle(), dedup));
        Ok(server.await?)
    })
}

/// Stops the server at Ctrl-C. A worker that stops ends the handlers whose sender has
/// disconnected, so they are awaited before.
async fn stop(server: ServerHandle, dedup: web::Data<Dedup>) {
    // Without a handler for Ctrl-C, the process runs until it is killed.
    if actix_web::rt::signal::ctrl_c().await.is_ok() {
        server.pause().await;
        dedup.idle().await;
        server.stop(true).await;
    }
}
