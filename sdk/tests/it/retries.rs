//! Retries on the wire: what is sent again, after how long, and what the
//! answer says about it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use svc_sdk::email::Email;
use svc_sdk::{ErrorKind, Outcome};

use crate::clock::{Clock, until};
use crate::peer::{Peer, answer, with_headers};

fn limited(retry_after: &str) -> String {
    let body = r#"{"error":{"code":"rate_limited","message":"slow down"}}"#;
    with_headers(429, &format!("Retry-After: {retry_after}\r\n"), body)
}

#[tokio::test]
async fn a_429_is_repeated_even_for_a_send_with_the_same_bytes() {
    let peer = Peer::start([
        limited("0"),
        limited("Sun, 06 Nov 1994 08:49:37 GMT"),
        answer(202, r#"{"id":"eml_1"}"#),
    ])
    .await;
    let client = peer.email().build().unwrap();
    let email = Email::new("a@b", "c@d", "s").text("Hello");
    let call = client.emails().send(&email).idempotency_key("k").with_response();
    let answer = call.await.unwrap();
    assert_eq!((answer.attempts, answer.value.id.as_str()), (3, "eml_1"));
    let seen = peer.seen();
    assert_eq!((&seen[0].body, &seen[0].line), (&seen[2].body, &seen[2].line));
    assert!(seen.iter().all(|seen| seen.header("idempotency-key") == Some("k")));
}

#[tokio::test]
async fn a_429_that_lasts_keeps_its_code_and_its_wait() {
    let peer = Peer::start([limited("0")]).await;
    let client = peer.email().build().unwrap();
    let error = client.domains().create("x.test").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::RateLimited, Outcome::Refused));
    assert_eq!((error.code(), error.attempts()), (Some("rate_limited"), 3));
    assert_eq!(error.retry_after(), Some(Duration::ZERO));
    assert!(error.is_rate_limited() && error.is_retryable());
    assert_eq!(peer.lines().len(), 3);
}

#[tokio::test]
async fn the_service_s_wait_is_kept() {
    let peer = Peer::start([limited("1"), answer(200, "[]")]).await;
    let client = peer.email().build().unwrap();
    let clock = Clock::stop();
    let call = tokio::spawn(client.domains().list().into_future());
    until("the first try came", || peer.lines().len() == 1).await;
    clock.advance(Duration::from_millis(999)).await;
    assert_eq!((peer.lines().len(), call.is_finished()), (1, false));
    clock.advance(Duration::from_millis(2)).await;
    until("the second try came", || peer.lines().len() == 2).await;
    assert!(call.await.unwrap().unwrap().is_empty());
}

#[tokio::test]
async fn a_wait_beyond_bound_or_deadline_ends_the_call_at_once() {
    let peer = Peer::start([limited("61")]).await;
    let client = peer.email().timeout(Duration::from_secs(900)).build().unwrap();
    let error = client.domains().list().await.unwrap_err();
    assert_eq!((error.attempts(), error.retry_after()), (1, Some(Duration::from_secs(61))));

    let peer = Peer::start([limited("31")]).await;
    let client = peer.email().build().unwrap();
    let error = client.domains().list().await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::RateLimited, 1));
}

#[tokio::test]
async fn a_500_is_repeated_for_a_read_and_never_for_a_send() {
    let peer = Peer::start([answer(500, ""), answer(200, r#"{"id":"x"}"#)]).await;
    let client = peer.email().back_off(Duration::ZERO, Duration::ZERO).build().unwrap();
    client.emails().get("x").await.unwrap();
    assert_eq!(peer.lines().len(), 2);

    let peer = Peer::start([answer(500, "")]).await;
    let client = peer.email().back_off(Duration::ZERO, Duration::ZERO).build().unwrap();
    let email = Email::new("a@b", "c@d", "s");
    let errors = [
        client.emails().send(&email).await.unwrap_err(),
        client.emails().send_batch(&[email]).await.unwrap_err(),
        client.domains().create("x").await.unwrap_err(),
        client.webhooks().test("x").await.unwrap_err(),
        client.raw("POST", "/v1/x").await.unwrap_err(),
    ];
    assert!(errors.iter().all(|error| error.outcome() == Outcome::Unknown));
    assert_eq!(peer.lines().len(), errors.len());
    client.raw("HEAD", "/v1/x").await.unwrap_err();
    assert_eq!(peer.lines().len(), errors.len() + 3, "a HEAD is a read");
    // The caller knows better about a raw request.
    client.raw("POST", "/v1/x").idempotent(true).await.unwrap_err();
    assert_eq!(peer.lines().len(), errors.len() + 6);
}

#[tokio::test]
async fn a_delete_whose_first_try_was_lost_takes_404_as_success_and_says_so() {
    let not_found = || answer(404, r#"{"error":{"code":"not_found"}}"#);
    let peer = Peer::start([answer(502, ""), not_found()]).await;
    let client = peer.email().back_off(Duration::ZERO, Duration::ZERO).build().unwrap();
    let deleted = client.webhooks().delete("x").with_response().await.unwrap();
    assert!(deleted.value.already_gone);
    assert_eq!((deleted.status, deleted.attempts), (404, 2));

    // Not where the first try certainly did nothing.
    let peer = Peer::start([limited("0"), not_found()]).await;
    let client = peer.email().build().unwrap();
    assert!(client.webhooks().delete("x").await.unwrap_err().is_not_found());
    let peer = Peer::start([not_found()]).await;
    let client = peer.email().build().unwrap();
    assert!(client.webhooks().delete("x").await.unwrap_err().is_not_found());
    // And not for anything but a delete.
    let peer = Peer::start([answer(502, ""), not_found()]).await;
    let client = peer.email().back_off(Duration::ZERO, Duration::ZERO).build().unwrap();
    assert!(client.webhooks().list().await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn an_attempt_that_may_have_been_processed_leaves_the_outcome_unknown() {
    let peer = Peer::start([answer(503, ""), answer(409, "")]).await;
    let client = peer.email().back_off(Duration::ZERO, Duration::ZERO).build().unwrap();
    let error = client.emails().cancel("x").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Conflict, Outcome::Unknown));
    assert_eq!(error.attempts(), 2);
}

#[tokio::test]
async fn the_budget_is_shared_by_clones() {
    for budget in [0, 3, 60] {
        let peer = Peer::start([answer(503, "")]).await;
        let client = peer.email().retry_budget(budget).back_off(Duration::ZERO, Duration::ZERO);
        let client = client.build().unwrap();
        for _ in 0..40 {
            client.clone().domains().list().await.unwrap_err();
        }
        // So many first tries, and no more than the budget after them.
        assert_eq!(peer.lines().len(), 40 + budget as usize);
    }
}

#[tokio::test]
async fn nothing_is_waited_for_before_the_first_attempt() {
    let peer = Peer::json(200, "[]").await;
    let hour = Duration::from_secs(3_600);
    let client = peer.email().back_off(hour, hour).build().unwrap();
    let answer = client.domains().list().with_response().await.unwrap();
    assert_eq!(answer.attempts, 1);
}

/// Whoever turns it on for some calls has not turned it on for the others.
#[tokio::test]
async fn a_service_that_honours_keys_gets_no_send_twice_without_one() {
    let peer = Peer::start([answer(503, "")]).await;
    let client = peer.email().service_honours_idempotency_key(true);
    let client = client.back_off(Duration::ZERO, Duration::ZERO).build().unwrap();
    let email = Email::new("a@b", "c@d", "s");
    let error = client.emails().send(&email).await.unwrap_err();
    assert_eq!((error.attempts(), error.outcome()), (1, Outcome::Unknown));
    let error = client.emails().send(&email).idempotency_key("k").await.unwrap_err();
    assert_eq!((error.attempts(), peer.lines().len()), (3, 4));
}

#[tokio::test]
async fn ten_successes_earn_one_retry() {
    for (successes, earned) in [(9, false), (10, true)] {
        let success = || answer(200, "[]");
        let first = [answer(503, ""), success()];
        let peer = Peer::start(
            first.into_iter().chain((1..successes).map(|_| success())).chain([answer(503, "")]),
        )
        .await;
        let client = peer.email().retry_budget(1).back_off(Duration::ZERO, Duration::ZERO);
        let client = client.build().unwrap();
        for _ in 0..successes {
            client.domains().list().await.unwrap();
        }
        let error = client.domains().list().await.unwrap_err();
        assert_eq!(error.attempts(), if earned { 2 } else { 1 });
    }
}

/// Who gives up while a retry is waited for has not made it.
#[tokio::test]
async fn a_retry_that_was_given_up_is_still_there() {
    let peer = Peer::start([limited("10")]).await;
    let failed = Arc::new(Mutex::new(0));
    let count = Arc::clone(&failed);
    let client = peer.email().retry_budget(1).on_attempt(move |_| *count.lock().unwrap() += 1);
    let client = client.build().unwrap();
    let clock = Clock::stop();
    for attempt in 1..=3 {
        let call = tokio::spawn(client.domains().list().into_future());
        until("the first try failed", || *failed.lock().unwrap() == attempt).await;
        clock.advance(Duration::from_secs(5)).await;
        assert!(!call.is_finished(), "the budget is spent");
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    // One that is made is spent.
    let call = tokio::spawn(client.domains().list().into_future());
    until("the first try failed", || *failed.lock().unwrap() == 4).await;
    clock.advance(Duration::from_millis(10_001)).await;
    assert_eq!(call.await.unwrap().unwrap_err().attempts(), 2);
    assert_eq!(client.domains().list().await.unwrap_err().attempts(), 1);
}

/// Full jitter: anything from nothing to the whole back-off, and not the same
/// for everybody.
#[tokio::test]
async fn clients_do_not_come_back_all_at_once() {
    let _clock = Clock::stop();
    let peer = Peer::start([answer(503, "")]).await;
    let waits = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&waits);
    let hour = Duration::from_secs(3_600);
    let client = peer.email().timeout(2 * hour).back_off(hour, hour).retry_budget(1);
    let client = client.on_attempt(move |attempt| told.lock().unwrap().extend(attempt.retry_in));
    let client = client.build().unwrap();
    for count in 1..=64 {
        let call = tokio::spawn(client.domains().list().into_future());
        until("the wait is known", || waits.lock().unwrap().len() == count).await;
        call.abort();
        let _ = call.await;
    }
    let waits = waits.lock().unwrap();
    assert!(waits.iter().all(|wait| *wait <= hour), "{waits:?}");
    let shorter = waits.iter().filter(|wait| **wait < hour / 2).count();
    assert!((1..64).contains(&shorter), "{waits:?}");
}
