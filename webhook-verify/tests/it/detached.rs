//! Handlers run in a task of their own: they survive a sender that disconnects, renew
//! their lease, and respond when they are done.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::{Either, HttpResponse, web};
use axum::routing::post;
use axum::{Extension, Router};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};
use tower::ServiceBuilder;
use webhook_verify::dedup::{
    Claim, Dedup, DedupError, DedupLayer, DedupStore, MemoryStore, Outcome, StoreFuture, Ticket,
};
use webhook_verify::{DeliveryKey, ExtractionDelivery, VerifyLayer};

use crate::dedup::delivery;
use crate::http::{BODY, receiver};
use crate::sockets::{LIMIT, request_bytes, response, send, serve, serve_actix, start_actix};

/// A store whose leases end by tokio's clock, which these tests pause.
fn store() -> MemoryStore {
    let start = Instant::now();
    MemoryStore::with_clock(move || start.elapsed())
}

/// A lease of 300 ms and 700 ms of work, while the sender repeats each delivery.
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_the_handler_runs() {
    let dedup = Dedup::new(store()).lease(Duration::from_millis(300));
    let runs = Arc::new(AtomicUsize::new(0));
    let mut senders = tokio::task::JoinSet::new();
    for id in 0..100 {
        for attempt in 0..15 {
            let (dedup, runs) = (dedup.clone(), runs.clone());
            let delivery = delivery(format!(r#"{{"event":"email.sent","id":"{id}"}}"#));
            senders.spawn(async move {
                tokio::time::sleep(Duration::from_millis(50 * attempt)).await;
                let handler = async move |_| {
                    runs.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(700)).await;
                    Ok::<_, Infallible>(())
                };
                dedup.run_once(delivery, handler).await.unwrap()
            });
        }
    }
    let outcomes = senders.join_all().await;
    assert_eq!(runs.load(Ordering::Relaxed), 100);
    let count =
        |expected: fn(&Outcome<()>) -> bool| outcomes.iter().filter(|o| expected(o)).count();
    assert_eq!(count(|outcome| *outcome == Outcome::Handled(())), 100);
    assert!(count(|outcome| matches!(outcome, Outcome::InFlight { .. })) >= 1300);
}

#[tokio::test(start_paused = true)]
async fn responds_when_the_handler_is_done() {
    let dedup = Dedup::new(store()).lease(Duration::from_millis(300));
    let work = Duration::from_millis(750);
    let started = Instant::now();
    let handler = async move |_| {
        tokio::time::sleep(work).await;
        Ok::<_, Infallible>(())
    };
    let body = r#"{"event":"email.sent","id":"1"}"#;
    assert_eq!(dedup.run_once(delivery(body), handler).await.unwrap(), Outcome::Handled(()));
    assert!(started.elapsed() < work + Duration::from_millis(10), "{:?}", started.elapsed());
    let handler = async |_| Ok::<_, Infallible>(());
    assert_eq!(dedup.run_once(delivery(body), handler).await.unwrap(), Outcome::Duplicate);
}

#[tokio::test]
async fn a_panic_of_the_handler_releases_the_delivery() {
    let dedup = Dedup::new(MemoryStore::new());
    let body = r#"{"event":"email.sent","id":"1"}"#;
    let panics = {
        let dedup = dedup.clone();
        let handler = async |_| -> Result<(), Infallible> { panic!("a defect") };
        tokio::spawn(async move { dedup.run_once(delivery(body), handler).await })
    };
    assert!(panics.await.unwrap_err().is_panic());
    let handler = async |_| Ok::<_, Infallible>(());
    assert_eq!(dedup.run_once(delivery(body), handler).await.unwrap(), Outcome::Handled(()));
}

/// A store that never responds to a claim. Records the tokens of claims and releases.
#[derive(Clone, Default)]
struct HangingStore {
    claimed: Arc<Mutex<Vec<String>>>,
    released: Arc<Mutex<Vec<String>>>,
}

impl DedupStore for HangingStore {
    fn claim<'a>(&'a self, ticket: &'a Ticket, _: Duration) -> StoreFuture<'a, Claim> {
        self.claimed.lock().unwrap().push(ticket.token().to_owned());
        Box::pin(pending())
    }

    fn renew<'a>(&'a self, _: &'a Ticket, _: Duration) -> StoreFuture<'a, bool> {
        Box::pin(pending())
    }

    fn complete<'a>(&'a self, _: &'a Ticket, _: Duration) -> StoreFuture<'a, bool> {
        Box::pin(pending())
    }

    fn release<'a>(&'a self, ticket: &'a Ticket) -> StoreFuture<'a, ()> {
        self.released.lock().unwrap().push(ticket.token().to_owned());
        Box::pin(async { Ok(()) })
    }

    fn forget<'a>(&'a self, _: &'a DeliveryKey) -> StoreFuture<'a, bool> {
        Box::pin(pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_times_out_and_is_released() {
    let store = HangingStore::default();
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    for (dedup, limit) in [
        (Dedup::new(store.clone()), 500),
        (Dedup::new(store.clone()).store_timeout(Duration::from_millis(80)), 80),
    ] {
        let started = Instant::now();
        let handler = async |_| -> Result<(), Infallible> { panic!("without a claim") };
        let result = dedup.run_once(delivery.clone(), handler).await;
        let Err(DedupError::Store(error)) = result else { panic!("{result:?}") };
        assert_eq!(error.to_string(), format!("no response within {limit} ms"));
        let elapsed = started.elapsed().as_millis();
        assert!((limit..limit + 10).contains(&elapsed), "{elapsed} ms");
        assert!(dedup.forget(&delivery.key()).await.is_err());
    }
    let claimed = store.claimed.lock().unwrap().clone();
    assert_eq!(claimed.len(), 2);
    assert_ne!(claimed[0], claimed[1], "each attempt has its own token");
    assert_eq!(*store.released.lock().unwrap(), claimed);
}

/// A handler that waits for the test, and reports its start and its end.
#[derive(Clone)]
struct Handler {
    started: mpsc::UnboundedSender<()>,
    resume: Arc<Notify>,
    finished: mpsc::UnboundedSender<()>,
    /// Reports that the server has dropped the request.
    disconnected: mpsc::UnboundedSender<()>,
}

struct Observer {
    started: mpsc::UnboundedReceiver<()>,
    resume: Arc<Notify>,
    finished: mpsc::UnboundedReceiver<()>,
    disconnected: mpsc::UnboundedReceiver<()>,
}

fn handler() -> (Handler, Observer) {
    let (started, has_started) = mpsc::unbounded_channel();
    let (finished, has_finished) = mpsc::unbounded_channel();
    let (disconnected, has_disconnected) = mpsc::unbounded_channel();
    let resume = Arc::new(Notify::new());
    let observer = Observer {
        started: has_started,
        resume: resume.clone(),
        finished: has_finished,
        disconnected: has_disconnected,
    };
    (Handler { started, resume, finished, disconnected }, observer)
}

impl Handler {
    async fn run(self) -> Result<StatusCode, StatusCode> {
        self.started.send(()).unwrap();
        self.resume.notified().await;
        self.finished.send(()).unwrap();
        Ok(StatusCode::NO_CONTENT)
    }
}

/// Reports when it is dropped.
struct OnDrop(mpsc::UnboundedSender<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        // The test may have ended.
        let _ = self.0.send(());
    }
}

async fn next(what: &str, events: &mut mpsc::UnboundedReceiver<()>) {
    let event = timeout(LIMIT, events.recv()).await;
    event.unwrap_or_else(|_| panic!("{what} within {LIMIT:?}")).unwrap();
}

/// The sender disconnects while the handler runs, and repeats the delivery afterwards.
async fn check_disconnect(
    address: std::net::SocketAddr,
    dedup: &Dedup,
    mut observer: Observer,
    after_disconnect: impl FnOnce(),
) {
    let mut sender = TcpStream::connect(address).await.unwrap();
    send(&mut sender, &request_bytes("/hooks", BODY)).await;
    next("the handler has started", &mut observer.started).await;
    drop(sender);
    after_disconnect();
    next("the server has noticed the disconnect", &mut observer.disconnected).await;
    let repeated = response(address, &request_bytes("/hooks", BODY)).await;
    assert_eq!(repeated.0, 503, "the handler still runs");
    assert!(timeout(Duration::from_millis(20), dedup.idle()).await.is_err());

    observer.resume.notify_one();
    next("the handler has finished", &mut observer.finished).await;
    timeout(LIMIT, dedup.idle()).await.expect("idle");
    assert_eq!(response(address, &request_bytes("/hooks", BODY)).await.0, 200, "a duplicate");
    assert!(observer.started.try_recv().is_err(), "the handler ran once");
}

#[tokio::test]
async fn an_axum_handler_survives_a_disconnect() {
    async fn receive(
        Extension(dedup): Extension<Dedup>,
        Extension(handler): Extension<Handler>,
        delivery: ExtractionDelivery,
    ) -> Result<Outcome<StatusCode>, DedupError<StatusCode>> {
        let _on_drop = OnDrop(handler.disconnected.clone());
        dedup.run_once(delivery, |_| handler.run()).await
    }
    let (handler, observer) = handler();
    let dedup = Dedup::new(MemoryStore::new());
    let app = Router::new()
        .route("/hooks", post(receive))
        .layer(Extension(dedup.clone()))
        .layer(Extension(handler))
        .with_state(receiver());
    check_disconnect(serve(app).await, &dedup, observer, || {}).await;
}

#[tokio::test]
async fn a_tower_service_survives_a_disconnect() {
    let (handler, observer) = handler();
    let dedup = Dedup::new(MemoryStore::new());
    let disconnected = handler.disconnected.clone();
    let service = ServiceBuilder::new()
        .layer(VerifyLayer::new(receiver()))
        .map_future(move |future| {
            let on_drop = OnDrop(disconnected.clone());
            async move {
                let _on_drop = on_drop;
                future.await
            }
        })
        .layer(DedupLayer::new(dedup.clone()))
        .service_fn(move |_: Request<Full<Bytes>>| {
            let handler = handler.clone();
            async move {
                let status = handler.run().await.unwrap();
                let response = Response::builder().status(status);
                Ok::<_, Infallible>(response.body(Full::<Bytes>::default()).unwrap())
            }
        });
    let app = Router::new().route_service("/hooks", service);
    check_disconnect(serve(app).await, &dedup, observer, || {}).await;
}

/// actix-web itself lets a handler of HTTP/1 run on. Here the application drops it, as a
/// middleware with a time limit does.
#[tokio::test]
async fn an_actix_handler_survives_the_end_of_its_request() {
    async fn receive(
        dedup: web::Data<Dedup>,
        handler: web::Data<Handler>,
        cancel: web::Data<Notify>,
        delivery: ExtractionDelivery,
    ) -> impl actix_web::Responder {
        let handler = handler.get_ref().clone();
        let _on_drop = OnDrop(handler.disconnected.clone());
        let handle = async move |_| {
            handler.run().await.unwrap();
            Ok::<_, std::io::Error>(())
        };
        tokio::select! {
            handled = dedup.run_once(delivery, handle) => Either::Left(handled),
            () = cancel.notified() => Either::Right(HttpResponse::GatewayTimeout()),
        }
    }
    let (handler, observer) = handler();
    let dedup = Dedup::new(MemoryStore::new());
    let cancel = Arc::new(Notify::new());
    let shared = (dedup.clone(), cancel.clone());
    let address = serve_actix(move |config| {
        config
            .app_data(receiver())
            .app_data(web::Data::new(shared.0.clone()))
            .app_data(web::Data::from(shared.1.clone()))
            .app_data(web::Data::new(handler.clone()))
            .route("/hooks", web::post().to(receive));
    });
    check_disconnect(address, &dedup, observer, || cancel.notify_one()).await;
}

/// As the README says: the workers of actix-web own the handlers, so a server that stops ends them.
#[tokio::test]
async fn actix_stops_after_handlers_whose_sender_is_gone() {
    async fn receive(
        dedup: web::Data<Dedup>,
        handler: web::Data<Handler>,
        delivery: ExtractionDelivery,
    ) -> impl actix_web::Responder {
        let handler = handler.get_ref().clone();
        let handle =
            async move |_| handler.run().await.map_err(|_| std::io::Error::other("failed"));
        dedup.run_once(delivery, handle).await.map(|_| HttpResponse::NoContent())
    }
    let (handler, mut observer) = handler();
    let dedup = Dedup::new(MemoryStore::new());
    let shared = dedup.clone();
    let (address, server) = start_actix(move |config| {
        config
            .app_data(receiver())
            .app_data(web::Data::new(shared.clone()))
            .app_data(web::Data::new(handler.clone()))
            .route("/hooks", web::post().to(receive));
    });
    let mut sender = TcpStream::connect(address).await.unwrap();
    send(&mut sender, &request_bytes("/hooks", BODY)).await;
    next("the handler has started", &mut observer.started).await;
    drop(sender);

    timeout(LIMIT, server.pause()).await.expect("paused");
    assert!(timeout(Duration::from_millis(20), dedup.idle()).await.is_err());
    observer.resume.notify_one();
    timeout(LIMIT, dedup.idle()).await.expect("idle");
    next("the handler has finished", &mut observer.finished).await;
    timeout(LIMIT, server.stop(true)).await.expect("stopped");
}
