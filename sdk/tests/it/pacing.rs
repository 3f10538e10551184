//! A service that limits the request rate: no email is lost, and none is sent twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use svc_sdk::email::Email;
use svc_sdk::{EmailClient, ErrorKind, Operation, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::clock::{Clock, wait_until};
use crate::mock_server::{MockServer, read_request, response, response_with_headers};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A server that accepts `per_second` requests in each second of tokio's clock.
struct LimitedServer {
    url: String,
    received: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
}

impl LimitedServer {
    async fn start(per_second: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::<AtomicUsize>::default();
        let accepted = Arc::<AtomicUsize>::default();
        let server = Self {
            url,
            received: Arc::clone(&received),
            accepted: Arc::clone(&accepted),
        };
        let window = Arc::new(Mutex::new((Instant::now(), 0)));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let received = Arc::clone(&received);
                let accepted = Arc::clone(&accepted);
                let window = Arc::clone(&window);
                tokio::spawn(async move {
                    let mut buffer = Vec::new();
                    while read_request(&mut stream, &mut buffer).await.is_some() {
                        received.fetch_add(1, Ordering::SeqCst);
                        let is_accepted = {
                            let mut window = window.lock().unwrap();
                            if window.0.elapsed() >= ms(1_000) {
                                *window = (Instant::now(), 0);
                            }
                            window.1 += 1;
                            window.1 <= per_second
                        };
                        let response = if is_accepted {
                            let id = accepted.fetch_add(1, Ordering::SeqCst);
                            response(202, &format!(r#"{{"id":"eml_{id}"}}"#))
                        } else {
                            response_with_headers(429, "Retry-After: 1\r\n", "")
                        };
                        if stream
                            .write_all(response.to_string().as_bytes())
                            .await
                            .is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        server
    }
}

#[tokio::test]
async fn three_hundred_sends_against_five_a_second_are_all_accepted() {
    let clock = Clock::pause();
    let server = LimitedServer::start(5).await;
    let client = EmailClient::builder(&server.url, "k")
        .no_proxy()
        .timeout(ms(120_000));
    let client = client.build().unwrap();
    let sends = tokio::spawn(async move {
        let send = |number| {
            let email = Email::new("a@b.test", format!("{number}@d.test"), "s");
            client.emails().send(&email).into_future()
        };
        let sends = stream::iter(0..300).map(send).buffer_unordered(300);
        sends
            .map_ok(|accepted| accepted.id)
            .collect::<Vec<_>>()
            .await
    });
    let start = Instant::now();
    while !sends.is_finished() {
        assert!(start.elapsed() < ms(121_000), "the sends do not end");
        clock.advance(ms(250)).await;
    }

    let results = sends.await.unwrap();
    let failures: Vec<_> = results
        .iter()
        .filter_map(|result| result.as_ref().err())
        .collect();
    assert!(
        failures.is_empty(),
        "{} of 300 failed, the first: {}",
        failures.len(),
        failures[0]
    );
    assert_eq!(server.accepted.load(Ordering::SeqCst), 300);

    // The service refuses few requests, because the calls wait together.
    let received = server.received.load(Ordering::SeqCst);
    assert!(received < 2_000, "{received} requests for 300 emails");
}

#[tokio::test]
async fn a_429_holds_back_all_clones() {
    let clock = Clock::pause();
    let server = MockServer::start([
        response_with_headers(429, "Retry-After: 10\r\n", ""),
        response(200, r#"{"id":"x"}"#),
    ])
    .await;
    let client = server.email().build().unwrap();
    let refused = client.emails().get("x").retries(0).await.unwrap_err();
    assert!(refused.is_rate_limited());

    let calls: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn(
                client
                    .clone()
                    .emails()
                    .get("x")
                    .with_response()
                    .into_future(),
            )
        })
        .collect();
    clock.advance(ms(9_900)).await;
    assert_eq!(server.request_count(), 1);

    clock.advance(ms(1_000)).await;
    for call in calls {
        wait_until("call finished", || call.is_finished()).await;
        assert_eq!(call.await.unwrap().unwrap().attempts, 1);
    }

    assert_eq!(server.request_count(), 4);
}

/// A call whose deadline is before the end of the pause fails at once and says why.
#[tokio::test]
async fn a_call_that_cannot_wait_for_the_pause_is_not_sent() {
    let _clock = Clock::pause();
    let server = MockServer::start([response_with_headers(429, "Retry-After: 10\r\n", "")]).await;
    let client = server.email().build().unwrap();
    client.emails().get("x").retries(0).await.unwrap_err();
    let error = client
        .emails()
        .get("x")
        .timeout(ms(5_000))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::RateLimited, Outcome::NotSent)
    );
    assert_eq!(
        (error.attempts(), error.retry_after()),
        (0, Some(ms(10_000)))
    );

    let text = error.to_string();
    assert!(
        text.contains("wait for longer than this call may take: for the pause"),
        "{text}"
    );
    assert!(error.is_retryable());
    assert_eq!(server.request_count(), 1);
}

/// However long the service asks for.
#[tokio::test]
async fn a_pause_is_at_most_as_long_as_the_client_waits() {
    let clock = Clock::pause();
    let forever = "Retry-After: 4294967295\r\n";
    let server = MockServer::start([
        response_with_headers(429, forever, ""),
        response(200, r#"{"id":"x"}"#),
    ])
    .await;
    let client = server.email().max_retry_after(ms(1_000)).build().unwrap();
    let first = client.emails().get("x").await.unwrap_err();
    assert_eq!((first.attempts(), first.outcome()), (1, Outcome::Refused));

    let short = client.emails().get("x").timeout(ms(900));
    let error = short.await.unwrap_err();
    assert_eq!((error.attempts(), error.outcome()), (0, Outcome::NotSent));

    let next = tokio::spawn(client.emails().get("x").into_future());
    clock.advance(ms(2_500)).await;
    wait_until("call finished", || next.is_finished()).await;
    assert_eq!(next.await.unwrap().unwrap().id, "x");
    assert_eq!(server.request_count(), 2);
}

/// What the service limits besides, it says itself.
#[tokio::test]
async fn a_limited_send_holds_back_batches_and_no_other_operation() {
    let clock = Clock::pause();
    let server = MockServer::start([
        response_with_headers(429, "Retry-After: 10\r\n", ""),
        response(200, r#"{"id":"x"}"#),
    ])
    .await;
    let client = server.email().build().unwrap();
    let email = Email::new("a@b", "c@d", "s").text("Hello");
    client.emails().send(&email).retries(0).await.unwrap_err();

    client.emails().get("x").await.unwrap();
    client.emails().cancel("x").await.unwrap();
    client.raw("GET", "/api/v1/other").await.unwrap();
    assert_eq!(server.request_count(), 4);
    assert_eq!(client.pauses()[0].operation, Some(Operation::EmailsSend));
    assert_eq!(client.pauses()[0].left, ms(10_000));
    assert_eq!(client.with_key("other").unwrap().pauses(), []);

    let batch = tokio::spawn(client.emails().send_batch(&[email]).into_future());
    clock.advance(ms(9_000)).await;
    assert_eq!(server.request_count(), 4);

    // The application knows better.
    client.end_pauses();
    wait_until("batch sent", || server.request_count() == 5).await;
    assert_eq!(client.pauses(), []);

    drop(batch);
}

#[tokio::test]
async fn the_clients_own_rate_spaces_the_attempts_of_its_clones() {
    let clock = Clock::pause();
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let client = server.email().max_per_second(5.0).build().unwrap();
    let calls: Vec<_> = (0..4)
        .map(|_| tokio::spawn(client.clone().emails().get("x").into_future()))
        .collect();
    for sent in 1..=4 {
        wait_until("request", || server.request_count() == sent).await;
        clock.advance(ms(150)).await;
        assert_eq!(server.request_count(), sent);
        clock.advance(ms(52)).await;
    }

    for call in calls {
        call.await.unwrap().unwrap();
    }

    let client = server.email().max_per_second(0.1).build().unwrap();
    client.emails().get("x").await.unwrap();
    let error = client
        .emails()
        .get("x")
        .timeout(ms(5_000))
        .await
        .unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert!(error.to_string().contains("rate"), "{error}");
    assert_eq!(server.request_count(), 5);

    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        server.email().max_per_second(rate).build().unwrap_err();
    }
}

/// Other keys are not held back, whether of `with_key` or of a key provider, and the same key
/// is, wherever it comes from.
#[tokio::test]
async fn a_429_holds_back_no_other_key() {
    let _clock = Clock::pause();
    let server = MockServer::start([
        response_with_headers(429, "Retry-After: 10\r\n", ""),
        response(200, r#"{"id":"x"}"#),
    ])
    .await;
    let client = server
        .email()
        .retries(0)
        .timeout(ms(5_000))
        .build()
        .unwrap();
    client.emails().get("x").await.unwrap_err();
    client
        .with_key("other")
        .unwrap()
        .emails()
        .get("x")
        .await
        .unwrap();
    let key = client.with_key("mk_live_key").unwrap();
    key.emails().get("x").await.unwrap();
    assert_eq!(server.request_count(), 3);
    assert!(
        client
            .clone()
            .emails()
            .get("x")
            .await
            .unwrap_err()
            .is_rate_limited()
    );
    assert_eq!(server.request_count(), 3);
}

#[tokio::test]
async fn no_retries_means_one_attempt_and_a_zero_pause_does_not_spin() {
    let server = MockServer::start([response_with_headers(429, "Retry-After: 0\r\n", "")]).await;
    let client = server.email().timeout(ms(600)).build().unwrap();
    let email = Email::new("a@b", "c@d", "s");
    let error = client.emails().send(&email).retries(0).await.unwrap_err();
    assert_eq!((error.attempts(), error.outcome()), (1, Outcome::Refused));
    let error = client.emails().send(&email).await.unwrap_err();
    assert!((2..=4).contains(&error.attempts()), "{error}");
}

/// A pause costs no retries.
#[tokio::test]
async fn retry_after_costs_no_retries() {
    let clock = Clock::pause();
    let limited = response_with_headers(429, "Retry-After: 2\r\n", "");
    let responses = std::iter::repeat_n(limited, 9).chain([response(202, r#"{"id":"x"}"#)]);
    let server = MockServer::start(responses).await;
    let client = server.email().retries(1).build().unwrap();
    let email = Email::new("a@b", "c@d", "s");
    let call = tokio::spawn(client.emails().send(&email).with_response().into_future());
    for requests in 1..=9 {
        wait_until("request received", || server.request_count() == requests).await;
        clock.advance(ms(2_800)).await;
    }

    assert_eq!(call.await.unwrap().unwrap().attempts, 10);
}
