//! Log messages: every adapter logs the reason of a rejection, and no confidential data.

use std::convert::Infallible;
use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix_web::rt::System;
use actix_web::test::TestRequest;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::Full;
use tower::{Layer as _, ServiceExt as _};
use webhook_verify::dedup::{
    Claim, Dedup, DedupError, DedupLayer, DedupStore, StoreFuture, Ticket,
};
use webhook_verify::{
    DeliveryKey, Extraction, ExtractionDelivery, LambdaRequest, LambdaResponse, Receiver,
    Rejection, Verified, VerifyLayer,
};

use crate::dedup::{StoreDown, UnreachableStore, delivery};
use crate::http::{BODY, SECRET, receive, receiver, signature, signed};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log output of `events` on this thread.
fn capture_log(events: impl FnOnce()) -> String {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, events);
    let bytes = log.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// Runs an ignored test in a separate process. In this process, `tracing` may have
/// cached a callsite as disabled because another test reached it first.
fn run_in_subprocess(test: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", test])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[test]
fn logs_the_reason_and_nothing_confidential() {
    run_in_subprocess("logged::logs_the_reason_subprocess");
}

#[test]
#[ignore = "run in a subprocess by the test above"]
fn logs_the_reason_subprocess() {
    let log = capture_log(|| {
        let mut mismatched = signed(BODY);
        mismatched.insert("x-service-event", HeaderValue::from_static("hush.header"));
        receive(&receiver(), &mismatched, BODY).unwrap();
        let mut fallback = signed("{}");
        fallback.insert("kind", HeaderValue::from_static("hush.only"));
        receive(&receiver().event_header("kind"), &fallback, "{}").unwrap();
        let control_characters = r#"{"event":"a\nb\u001b[2J"}"#;
        receive(&receiver(), &signed(control_characters), control_characters).unwrap();
        let long = format!(r#"{{"event":"{}hush"}}"#, "long".repeat(32));
        receive(&receiver(), &signed(&long), &long).unwrap();
        receive(&receiver(), &signed(BODY), "hush").unwrap_err();
        receive(&receiver(), &signed("hush"), "hush").unwrap_err();
        receive(&receiver(), &HeaderMap::new(), "hush").unwrap_err();
    });
    for expected in [
        r#"status=401 reason=the signature does not match"#,
        r#"status=400 reason=the body is not JSON (line 1, column 1)"#,
        r#"status=401 reason=the signature header is missing"#,
        "the unsigned event header of a verified delivery names a different event",
        r#"event="a\nb\u{1b}[2J""#,
        r#"longlong"… matched_secret=0"#,
    ] {
        assert!(log.contains(expected), "{expected:?} is not in {log}");
    }
    for hidden in ["hush", SECRET, &signature(BODY)[7..], "7c0e"] {
        assert!(!log.contains(hidden), "{hidden:?} is in {log}");
    }
}

#[test]
fn every_adapter_logs_the_reason() {
    run_in_subprocess("logged::every_adapter_logs_the_reason_subprocess");
}

#[test]
#[ignore = "run in a subprocess by the test above"]
fn every_adapter_logs_the_reason_subprocess() {
    let forged = || {
        let body = axum::body::Body::from("hush");
        Request::post("/").header("x-service-signature", signature(BODY)).body(body).unwrap()
    };
    let inner = tower::service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let log = capture_log(|| {
        System::new().block_on(async {
            axum_rejects::<ExtractionDelivery>(forged()).await;
            axum_rejects::<Verified<Extraction, Bytes>>(forged()).await;

            let layer = VerifyLayer::new(receiver());
            for layer in [layer.clone(), layer.without_envelope()] {
                let response = layer.layer(inner).oneshot(forged()).await.unwrap();
                assert_eq!(response.status().as_u16(), 401);
            }

            actix_rejects::<ExtractionDelivery>().await;
            actix_rejects::<Verified<Extraction, Bytes>>().await;

            let event = serde_json::json!({
                "headers": {"x-service-signature": signature(BODY)}, "body": "hush"
            });
            let forged: LambdaRequest = serde_json::from_value(event).unwrap();
            receiver().receive_lambda(&forged).await.unwrap_err();
        });
    });
    let rejected = "status=401 reason=the signature does not match";
    assert_eq!(log.matches(rejected).count(), 7, "{log}");
    assert!(!log.contains("hush") && !log.contains(SECRET), "{log}");
}

async fn axum_rejects<T>(request: Request<axum::body::Body>)
where
    T: axum::extract::FromRequest<Receiver<Extraction>, Rejection = Rejection>,
{
    assert!(T::from_request(request, &receiver()).await.is_err_and(|error| error.status() == 401));
}

async fn actix_rejects<T: actix_web::FromRequest<Error = actix_web::Error>>() {
    let request = TestRequest::post().app_data(receiver()).set_payload("hush");
    let request = request.insert_header(("x-service-signature", signature(BODY)));
    let (request, mut payload) = request.to_http_parts();
    assert!(T::from_request(&request, &mut payload).await.is_err());
}

#[test]
fn every_adapter_logs_store_failures() {
    run_in_subprocess("logged::every_adapter_logs_store_failures_subprocess");
}

#[test]
#[ignore = "run in a subprocess by the test above"]
fn every_adapter_logs_store_failures_subprocess() {
    let down = || DedupError::<LambdaResponse>::Store(StoreDown.into());
    let log = capture_log(|| {
        assert_eq!(LambdaResponse::from(down()).status_code, 503);
        let response = DedupError::<String>::Store(StoreDown.into()).into_response();
        assert_eq!(response.status().as_u16(), 503);
        let error = DedupError::<actix_web::Error>::Store(StoreDown.into());
        assert_eq!(actix_web::Error::from(error).error_response().status().as_u16(), 503);

        let inner = tower::service_fn(|_: Request<DeliveryKey>| async {
            Ok::<_, Infallible>(Response::new(String::new()))
        });
        let service = DedupLayer::new(Dedup::new(UnreachableStore)).layer(inner);
        let key = delivery(r#"{"event":"email.sent"}"#).key();
        let mut request = Request::new(key.clone());
        request.extensions_mut().insert(key.clone());
        let response = System::new().block_on(service.clone().oneshot(request)).unwrap();
        assert_eq!(response.status().as_u16(), 503);
        assert_eq!(response.headers()["retry-after"], "5");

        // Incorrect setup is logged too.
        let response = System::new().block_on(service.oneshot(Request::new(key))).unwrap();
        assert_eq!(response.status().as_u16(), 500);
        let (request, mut payload) = TestRequest::post().to_http_parts();
        let without_receiver =
            <ExtractionDelivery as actix_web::FromRequest>::from_request(&request, &mut payload);
        System::new().block_on(without_receiver).unwrap_err();
    });
    for expected in [
        "`DedupLayer` must be inside `VerifyLayer`",
        "no receiver of this type is registered as app data",
    ] {
        assert!(log.contains(expected), "{expected} is not in {log}");
    }
    let expected = r#"the de-duplication store failed error="down""#;
    assert_eq!(log.matches(expected).count(), 4, "{log}");
}

/// A store that accepts every claim. Completing it fails, or reports that another
/// handler has claimed the delivery, as configured.
struct FailsAfterClaim {
    completed: Option<bool>,
}

impl DedupStore for FailsAfterClaim {
    fn claim<'a>(&'a self, _: &'a Ticket, _: Duration) -> StoreFuture<'a, Claim> {
        Box::pin(async { Ok(Claim::New) })
    }

    fn renew<'a>(&'a self, _: &'a Ticket, _: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async { Err(StoreDown.into()) })
    }

    fn complete<'a>(&'a self, _: &'a Ticket, _: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async { self.completed.ok_or_else(|| StoreDown.into()) })
    }

    fn release<'a>(&'a self, _: &'a Ticket) -> StoreFuture<'a, ()> {
        Box::pin(async { Err(StoreDown.into()) })
    }

    fn forget<'a>(&'a self, _: &'a DeliveryKey) -> StoreFuture<'a, bool> {
        Box::pin(async { Err(StoreDown.into()) })
    }
}

#[test]
fn logs_failures_after_the_claim() {
    run_in_subprocess("logged::logs_failures_after_the_claim_subprocess");
}

#[test]
#[ignore = "run in a subprocess by the test above"]
fn logs_failures_after_the_claim_subprocess() {
    let delivery = delivery(r#"{"event":"email.sent"}"#);
    let log_with = |completed, handled: Result<(), ()>| {
        capture_log(|| {
            let dedup = Dedup::new(FailsAfterClaim { completed });
            let once =
                System::new().block_on(dedup.run_once(delivery.clone(), async move |_| handled));
            assert_eq!(once.is_ok(), handled.is_ok());
        })
    };
    for (completed, handled, expected) in [
        (Some(true), Ok(()), ""),
        (
            Some(false),
            Ok(()),
            "a webhook delivery was handled, but another handler has claimed it since",
        ),
        (
            None,
            Ok(()),
            r#"failed to mark a handled webhook delivery as done; retrying error="down""#,
        ),
        (
            None,
            Err(()),
            r#"failed to release a webhook delivery; retrying until its lease ends error="down""#,
        ),
    ] {
        let log = log_with(completed, handled);
        assert!(log.contains(expected) && log.contains("webhook") != expected.is_empty(), "{log}");
    }
}
