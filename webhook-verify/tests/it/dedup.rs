//! De-duplication with the store in memory, and its responses in each framework.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{advance, sleep};
use webhook_verify::chrono::{DateTime, Utc};
use webhook_verify::dedup::{
    Claim, Dedup, DedupError, DedupStore, MemoryStore, RunOnce, StoreFuture, Ticket,
};
use webhook_verify::{BoxError, Delivery, Receiver, Service, Signature, Verifier};

use crate::receivers::secret;

pub(crate) fn delivery(body: &str) -> Delivery {
    let signature = Signature::sign(Service::Email, &secret("x"), body);
    Verifier::email(secret("x"))
        .verify_signature(&signature, body.to_owned())
        .unwrap()
}

pub(crate) const BODY: &str = r#"{"event":"email.sent","id":"1"}"#;
const LEASE: Duration = Duration::from_secs(30);

async fn handle(_: Delivery) -> Result<(), Infallible> {
    Ok(())
}

pub(crate) async fn claim(store: &dyn DedupStore, key: &str, lease: Duration) -> (Ticket, Claim) {
    let ticket = Ticket::new(key);
    let claim = store.claim(&ticket, lease).await.unwrap();
    (ticket, claim)
}

/// Every store keeps these rules. `wait` lets time pass.
pub(crate) async fn check_store(store: &dyn DedupStore, wait: impl AsyncFn(Duration)) {
    let lease = Duration::from_millis(400);
    let long = Duration::from_secs(3600);
    let (first, claimed) = claim(store, "k", lease).await;
    assert_eq!(claimed, Claim::New);
    assert_eq!(
        store.claim(&first, lease).await.unwrap(),
        Claim::New,
        "it owns the delivery"
    );

    let (_, other) = claim(store, "k", lease).await;
    assert!(
        matches!(other, Claim::InFlight { retry_after } if retry_after <= lease),
        "{other:?}"
    );
    assert_eq!(claim(store, "another", lease).await.1, Claim::New);

    // A renewed lease ends later; an ended one can be claimed by another ticket.
    wait(Duration::from_millis(300)).await;
    assert!(store.renew(&first, lease).await.unwrap());

    wait(Duration::from_millis(300)).await;
    assert!(matches!(
        claim(store, "k", lease).await.1,
        Claim::InFlight { .. }
    ));

    wait(Duration::from_millis(200)).await;
    let (second, claimed) = claim(store, "k", long).await;
    assert_eq!(claimed, Claim::New);

    store.release(&first).await.unwrap();
    assert!(!store.renew(&first, lease).await.unwrap());
    assert!(!store.complete(&first, long).await.unwrap());
    assert!(!store.forget("k").await.unwrap(), "it is in flight");

    // Released, it is new again; done, it stays done until it is forgotten or forgotten about.
    store.release(&second).await.unwrap();
    let (third, claimed) = claim(store, "k", lease).await;
    assert_eq!(claimed, Claim::New);
    assert!(store.complete(&third, long).await.unwrap());
    assert!(store.complete(&third, long).await.unwrap(), "again");
    assert!(!store.renew(&third, lease).await.unwrap());

    store.release(&third).await.unwrap();
    assert_eq!(claim(store, "k", lease).await.1, Claim::Done);
    assert!(store.forget("k").await.unwrap());
    assert!(!store.forget("k").await.unwrap());

    let (fourth, claimed) = claim(store, "k", Duration::MAX).await;
    assert_eq!(claimed, Claim::New);
    assert!(store.complete(&fourth, lease).await.unwrap());

    wait(Duration::from_millis(500)).await;
    assert_eq!(claim(store, "k", lease).await.1, Claim::New);
}

#[tokio::test(start_paused = true)]
async fn the_store_in_memory_keeps_the_rules() {
    check_store(&MemoryStore::new(), advance).await;
}

#[tokio::test]
async fn a_delivery_is_handled_once() {
    let dedup = Dedup::in_memory();
    let failed = dedup
        .run_once(delivery(BODY), async |_| Err::<(), _>("no disk"))
        .await;
    assert!(matches!(failed, Err(DedupError::Handler("no disk"))));

    let handled = dedup
        .run_once(delivery(BODY), async |_| Ok::<_, Infallible>(7))
        .await;
    assert_eq!(handled.unwrap(), RunOnce::Handled(7));

    let again = dedup
        .run_once(delivery(BODY), async |_| Err::<u8, _>("must not run"))
        .await;
    assert_eq!(again.unwrap(), RunOnce::Duplicate);

    // Other events and ids are other deliveries; without an id, the bytes are.
    for other in [
        r#"{"event":"email.opened","id":"1"}"#,
        r#"{"event":"email.sent","id":"2"}"#,
        r#"{"event":"email.sent"}"#,
        r#"{"event":"email.sent" }"#,
        r#"{"event":"email.sent","id":""}"#,
    ] {
        assert_eq!(
            dedup.run_once(delivery(other), handle).await.unwrap(),
            RunOnce::Handled(())
        );
        assert_eq!(
            dedup.run_once(delivery(other), handle).await.unwrap(),
            RunOnce::Duplicate
        );
    }

    // Scopes are apart.
    let billing = dedup.namespace("billing");
    assert_eq!(
        billing.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Handled(())
    );
    assert!(dedup.forget(delivery(BODY).key()).await.unwrap());
    assert_eq!(
        billing.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Duplicate
    );
    assert_eq!(
        dedup.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Handled(())
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_keeps_its_claim_until_it_ends() {
    let dedup = Dedup::in_memory();
    let slow = dedup.run_once(delivery(BODY), async |_| {
        sleep(10 * LEASE).await;
        Ok::<_, Infallible>(())
    });
    let retries = async {
        for _ in 0..9 {
            sleep(LEASE).await;
            let outcome = dedup.run_once(delivery(BODY), handle).await.unwrap();
            assert!(matches!(outcome, RunOnce::InFlight { retry_after } if retry_after <= LEASE));
        }
    };
    assert_eq!(tokio::join!(slow, retries).0.unwrap(), RunOnce::Handled(()));
    assert_eq!(
        dedup.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Duplicate
    );

    // Three days later it is not remembered any more.
    sleep(Duration::from_secs(3 * 24 * 60 * 60 + 1)).await;
    assert_eq!(
        dedup.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Handled(())
    );
}

/// Servers drop a handler whose sender has disconnected.
#[tokio::test(start_paused = true)]
async fn a_handler_finishes_after_its_sender_has_disconnected() {
    let dedup = Dedup::in_memory();
    let done = Arc::new(AtomicUsize::new(0));
    let counter = done.clone();
    let call = dedup.run_once(delivery(BODY), async move |_| {
        sleep(Duration::from_secs(11)).await;
        counter.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(())
    });
    assert!(
        tokio::time::timeout(Duration::from_secs(10), call)
            .await
            .is_err()
    );
    assert_eq!(done.load(Ordering::Relaxed), 0);

    dedup.idle().await;
    assert_eq!(done.load(Ordering::Relaxed), 1);
    assert_eq!(
        dedup.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Duplicate
    );
}

/// A crash leaves the claim. Of three retries, 2 s, 8 s and 32 s after the attempt before, one must
/// be after the lease.
#[tokio::test(start_paused = true)]
async fn an_abandoned_delivery_is_handled_before_the_last_retry() {
    let store = Arc::new(MemoryStore::new());
    let dedup = Dedup::new(store.clone());
    assert_eq!(
        claim(&*store, delivery(BODY).key(), LEASE).await.1,
        Claim::New
    );

    let mut handled = Vec::new();
    for wait in [2, 8, 32] {
        advance(Duration::from_secs(wait)).await;
        let outcome = dedup.run_once(delivery(BODY), handle).await.unwrap();
        handled.push(outcome == RunOnce::Handled(()));
    }

    assert_eq!(handled, [false, false, true]);
}

#[tokio::test]
async fn a_panic_releases_the_delivery_and_goes_on() {
    let dedup = Dedup::in_memory();
    let again = dedup.clone();
    let panics = async |_| -> Result<(), Infallible> { panic!("defect") };
    let panicked = tokio::spawn(async move { again.run_once(delivery(BODY), panics).await });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(
        dedup.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Handled(())
    );
}

/// A replay that a receiver would accept is remembered.
#[tokio::test(start_paused = true)]
async fn a_delivery_is_remembered_as_long_as_it_is_accepted() {
    let week = Duration::from_secs(7 * 24 * 60 * 60);
    let start = "2026-03-01T00:00:00Z".parse::<DateTime<Utc>>().unwrap();
    let began = tokio::time::Instant::now();
    let receiver = Receiver::new(Verifier::email(secret("x")))
        .max_age(week)
        .clock(move || start + began.elapsed());
    let body = r#"{"event":"email.sent","id":"1","created":"2026-03-01T00:04:00Z"}"#;
    let signature = Signature::sign(Service::Email, &secret("x"), body).to_string();
    let dedup = Dedup::in_memory().retention(Duration::from_secs(1));
    let receive = async || {
        let headers = [("mail-signature", signature.as_bytes())];
        let delivery = receiver
            .receive_parts(headers, "/", None, body)
            .await
            .ok()?;
        Some(dedup.run_once(delivery, handle).await.unwrap())
    };

    assert_eq!(receive().await, Some(RunOnce::Handled(())));

    for _ in 0..7 {
        sleep(Duration::from_secs(24 * 60 * 60)).await;
        assert_eq!(receive().await, Some(RunOnce::Duplicate));
    }

    sleep(Duration::from_secs(5 * 60)).await;
    assert_eq!(receive().await, None, "too old");
}

/// A store whose operations fail, or do not return, from a number of calls on.
#[derive(Default)]
pub(crate) struct FailingStore {
    pub(crate) store: MemoryStore,
    pub(crate) works_for: AtomicUsize,
    pub(crate) hangs: bool,
}

impl FailingStore {
    async fn check(&self) -> Result<(), BoxError> {
        let works = |calls: usize| calls.checked_sub(1);
        if self
            .works_for
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, works)
            .is_ok()
        {
            return Ok(());
        }
        if self.hangs {
            pending().await
        } else {
            Err("down".into())
        }
    }
}

macro_rules! failing {
    ($($name:ident($($arg:ident: $type:ty),*) -> $output:ty;)+) => {$(
        fn $name<'a>(&'a self, $($arg: $type),*) -> StoreFuture<'a, $output> {
            Box::pin(async move {
                self.check().await?;
                self.store.$name($($arg),*).await
            })
        }
    )+};
}

impl DedupStore for FailingStore {
    failing! {
        claim(ticket: &'a Ticket, lease: Duration) -> Claim;
        renew(ticket: &'a Ticket, lease: Duration) -> bool;
        complete(ticket: &'a Ticket, retention: Duration) -> bool;
        release(ticket: &'a Ticket) -> ();
        forget(key: &'a str) -> bool;
    }
}

#[tokio::test(start_paused = true)]
async fn the_handler_does_not_run_without_a_claim() {
    for hangs in [false, true] {
        let dedup = Dedup::new(Arc::new(FailingStore {
            hangs,
            ..FailingStore::default()
        }));
        let must_not_run = async |_| -> Result<(), Infallible> { panic!("without a claim") };
        let result = dedup.run_once(delivery(BODY), must_not_run).await;
        let Err(DedupError::Store(error)) = result else {
            panic!("{result:?}")
        };
        let expected = if hangs {
            "no response within 2000 ms"
        } else {
            "down"
        };
        assert_eq!(error.to_string(), expected);
        assert_eq!(dedup.forget("k").await.unwrap_err().to_string(), expected);
    }
}

/// The handler has run: the sender must not repeat it because the store failed for a moment.
#[tokio::test(start_paused = true)]
async fn a_claim_is_completed_when_the_store_is_back() {
    let store = Arc::new(FailingStore {
        works_for: 1.into(),
        ..FailingStore::default()
    });
    let dedup = Dedup::new(store.clone());
    assert_eq!(
        dedup.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Handled(())
    );

    store.works_for.store(usize::MAX, Ordering::SeqCst);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        dedup.run_once(delivery(BODY), handle).await.unwrap(),
        RunOnce::Duplicate
    );
}

#[test]
fn only_one_thread_gets_the_claim() {
    const THREADS: usize = 4;

    let store = MemoryStore::new();
    let barrier = std::sync::Barrier::new(THREADS);
    let claimed = AtomicUsize::new(0);
    let race = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        for _ in 0..500 {
            barrier.wait();
            let (ticket, claim) = runtime.block_on(claim(&store, "k", LEASE));
            // Released only after every thread has tried.
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

#[test]
fn results_are_responses_of_axum_and_actix() {
    use actix_web::Responder as _;
    use actix_web::test::TestRequest;
    use axum::response::IntoResponse as _;

    fn results<T>(accepted: T) -> [(RunOnce<T>, u16, Option<&'static str>); 3] {
        let in_flight = RunOnce::InFlight {
            retry_after: Duration::from_millis(1001),
        };
        [
            (RunOnce::Handled(accepted), 202, None),
            (RunOnce::Duplicate, 200, None),
            (in_flight, 503, Some("2")),
        ]
    }

    for (outcome, status, retry_after) in results(http::StatusCode::ACCEPTED) {
        let response = outcome.into_response();
        let header = response
            .headers()
            .get("retry-after")
            .map(|value| value.to_str().unwrap());
        assert_eq!((response.status().as_u16(), header), (status, retry_after));
    }

    for (outcome, status, retry_after) in results(actix_web::http::StatusCode::ACCEPTED) {
        let response = outcome.respond_to(&TestRequest::default().to_http_request());
        let header = response
            .headers()
            .get("retry-after")
            .map(|value| value.to_str().unwrap());
        assert_eq!((response.status().as_u16(), header), (status, retry_after));
    }

    let failed = DedupError::Handler(http::StatusCode::BAD_GATEWAY).into_response();
    assert_eq!(failed.status().as_u16(), 502);

    let down = DedupError::<http::StatusCode>::Store("down".into()).into_response();
    assert_eq!(down.status().as_u16(), 503);
    assert_eq!(down.headers()["retry-after"], "5");

    let down = actix_web::Error::from(DedupError::<std::io::Error>::Store("down".into()));
    assert_eq!(down.error_response().status().as_u16(), 503);
}
