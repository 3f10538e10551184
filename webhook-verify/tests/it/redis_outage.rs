//! The Redis store while Redis is stopped, restarted or paused.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use webhook_verify::dedup::{Dedup, DedupError, Outcome, RedisStore};

use crate::dedup::delivery;
use crate::redis::Server;

const BODY: &str = r#"{"event":"email.sent","id":"1"}"#;
/// Longer than the tests, so that no lease ends.
const LEASE: Duration = Duration::from_secs(3600);
/// The store timeout is 500 ms. The rest is for a busy machine.
const SOON: Duration = Duration::from_secs(4);

type Handled = Result<Outcome<&'static str>, DedupError<Infallible>>;

async fn once(dedup: &Dedup) -> Handled {
    dedup.run_once(delivery(BODY), async |_| Ok::<_, Infallible>("handled")).await
}

/// The store failed, and the sender did not wait long for it.
async fn assert_unavailable(dedup: &Dedup) {
    let started = Instant::now();
    let result = once(dedup).await;
    assert!(matches!(result, Err(DedupError::Store(_))), "{result:?}");
    assert!(started.elapsed() < SOON, "a claim took {:?}", started.elapsed());
}

/// Waits until the delivery is handled, while the store comes back.
async fn handled(dedup: &Dedup) {
    let started = Instant::now();
    loop {
        match once(dedup).await {
            Ok(Outcome::Handled(_)) => return,
            other => assert!(started.elapsed() < Duration::from_secs(20), "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_receiver_comes_back_with_redis() {
    let Some(mut server) = Server::start().await else { return };
    let dedup = Dedup::new(RedisStore::new(server.client()).unwrap()).lease(LEASE);
    assert_eq!(once(&dedup).await.unwrap(), Outcome::Handled("handled"));
    assert_eq!(once(&dedup).await.unwrap(), Outcome::Duplicate);

    server.stop().await;
    for _ in 0..3 {
        assert_unavailable(&dedup).await;
    }
    server.restart().await;
    handled(&dedup).await;
    assert_eq!(once(&dedup).await.unwrap(), Outcome::Duplicate);
}

#[tokio::test]
async fn a_receiver_starts_before_redis() {
    let Some(mut server) = Server::start().await else { return };
    server.stop().await;
    let dedup = Dedup::new(RedisStore::new(server.client()).unwrap()).lease(LEASE);
    assert_unavailable(&dedup).await;
    server.restart().await;
    handled(&dedup).await;
}

/// Redis executes the claim after the receiver has stopped waiting for it.
#[tokio::test]
async fn a_claim_that_is_executed_too_late_is_released() {
    let Some(server) = Server::start().await else { return };
    let dedup = Dedup::new(RedisStore::new(server.client()).unwrap())
        .lease(LEASE)
        .store_timeout(Duration::from_millis(100));
    // Connected before the pause.
    assert!(!dedup.forget(&delivery(BODY).key()).await.unwrap());

    server.signal("STOP").await;
    assert_unavailable(&dedup).await;
    server.signal("CONT").await;
    handled(&dedup).await;
}

/// The handler's success is not turned into an error if completing the claim fails, and
/// the delivery is marked as done once Redis is back.
#[tokio::test]
async fn a_delivery_is_completed_after_an_outage() {
    let Some(mut server) = Server::start().await else { return };
    let dedup = Dedup::new(RedisStore::new(server.client()).unwrap()).lease(LEASE);
    assert!(!dedup.forget(&delivery(BODY).key()).await.unwrap());
    let (stop, stopped) = (tokio::sync::oneshot::channel::<()>(), tokio::sync::oneshot::channel());
    let (started, resume) = (stop.0, stopped.1);
    let first = dedup.run_once(delivery(BODY), async move |_| {
        started.send(()).unwrap();
        resume.await.unwrap();
        Ok::<_, Infallible>("handled")
    });
    let outage = async {
        stop.1.await.unwrap();
        server.stop().await;
        stopped.0.send(()).unwrap();
    };
    let (first, ()) = tokio::join!(first, outage);
    assert_eq!(first.unwrap(), Outcome::Handled("handled"));

    server.restart().await;
    let mut connection = server.connection().await;
    let started = Instant::now();
    loop {
        let state: Option<String> = redis::cmd("GET")
            .arg("webhook:mail:email.sent:id:1")
            .query_async(&mut connection)
            .await
            .unwrap();
        if state.as_deref() == Some("done") {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{state:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
