//! Late responses, retry pauses and the deadline, with a controlled clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use svc_sdk::email::Email;
use svc_sdk::{EmailClient, Error, ErrorKind, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::faulty_server::{Fault, FaultyServer};
use crate::clock::{Clock, wait_until};
use crate::mock_server::{MockServer, Response, read_request, response, response_with_headers};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn email() -> Email {
    Email::new("a@b", "c@d", "s")
}

/// Starts sending an email in the background.
fn send(client: &EmailClient) -> JoinHandle<Result<(), Error>> {
    let call = client.emails().send(email()).into_future();
    tokio::spawn(async { call.await.map(drop) })
}

/// Starts a call without a body that is not a read.
fn cancel(client: &EmailClient) -> JoinHandle<Result<(), Error>> {
    let call = client.emails().cancel("x").into_future();
    tokio::spawn(async { call.await.map(drop) })
}

fn get(client: &EmailClient, retries: u32) -> JoinHandle<Result<u32, Error>> {
    let call = client
        .emails()
        .get("x")
        .retries(retries)
        .with_response()
        .into_future();
    tokio::spawn(async { call.await.map(|response| response.attempts) })
}

#[tokio::test]
async fn a_missing_response_times_out() {
    let clock = Clock::pause();
    let server = FaultyServer::start(Fault::Stalls(String::new()), 9).await;
    let client = server.builder().timeout(seconds(30)).build().unwrap();
    let call = send(&client);
    wait_until("request received", || server.complete_requests() == 1).await;
    clock.advance(Duration::from_millis(29_900)).await;
    assert!(!call.is_finished());

    clock.advance(Duration::from_millis(200)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Timeout, Outcome::Unknown)
    );
    assert_eq!((error.attempts(), server.complete_requests()), (1, 1));
    assert!(!error.is_retryable());

    // A read is not retried either, as there is no time left.
    let call = get(&client, 9);
    wait_until("request received", || server.complete_requests() == 2).await;
    clock.advance(seconds(31)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Timeout, 1));
    // It has no body to track, but it was sent.
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_2xx_with_a_stalled_body_has_an_unknown_outcome() {
    let clock = Clock::pause();
    let head = "HTTP/1.1 202 OK\r\nX-Request-Id: r1\r\nContent-Length: 9\r\n\r\n{";
    let server = FaultyServer::start(Fault::Stalls(head.to_owned()), 9).await;
    let call = send(&server.client());
    wait_until("request received", || server.complete_requests() == 1).await;
    clock.advance(seconds(31)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Timeout, Outcome::Unknown)
    );
    assert_eq!(
        (error.status().map(u16::from), error.request_id()),
        (Some(202), Some("r1"))
    );
}

#[tokio::test]
async fn a_4xx_with_a_stalled_body_is_still_refused() {
    let clock = Clock::pause();
    let head = "HTTP/1.1 422 No\r\nContent-Length: 99\r\n\r\n{\"code\":";
    let server = FaultyServer::start(Fault::Stalls(head.to_owned()), 9).await;
    let call = send(&server.client());
    wait_until("request received", || server.complete_requests() == 1).await;
    clock.advance(seconds(6)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Invalid, Outcome::Refused)
    );
    assert_eq!(
        (error.status().map(u16::from), error.body()),
        (Some(422), &b"{\"code\":"[..])
    );

    // But not after the deadline.
    let client = server.builder().timeout(seconds(2)).build().unwrap();
    let call = send(&client);
    wait_until("request received", || server.complete_requests() == 2).await;
    clock.advance(seconds(3)).await;
    wait_until("call finished", || call.is_finished()).await;
    assert_eq!(call.await.unwrap().unwrap_err().kind(), &ErrorKind::Invalid);
}

#[tokio::test]
async fn a_stalled_tls_handshake_ends_at_the_connect_timeout() {
    let clock = Clock::pause();
    // Nothing accepts the connection: the kernel completes the TCP handshake, and TLS
    // waits.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    for (timeout, connect_timeout, kind, outcome) in [
        // The deadline passes first.
        (
            seconds(10),
            seconds(20),
            ErrorKind::Timeout,
            Outcome::NotSent,
        ),
        // The connect timeout passes.
        (
            seconds(20),
            seconds(10),
            ErrorKind::Connect,
            Outcome::NotSent,
        ),
    ] {
        let client = EmailClient::builder(&url, "k").no_proxy().retries(0);
        let client = client
            .timeout(timeout)
            .connect_timeout(connect_timeout)
            .build()
            .unwrap();
        // With and without a body.
        for begin in [send as fn(&EmailClient) -> _, cancel] {
            let call = begin(&client);
            let (_connection, _) = listener.accept().await.unwrap();
            clock.advance(seconds(9)).await;
            assert!(!call.is_finished());
            clock.advance(seconds(2)).await;
            let error = call.await.unwrap().unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (&kind, outcome));
        }
    }
}

/// A send, too: the HTTP client has not asked for its body.
#[tokio::test]
async fn an_attempt_that_ends_before_its_connection_is_repeated() {
    let clock = Clock::pause();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let client = EmailClient::builder(&url, "k").no_proxy().retries(1);
    let client = client
        .timeout(seconds(20))
        .connect_timeout(seconds(20))
        .attempt_timeout(seconds(2))
        .back_off(seconds(0), seconds(0))
        .build()
        .unwrap();
    for begin in [send as fn(&EmailClient) -> _, cancel] {
        let call = begin(&client);
        let (_first, _) = listener.accept().await.unwrap();
        clock.advance(seconds(3)).await;
        let (_second, _) = listener.accept().await.unwrap();
        clock.advance(seconds(3)).await;
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome(), error.attempts()),
            (&ErrorKind::Timeout, Outcome::NotSent, 2)
        );
        assert!(error.is_retryable());
    }
}

/// The backlog is full, so TCP does not connect.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stalled_tcp_connection_ends_at_the_connect_timeout() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    // The backlog has room for one connection, which this one takes. Linux ignores the next
    // one.
    let listener = socket.listen(0).unwrap();
    let _waits = tokio::net::TcpStream::connect(address).await.unwrap();

    let clock = Clock::pause();
    for (timeout, connect_timeout, kind, outcome) in [
        (
            seconds(10),
            seconds(20),
            ErrorKind::Timeout,
            Outcome::NotSent,
        ),
        (
            seconds(20),
            seconds(10),
            ErrorKind::Connect,
            Outcome::NotSent,
        ),
    ] {
        let client = EmailClient::builder(format!("http://{address}"), "k")
            .no_proxy()
            .retries(0);
        let client = client
            .timeout(timeout)
            .connect_timeout(connect_timeout)
            .build()
            .unwrap();
        for begin in [send as fn(&EmailClient) -> _, cancel] {
            let call = begin(&client);
            clock.advance(seconds(9)).await;
            assert!(!call.is_finished());
            clock.advance(seconds(2)).await;
            let error = call.await.unwrap().unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (&kind, outcome));
        }
    }

    drop(listener);
}

#[tokio::test]
async fn a_zero_timeout_sends_nothing() {
    let server = MockServer::json(200, "[]").await;
    let client = server.email().build().unwrap();
    let error = client
        .domains()
        .list()
        .timeout(Duration::ZERO)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Timeout, Outcome::NotSent)
    );
    assert_eq!((error.attempts(), server.request_count()), (0, 0));
}

fn limited(retry_after: &str) -> Response {
    response_with_headers(429, &format!("Retry-After: {retry_after}\r\n"), "")
}

#[tokio::test]
async fn waits_for_retry_after_in_seconds_and_as_a_date() {
    let clock = Clock::pause();
    // A date is in whole seconds, and real time passes meanwhile.
    let date = httpdate::fmt_http_date(SystemTime::now() + seconds(20));
    for retry_after in ["20", &date] {
        let server =
            MockServer::start([limited(retry_after), response(202, r#"{"id":"x"}"#)]).await;
        let call = send(&server.email().build().unwrap());
        wait_until("first request received", || server.request_count() == 1).await;
        clock.advance(seconds(15)).await;
        assert_eq!(server.request_count(), 1, "{retry_after}");
        clock.advance(seconds(6)).await;
        wait_until("second request received", || server.request_count() == 2).await;
        call.await.unwrap().unwrap();
    }
}

/// The service's clock (`Date`) is used instead of the local one.
#[tokio::test]
async fn interprets_retry_after_dates_by_the_service_clock() {
    let clock = Clock::pause();
    let limited = response_with_headers(
        429,
        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Retry-After: Sun, 06 Nov 1994 08:50:07 GMT\r\n",
        "",
    );
    let server = MockServer::start([limited, response(202, r#"{"id":"x"}"#)]).await;
    let call = send(&server.email().timeout(seconds(60)).build().unwrap());
    wait_until("first request received", || server.request_count() == 1).await;
    clock.advance(seconds(29)).await;
    assert_eq!(server.request_count(), 1);

    clock.advance(seconds(2)).await;
    wait_until("second request received", || server.request_count() == 2).await;
    call.await.unwrap().unwrap();
}

/// The application may set timeouts of the HTTP client's own.
#[tokio::test]
async fn classifies_timeouts_of_a_configured_client() {
    let clock = Clock::pause();
    let stalls = FaultyServer::start(Fault::Stalls(String::new()), 9).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("https://{}", silent.local_addr().unwrap());
    let configure =
        |http: reqwest::ClientBuilder| http.timeout(seconds(5)).connect_timeout(seconds(3));

    // Timeout of the whole attempt: it may have been processed, so a send fails.
    let client = stalls.builder().configure_http(configure).build().unwrap();
    let call = send(&client);
    wait_until("request received", || stalls.complete_requests() == 1).await;
    clock.advance(seconds(6)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Timeout, Outcome::Unknown)
    );
    assert_eq!((error.attempts(), stalls.complete_requests()), (1, 1));

    // A read is retried.
    let call = get(&client, 1);
    for attempt in [2, 3] {
        wait_until("request received", || stalls.complete_requests() == attempt).await;
        clock.advance(seconds(6)).await;
    }

    assert_eq!(call.await.unwrap().unwrap_err().attempts(), 2);

    // Connect timeout: it was not sent.
    let client = EmailClient::builder(silent_url, "k")
        .configure_http(configure)
        .retries(0)
        .no_proxy();
    let call = send(&client.build().unwrap());
    let (_connection, _) = silent.accept().await.unwrap();
    clock.advance(seconds(4)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Connect, Outcome::NotSent)
    );
}

/// A dropped call sends nothing later.
#[tokio::test]
async fn a_dropped_call_is_not_retried() {
    let clock = Clock::pause();
    let server = MockServer::start([limited("10"), response(202, r#"{"id":"x"}"#)]).await;
    let client = server.email().build().unwrap();
    let call = send(&client);
    wait_until("first request received", || server.request_count() == 1).await;
    clock.advance(seconds(5)).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());

    clock.advance(seconds(60)).await;
    assert_eq!(server.request_count(), 1);

    // The client still works.
    send(&client).await.unwrap().unwrap();
    assert_eq!(server.request_count(), 2);
}

#[tokio::test]
async fn fails_at_once_if_retry_after_exceeds_its_limit_or_the_deadline() {
    let _clock = Clock::pause();
    let date = httpdate::fmt_http_date(SystemTime::now() + seconds(86_400));
    let start = Instant::now();
    for (retry_after, timeout) in [
        ("61", 900),
        (&date, 900),
        ("99999999999999999999", 900),
        ("31", 30),
        ("30", 30),
    ] {
        let server = MockServer::start([limited(retry_after)]).await;
        let client = server.email().timeout(seconds(timeout)).build().unwrap();
        let error = send(&client).await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.attempts()),
            (&ErrorKind::RateLimited, 1),
            "{retry_after}"
        );
        assert!(error.retry_after() >= Some(seconds(30)), "{retry_after}");
        assert_eq!(server.request_count(), 1);
    }

    // With another limit.
    let server = MockServer::start([limited("6")]).await;
    let client = server.email().max_retry_after(seconds(5)).build().unwrap();
    assert_eq!(send(&client).await.unwrap().unwrap_err().attempts(), 1);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn the_deadline_covers_all_attempts() {
    let clock = Clock::pause();
    let server = MockServer::start([response_with_headers(503, "Retry-After: 12\r\n", "")]).await;
    let client = server.email().timeout(seconds(30)).build().unwrap();
    let start = Instant::now();
    let call = get(&client, 9);
    // At 0, 12 and 24 seconds; a fourth attempt at 36 would be too late.
    for attempt in 1..=3 {
        wait_until("next request received", || {
            server.request_count() == attempt
        })
        .await;
        if attempt < 3 {
            // The clock has a resolution of one millisecond, and a pause is never cut
            // short.
            clock.advance(seconds(12) + Duration::from_millis(1)).await;
        }
    }

    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Server, 3));
    assert_eq!((server.request_count(), start.elapsed().as_secs()), (3, 24));
}

/// The clock may jump, for example after the machine was suspended.
#[tokio::test]
async fn returns_the_last_error_if_the_deadline_passes_during_a_pause() {
    let clock = Clock::pause();
    let server = MockServer::start([response_with_headers(
        503,
        "Retry-After: 12\r\n",
        r#"{"code":"busy"}"#,
    )])
    .await;
    let failed = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&failed);
    let client = server.email().timeout(seconds(30)).on_attempt(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let call = get(&client.build().unwrap(), 9);
    wait_until("first attempt failed", || {
        failed.load(Ordering::SeqCst) == 1
    })
    .await;
    clock.advance(seconds(100)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (&ErrorKind::Server, Some("busy"))
    );
    assert_eq!((error.attempts(), server.request_count()), (1, 1));
}

/// The time is not shared out among the attempts that there may be.
#[tokio::test]
async fn an_attempt_has_all_the_time_that_is_left() {
    let clock = Clock::pause();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = EmailClient::builder(format!("http://{}", listener.local_addr().unwrap()), "k");
    let call = get(&client.no_proxy().build().unwrap(), 2);
    let (mut stream, _) = listener.accept().await.unwrap();
    read_request(&mut stream, &mut Vec::new()).await.unwrap();
    clock.advance(seconds(29)).await;
    assert!(!call.is_finished());

    stream
        .write_all(response(200, r#"{"id":"x"}"#).to_string().as_bytes())
        .await
        .unwrap();
    assert_eq!(call.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn closes_idle_connections_early() {
    let clock = Clock::pause();
    let server = FaultyServer::start(Fault::ClosesAfterConnect, 0).await;
    let client = server.client();
    for (idle, connections) in [(0, 1), (3, 1), (5, 2)] {
        clock.advance(seconds(idle)).await;
        get(&client, 0).await.unwrap().unwrap();
        assert_eq!(server.connections(), connections, "after {idle} s");
    }
}

#[tokio::test]
async fn attempt_timeout_limits_each_attempt() {
    let clock = Clock::pause();
    let server = FaultyServer::start(Fault::Stalls(String::new()), 9).await;
    let client = server
        .builder()
        .attempt_timeout(seconds(2))
        .build()
        .unwrap();
    let call = get(&client, 1);
    for attempt in 1..=2 {
        wait_until("request received", || server.complete_requests() == attempt).await;
        clock.advance(Duration::from_millis(2_001)).await;
    }

    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Timeout, 2));

    // Also a send, which is not retried.
    let call = send(&client);
    wait_until("request received", || server.complete_requests() == 3).await;
    clock.advance(Duration::from_millis(2_001)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 1));

    // One call overrides it.
    let call = client
        .emails()
        .get("x")
        .attempt_timeout(seconds(1))
        .retries(0)
        .into_future();
    let call = tokio::spawn(call);
    wait_until("request received", || server.complete_requests() == 4).await;
    clock.advance(Duration::from_millis(1_001)).await;
    assert!(call.await.unwrap().unwrap_err().is_timeout());
}
