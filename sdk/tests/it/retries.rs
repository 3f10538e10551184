//! Retries on the wire: what is sent again, after how long, and what the
//! answer says about it.

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
    // The caller knows better about a raw request.
    client.raw("POST", "/v1/x").harmless(true).await.unwrap_err();
    assert_eq!(peer.lines().len(), errors.len() + 3);
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
    let peer = Peer::start([answer(503, "")]).await;
    let client =
        peer.email().retry_budget(3).back_off(Duration::ZERO, Duration::ZERO).build().unwrap();
    for _ in 0..10 {
        client.clone().domains().list().await.unwrap_err();
    }
    // Ten first tries and three more.
    assert_eq!(peer.lines().len(), 13);
}

#[tokio::test]
async fn nothing_is_waited_for_before_the_first_attempt() {
    let peer = Peer::json(200, "[]").await;
    let hour = Duration::from_secs(3_600);
    let client = peer.email().back_off(hour, hour).build().unwrap();
    let answer = client.domains().list().with_response().await.unwrap();
    assert_eq!(answer.attempts, 1);
}
