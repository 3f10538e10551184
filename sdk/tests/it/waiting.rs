//! `Wait`: waiting for a final email status and for a verified domain.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, TryStreamExt};
use svc_sdk::email::EmailStatus;
use svc_sdk::{ErrorKind, Operation, PollResult};

use crate::clock::{Clock, wait_until};
use crate::mock_server::{MockServer, Response, response, response_with_headers};

fn statuses(statuses: &[&str]) -> Vec<Response> {
    let response = |status: &&str| response(200, &format!(r#"{{"id":"e","status":"{status}"}}"#));
    statuses.iter().map(response).collect()
}

const SHORT: Duration = Duration::from_millis(1);

#[tokio::test]
async fn waits_until_the_status_is_final() {
    let server = MockServer::start(statuses(&[
        "queued", "queued", "sending", "sent", "bounced",
    ]))
    .await;
    let client = server.email().build().unwrap();
    let email = client
        .emails()
        .wait("e")
        .poll_interval(SHORT, SHORT)
        .await
        .unwrap();
    assert_eq!(email.status, Some(EmailStatus::Bounced));
    assert_eq!(server.request_count(), 5);

    // A final status needs one poll only.
    let server = MockServer::json(200, r#"{"id":"e","status":"CANCELED"}"#).await;
    let client = server.email().build().unwrap();
    client.emails().wait("e").await.unwrap();
    assert_eq!(server.request_lines(), ["GET /api/v1/emails/e HTTP/1.1"]);
}

/// What the client does not understand is neither final nor good.
#[tokio::test]
async fn an_unknown_or_missing_status_does_not_end_the_wait() {
    for body in [r#"{"id":"e","status":"PAUSED"}"#, r#"{"id":"e"}"#] {
        let server = MockServer::json(200, body).await;
        let client = server.email().build().unwrap();
        let wait = client.emails().wait("e").poll_interval(SHORT, SHORT);
        let error = wait.timeout(SHORT * 4).await.unwrap_err();
        assert!(error.is_timeout(), "{body}: {error}");
        assert_eq!(error.outcome(), svc_sdk::Outcome::Unknown);
    }
}

/// The deadline ends a poll in progress, and the error has its cause as source.
#[tokio::test]
async fn the_deadline_also_ends_a_pending_poll() {
    let clock = Clock::pause();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = svc_sdk::EmailClient::builder(url, "k")
        .no_proxy()
        .build()
        .unwrap();
    let wait = client.emails().wait("e").timeout(Duration::from_secs(5));
    let wait = tokio::spawn(wait.into_future());
    let (_stream, _) = listener.accept().await.unwrap();
    clock.advance(Duration::from_secs(4)).await;
    assert!(!wait.is_finished());

    clock.advance(Duration::from_secs(2)).await;
    wait_until("wait finished", || wait.is_finished()).await;
    let error = wait.await.unwrap().unwrap_err();
    assert!(error.is_timeout());
    assert!(std::error::Error::source(&error).is_some());
}

/// Starts at 0.5 s, grows by half each time up to 10 s, minus up to a quarter of jitter.
#[tokio::test]
async fn poll_intervals_grow() {
    let clock = Clock::pause();
    let server = MockServer::start(statuses(&["queued"])).await;
    let wait = server.email().build().unwrap().emails().wait("e");
    let wait = tokio::spawn(wait.into_future().map(drop));
    let intervals = [
        500, 750, 1_125, 1_687, 2_531, 3_796, 5_695, 8_542, 10_000, 10_000,
    ];
    assert_poll_intervals(&clock, &server, &intervals).await;

    wait.abort();

    // Intervals for domains are longer, because DNS is slow.
    let server = MockServer::json(200, r#"{"verified":false}"#).await;
    let wait = server
        .email()
        .build()
        .unwrap()
        .domains()
        .wait_until_verified("d");
    let wait = tokio::spawn(wait.into_future().map(drop));
    let intervals = [
        2_000, 3_000, 4_500, 6_750, 10_125, 15_187, 22_781, 30_000, 30_000,
    ];
    assert_poll_intervals(&clock, &server, &intervals).await;

    wait.abort();
}

async fn assert_poll_intervals(clock: &Clock, server: &MockServer, intervals: &[u64]) {
    wait_until("first poll", || server.request_count() == 1).await;
    for (polls, interval) in (2..).zip(intervals.iter().copied()) {
        let least = interval * 3 / 4 - 2;
        clock.advance(Duration::from_millis(least)).await;
        assert_eq!(server.request_count(), polls - 1, "before {interval} ms");
        clock
            .advance(Duration::from_millis(interval + 3 - least))
            .await;
        wait_until("next poll", || server.request_count() == polls).await;
    }
}

#[tokio::test]
async fn changes_yields_every_change() {
    let server = MockServer::start(statuses(&[
        "queued", "queued", "sending", "sending", "sent", "failed",
    ]))
    .await;
    let client = server.email().build().unwrap();
    let changes = client
        .emails()
        .wait("e")
        .poll_interval(SHORT, SHORT)
        .changes();
    let mut changes = changes.map_ok(|email| email.status.unwrap().to_string());
    let mut seen = Vec::new();
    while let Some(status) = changes.try_next().await.unwrap() {
        seen.push(status);
    }

    assert_eq!(seen, ["queued", "sending", "sent", "failed"]);
    // Polling again after the end, as in a `select!`, returns `None` again.
    assert_eq!(changes.try_next().await.unwrap(), None);
}

/// `polls` yields also unchanged states and the failures that the wait survives.
#[tokio::test]
async fn polls_yields_every_state_and_every_transient_failure() {
    let [queued, delivered] = statuses(&["queued", "delivered"]).try_into().unwrap();
    let server =
        MockServer::start([queued.clone(), queued.clone(), response(503, ""), delivered]).await;
    let client = server.email().retries(0).build().unwrap();
    let polls = client
        .emails()
        .wait("e")
        .poll_interval(SHORT, SHORT)
        .polls();
    let seen = polls.map_ok(|poll| match poll {
        PollResult::State(email) => email.status.unwrap().to_string(),
        PollResult::Failed(error) => error.status().unwrap().to_string(),
        _ => unreachable!(),
    });
    let seen: Vec<_> = seen.try_collect().await.unwrap();
    assert_eq!(
        seen,
        ["queued", "queued", "503 Service Unavailable", "delivered"]
    );

    let server = MockServer::start([queued, response(404, "")]).await;
    let client = server.email().build().unwrap();
    let mut polls = client
        .emails()
        .wait("e")
        .poll_interval(SHORT, SHORT)
        .polls();
    assert!(matches!(
        polls.try_next().await,
        Ok(Some(PollResult::State(_)))
    ));
    assert!(polls.try_next().await.unwrap_err().is_not_found());
    assert!(
        polls.try_next().await.unwrap().is_none(),
        "an error ends the stream"
    );
}

#[tokio::test]
async fn a_wait_times_out() {
    let server = MockServer::start(statuses(&["queued"])).await;
    let client = server.email().build().unwrap();
    let wait = client
        .emails()
        .wait("e")
        .poll_interval(SHORT, SHORT)
        .timeout(Duration::from_millis(20));
    let error = wait.await.unwrap_err();
    assert_eq!(
        (error.kind(), error.operation()),
        (&ErrorKind::Timeout, Some(Operation::EmailsGet))
    );
    assert_eq!(error.to_string(), "email emails.get: timed out");
    assert!(error.is_retryable());
}

/// The next poll would be too late, so it is made at the deadline.
#[tokio::test]
async fn a_wait_polls_once_more_at_its_deadline() {
    let clock = Clock::pause();
    let server = MockServer::start(statuses(&[
        "queued",
        "queued",
        "queued",
        "queued",
        "delivered",
    ]))
    .await;
    let wait = server.email().build().unwrap().emails().wait("e");
    let wait = tokio::spawn(wait.timeout(Duration::from_millis(2_500)).into_future());
    for (polls, pause) in [(1, 501), (2, 751), (3, 1_126), (4, 0)] {
        wait_until("next poll", || server.request_count() == polls).await;
        clock.advance(Duration::from_millis(pause)).await;
    }

    // 2.378 s have passed.
    clock.advance(Duration::from_millis(100)).await;
    assert_eq!((server.request_count(), wait.is_finished()), (4, false));

    clock.advance(Duration::from_millis(30)).await;
    let email = wait.await.unwrap().unwrap();
    assert_eq!(
        (email.status, server.request_count()),
        (Some(EmailStatus::Delivered), 5)
    );

    // Also if not even the second poll fits.
    let server = MockServer::start(statuses(&["queued", "delivered"])).await;
    let wait = server.email().build().unwrap().emails().wait("e");
    let wait = tokio::spawn(wait.timeout(Duration::from_millis(370)).into_future());
    wait_until("first poll", || server.request_count() == 1).await;
    clock.advance(Duration::from_millis(371)).await;
    assert_eq!(
        wait.await.unwrap().unwrap().status,
        Some(EmailStatus::Delivered)
    );
}

#[tokio::test]
async fn changes_ends_with_a_timeout() {
    let clock = Clock::pause();
    let server = MockServer::start(statuses(&["queued", "sending"])).await;
    let client = server.email().build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = {
        let seen = Arc::clone(&seen);
        move |what: &str| seen.lock().unwrap().push(what.to_owned())
    };
    let changes = tokio::spawn(async move {
        let mut changes = client.emails().wait("e").changes();
        loop {
            match changes.try_next().await {
                Ok(Some(email)) => see(email.status.unwrap().as_str()),
                Ok(None) => return,
                Err(error) => see(error.kind().name()),
            }
        }
    });
    wait_until("first change", || seen.lock().unwrap().len() == 1).await;
    clock.advance(Duration::from_millis(501)).await;
    wait_until("second change", || seen.lock().unwrap().len() == 2).await;
    clock.advance(Duration::from_secs(300)).await;
    changes.await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["queued", "sending", "timeout"]);
}

/// No duration overflows, however long.
#[tokio::test]
async fn maximum_durations_do_not_overflow() {
    let clock = Clock::pause();
    let server = MockServer::start(statuses(&["queued", "queued", "sent", "delivered"])).await;
    let max = Duration::MAX;
    let century = Duration::from_secs(3_200_000_000);
    let client = server
        .email()
        .timeout(max)
        .connect_timeout(max)
        .back_off(max, max)
        .build();
    let wait = client
        .unwrap()
        .emails()
        .wait("e")
        .poll_interval(max, max)
        .timeout(max);
    let wait = tokio::spawn(wait.into_future());
    wait_until("first poll", || server.request_count() == 1).await;
    clock.advance(century).await;
    // The next poll would be later than the longest possible deadline.
    let error = wait.await.unwrap().unwrap_err();
    assert!(error.is_timeout());
}

#[tokio::test]
async fn transient_failures_do_not_end_a_wait_but_permanent_ones_do() {
    let [queued, delivered] = statuses(&["queued", "delivered"]).try_into().unwrap();
    let server = MockServer::start([
        queued.clone(),
        response(503, ""),
        response(503, ""),
        delivered,
    ])
    .await;
    let client = server.email().retries(0).build().unwrap();
    let email = client
        .emails()
        .wait("e")
        .poll_interval(SHORT, SHORT)
        .await
        .unwrap();
    assert_eq!(email.status, Some(EmailStatus::Delivered));

    let server = MockServer::start([queued, response(404, "")]).await;
    let client = server.email().build().unwrap();
    let error = client
        .emails()
        .wait("e")
        .poll_interval(SHORT, SHORT)
        .await
        .unwrap_err();
    assert!(error.is_not_found());
    assert!(
        client
            .emails()
            .wait("")
            .await
            .unwrap_err()
            .is_invalid_input()
    );
}

/// A poll is not made sooner than the service asked for.
#[tokio::test]
async fn a_wait_honors_retry_after() {
    let clock = Clock::pause();
    let [queued, delivered] = statuses(&["queued", "delivered"]).try_into().unwrap();
    for status in [429, 503] {
        let busy = response_with_headers(status, "Retry-After: 40\r\n", "");
        let server = MockServer::start([queued.clone(), busy, delivered.clone()]).await;
        let client = server.email().retries(0).build().unwrap();
        let wait = tokio::spawn(client.emails().wait("e").into_future());
        wait_until("first poll", || server.request_count() == 1).await;
        clock.advance(Duration::from_millis(501)).await;
        wait_until("second poll", || server.request_count() == 2).await;
        clock.advance(Duration::from_millis(39_900)).await;
        assert_eq!(server.request_count(), 2, "{status}");
        clock.advance(Duration::from_millis(200)).await;
        wait_until("wait finished", || wait.is_finished()).await;
        assert_eq!(
            wait.await.unwrap().unwrap().status,
            Some(EmailStatus::Delivered)
        );
    }
}

/// The error of a wait that cannot go on tells why, and when the service can be asked again.
#[tokio::test]
async fn a_wait_ends_if_retry_after_exceeds_its_deadline() {
    let _clock = Clock::pause();
    let busy = response_with_headers(429, "Retry-After: 120\r\n", r#"{"code":"slow"}"#);
    let server = MockServer::start([busy]).await;
    let client = server.email().build().unwrap();
    let wait = client.emails().wait("e").timeout(Duration::from_secs(5));
    let error = wait.await.unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(120)));

    let source = std::error::Error::source(&error)
        .unwrap()
        .downcast_ref::<svc_sdk::Error>();
    assert_eq!(source.unwrap().code(), Some("slow"));
    assert_eq!(server.request_count(), 1);
}

#[tokio::test]
async fn waits_until_a_domain_is_verified() {
    let server = MockServer::start([
        response(200, r#"{"mx_verified":false,"verified":false}"#),
        response(200, r#"{"mx_verified":true,"verified":false}"#),
        response(200, r#"{"mx_verified":true,"verified":true}"#),
    ])
    .await;
    let client = server.email().build().unwrap();
    let wait = || {
        client
            .domains()
            .wait_until_verified("d")
            .poll_interval(SHORT, SHORT)
    };

    let seen: Vec<_> = wait().changes().try_collect().await.unwrap();
    assert_eq!(seen.len(), 3);
    assert!(wait().await.unwrap().is_verified());
    assert!(
        server
            .request_lines()
            .iter()
            .all(|line| line == "POST /api/v1/domains/d/verify HTTP/1.1")
    );
}
