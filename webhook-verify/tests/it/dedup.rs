//! De-duplication with the in-memory store, and its responses in each framework.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use webhook_verify::dedup::{
    Claim, Dedup, DedupError, DedupStore, MemoryStore, Outcome, StoreFuture, Ticket,
};
use webhook_verify::{Delivery, DeliveryKey, Mail, MailSigner, MailVerifier, Secret};

type TestDelivery = Delivery<Mail, String>;

pub(crate) fn delivery(body: impl Into<String>) -> TestDelivery {
    let body = body.into();
    let secret = Secret::new("whsec_77").unwrap();
    let signature = MailSigner::new(&secret).sign(&body);
    let verified = MailVerifier::new(secret).verify_signature(&signature, body).unwrap();
    verified.into_delivery().unwrap()
}

/// A clock in seconds that the test advances, and a store that uses it.
fn store() -> (Arc<AtomicU64>, MemoryStore) {
    let now = Arc::new(AtomicU64::new(0));
    let clock = now.clone();
    let store = MemoryStore::with_clock(move || Duration::from_secs(clock.load(Ordering::Relaxed)));
    (now, store)
}

/// A handler that succeeds.
async fn handle(_: TestDelivery) -> Result<(), Infallible> {
    Ok(())
}

/// A handler that never returns.
async fn hang(_: TestDelivery) -> Result<(), Infallible> {
    std::future::pending().await
}

/// Starts a handler that never returns, in a process that then crashes.
fn crash(dedup: &Dedup, delivery: &TestDelivery) {
    let (dedup, delivery) = (dedup.clone(), delivery.clone());
    let runtime = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let hangs = dedup.run_once(delivery, hang);
        runtime.block_on(async {
            assert!(tokio::time::timeout(Duration::from_millis(20), hangs).await.is_err());
        });
    };
    std::thread::scope(|scope| scope.spawn(runtime).join().unwrap());
}

pub(crate) async fn claim(
    store: &impl DedupStore,
    key: &DeliveryKey,
    lease: Duration,
) -> (Ticket, Claim) {
    let ticket = Ticket::new(key.clone());
    let claim = store.claim(&ticket, lease).await.unwrap();
    (ticket, claim)
}

/// Claims a delivery that should be new.
pub(crate) async fn claim_new(
    store: &impl DedupStore,
    key: &DeliveryKey,
    lease: Duration,
) -> Ticket {
    let (ticket, claimed) = claim(store, key, lease).await;
    assert_eq!(claimed, Claim::New);
    ticket
}

const LEASE: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(600);

#[tokio::test]
async fn leases_and_retention_expire() {
    let (now, store) = store();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let state = async || claim(&store, &key, LEASE).await.1;

    let first = claim_new(&store, &key, LEASE).await;
    assert_eq!(store.claim(&first, LEASE).await.unwrap(), Claim::New, "it owns the delivery");
    now.store(59, Ordering::Relaxed);
    assert_eq!(state().await, Claim::InFlight { retry_after: Duration::from_secs(1) });
    now.store(60, Ordering::Relaxed);
    let second = claim_new(&store, &key, LEASE).await;
    assert_ne!(first, second);

    // The first ticket has expired and changes nothing.
    store.release(&first).await.unwrap();
    assert!(!store.renew(&first, LEASE).await.unwrap());
    assert!(!store.complete(&first, RETENTION).await.unwrap());
    assert!(matches!(state().await, Claim::InFlight { .. }));

    assert!(store.complete(&second, RETENTION).await.unwrap());
    assert!(!store.renew(&second, LEASE).await.unwrap(), "a done delivery stays done");
    now.store(659, Ordering::Relaxed);
    assert_eq!(state().await, Claim::Done);
    now.store(660, Ordering::Relaxed);
    assert_eq!(state().await, Claim::New);
}

#[tokio::test]
async fn a_renewed_lease_ends_later() {
    let (now, store) = store();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let ticket = claim_new(&store, &key, LEASE).await;
    now.store(50, Ordering::Relaxed);
    assert!(store.renew(&ticket, LEASE).await.unwrap());
    now.store(109, Ordering::Relaxed);
    let in_flight = Claim::InFlight { retry_after: Duration::from_secs(1) };
    assert_eq!(claim(&store, &key, LEASE).await.1, in_flight);
    // An ended lease that nobody has claimed is claimed again.
    now.store(1000, Ordering::Relaxed);
    assert!(store.renew(&ticket, LEASE).await.unwrap());
    assert!(matches!(claim(&store, &key, LEASE).await.1, Claim::InFlight { .. }));
}

#[tokio::test]
async fn accepts_unlimited_durations() {
    let (now, store) = store();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let state = async || claim(&store, &key, Duration::MAX).await.1;
    now.store(1, Ordering::Relaxed);
    let ticket = claim_new(&store, &key, Duration::MAX).await;
    now.store(u64::MAX - 1, Ordering::Relaxed);
    assert!(matches!(state().await, Claim::InFlight { .. }));
    assert!(store.complete(&ticket, Duration::MAX).await.unwrap());
    assert_eq!(state().await, Claim::Done);
}

#[tokio::test]
async fn completes_after_the_lease_ended() {
    let (now, store) = store();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let ticket = claim_new(&store, &key, LEASE).await;
    now.store(1000, Ordering::Relaxed);
    assert!(store.complete(&ticket, RETENTION).await.unwrap(), "no other handler has claimed it");
    assert_eq!(claim(&store, &key, LEASE).await.1, Claim::Done);
}

/// The same as in Redis, which deletes a claim when its lease ends.
#[tokio::test]
async fn an_expired_claim_does_not_block_an_older_ticket() {
    let (now, store) = store();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let first = claim_new(&store, &key, LEASE).await;
    now.store(60, Ordering::Relaxed);
    let crashed = claim_new(&store, &key, LEASE).await;
    now.store(120, Ordering::Relaxed);
    assert!(store.complete(&first, RETENTION).await.unwrap());
    assert_eq!(claim(&store, &key, LEASE).await.1, Claim::Done);
    // The expired ticket cannot release a delivery that is done.
    store.release(&crashed).await.unwrap();
    assert_eq!(claim(&store, &key, LEASE).await.1, Claim::Done);
    assert!(
        store.complete(&crashed, RETENTION).await.unwrap(),
        "completing a done delivery succeeds"
    );
}

#[tokio::test]
async fn a_failed_delivery_is_handled_on_retry() {
    let dedup = Dedup::new(MemoryStore::new());
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    let failed = dedup.run_once(delivery.clone(), async |_| Err::<(), _>("no disk")).await;
    assert!(matches!(failed, Err(DedupError::Handler("no disk"))));
    let seven = async |_| Ok::<_, Infallible>(7);
    let handled = dedup.run_once(delivery.clone(), seven).await.unwrap();
    assert_eq!(handled, Outcome::Handled(7));
    let must_not_run = async |_| Err::<u8, _>("must not run");
    let duplicate = dedup.run_once(delivery, must_not_run).await.unwrap();
    assert_eq!(duplicate, Outcome::Duplicate);
}

/// A crash leaves the claim. Of three retries, 2 s, 8 s and
/// 32 s after the previous attempt, at least one must be after the lease.
#[tokio::test]
async fn an_abandoned_delivery_is_handled_before_the_last_retry() {
    let (now, store) = store();
    let dedup = Dedup::new(store);
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    crash(&dedup, &delivery);

    let mut handled = Vec::new();
    for retry in [2, 10, 42] {
        now.store(retry, Ordering::Relaxed);
        let outcome = dedup.run_once(delivery.clone(), handle).await.unwrap();
        handled.push(outcome == Outcome::Handled(()));
    }
    assert_eq!(handled, [false, false, true]);
}

#[tokio::test]
async fn uses_the_configured_lease_and_retention() {
    let (now, store) = store();
    let dedup = Dedup::new(store).lease(Duration::from_secs(5)).retention(Duration::from_secs(100));
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    crash(&dedup, &delivery);
    for (at, expected) in [
        (4, Outcome::InFlight { retry_after: Duration::from_secs(1) }),
        (5, Outcome::Handled(())),
        (104, Outcome::Duplicate),
        (105, Outcome::Handled(())),
    ] {
        now.store(at, Ordering::Relaxed);
        let outcome = dedup.run_once(delivery.clone(), handle).await.unwrap();
        assert_eq!(outcome, expected, "at {at} s");
    }
}

#[tokio::test]
async fn the_default_retention_is_three_days() {
    let (now, store) = store();
    let dedup = Dedup::new(store);
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    let once = async || dedup.run_once(delivery.clone(), handle).await.unwrap();
    let days = 3 * 24 * 60 * 60;
    for (at, expected) in
        [(0, Outcome::Handled(())), (days - 1, Outcome::Duplicate), (days, Outcome::Handled(()))]
    {
        now.store(at, Ordering::Relaxed);
        assert_eq!(once().await, expected, "at {at} s");
    }
}

#[tokio::test]
async fn a_concurrent_attempt_is_in_flight() {
    let dedup = Dedup::new(MemoryStore::new());
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    let again = dedup.clone();
    let outer = dedup.run_once(delivery.clone(), async move |_| {
        let inner = again.run_once(delivery, handle).await.unwrap();
        let Outcome::InFlight { retry_after } = inner else { panic!("{inner:?}") };
        assert!(retry_after <= LEASE / 2 && retry_after > LEASE / 4);
        Ok::<_, Infallible>(())
    });
    assert_eq!(outer.await.unwrap(), Outcome::Handled(()));
}

/// Several threads claim the same delivery at the same moment, repeatedly.
#[test]
fn only_one_thread_gets_the_claim() {
    const THREADS: usize = 4;
    let store = MemoryStore::new();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let barrier = std::sync::Barrier::new(THREADS);
    let claimed = AtomicU64::new(0);
    let race = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..500 {
            barrier.wait();
            let (ticket, claim) = runtime.block_on(claim(&store, &key, LEASE));
            // Release only after every thread has tried.
            barrier.wait();
            if claim == Claim::New {
                claimed.fetch_add(1, Ordering::Relaxed);
                runtime.block_on(store.release(&ticket)).unwrap();
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(race))));
    assert_eq!(claimed.load(Ordering::Relaxed), 500);
}

#[tokio::test]
async fn keys_identify_deliveries() {
    let key = |body| delivery(body).key();
    let first = key(r#"{"event":"email.sent","id":"1"}"#);
    // The key consists of event and id only.
    assert_eq!(first, key(r#"{"id":"1","event":"email.sent","attempt":2}"#));
    // The email service's reference does not say whether `id` is per delivery or per
    // email.
    assert_ne!(first, key(r#"{"event":"email.opened","id":"1"}"#));
    assert_ne!(first, key(r#"{"event":"email.sent","id":"2"}"#));
    // Without an id, the bytes identify the delivery.
    let unnamed = key(r#"{"event":"email.sent"}"#);
    assert_eq!(unnamed, key(r#"{"event":"email.sent"}"#));
    assert_ne!(unnamed, key(r#"{"event":"email.sent" }"#));
    // An empty id counts as missing.
    let empty = key(r#"{"event":"email.opened","id":""}"#);
    assert_ne!(empty, key(r#"{"event":"email.opened","id":"","data":1}"#));
}

#[derive(Debug, thiserror::Error)]
#[error("down")]
pub(crate) struct StoreDown;

/// A store that always fails.
pub(crate) struct UnreachableStore;

impl DedupStore for UnreachableStore {
    fn claim<'a>(&'a self, _: &'a Ticket, _: Duration) -> StoreFuture<'a, Claim> {
        Box::pin(async { Err(StoreDown.into()) })
    }

    fn renew<'a>(&'a self, _: &'a Ticket, _: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async { Err(StoreDown.into()) })
    }

    fn complete<'a>(&'a self, _: &'a Ticket, _: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async { Err(StoreDown.into()) })
    }

    fn release<'a>(&'a self, _: &'a Ticket) -> StoreFuture<'a, ()> {
        Box::pin(async { Err(StoreDown.into()) })
    }

    fn forget<'a>(&'a self, _: &'a DeliveryKey) -> StoreFuture<'a, bool> {
        Box::pin(async { Err(StoreDown.into()) })
    }
}

#[tokio::test]
async fn does_not_run_the_handler_if_the_store_is_down() {
    let dedup = Dedup::new(UnreachableStore);
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    let must_not_run = async |_| -> Result<(), Infallible> { panic!("without a claim") };
    let result = dedup.run_once(delivery.clone(), must_not_run).await;
    let Err(DedupError::Store(error)) = result else { panic!("{result:?}") };
    assert!(error.is::<StoreDown>());
    assert!(dedup.forget(&delivery.key()).await.unwrap_err().is::<StoreDown>());
}

#[tokio::test]
async fn converts_into_axum_responses() {
    use axum::http::StatusCode;
    use axum::response::IntoResponse;

    let parts = |response: axum::response::Response| {
        let retry_after =
            response.headers().get("retry-after").map(|v| v.to_str().unwrap().to_owned());
        (response.status().as_u16(), retry_after)
    };
    let respond = |outcome: Outcome<StatusCode>| parts(outcome.into_response());
    assert_eq!(respond(Outcome::Handled(StatusCode::ACCEPTED)), (202, None));
    assert_eq!(respond(Outcome::Duplicate), (200, None));
    let in_flight = |millis| Outcome::InFlight { retry_after: Duration::from_millis(millis) };
    assert_eq!(respond(in_flight(0)), (503, Some("1".to_owned())));
    assert_eq!(respond(in_flight(1001)), (503, Some("2".to_owned())));
    let unlimited = Outcome::InFlight { retry_after: Duration::MAX };
    assert_eq!(respond(unlimited), (503, Some(u64::MAX.to_string())));
    let failed: DedupError<StatusCode> = DedupError::Handler(StatusCode::BAD_GATEWAY);
    assert_eq!(parts(failed.into_response()), (502, None));
    let down: DedupError<StatusCode> = DedupError::Store(StoreDown.into());
    assert_eq!(parts(down.into_response()), (503, Some("5".to_owned())));
}

#[test]
fn converts_into_actix_responses() {
    use actix_web::Responder;
    use actix_web::http::StatusCode;
    use actix_web::test::TestRequest;

    let respond = |result: Result<Outcome<StatusCode>, DedupError<actix_web::Error>>| {
        let response = result.respond_to(&TestRequest::default().to_http_request());
        let retry_after = response.headers().get("retry-after");
        (response.status().as_u16(), retry_after.map(|v| v.to_str().unwrap().to_owned()))
    };
    assert_eq!(respond(Ok(Outcome::Handled(StatusCode::ACCEPTED))), (202, None));
    let done: Result<_, DedupError<std::io::Error>> = Ok(Outcome::Handled(()));
    let response = done.respond_to(&TestRequest::default().to_http_request());
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert_eq!(respond(Ok(Outcome::Duplicate)), (200, None));
    let in_flight = Outcome::InFlight { retry_after: Duration::from_millis(1001) };
    assert_eq!(respond(Ok(in_flight)), (503, Some("2".to_owned())));
    let failed = DedupError::Handler(actix_web::error::ErrorBadGateway(""));
    assert_eq!(respond(Err(failed)), (502, None));
    assert_eq!(respond(Err(DedupError::Store(StoreDown.into()))), (503, Some("5".to_owned())));
}

#[test]
fn converts_into_lambda_responses() {
    use webhook_verify::LambdaResponse;

    let respond = |outcome: Outcome<LambdaResponse>| LambdaResponse::from(outcome);
    assert_eq!(respond(Outcome::Handled(LambdaResponse::new(202))), LambdaResponse::new(202));
    assert_eq!(respond(Outcome::Duplicate), LambdaResponse::new(200));
    let unavailable = |seconds| LambdaResponse::new(503).header("retry-after", seconds);
    let in_flight = Outcome::InFlight { retry_after: Duration::from_millis(1001) };
    assert_eq!(respond(in_flight), unavailable("2"));
    let failed: DedupError<LambdaResponse> = DedupError::Handler(LambdaResponse::new(502));
    assert_eq!(LambdaResponse::from(failed), LambdaResponse::new(502));
    let down: DedupError<LambdaResponse> = DedupError::Store(StoreDown.into());
    assert_eq!(LambdaResponse::from(down), unavailable("5"));
}

mod tower_layer {
    use bytes::Bytes;
    use http::{Request, Response, StatusCode};
    use http_body_util::Full;
    use tower::{Service as _, ServiceBuilder, ServiceExt as _};
    use webhook_verify::VerifyLayer;
    use webhook_verify::dedup::DedupLayer;

    use super::*;
    use crate::http::{BODY, receiver, signature};

    fn request() -> Request<Full<Bytes>> {
        let body = Full::new(Bytes::from_static(BODY.as_bytes()));
        Request::post("/").header("x-service-signature", signature(BODY)).body(body).unwrap()
    }

    #[tokio::test]
    async fn only_a_2xx_response_completes_a_delivery() {
        let statuses = Arc::new(std::sync::Mutex::new(vec![202, 500, 404, 302]));
        let inner = tower::service_fn(move |_: Request<Full<Bytes>>| {
            let status = statuses.lock().unwrap().pop().expect("not called after completion");
            let response = Response::builder().status(status).body(Full::<Bytes>::default());
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        let mut service = ServiceBuilder::new()
            .layer(VerifyLayer::new(receiver()))
            .layer(DedupLayer::new(Dedup::new(MemoryStore::new())))
            .service(inner);
        for status in [302, 404, 500, 202, 200, 200] {
            let response = service.call(request()).await.unwrap();
            assert_eq!(response.status().as_u16(), status);
        }
    }

    #[tokio::test]
    async fn responds_503_to_a_delivery_in_flight() {
        let gate = Arc::new(tokio::sync::Notify::new());
        let started = Arc::new(tokio::sync::Notify::new());
        let (opened, begun) = (gate.clone(), started.clone());
        let service = ServiceBuilder::new()
            .layer(VerifyLayer::new(receiver()))
            .layer(DedupLayer::new(Dedup::new(MemoryStore::new())))
            .service_fn(move |_: Request<Full<Bytes>>| {
                let (gate, started) = (gate.clone(), started.clone());
                async move {
                    started.notify_one();
                    gate.notified().await;
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
                }
            });
        let first = tokio::spawn(service.clone().oneshot(request()));
        begun.notified().await;
        let second = service.oneshot(request()).await.unwrap();
        assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(second.headers()["retry-after"], "30");
        opened.notify_one();
        assert_eq!(first.await.unwrap().unwrap().status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn responds_500_outside_of_the_verify_layer() {
        let service = ServiceBuilder::new()
            .layer(DedupLayer::new(Dedup::new(MemoryStore::new())))
            .service_fn(|_: Request<Full<Bytes>>| async {
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
            });
        let response = service.oneshot(request()).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
