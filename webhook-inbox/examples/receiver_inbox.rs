//! Receives deliveries of the extraction service with axum, and handles them later from an
//! inbox in SQLite.
//!
//! `WEBHOOK_SECRET=… DATABASE=app.db ADDR=127.0.0.1:3000 cargo run -p svc-webhook-inbox --example receiver_inbox`
#![expect(clippy::print_stdout, reason = "the example prints what it handles")]

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::routing::post;
use tokio::signal::unix::{Signal, SignalKind, signal};
use webhook_inbox::{Inbox, Sqlite};
use webhook_verify::{Delivery, Receiver, Secret, Verifier};

/// The state of the application. The extractor takes the receiver from it.
#[derive(Clone)]
struct App {
    receiver: Receiver,
    inbox: Inbox<Sqlite>,
}

impl FromRef<App> for Receiver {
    fn from_ref(app: &App) -> Self {
        app.receiver.clone()
    }
}

/// Called with verified deliveries only. After a 503 response, the service delivers again.
async fn receive(State(app): State<App>, delivery: Delivery) -> StatusCode {
    match app.inbox.accept(&delivery).await {
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = std::env::var("DATABASE").unwrap_or_else(|_| "app.db".to_owned());
    let inbox = Inbox::sqlite(&database)?;
    inbox.migrate().await?;
    // The application's own table, in the same file.
    rusqlite::Connection::open(&database)?
        .execute_batch("CREATE TABLE IF NOT EXISTS results (id TEXT, data TEXT NOT NULL) STRICT")?;

    // What the handler writes to `tx` is committed together with the end of the delivery.
    let mut worker = tokio::spawn(inbox.worker().run(|tx, job| {
        let delivery = job.delivery();
        tx.execute(
            "INSERT INTO results (id, data) VALUES (?1, ?2)",
            (delivery.id(), delivery.data_json()),
        )?;
        println!("{} {}", delivery.event(), delivery.id().unwrap_or("-"));
        Ok(()) // an error rolls back, and the delivery is attempted again later
    }));

    let receiver = Receiver::new(Verifier::extraction(Secret::from_env("WEBHOOK_SECRET")?));
    let app = App {
        receiver,
        inbox: inbox.clone(),
    };
    let app = Router::new().route("/hooks", post(receive)).with_state(app);

    let addr = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(addr).await?;
    println!("http://{}/hooks", listener.local_addr()?);
    let terminated = signal(SignalKind::terminate())?;
    let serve = axum::serve(listener, app).with_graceful_shutdown(stop(terminated));
    tokio::select! {
        served = serve.into_future() => served?,
        // The tables are newer than this program. For everything else the worker waits.
        ended = &mut worker => return Ok(ended??),
    }
    // The worker finishes what it is handling, if it takes no more than 10 seconds.
    inbox.stop(Duration::from_secs(10)).await;
    worker.await??;
    Ok(())
}

/// Waits for Ctrl-C, or for the signal with which a container is stopped.
async fn stop(mut terminated: Signal) {
    tokio::select! {
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
