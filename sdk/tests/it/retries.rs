//! Retries: which requests are repeated, after which pause, and what the result reports.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use svc_sdk::email::Email;
use svc_sdk::{ErrorKind, Outcome};

use crate::clock::{Clock, wait_until};
use crate::mock_server::{MockServer, Response, response, response_with_headers};

fn limited(retry_after: &str) -> Response {
    let body = r#"{"error":{"code":"rate_limited","message":"slow down"}}"#;
    response_with_headers(429, &format!("Retry-After: {retry_after}\r\n"), body)
}

#[tokio::test]
async fn retries_a_send_after_429_with_the_same_bytes() {
    let server = MockServer::start([
        limited("0"),
        limited("Sun, 06 Nov 1994 08:49:37 GMT"),
        response(202, r#"{"id":"eml_1"}"#),
    ])
    .await;
    let client = server.email().build().unwrap();
    let email = Email::new("a@b", "c@d", "s").text("Hello");
    let call = client
        .emails()
        .send(&email)
        .idempotency_key("k")
        .with_response();
    let response = call.await.unwrap();
    assert_eq!(
        (response.attempts, response.value.id.as_str()),
        (3, "eml_1")
    );

    let requests = server.received_requests();
    assert_eq!(
        (&requests[0].body, &requests[0].line),
        (&requests[2].body, &requests[2].line)
    );
    assert!(
        requests
            .iter()
            .all(|request| request.header("idempotency-key") == Some("k"))
    );
}

#[tokio::test]
async fn returns_code_and_retry_after_of_a_persistent_429() {
    let server = MockServer::start([limited("0")]).await;
    let client = server.email().retries(0).build().unwrap();
    let error = client.domains().create("x.test").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::RateLimited, Outcome::Refused)
    );
    assert_eq!((error.code(), error.attempts()), (Some("rate_limited"), 1));
    assert_eq!(error.retry_after(), Some(Duration::ZERO));
    assert!(error.is_rate_limited() && error.is_retryable());
}

#[tokio::test]
async fn waits_for_retry_after() {
    let server = MockServer::start([limited("1"), response(200, "[]")]).await;
    let client = server.email().build().unwrap();
    let clock = Clock::pause();
    let call = tokio::spawn(client.domains().list().into_future());
    wait_until("first request received", || server.request_count() == 1).await;
    clock.advance(Duration::from_millis(999)).await;
    assert_eq!((server.request_count(), call.is_finished()), (1, false));

    clock.advance(Duration::from_millis(800)).await;
    wait_until("second request received", || server.request_count() == 2).await;
    assert!(call.await.unwrap().unwrap().is_empty());
}

#[tokio::test]
async fn fails_at_once_if_retry_after_is_too_long() {
    let server = MockServer::start([limited("61")]).await;
    let client = server
        .email()
        .timeout(Duration::from_secs(900))
        .build()
        .unwrap();
    let error = client.domains().list().await.unwrap_err();
    assert_eq!(
        (error.attempts(), error.retry_after()),
        (1, Some(Duration::from_secs(61)))
    );

    let server = MockServer::start([limited("31")]).await;
    let client = server.email().build().unwrap();
    let error = client.domains().list().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.attempts()),
        (&ErrorKind::RateLimited, 1)
    );
}

#[tokio::test]
async fn retries_reads_but_not_sends_after_500() {
    let server = MockServer::start([response(500, ""), response(200, r#"{"id":"x"}"#)]).await;
    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    client.emails().get("x").await.unwrap();
    assert_eq!(server.request_count(), 2);

    let server = MockServer::start([response(500, "")]).await;
    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    let email = Email::new("a@b", "c@d", "s");
    let errors = [
        client.emails().send(&email).await.unwrap_err(),
        client.emails().send_batch(&[email]).await.unwrap_err(),
        client.domains().create("x").await.unwrap_err(),
        client.webhooks().test("x").await.unwrap_err(),
        client.raw("POST", "/v1/x").await.unwrap_err(),
    ];
    assert!(
        errors
            .iter()
            .all(|error| error.outcome() == Outcome::Unknown)
    );
    assert_eq!(server.request_count(), errors.len());

    client.raw("HEAD", "/v1/x").await.unwrap_err();
    assert_eq!(
        server.request_count(),
        errors.len() + 3,
        "HEAD is idempotent"
    );

    // A raw request can be declared idempotent.
    client
        .raw("POST", "/v1/x")
        .idempotent(true)
        .await
        .unwrap_err();
    assert_eq!(server.request_count(), errors.len() + 6);
}

/// 425 says that nothing was processed; 501 that a repetition is of no use.
#[tokio::test]
async fn which_statuses_are_repeated() {
    for (status, send, get) in [
        (425, 3, 3),
        (500, 1, 3),
        (501, 1, 1),
        (502, 1, 3),
        (503, 1, 3),
        (504, 1, 3),
        (507, 1, 3),
        (520, 1, 3),
        (599, 1, 3),
        (400, 1, 1),
        (423, 1, 1),
    ] {
        let server = MockServer::json(status, "").await;
        let client = server.email();
        let client = client.back_off(Duration::ZERO, Duration::ZERO);
        let client = client.build().unwrap();
        let error = client.emails().send(Email::new("a@b", "c@d", "s")).await;
        assert_eq!(error.unwrap_err().attempts(), send, "send after {status}");
        let error = client.emails().get("x").await.unwrap_err();
        assert_eq!(error.attempts(), get, "get after {status}");
    }
}

#[tokio::test]
async fn a_retried_delete_treats_404_as_success() {
    let not_found = || response(404, r#"{"error":{"code":"not_found"}}"#);
    let server = MockServer::start([response(502, ""), not_found()]).await;
    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    let deleted = client.webhooks().delete("x").with_response().await.unwrap();
    assert!(deleted.value.already_gone);
    assert_eq!((deleted.status.as_u16(), deleted.attempts), (404, 2));

    // Not if the first attempt was certainly not processed.
    let server = MockServer::start([limited("0"), not_found()]).await;
    let client = server.email().build().unwrap();
    assert!(
        client
            .webhooks()
            .delete("x")
            .await
            .unwrap_err()
            .is_not_found()
    );

    let server = MockServer::start([not_found()]).await;
    let client = server.email().build().unwrap();
    assert!(
        client
            .webhooks()
            .delete("x")
            .await
            .unwrap_err()
            .is_not_found()
    );

    // And only for a delete.
    let server = MockServer::start([response(502, ""), not_found()]).await;
    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    assert!(client.webhooks().list().await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn an_earlier_ambiguous_attempt_makes_the_outcome_unknown() {
    let server = MockServer::start([response(503, ""), response(409, "")]).await;
    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    let error = client.emails().cancel("x").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Conflict, Outcome::Unknown)
    );
    assert_eq!(
        error.attempts(),
        3,
        "it also asked whether the email is cancelled"
    );
}

/// The response to a cancellation was lost, and its retry finds the email cancelled.
#[tokio::test]
async fn a_retried_cancel_treats_a_conflict_as_success_if_the_email_is_cancelled() {
    let get = |status: &str| response(200, &format!(r#"{{"id":"eml_1","status":"{status}"}}"#));
    for (status, is_cancelled) in [("cancelled", true), ("canceled", true), ("sent", false)] {
        let server = MockServer::start([response(502, ""), response(409, ""), get(status)]).await;
        let client = server
            .email()
            .back_off(Duration::ZERO, Duration::ZERO)
            .build()
            .unwrap();
        let cancelled = client.emails().cancel("eml_1").await;
        assert_eq!(cancelled.is_ok(), is_cancelled, "{cancelled:?}");
        assert_eq!(
            server.request_lines()[2],
            "GET /api/v1/emails/eml_1 HTTP/1.1"
        );
        assert_eq!(server.request_count(), 3);
    }

    // Without a lost response, a conflict is one.
    let server = MockServer::start([response(409, ""), get("cancelled")]).await;
    let client = server.email().build().unwrap();
    let error = client.emails().cancel("eml_1").await.unwrap_err();
    assert_eq!(
        (error.kind(), server.request_count()),
        (&ErrorKind::Conflict, 1)
    );
}

/// Some servers answer 408 after work began.
#[tokio::test]
async fn a_408_is_unknown_and_repeats_no_send() {
    let server = MockServer::start([response(408, ""), response(200, r#"{"id":"x"}"#)]).await;
    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    let error = client
        .emails()
        .send(Email::new("a@b", "c@d", "s"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Rejected, Outcome::Unknown)
    );
    assert_eq!((error.attempts(), error.is_retryable()), (1, false));

    let server = MockServer::start([response(408, ""), response(200, r#"{"id":"x"}"#)]).await;
    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    client.emails().get("x").await.unwrap();
}

#[tokio::test]
async fn the_first_attempt_starts_immediately() {
    let server = MockServer::json(200, "[]").await;
    let hour = Duration::from_secs(3_600);
    let client = server.email().back_off(hour, hour).build().unwrap();
    let response = client.domains().list().with_response().await.unwrap();
    assert_eq!(response.attempts, 1);
}

/// Full jitter: each pause is random between zero and the back-off.
#[tokio::test]
async fn retry_pauses_have_full_jitter() {
    let _clock = Clock::pause();
    let server = MockServer::start([response(503, "")]).await;
    let waits = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&waits);
    let hour = Duration::from_secs(3_600);
    let client = server.email().timeout(2 * hour).back_off(hour, hour);
    let client =
        client.on_attempt(move |attempt| recorded.lock().unwrap().extend(attempt.retry_in));
    let client = client.build().unwrap();
    for count in 1..=64 {
        let call = tokio::spawn(client.domains().list().into_future());
        wait_until("retry pause reported", || {
            waits.lock().unwrap().len() == count
        })
        .await;
        call.abort();
        let _ = call.await;
    }

    let waits = waits.lock().unwrap();
    assert!(waits.iter().all(|wait| *wait <= hour), "{waits:?}");

    let shorter = waits.iter().filter(|wait| **wait < hour / 2).count();
    assert!((1..64).contains(&shorter), "{waits:?}");
}

/// Only the typed deletion knows that 404 is what it wanted.
#[tokio::test]
async fn a_raw_delete_that_ends_in_404_is_an_error() {
    let server = MockServer::start([response(500, ""), response(404, "")]).await;
    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    let error = client
        .raw("DELETE", "/api/v1/audiences/a")
        .await
        .unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::NotFound, 2));
    assert_eq!(error.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn a_confirming_request_is_observed_and_carries_no_key_of_the_call() {
    let server = MockServer::start([
        response(500, ""),
        response(409, ""),
        response(200, r#"{"id":"eml_1","status":"cancelled"}"#),
    ])
    .await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&seen);
    let client = server
        .email()
        .back_off(Duration::ZERO, Duration::ZERO)
        .on_attempt(move |attempt| {
            let operation = attempt.operation.unwrap().name();
            all.lock()
                .unwrap()
                .push((operation, attempt.number, attempt.status.unwrap().as_u16()));
        });
    let client = client.build().unwrap();
    let call = client.emails().cancel("eml_1").idempotency_key("cancel-1");
    call.header("x-trace", "7").await.unwrap();
    assert_eq!(
        *seen.lock().unwrap(),
        [
            ("emails.cancel", 1, 500),
            ("emails.cancel", 2, 409),
            ("emails.get", 3, 200)
        ]
    );

    let requests = server.received_requests();
    assert_eq!(requests[1].header("idempotency-key"), Some("cancel-1"));
    assert_eq!(requests[2].header("idempotency-key"), None);
    assert_eq!(requests[2].header("x-trace"), Some("7"));
}

#[tokio::test]
async fn where_keys_are_honored_every_send_has_one_of_its_own() {
    let server = MockServer::start([response(500, ""), response(202, r#"{"id":"eml_1"}"#)]).await;
    let builder = server.email().back_off(Duration::ZERO, Duration::ZERO);
    let client = builder
        .clone()
        .service_honors_idempotency_key(true)
        .build()
        .unwrap();
    let email = Email::new("a@b", "c@d", "s").text("Hello");
    client.emails().send(&email).await.unwrap();
    client.emails().send(&email).await.unwrap();
    client
        .emails()
        .send(&email)
        .idempotency_key("mine")
        .await
        .unwrap();
    client.emails().get("eml_1").await.unwrap();
    let _ = client
        .emails()
        .send_batch(std::slice::from_ref(&email))
        .await;
    builder
        .build()
        .unwrap()
        .emails()
        .send(&email)
        .await
        .unwrap();

    let requests = server.received_requests();
    let keys: Vec<_> = requests
        .iter()
        .map(|request| request.header("idempotency-key"))
        .collect();
    assert_eq!(keys[0].unwrap().len(), 32);
    assert_eq!(keys[0], keys[1], "the retry has the same key");
    assert!(keys[2].is_some() && keys[2] != keys[0]);
    assert_eq!(keys[3..5], [Some("mine"), None]);
    assert!(keys[5].is_some() && keys[5] != keys[2]);
    assert_eq!(keys[6], None);

    // The key is gone with the call, so a repetition could send twice.
    let server = MockServer::json(500, "").await;
    let client = server.email().back_off(Duration::ZERO, Duration::ZERO);
    let client = client.service_honors_idempotency_key(true).build().unwrap();
    let own = client.emails().send(&email).await.unwrap_err();
    let given = client
        .emails()
        .send(&email)
        .idempotency_key("k")
        .await
        .unwrap_err();
    assert_eq!((own.attempts(), given.attempts()), (3, 3));
    assert!(!own.is_retryable() && given.is_retryable());
}

/// A key provider may return another key than the one that `me` was called with.
#[tokio::test]
async fn a_scope_learned_with_one_key_is_not_held_against_the_next() {
    let server = MockServer::json(
        200,
        r#"{"organization":{"id":"o"},"auth":{"scope":"extract_only"}}"#,
    )
    .await;
    let key = Arc::new(Mutex::new("sk_live_1"));
    let current = Arc::clone(&key);
    let client = server
        .extraction()
        .check_scopes(true)
        .key_provider(move || (*current.lock().unwrap()).into())
        .build()
        .unwrap();
    client.me().await.unwrap();
    let list = || client.webhooks().list().to_request();
    assert!(list().unwrap_err().is_missing_scope());

    *key.lock().unwrap() = "sk_live_2";
    list().unwrap();
    *key.lock().unwrap() = "sk_live_1";
    assert!(list().unwrap_err().is_missing_scope());
}

#[tokio::test]
async fn a_dropped_send_returns_its_place_unless_it_may_have_been_processed() {
    let clock = Clock::pause();
    let server = MockServer::start([limited("10"), response(202, r#"{"id":"eml_1"}"#)]).await;
    let guard = svc_sdk::RecipientGuard::default().max_per_run(1);
    let client = server.email().recipient_guard(guard).build().unwrap();
    let email = Email::new("a@b.test", "c@d.test", "s").text("Hello");

    let call = tokio::spawn(client.emails().send(&email).into_future());
    wait_until("the limited attempt", || server.request_count() == 1).await;
    clock.advance(Duration::from_secs(1)).await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());

    client.end_pauses();
    client.emails().send(&email).await.unwrap();
    client.emails().send(&email).await.unwrap_err();

    // Nobody answers: the service may have it.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let guard = svc_sdk::RecipientGuard::default().max_per_run(1);
    let client = svc_sdk::EmailClient::builder(url, "k").recipient_guard(guard);
    let client = client.build().unwrap();
    let call = tokio::spawn(client.emails().send(&email).into_future());
    let (mut connection, _) = listener.accept().await.unwrap();
    let mut buffer = Vec::new();
    crate::mock_server::read_request(&mut connection, &mut buffer)
        .await
        .unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());

    let error = client.emails().send(&email).await.unwrap_err();
    assert_eq!(error.kind().name(), "recipient_guard");
}
