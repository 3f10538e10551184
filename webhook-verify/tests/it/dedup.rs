//! Three states: new, in flight, done; with the store in memory.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use webhook_verify::dedup::{Claim, Dedup, DedupStore, MemoryStore, Once, OnceError};
use webhook_verify::{Delivery, Mail, MailSigner, MailVerifier, Secret};

pub(crate) fn delivery(body: &str) -> Delivery<Mail, &str> {
    let secret = Secret::new("whsec_77").unwrap();
    let signature = MailSigner::new(&secret).sign(body);
    let verified = MailVerifier::new(secret).verify_signature(&signature, body).unwrap();
    verified.into_delivery().unwrap()
}

/// A clock of seconds that the test moves, and a store that goes by it.
fn store() -> (Arc<AtomicU64>, MemoryStore) {
    let now = Arc::new(AtomicU64::new(0));
    let clock = now.clone();
    let store = MemoryStore::with_clock(move || Duration::from_secs(clock.load(Ordering::Relaxed)));
    (now, store)
}

const LEASE: Duration = Duration::from_secs(60);
const KEEP: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_lease_ends_and_so_does_the_memory() {
    let (now, store) = store();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let claim = async || store.claim(&key, LEASE).await.unwrap();

    let Claim::New(first) = claim().await else { panic!("new") };
    now.store(59, Ordering::Relaxed);
    assert_eq!(claim().await, Claim::InFlight { retry_after: Duration::from_secs(1) });
    now.store(60, Ordering::Relaxed);
    let Claim::New(second) = claim().await else { panic!("the lease has ended") };
    assert_ne!(first, second);

    // The first holder comes back too late and changes nothing.
    store.release(&first).await.unwrap();
    assert!(!store.complete(&first, KEEP).await.unwrap());
    assert!(matches!(claim().await, Claim::InFlight { .. }));

    assert!(store.complete(&second, KEEP).await.unwrap());
    now.store(659, Ordering::Relaxed);
    assert_eq!(claim().await, Claim::Done);
    now.store(660, Ordering::Relaxed);
    assert!(matches!(claim().await, Claim::New(_)));
}

#[tokio::test]
async fn leases_and_memories_that_never_end() {
    let (now, store) = store();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let claim = async || store.claim(&key, Duration::MAX).await.unwrap();
    now.store(1, Ordering::Relaxed);
    let Claim::New(ticket) = claim().await else { panic!("new") };
    now.store(u64::MAX - 1, Ordering::Relaxed);
    assert!(matches!(claim().await, Claim::InFlight { .. }));
    assert!(store.complete(&ticket, Duration::MAX).await.unwrap());
    assert_eq!(claim().await, Claim::Done);
}

#[tokio::test]
async fn work_that_outlives_its_lease_still_counts() {
    let (now, store) = store();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let Claim::New(ticket) = store.claim(&key, LEASE).await.unwrap() else { panic!("new") };
    now.store(1000, Ordering::Relaxed);
    assert!(store.complete(&ticket, KEEP).await.unwrap(), "nobody else has claimed it");
    assert_eq!(store.claim(&key, LEASE).await.unwrap(), Claim::Done);
}

/// As in Redis, which forgets a claim when its lease ends.
#[tokio::test]
async fn a_claim_whose_lease_has_ended_is_in_nobodys_way() {
    let (now, store) = store();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let claim = async || store.claim(&key, LEASE).await.unwrap();
    let Claim::New(first) = claim().await else { panic!("new") };
    now.store(60, Ordering::Relaxed);
    let Claim::New(crashed) = claim().await else { panic!("the lease has ended") };
    now.store(120, Ordering::Relaxed);
    assert!(store.complete(&first, KEEP).await.unwrap());
    assert_eq!(claim().await, Claim::Done);
    // One that comes back to life undoes nothing.
    store.release(&crashed).await.unwrap();
    assert_eq!(claim().await, Claim::Done);
    assert!(store.complete(&crashed, KEEP).await.unwrap(), "it is done, and stays so");
}

#[tokio::test]
async fn a_handler_that_fails_gets_the_next_try() {
    let dedup = Dedup::new(MemoryStore::new());
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    let failed = dedup.once(&delivery, async { Err::<(), _>("no disk") }).await;
    assert!(matches!(failed, Err(OnceError::Handler("no disk"))));
    let handled = dedup.once(&delivery, async { Ok::<_, Infallible>(7) }).await.unwrap();
    assert_eq!(handled, Once::Handled(7));
    let again = dedup.once(&delivery, async { Err::<u8, _>("never runs") }).await.unwrap();
    assert_eq!(again, Once::Repeated);
}

/// A crash or a sender that hangs up leaves the claim. Three retries, 2 s, 8 s
/// and 32 s after the attempt before, must not all fall into the lease.
#[tokio::test]
async fn a_handler_that_never_ends_loses_nothing() {
    let (now, store) = store();
    let dedup = Dedup::new(store);
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    let hangs = dedup.once(&delivery, std::future::pending::<Result<(), Infallible>>());
    assert!(tokio::time::timeout(Duration::ZERO, hangs).await.is_err());

    let mut handled = Vec::new();
    for retry in [2, 10, 42] {
        now.store(retry, Ordering::Relaxed);
        let once = dedup.once(&delivery, async { Ok::<_, Infallible>(()) }).await.unwrap();
        handled.push(once == Once::Handled(()));
    }
    assert_eq!(handled, [false, false, true]);
}

#[tokio::test]
async fn a_lease_and_a_memory_of_ones_own() {
    let (now, store) = store();
    let dedup = Dedup::new(store).lease(Duration::from_secs(5)).keep(Duration::from_secs(100));
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    let hangs = dedup.once(&delivery, std::future::pending::<Result<(), Infallible>>());
    assert!(tokio::time::timeout(Duration::ZERO, hangs).await.is_err());
    for (at, once) in [
        (4, Once::InFlight { retry_after: Duration::from_secs(1) }),
        (5, Once::Handled(())),
        (104, Once::Repeated),
        (105, Once::Handled(())),
    ] {
        now.store(at, Ordering::Relaxed);
        let handle = async { Ok::<_, Infallible>(()) };
        assert_eq!(dedup.once(&delivery, handle).await.unwrap(), once, "at {at} s");
    }
}

#[tokio::test]
async fn what_is_done_is_remembered_for_three_days() {
    let (now, store) = store();
    let dedup = Dedup::new(store);
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    let once = async || dedup.once(&delivery, async { Ok::<_, Infallible>(()) }).await.unwrap();
    let days = 3 * 24 * 60 * 60;
    for (at, said) in
        [(0, Once::Handled(())), (days - 1, Once::Repeated), (days, Once::Handled(()))]
    {
        now.store(at, Ordering::Relaxed);
        assert_eq!(once().await, said, "at {at} s");
    }
}

#[tokio::test]
async fn one_of_many_at_once() {
    let dedup = Dedup::new(MemoryStore::new());
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    let outer = dedup.once(&delivery, async {
        let inner = dedup.once(&delivery, async { Ok::<_, Infallible>(()) }).await.unwrap();
        let Once::InFlight { retry_after } = inner else { panic!("{inner:?}") };
        assert!(retry_after <= LEASE / 2 && retry_after > LEASE / 4);
        Ok::<_, Infallible>(())
    });
    assert_eq!(outer.await.unwrap(), Once::Handled(()));
}

/// Threads that all want it at the same moment: one gets it, each time anew.
#[test]
fn of_many_threads_one_gets_it() {
    const THREADS: usize = 4;
    let store = MemoryStore::new();
    let key = delivery(r#"{"event":"email.sent","id":"1"}"#).key();
    let barrier = std::sync::Barrier::new(THREADS);
    let taken = AtomicU64::new(0);
    let race = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..500 {
            barrier.wait();
            let claim = runtime.block_on(store.claim(&key, LEASE)).unwrap();
            // Nobody gives it back before all have asked.
            barrier.wait();
            if let Claim::New(ticket) = claim {
                taken.fetch_add(1, Ordering::Relaxed);
                runtime.block_on(store.release(&ticket)).unwrap();
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(race))));
    assert_eq!(taken.load(Ordering::Relaxed), 500);
}

#[tokio::test]
async fn what_tells_deliveries_apart() {
    let key = |body| delivery(body).key();
    let first = key(r#"{"event":"email.sent","id":"1"}"#);
    // Event and id, whatever else is in the body.
    assert_eq!(first, key(r#"{"id":"1","event":"email.sent","attempt":2}"#));
    // The documents do not say that the email service's id is not the email's.
    assert_ne!(first, key(r#"{"event":"email.opened","id":"1"}"#));
    assert_ne!(first, key(r#"{"event":"email.sent","id":"2"}"#));
    // Without an id the bytes.
    let unnamed = key(r#"{"event":"email.sent"}"#);
    assert_eq!(unnamed, key(r#"{"event":"email.sent"}"#));
    assert_ne!(unnamed, key(r#"{"event":"email.sent" }"#));
    // One that is empty is none.
    let empty = key(r#"{"event":"email.opened","id":""}"#);
    assert_ne!(empty, key(r#"{"event":"email.opened","id":"","data":1}"#));
}

#[derive(Debug, thiserror::Error)]
#[error("down")]
pub(crate) struct Down;

/// A store that cannot be reached.
pub(crate) struct Unreachable;

impl DedupStore for Unreachable {
    type Error = Down;

    async fn claim(&self, _: &webhook_verify::DeliveryKey, _: Duration) -> Result<Claim, Down> {
        Err(Down)
    }

    async fn complete(&self, _: &webhook_verify::dedup::Ticket, _: Duration) -> Result<bool, Down> {
        Err(Down)
    }

    async fn release(&self, _: &webhook_verify::dedup::Ticket) -> Result<(), Down> {
        Err(Down)
    }
}

#[tokio::test]
async fn nothing_is_handled_when_the_store_is_down() {
    let dedup = Dedup::new(Unreachable);
    let delivery = delivery(r#"{"event":"email.sent","id":"1"}"#);
    let mut handled = false;
    let answer = dedup.once(&delivery, async {
        handled = true;
        Ok::<(), Infallible>(())
    });
    assert!(matches!(answer.await, Err(OnceError::Store(Down))));
    assert!(!handled);
}

#[tokio::test]
async fn as_answers_of_axum() {
    use axum::http::StatusCode;
    use axum::response::IntoResponse;

    let answer = |response: axum::response::Response| {
        let retry_after =
            response.headers().get("retry-after").map(|v| v.to_str().unwrap().to_owned());
        (response.status().as_u16(), retry_after)
    };
    let of = |once: Once<StatusCode>| answer(once.into_response());
    assert_eq!(of(Once::Handled(StatusCode::ACCEPTED)), (202, None));
    assert_eq!(of(Once::Repeated), (200, None));
    let in_flight = |millis| Once::InFlight { retry_after: Duration::from_millis(millis) };
    assert_eq!(of(in_flight(0)), (503, Some("1".to_owned())));
    assert_eq!(of(in_flight(1001)), (503, Some("2".to_owned())));
    let for_ever = Once::InFlight { retry_after: Duration::MAX };
    assert_eq!(of(for_ever), (503, Some(u64::MAX.to_string())));
    let failed: OnceError<StatusCode, Down> = OnceError::Handler(StatusCode::BAD_GATEWAY);
    assert_eq!(answer(failed.into_response()), (502, None));
    let down: OnceError<StatusCode, Down> = OnceError::Store(Down);
    assert_eq!(answer(down.into_response()), (503, Some("5".to_owned())));
}

#[test]
fn as_answers_of_actix() {
    use actix_web::test::TestRequest;
    use actix_web::{HttpResponse, Responder};

    let answer = |result: Result<Once<HttpResponse>, OnceError<actix_web::Error, Down>>| {
        let answer = result.respond_to(&TestRequest::default().to_http_request());
        let retry_after = answer.headers().get("retry-after");
        (answer.status().as_u16(), retry_after.map(|v| v.to_str().unwrap().to_owned()))
    };
    assert_eq!(answer(Ok(Once::Handled(HttpResponse::Accepted().finish()))), (202, None));
    assert_eq!(answer(Ok(Once::Repeated)), (200, None));
    let in_flight = Once::InFlight { retry_after: Duration::from_millis(1001) };
    assert_eq!(answer(Ok(in_flight)), (503, Some("2".to_owned())));
    let failed = OnceError::Handler(actix_web::error::ErrorBadGateway(""));
    assert_eq!(answer(Err(failed)), (502, None));
    assert_eq!(answer(Err(OnceError::Store(Down))), (503, Some("5".to_owned())));
}

#[test]
fn as_answers_of_lambda() {
    use webhook_verify::LambdaResponse;

    let of = |once: Once<LambdaResponse>| LambdaResponse::from(once);
    assert_eq!(of(Once::Handled(LambdaResponse::new(202))), LambdaResponse::new(202));
    assert_eq!(of(Once::Repeated), LambdaResponse::new(200));
    let unavailable = |seconds| LambdaResponse::new(503).header("retry-after", seconds);
    let in_flight = Once::InFlight { retry_after: Duration::from_millis(1001) };
    assert_eq!(of(in_flight), unavailable("2"));
    let failed: OnceError<LambdaResponse, Down> = OnceError::Handler(LambdaResponse::new(502));
    assert_eq!(LambdaResponse::from(failed), LambdaResponse::new(502));
    let down: OnceError<LambdaResponse, Down> = OnceError::Store(Down);
    assert_eq!(LambdaResponse::from(down), unavailable("5"));
}

mod layer {
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
    async fn any_answer_but_2xx_releases() {
        let answers = Arc::new(std::sync::Mutex::new(vec![202, 500, 404, 302]));
        let inner = tower::service_fn(move |_: Request<Full<Bytes>>| {
            let status = answers.lock().unwrap().pop().expect("called until it is done");
            let answer = Response::builder().status(status).body(Full::<Bytes>::default());
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        let mut service = ServiceBuilder::new()
            .layer(VerifyLayer::new(receiver()))
            .layer(DedupLayer::new(Dedup::new(MemoryStore::new())))
            .service(inner);
        for status in [302, 404, 500, 202, 200, 200] {
            let answer = service.call(request()).await.unwrap();
            assert_eq!(answer.status().as_u16(), status);
        }
    }

    #[tokio::test]
    async fn one_that_is_under_way_is_answered_503() {
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
    async fn outside_of_the_verify_layer_nothing_comes_through() {
        let service = ServiceBuilder::new()
            .layer(DedupLayer::new(Dedup::new(MemoryStore::new())))
            .service_fn(|_: Request<Full<Bytes>>| async {
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
            });
        let answer = service.oneshot(request()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
