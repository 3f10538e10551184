//! Late answers, waits and the one deadline, with a clock that the test moves.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use svc_sdk::email::{Attachment, Email};
use svc_sdk::{EmailClient, Error, ErrorKind, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::peer::{Fault, FaultyPeer};
use super::redirects::own_client;
use crate::clock::{Clock, until};
use crate::peer::{Peer, answer, read_request, with_headers};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn email() -> Email {
    Email::new("a@b", "c@d", "s")
}

/// Begins to send, beside the test.
fn send(client: &EmailClient) -> JoinHandle<Result<(), Error>> {
    let call = client.emails().send(&email()).into_future();
    tokio::spawn(async { call.await.map(drop) })
}

/// Something without a body that is not a read.
fn cancel(client: &EmailClient) -> JoinHandle<Result<(), Error>> {
    let call = client.emails().cancel("x").into_future();
    tokio::spawn(async { call.await.map(drop) })
}

fn get(client: &EmailClient, retries: u32) -> JoinHandle<Result<u32, Error>> {
    let call = client.emails().get("x").retries(retries).with_response().into_future();
    tokio::spawn(async { call.await.map(|answer| answer.attempts) })
}

#[tokio::test]
async fn an_answer_that_never_comes_ends_at_the_deadline() {
    let clock = Clock::stop();
    let peer = FaultyPeer::start(Fault::Stalls(String::new()), 9).await;
    let client = peer.builder().timeout(seconds(30)).build().unwrap();
    let call = send(&client);
    until("the request came", || peer.whole() == 1).await;
    clock.advance(Duration::from_millis(29_900)).await;
    assert!(!call.is_finished());
    clock.advance(Duration::from_millis(200)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Timeout, Outcome::Unknown));
    assert_eq!((error.attempts(), peer.whole()), (1, 1));
    assert!(!error.is_retryable());

    // A read is not tried again either: there is no time left.
    let call = get(&client, 9);
    until("the request came", || peer.whole() == 2).await;
    clock.advance(seconds(31)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Timeout, 1));
    // It has no body to tell by, and yet it went out.
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(error.is_retryable());
}

/// A peer that takes the head and no more: what was not sent whole was not sent.
#[tokio::test]
async fn a_body_that_is_not_taken_whole_is_certainly_no_send() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = EmailClient::builder(url, "k").no_proxy().build().unwrap();
    // More than fits into the sockets' buffers.
    let length = 64 << 20;
    let zeros = move || Ok(io::Read::take(io::repeat(0), length));
    let email = email().attachment(Attachment::from_opener("z", length, zeros));
    let clock = Clock::stop();
    let call = tokio::spawn(client.emails().send(&email).into_future());
    let (mut stream, _) = listener.accept().await.unwrap();
    // Some of the body went out.
    let mut begun = vec![0; 100_000];
    stream.read_exact(&mut begun).await.unwrap();
    clock.advance(seconds(31)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Timeout, Outcome::NotSent));
    assert_eq!(error.attempts(), 1);
}

#[tokio::test]
async fn a_success_whose_body_never_ends_was_processed() {
    let clock = Clock::stop();
    let head = "HTTP/1.1 202 OK\r\nX-Request-Id: r1\r\nContent-Length: 9\r\n\r\n{";
    let peer = FaultyPeer::start(Fault::Stalls(head.to_owned()), 9).await;
    let call = send(&peer.client());
    until("the request came", || peer.whole() == 1).await;
    clock.advance(seconds(31)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Timeout, Outcome::Unknown));
    assert_eq!((error.status(), error.request_id()), (Some(202), Some("r1")));
}

#[tokio::test]
async fn a_refusal_whose_body_never_ends_is_a_refusal() {
    let clock = Clock::stop();
    let head = "HTTP/1.1 422 No\r\nContent-Length: 99\r\n\r\n{\"code\":";
    let peer = FaultyPeer::start(Fault::Stalls(head.to_owned()), 9).await;
    let call = send(&peer.client());
    until("the request came", || peer.whole() == 1).await;
    clock.advance(seconds(6)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Invalid, Outcome::Refused));
    assert_eq!((error.status(), error.body()), (Some(422), &b"{\"code\":"[..]));

    // Not beyond the deadline.
    let client = peer.builder().timeout(seconds(2)).build().unwrap();
    let call = send(&client);
    until("the request came", || peer.whole() == 2).await;
    clock.advance(seconds(3)).await;
    until("the call is over", || call.is_finished()).await;
    assert_eq!(call.await.unwrap().unwrap_err().kind(), &ErrorKind::Invalid);
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_certainly_no_send() {
    let clock = Clock::stop();
    // Takes no connection and says nothing: the system does, and TLS waits.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    for (timeout, connect_timeout, kind) in [
        // By the deadline: nothing of the body was taken.
        (seconds(10), seconds(20), ErrorKind::Timeout),
        // By the connection's own time-out.
        (seconds(20), seconds(10), ErrorKind::Connect),
    ] {
        let client = EmailClient::builder(&url, "k").no_proxy().retries(0);
        let client = client.timeout(timeout).connect_timeout(connect_timeout).build().unwrap();
        // With a body and without.
        for begin in [send as fn(&EmailClient) -> _, cancel] {
            let call = begin(&client);
            let (_connection, _) = listener.accept().await.unwrap();
            clock.advance(seconds(9)).await;
            assert!(!call.is_finished());
            clock.advance(seconds(2)).await;
            let error = call.await.unwrap().unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (&kind, Outcome::NotSent));
        }
    }
}

/// Nobody takes the connection, so TCP itself does not connect.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_that_is_not_made_in_time_is_certainly_no_send() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    // Room for one that waits, which this one takes: Linux then leaves the
    // next without an answer.
    let listener = socket.listen(0).unwrap();
    let _waits = tokio::net::TcpStream::connect(address).await.unwrap();

    let clock = Clock::stop();
    for (timeout, connect_timeout, kind) in [
        (seconds(10), seconds(20), ErrorKind::Timeout),
        (seconds(20), seconds(10), ErrorKind::Connect),
    ] {
        let client = EmailClient::builder(format!("http://{address}"), "k").no_proxy().retries(0);
        let client = client.timeout(timeout).connect_timeout(connect_timeout).build().unwrap();
        for begin in [send as fn(&EmailClient) -> _, cancel] {
            let call = begin(&client);
            clock.advance(seconds(9)).await;
            assert!(!call.is_finished());
            clock.advance(seconds(2)).await;
            let error = call.await.unwrap().unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (&kind, Outcome::NotSent));
        }
    }
    drop(listener);
}

#[tokio::test]
async fn a_deadline_that_has_passed_sends_nothing() {
    let peer = Peer::json(200, "[]").await;
    let client = peer.email().build().unwrap();
    let error = client.domains().list().timeout(Duration::ZERO).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Timeout, Outcome::NotSent));
    assert_eq!((error.attempts(), peer.lines().len()), (0, 0));
}

fn limited(retry_after: &str) -> String {
    with_headers(429, &format!("Retry-After: {retry_after}\r\n"), "")
}

#[tokio::test]
async fn the_wait_that_the_service_asks_for_is_kept() {
    let clock = Clock::stop();
    // A date has whole seconds, and real time goes on meanwhile.
    let date = httpdate::fmt_http_date(SystemTime::now() + seconds(20));
    for asked in ["20", &date] {
        let peer = Peer::start([limited(asked), answer(202, r#"{"id":"x"}"#)]).await;
        let call = send(&peer.email().build().unwrap());
        until("the first try came", || peer.lines().len() == 1).await;
        clock.advance(seconds(15)).await;
        assert_eq!(peer.lines().len(), 1, "{asked}");
        clock.advance(seconds(6)).await;
        until("the second try came", || peer.lines().len() == 2).await;
        call.await.unwrap().unwrap();
    }
}

/// The service's clock counts, not ours, where it shows it.
#[tokio::test]
async fn a_date_is_waited_for_by_the_service_s_own_clock() {
    let clock = Clock::stop();
    let limited = with_headers(
        429,
        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Retry-After: Sun, 06 Nov 1994 08:50:07 GMT\r\n",
        "",
    );
    let peer = Peer::start([limited, answer(202, r#"{"id":"x"}"#)]).await;
    let call = send(&peer.email().timeout(seconds(60)).build().unwrap());
    until("the first try came", || peer.lines().len() == 1).await;
    clock.advance(seconds(29)).await;
    assert_eq!(peer.lines().len(), 1);
    clock.advance(seconds(2)).await;
    until("the second try came", || peer.lines().len() == 2).await;
    call.await.unwrap().unwrap();
}

/// A client of the caller's own may have time-outs of its own.
#[tokio::test]
async fn time_outs_of_the_caller_s_own_client() {
    let clock = Clock::stop();
    let stalls = FaultyPeer::start(Fault::Stalls(String::new()), 9).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("https://{}", silent.local_addr().unwrap());
    let own = || own_client().timeout(seconds(5)).connect_timeout(seconds(3)).build().unwrap();

    // The whole attempt: it may have been processed, so a send ends there.
    let client = stalls.builder().http_client(own()).build().unwrap();
    let call = send(&client);
    until("the request came", || stalls.whole() == 1).await;
    clock.advance(seconds(6)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Timeout, Outcome::Unknown));
    assert_eq!((error.attempts(), stalls.whole()), (1, 1));
    // A read is tried again.
    let call = get(&client, 1);
    for attempt in [2, 3] {
        until("the request came", || stalls.whole() == attempt).await;
        clock.advance(seconds(6)).await;
    }
    assert_eq!(call.await.unwrap().unwrap_err().attempts(), 2);

    // The connection: it was not sent.
    let client = EmailClient::builder(silent_url, "k").http_client(own()).retries(0);
    let call = send(&client.build().unwrap());
    let (_connection, _) = silent.accept().await.unwrap();
    clock.advance(seconds(4)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Connect, Outcome::NotSent));
}

/// Who gives up in the middle leaves nothing behind that is sent later.
#[tokio::test]
async fn a_call_that_is_dropped_between_two_tries_is_not_tried_again() {
    let clock = Clock::stop();
    let peer = Peer::start([limited("10"), answer(202, r#"{"id":"x"}"#)]).await;
    let client = peer.email().build().unwrap();
    let call = send(&client);
    until("the first try came", || peer.lines().len() == 1).await;
    clock.advance(seconds(5)).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    clock.advance(seconds(60)).await;
    assert_eq!(peer.lines().len(), 1);
    // The client goes on working.
    send(&client).await.unwrap().unwrap();
    assert_eq!(peer.lines().len(), 2);
}

#[tokio::test]
async fn a_wait_beyond_its_bound_or_the_deadline_ends_the_call_at_once() {
    let _clock = Clock::stop();
    let date = httpdate::fmt_http_date(SystemTime::now() + seconds(86_400));
    let start = Instant::now();
    for (asked, timeout) in
        [("61", 900), (&date, 900), ("99999999999999999999", 900), ("31", 30), ("30", 30)]
    {
        let peer = Peer::start([limited(asked)]).await;
        let client = peer.email().timeout(seconds(timeout)).build().unwrap();
        let error = send(&client).await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (&ErrorKind::RateLimited, 1), "{asked}");
        assert!(error.retry_after() >= Some(seconds(30)), "{asked}");
        assert_eq!(peer.lines().len(), 1);
    }
    // The bound can be another one.
    let peer = Peer::start([limited("6")]).await;
    let client = peer.email().max_retry_after(seconds(5)).build().unwrap();
    assert_eq!(send(&client).await.unwrap().unwrap_err().attempts(), 1);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn one_deadline_over_all_attempts() {
    let clock = Clock::stop();
    let peer = Peer::start([with_headers(503, "Retry-After: 12\r\n", "")]).await;
    let client = peer.email().timeout(seconds(30)).build().unwrap();
    let start = Instant::now();
    let call = get(&client, 9);
    // At 0, 12 and 24 seconds; there is no time for a fourth at 36.
    for attempt in 1..=3 {
        until("the next try came", || peer.lines().len() == attempt).await;
        if attempt < 3 {
            // Time has whole milliseconds, and a wait is not cut short.
            clock.advance(seconds(12) + Duration::from_millis(1)).await;
        }
    }
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Server, 3));
    assert_eq!((peer.lines().len(), start.elapsed().as_secs()), (3, 24));
}

/// Time may have gone on further than was asked for: a machine that slept.
#[tokio::test]
async fn a_wait_that_ends_after_the_deadline_ends_the_call_with_why_it_waited() {
    let clock = Clock::stop();
    let peer = Peer::start([with_headers(503, "Retry-After: 12\r\n", r#"{"code":"busy"}"#)]).await;
    let failed = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&failed);
    let client = peer.email().timeout(seconds(30)).on_attempt(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let call = get(&client.build().unwrap(), 9);
    until("the first try failed", || failed.load(Ordering::SeqCst) == 1).await;
    clock.advance(seconds(100)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.code()), (&ErrorKind::Server, Some("busy")));
    assert_eq!((error.attempts(), peer.lines().len()), (1, 1));
}

#[tokio::test]
async fn no_attempt_begins_that_cannot_end_in_time() {
    let clock = Clock::stop();
    // Answers 503, but late: what took so long once takes so long again.
    for (late, attempts) in [(14, 2), (16, 1)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&seen);
        let peer = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                read_request(&mut stream, &mut Vec::new()).await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(seconds(late)).await;
                let answer = with_headers(503, "Connection: close\r\n", "");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let client = EmailClient::builder(url, "k").no_proxy().timeout(seconds(30));
        let client = client.back_off(Duration::ZERO, Duration::ZERO).build().unwrap();
        let call = get(&client, 9);
        for attempt in 1..=attempts {
            until("the next try came", || seen.load(Ordering::SeqCst) == attempt).await;
            clock.advance(seconds(late) + Duration::from_millis(1)).await;
        }
        let error = call.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Server, attempts));
        peer.abort();
    }
}

#[tokio::test]
async fn an_idle_connection_is_not_kept_for_long() {
    let clock = Clock::stop();
    let peer = FaultyPeer::start(Fault::AtConnect, 0).await;
    let client = peer.client();
    for (idle, connections) in [(0, 1), (3, 1), (5, 2)] {
        clock.advance(seconds(idle)).await;
        get(&client, 0).await.unwrap().unwrap();
        assert_eq!(peer.connections(), connections, "after {idle} s");
    }
}
