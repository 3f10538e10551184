//! Waiting for a final status and for a verified domain.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, TryStreamExt};
use svc_sdk::email::EmailStatus;
use svc_sdk::{ErrorKind, Operation};

use crate::clock::{Clock, until};
use crate::peer::{Peer, answer};

fn statuses(statuses: &[&str]) -> Vec<String> {
    let answer = |status: &&str| answer(200, &format!(r#"{{"id":"e","status":"{status}"}}"#));
    statuses.iter().map(answer).collect()
}

const SHORT: Duration = Duration::from_millis(1);

#[tokio::test]
async fn until_an_email_has_a_final_status() {
    let peer = Peer::start(statuses(&["queued", "queued", "sending", "sent", "bounced"])).await;
    let client = peer.email().build().unwrap();
    let email = client.emails().wait("e").pauses(SHORT, SHORT).await.unwrap();
    assert_eq!(email.status, Some(EmailStatus::Bounced));
    assert_eq!(peer.lines().len(), 5);
    // What is final already needs one look, and so does what will never say.
    for body in [r#"{"id":"e","status":"cancelled"}"#, r#"{"id":"e"}"#] {
        let peer = Peer::json(200, body).await;
        peer.email().build().unwrap().emails().wait("e").await.unwrap();
        assert_eq!(peer.lines(), ["GET /api/v1/emails/e HTTP/1.1"]);
    }
}

/// A look that takes long ends with the wait, and says why there was none.
#[tokio::test]
async fn the_deadline_is_of_the_last_look_too() {
    let clock = Clock::stop();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = svc_sdk::EmailClient::builder(url, "k").no_proxy().build().unwrap();
    let wait = client.emails().wait("e").timeout(Duration::from_secs(5));
    let wait = tokio::spawn(wait.into_future());
    let (_stream, _) = listener.accept().await.unwrap();
    clock.advance(Duration::from_secs(4)).await;
    assert!(!wait.is_finished());
    clock.advance(Duration::from_secs(2)).await;
    until("the wait is over", || wait.is_finished()).await;
    let error = wait.await.unwrap().unwrap_err();
    assert!(error.is_timeout());
    assert!(std::error::Error::source(&error).is_some());
}

/// Half a second at first, half as long again each time, up to ten seconds;
/// at most a quarter less, so that not all who wait look at once.
#[tokio::test]
async fn the_pauses_grow() {
    let clock = Clock::stop();
    let peer = Peer::start(statuses(&["queued"])).await;
    let wait = peer.email().build().unwrap().emails().wait("e");
    let wait = tokio::spawn(wait.into_future().map(drop));
    let pauses = [500, 750, 1_125, 1_687, 2_531, 3_796, 5_695, 8_542, 10_000, 10_000];
    these_are_the_pauses(&clock, &peer, &pauses).await;
    wait.abort();

    // DNS takes longer.
    let peer = Peer::json(200, r#"{"verified":false}"#).await;
    let wait = peer.email().build().unwrap().domains().wait_until_verified("d");
    let wait = tokio::spawn(wait.into_future().map(drop));
    let pauses = [2_000, 3_000, 4_500, 6_750, 10_125, 15_187, 22_781, 30_000, 30_000];
    these_are_the_pauses(&clock, &peer, &pauses).await;
    wait.abort();
}

async fn these_are_the_pauses(clock: &Clock, peer: &Peer, pauses: &[u64]) {
    until("the first look", || peer.lines().len() == 1).await;
    for (looks, pause) in (2..).zip(pauses.iter().copied()) {
        let least = pause * 3 / 4 - 2;
        clock.advance(Duration::from_millis(least)).await;
        assert_eq!(peer.lines().len(), looks - 1, "before {pause} ms");
        clock.advance(Duration::from_millis(pause + 3 - least)).await;
        until("the next look", || peer.lines().len() == looks).await;
    }
}

#[tokio::test]
async fn every_change_on_the_way() {
    let peer =
        Peer::start(statuses(&["queued", "queued", "sending", "sending", "sent", "failed"])).await;
    let client = peer.email().build().unwrap();
    let changes = client.emails().wait("e").pauses(SHORT, SHORT).changes();
    let mut changes = changes.map_ok(|email| email.status.unwrap().to_string());
    let mut seen = Vec::new();
    while let Some(status) = changes.try_next().await.unwrap() {
        seen.push(status);
    }
    assert_eq!(seen, ["queued", "sending", "sent", "failed"]);
    // Who asks again, in a `select!`, hears the same.
    assert_eq!(changes.try_next().await.unwrap(), None);
}

#[tokio::test]
async fn the_deadline_ends_it() {
    let peer = Peer::start(statuses(&["queued"])).await;
    let client = peer.email().build().unwrap();
    let wait = client.emails().wait("e").pauses(SHORT, SHORT).timeout(Duration::from_millis(20));
    let error = wait.await.unwrap_err();
    assert_eq!(
        (error.kind(), error.operation()),
        (&ErrorKind::Timeout, Some(Operation::EmailsGet))
    );
    assert_eq!(error.to_string(), "email emails.get: the deadline passed");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn the_changes_end_with_the_deadline() {
    let clock = Clock::stop();
    let peer = Peer::start(statuses(&["queued", "sending"])).await;
    let client = peer.email().build().unwrap();
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
    until("the first change", || seen.lock().unwrap().len() == 1).await;
    clock.advance(Duration::from_millis(501)).await;
    until("the second change", || seen.lock().unwrap().len() == 2).await;
    clock.advance(Duration::from_secs(300)).await;
    changes.await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["queued", "sending", "timeout"]);
}

/// However long the pauses and time-outs, nothing overflows.
#[tokio::test]
async fn for_ever() {
    let clock = Clock::stop();
    let peer = Peer::start(statuses(&["queued", "queued", "sent", "delivered"])).await;
    let (max, century) = (Duration::MAX, Duration::from_secs(3_200_000_000));
    let client = peer.email().timeout(max).connect_timeout(max).back_off(max, max).build();
    let wait = client.unwrap().emails().wait("e").pauses(max, max).timeout(max);
    let wait = tokio::spawn(wait.into_future());
    until("the first look", || peer.lines().len() == 1).await;
    clock.advance(century).await;
    // The next look would come after the longest deadline that there is.
    let error = wait.await.unwrap().unwrap_err();
    assert!(error.is_timeout());
}

#[tokio::test]
async fn what_may_pass_does_not_end_it_and_what_will_not_does() {
    let [queued, delivered] = statuses(&["queued", "delivered"]).try_into().unwrap();
    let peer = Peer::start([queued.clone(), answer(503, ""), answer(503, ""), delivered]).await;
    let client = peer.email().retries(0).build().unwrap();
    let email = client.emails().wait("e").pauses(SHORT, SHORT).await.unwrap();
    assert_eq!(email.status, Some(EmailStatus::Delivered));

    let peer = Peer::start([queued, answer(404, "")]).await;
    let client = peer.email().build().unwrap();
    let error = client.emails().wait("e").pauses(SHORT, SHORT).await.unwrap_err();
    assert!(error.is_not_found());
    assert!(client.emails().wait("").await.unwrap_err().is_invalid_input());
}

#[tokio::test]
async fn until_a_domain_is_verified() {
    let peer = Peer::start([
        answer(200, r#"{"mx_verified":false,"verified":false}"#),
        answer(200, r#"{"mx_verified":true,"verified":false}"#),
        answer(200, r#"{"mx_verified":true,"verified":true}"#),
    ])
    .await;
    let client = peer.email().build().unwrap();
    let wait = || client.domains().wait_until_verified("d").pauses(SHORT, SHORT);
    let seen: Vec<_> = wait().changes().try_collect().await.unwrap();
    assert_eq!(seen.len(), 3);
    assert!(wait().await.unwrap().is_verified());
    assert!(peer.lines().iter().all(|line| line == "POST /api/v1/domains/d/verify HTTP/1.1"));
}
