//! What goes to `tracing`: the reason of every refusal, by whichever adapter, and
//! nothing secret.

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
use webhook_verify::dedup::{Claim, Dedup, DedupLayer, DedupStore, OnceError, Ticket};
use webhook_verify::{
    DeliveryKey, Extraction, ExtractionDelivery, LambdaRequest, LambdaResponse, Receiver,
    Rejection, Verified, VerifyLayer,
};

use crate::dedup::{Down, Unreachable, delivery};
use crate::http::{BODY, SECRET, receiver, signature, signed};

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

/// What this thread says meanwhile.
fn log_of(events: impl FnOnce()) -> String {
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

/// In a process of its own: where other tests come first to a line, tracing keeps
/// it for one that nobody wants.
fn alone(test: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", test])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn the_reason_is_logged_and_nothing_secret_is() {
    alone("logged::what_is_logged");
}

#[test]
#[ignore = "started by the test above"]
fn what_is_logged() {
    let log = log_of(|| {
        let mut lying = signed(BODY);
        lying.insert("x-service-event", HeaderValue::from_static("hush.header"));
        receiver().receive(&lying, BODY).unwrap();
        let mut only = signed("{}");
        only.insert("kind", HeaderValue::from_static("hush.only"));
        receiver().event_header("kind").receive(&only, "{}").unwrap();
        let broken = r#"{"event":"a\nb\u001b[2J"}"#;
        receiver().receive(&signed(broken), broken).unwrap();
        let long = format!(r#"{{"event":"{}hush"}}"#, "long".repeat(32));
        receiver().receive(&signed(&long), &long).unwrap();
        receiver().receive(&signed(BODY), "hush").unwrap_err();
        receiver().receive(&signed("hush"), "hush").unwrap_err();
        receiver().receive(&HeaderMap::new(), "hush").unwrap_err();
    });
    for said in [
        r#"status=401 reason=the signature does not match"#,
        r#"status=400 reason=the body is not JSON (line 1, column 1)"#,
        r#"status=401 reason=the signature header is missing"#,
        "the unsigned event header of a verified delivery names another event",
        r#"event="a\nb\u{1b}[2J""#,
        r#"longlong"… matched_secret=0"#,
    ] {
        assert!(log.contains(said), "{said:?} is not in {log}");
    }
    for hidden in ["hush", SECRET, &signature(BODY)[7..], "7c0e"] {
        assert!(!log.contains(hidden), "{hidden:?} is in {log}");
    }
}

#[test]
fn every_adapter_says_why_it_refuses() {
    alone("logged::what_each_adapter_logs");
}

#[test]
#[ignore = "started by the test above"]
fn what_each_adapter_logs() {
    let forged = || {
        let body = axum::body::Body::from("hush");
        Request::post("/").header("x-service-signature", signature(BODY)).body(body).unwrap()
    };
    let inner = tower::service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let log = log_of(|| {
        System::new().block_on(async {
            axum_refuses::<ExtractionDelivery>(forged()).await;
            axum_refuses::<Verified<Extraction, Bytes>>(forged()).await;

            let layer = VerifyLayer::new(receiver());
            for layer in [layer.clone(), layer.without_envelope()] {
                let answer = layer.layer(inner).oneshot(forged()).await.unwrap();
                assert_eq!(answer.status().as_u16(), 401);
            }

            actix_refuses::<ExtractionDelivery>().await;
            actix_refuses::<Verified<Extraction, Bytes>>().await;

            let event = serde_json::json!({
                "headers": {"x-service-signature": signature(BODY)}, "body": "hush"
            });
            let forged: LambdaRequest = serde_json::from_value(event).unwrap();
            receiver().receive_lambda(&forged).unwrap_err();
        });
    });
    let refused = "status=401 reason=the signature does not match";
    assert_eq!(log.matches(refused).count(), 7, "{log}");
    assert!(!log.contains("hush") && !log.contains(SECRET), "{log}");
}

async fn axum_refuses<T>(request: Request<axum::body::Body>)
where
    T: axum::extract::FromRequest<Receiver<Extraction>, Rejection = Rejection>,
{
    assert!(T::from_request(request, &receiver()).await.is_err_and(|error| error.status() == 401));
}

async fn actix_refuses<T: actix_web::FromRequest<Error = actix_web::Error>>() {
    let request = TestRequest::post().app_data(receiver()).set_payload("hush");
    let request = request.insert_header(("x-service-signature", signature(BODY)));
    let (request, mut payload) = request.to_http_parts();
    assert!(T::from_request(&request, &mut payload).await.is_err());
}

#[test]
fn every_adapter_says_that_the_store_failed() {
    alone("logged::what_each_adapter_logs_of_a_store");
}

#[test]
#[ignore = "started by the test above"]
fn what_each_adapter_logs_of_a_store() {
    let down = || OnceError::<LambdaResponse, Down>::Store(Down);
    let log = log_of(|| {
        assert_eq!(LambdaResponse::from(down()).status_code, 503);
        let answer = OnceError::<String, Down>::Store(Down).into_response();
        assert_eq!(answer.status().as_u16(), 503);
        let error = OnceError::<actix_web::Error, Down>::Store(Down);
        assert_eq!(actix_web::Error::from(error).error_response().status().as_u16(), 503);

        let inner = tower::service_fn(|_: Request<DeliveryKey>| async {
            Ok::<_, Infallible>(Response::new(String::new()))
        });
        let service = DedupLayer::new(Dedup::new(Unreachable)).layer(inner);
        let key = delivery(r#"{"event":"email.sent"}"#).key();
        let mut request = Request::new(key.clone());
        request.extensions_mut().insert(key.clone());
        let answer = System::new().block_on(service.clone().oneshot(request)).unwrap();
        assert_eq!(answer.status().as_u16(), 503);
        assert_eq!(answer.headers()["retry-after"], "5");

        // And what whoever put it together forgot.
        let answer = System::new().block_on(service.oneshot(Request::new(key))).unwrap();
        assert_eq!(answer.status().as_u16(), 500);
        let (request, mut payload) = TestRequest::post().to_http_parts();
        let forgotten =
            <ExtractionDelivery as actix_web::FromRequest>::from_request(&request, &mut payload);
        System::new().block_on(forgotten).unwrap_err();
    });
    for said in [
        "`DedupLayer` has to be inside of `VerifyLayer`",
        "the app data holds no `Receiver` of this scheme",
    ] {
        assert!(log.contains(said), "{said} is not in {log}");
    }
    let said = r#"the de-duplication store failed error="down""#;
    assert_eq!(log.matches(said).count(), 4, "{log}");
}

/// A store that is there for the claim and gone after that, or lets another
/// handler have the delivery meanwhile.
struct ForAClaim {
    completed: Option<bool>,
}

impl DedupStore for ForAClaim {
    type Error = Down;

    async fn claim(&self, key: &DeliveryKey, _: Duration) -> Result<Claim, Down> {
        Ok(Claim::New(Ticket::new(key.clone(), "1")))
    }

    async fn complete(&self, _: &Ticket, _: Duration) -> Result<bool, Down> {
        self.completed.ok_or(Down)
    }

    async fn release(&self, _: &Ticket) -> Result<(), Down> {
        Err(Down)
    }
}

#[test]
fn what_goes_wrong_after_the_claim_is_said() {
    alone("logged::what_is_logged_after_the_claim");
}

#[test]
#[ignore = "started by the test above"]
fn what_is_logged_after_the_claim() {
    let delivery = delivery(r#"{"event":"email.sent"}"#);
    let log_with = |completed, handled: Result<(), ()>| {
        log_of(|| {
            let dedup = Dedup::new(ForAClaim { completed });
            let once = System::new().block_on(dedup.once(&delivery, async { handled }));
            assert_eq!(once.is_ok(), handled.is_ok());
        })
    };
    for (completed, handled, said) in [
        (Some(true), Ok(()), ""),
        (Some(false), Ok(()), "a webhook delivery took longer than its lease"),
        (None, Ok(()), r#"a handled webhook delivery could not be marked as done error="down""#),
        (
            None,
            Err(()),
            r#"a failed webhook delivery stays claimed until its lease ends error="down""#,
        ),
    ] {
        let log = log_with(completed, handled);
        assert!(log.contains(said) && log.contains("webhook") != said.is_empty(), "{log}");
    }
}
