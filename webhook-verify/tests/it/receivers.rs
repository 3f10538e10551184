//! The same requests through every adapter: axum, actix-web, and `http` requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use http_body_util::Full;
use tower::ServiceExt as _;
use webhook_verify::bytes::Bytes;
use webhook_verify::chrono::{DateTime, TimeDelta, Utc};
use webhook_verify::{Delivery, Receiver, Rejection, Secret, Service, Signature, Verifier};

pub(crate) const BODY: &str = r#"{"event":"extraction.completed","id":"7c0e","data":{"total":3}}"#;

pub(crate) fn secret(name: &str) -> Secret {
    Secret::new(format!("whsec_{name}")).unwrap()
}

/// A receiver of the extraction service.
pub(crate) fn receiver() -> Receiver {
    Receiver::new(Verifier::extraction(secret("x")))
}

pub(crate) fn signature(body: impl AsRef<[u8]>) -> String {
    Signature::sign(Service::Extraction, &secret("x"), body).to_string()
}

/// A request: path, headers and body.
#[derive(Clone, Debug)]
struct Request {
    path: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

fn signed(body: impl AsRef<[u8]>) -> Request {
    let headers = vec![("x-service-signature", signature(&body))];
    Request {
        path: "/",
        headers,
        body: body.as_ref().to_vec(),
    }
}

/// Status and text of the response, or its `Retry-After`.
type Response = (u16, String);

fn describe(delivery: &Delivery) -> String {
    let header = delivery.different_header_event().unwrap_or("-");
    let signed = if delivery.event_is_signed() {
        ""
    } else {
        " unsigned"
    };
    let tenant = delivery.tenant().unwrap_or("-");
    format!(
        "{} {} {tenant} {header}{signed}",
        delivery.event(),
        delivery.key()
    )
}

async fn handle(delivery: Delivery) -> String {
    describe(&delivery)
}

fn router(receiver: &Receiver) -> Router {
    Router::new()
        .fallback(post(handle))
        .with_state(receiver.clone())
}

async fn in_axum(app: Router, request: &Request) -> Response {
    let builder = http::Request::post(request.path);
    let builder = request
        .headers
        .iter()
        .fold(builder, |b, (name, value)| b.header(*name, value));
    let request = builder
        .body(axum::body::Body::from(request.body.clone()))
        .unwrap();
    let response = app.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let retry_after = response
        .headers()
        .get("retry-after")
        .map(|v| v.to_str().unwrap().to_owned());
    let text = axum::body::to_bytes(response.into_body(), 1000)
        .await
        .unwrap();
    (
        status,
        retry_after.unwrap_or_else(|| String::from_utf8(text.to_vec()).unwrap()),
    )
}

async fn in_actix(receiver: &Receiver, request: &Request) -> Response {
    use actix_web::test::{TestRequest, call_service, init_service, read_body};
    use actix_web::{App, web};

    let app = App::new()
        .app_data(receiver.clone())
        .default_service(web::post().to(handle));
    let app = init_service(app).await;
    let mut sent = TestRequest::post()
        .uri(request.path)
        .set_payload(request.body.clone());
    for (name, value) in &request.headers {
        sent = sent.append_header((*name, value.as_str()));
    }

    let response = call_service(&app, sent.to_request()).await;
    let status = response.status().as_u16();
    let retry_after = response
        .headers()
        .get("retry-after")
        .map(|v| v.to_str().unwrap().to_owned());
    let text = read_body(response).await;
    (
        status,
        retry_after.unwrap_or_else(|| String::from_utf8(text.to_vec()).unwrap()),
    )
}

async fn in_http(receiver: &Receiver, request: &Request) -> Result<Delivery, Rejection> {
    let builder = http::Request::post(request.path);
    let builder = request
        .headers
        .iter()
        .fold(builder, |b, (name, value)| b.header(*name, value));
    let body = Bytes::from(request.body.clone());
    receiver
        .receive(builder.body(Full::new(body)).unwrap())
        .await
}

/// The response, which is the same in every adapter.
fn response(receiver: &Receiver, request: &Request) -> Response {
    actix_web::rt::System::new().block_on(async {
        let expected = match in_http(receiver, request).await {
            Ok(delivery) => (200, describe(&delivery)),
            Err(rejection) => {
                let retry_after = rejection.retry_after().map(|seconds| seconds.to_string());
                (rejection.status(), retry_after.unwrap_or_default())
            }
        };
        assert_eq!(
            in_axum(router(receiver), request).await,
            expected,
            "axum {request:?}"
        );
        assert_eq!(
            in_actix(receiver, request).await,
            expected,
            "actix {request:?}"
        );
        let headers = request
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()));
        let (path, query) = request.path.split_once('?').unwrap_or((request.path, ""));
        let received = receiver
            .receive_parts(headers, path, Some(query), request.body.clone())
            .await
            .map(|delivery| describe(&delivery));
        assert_eq!(
            received.map_err(|rejection| rejection.status()).ok(),
            match expected.0 {
                200 => Some(expected.1.clone()),
                _ => None,
            }
        );
        expected
    })
}

fn rejected(status: u16) -> Response {
    (status, String::new())
}

#[test]
fn deliveries_are_verified_and_others_rejected() {
    let receiver = receiver();
    let key = "extraction.completed extraction:extraction.completed:id:7c0e - -";
    assert_eq!(response(&receiver, &signed(BODY)), (200, key.to_owned()));

    let unsigned = Request {
        headers: vec![],
        ..signed(BODY)
    };
    assert_eq!(response(&receiver, &unsigned), rejected(401));

    let forged = Request {
        body: b"{}".to_vec(),
        ..signed(BODY)
    };
    assert_eq!(response(&receiver, &forged), rejected(401));

    let mut twice = signed(BODY);
    twice.headers.push(("X-Service-Signature", signature(BODY)));
    assert_eq!(response(&receiver, &twice), rejected(401));

    let of_email = Signature::sign(Service::Email, &secret("x"), BODY).to_string();
    let of_email = Request {
        headers: vec![("mail-signature", of_email)],
        ..signed(BODY)
    };
    assert_eq!(response(&receiver, &of_email), rejected(401));
    assert_eq!(response(&receiver, &signed("\u{fc}")), rejected(400));

    // A service may send any JSON: what verifies is delivered, without an event if it names none.
    for without_event in ["[]", "{}", r#"{"event":1}"#] {
        assert_eq!(response(&receiver, &signed(without_event)).0, 200);
    }
}

#[test]
fn the_body_is_limited() {
    let limited = receiver().body_limit(BODY.len());
    assert_eq!(response(&limited, &signed(BODY)).0, 200);
    assert_eq!(
        response(&limited, &signed(format!("{BODY} "))),
        rejected(413)
    );

    let mib = vec![b' '; Receiver::DEFAULT_BODY_LIMIT + 1];
    assert_eq!(response(&receiver(), &signed(&mib)), rejected(413));

    // A header without a signature is checked before the size.
    let unsigned = Request {
        headers: vec![],
        ..signed(&mib)
    };
    assert_eq!(response(&receiver(), &unsigned), rejected(401));
}

/// The lower one of the receiver's limit and axum's applies, with and without an announced length.
#[tokio::test]
async fn the_limit_of_axum_applies() {
    let large = format!(r#"{{"event":"e","data":"{}"}}"#, "x".repeat(3 << 20));
    for (axum, expected) in [
        (DefaultBodyLimit::disable(), 200),
        (DefaultBodyLimit::max(large.len()), 200),
        (DefaultBodyLimit::max(large.len() - 1), 413),
    ] {
        for announced in [true, false] {
            let app = router(&receiver().body_limit(4 << 20)).layer(axum);
            let frames = futures_util::stream::iter([Ok::<_, std::io::Error>(large.clone())]);
            let body = if announced {
                axum::body::Body::from(large.clone())
            } else {
                axum::body::Body::from_stream(frames)
            };
            let request = http::Request::post("/").header("x-service-signature", signature(&large));
            let response = app.oneshot(request.body(body).unwrap()).await.unwrap();
            assert_eq!(response.status().as_u16(), expected, "{axum:?} {announced}");
        }
    }
}

#[test]
fn the_event_header_is_compared_and_never_trusted() {
    let named = |body: &str, header: &'static str, value: &str| {
        let mut request = signed(body);
        request.headers.push((header, value.to_owned()));
        request
    };

    let key = "extraction.completed extraction:extraction.completed:id:7c0e -";
    let same = named(BODY, "x-service-event", "extraction.completed");
    assert_eq!(response(&receiver(), &same).1, format!("{key} -"));

    let other = named(BODY, "X-Service-Event", "extraction.failed");
    assert_eq!(
        response(&receiver(), &other).1,
        format!("{key} extraction.failed")
    );

    let mut twice = same.clone();
    twice.headers.extend(same.headers.last().cloned());
    let joined = format!("{key} extraction.completed, extraction.completed");
    assert_eq!(response(&receiver(), &twice).1, joined);

    // The documented header does not name the event of a body without one; a configured one does,
    // of any JSON, and is not part of the key.
    let without = named("{}", "x-service-event", "extraction.failed");
    let (status, text) = response(&receiver(), &without);
    assert_eq!(status, 200);
    assert!(text.starts_with(" extraction:"), "{text}");

    let configured = receiver().event_header("Kind");
    for body in [r#"{"id":"7"}"#, "[1]", "17", "null"] {
        let (status, text) = response(&configured, &named(body, "kind", "extraction.failed"));
        assert_eq!(status, 200);
        assert!(text.starts_with("extraction.failed extraction:") && text.ends_with("- unsigned"));
        assert_eq!(
            text.contains("extraction::id:7"),
            body.contains("id"),
            "{text}"
        );
        let again = response(&configured, &named(body, "kind", "other"));
        assert_eq!(again.1, text.replacen("extraction.failed", "other", 1));
    }
}

#[test]
fn old_and_future_deliveries_are_rejected() {
    let clock = Arc::new(Mutex::new(
        "2026-03-01T00:00:00Z".parse::<DateTime<Utc>>().unwrap(),
    ));
    let now = clock.clone();
    let receiver = receiver().clock(move || *now.lock().unwrap());
    let dated =
        |created: &str| signed(format!(r#"{{"event":"e","id":"1","created":"{created}"}}"#));
    for (created, status) in [
        ("2026-03-01T00:00:00Z", 200),
        ("2026-02-28T00:00:00Z", 200),
        ("2026-02-27T23:59:59Z", 400),
        ("2026-03-01T00:05:00Z", 200),
        ("2026-03-01T00:05:01Z", 503),
        ("2099-01-01T00:00:00Z", 503),
        ("soon", 200),
    ] {
        assert_eq!(response(&receiver, &dated(created)).0, status, "{created}");
    }

    // A limit of your own needs a date, and none at all accepts every date.
    let strict = receiver.clone().max_age(Duration::from_secs(60));
    for (created, status) in [
        ("2026-02-28T23:59:00Z", 200),
        ("2026-02-28T23:58:59Z", 400),
        ("soon", 400),
    ] {
        assert_eq!(response(&strict, &dated(created)).0, status, "{created}");
    }

    assert_eq!(
        response(
            &receiver.clone().max_age(None),
            &dated("2099-01-01T00:00:00Z")
        )
        .0,
        200
    );

    // The clock may move.
    *clock.lock().unwrap() += TimeDelta::hours(25);
    assert_eq!(response(&receiver, &dated("2026-03-01T00:00:00Z")).0, 400);
}

/// The resolver decides once, and the handler sees what it decided.
#[test]
fn tenants_are_resolved_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let receiver = Receiver::resolving(move |head| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            let tenant = match head.path().split('/').nth(2) {
                Some("database-down") => return Err("no connection".into()),
                Some(tenant @ ("a" | "b" | "m%61in")) => tenant.to_owned(),
                _ if head.header("X-Tenant") == Some("a") => "a".to_owned(),
                _ if head.query() == Some("tenant=a") => "a".to_owned(),
                _ => return Ok(None),
            };
            let email = Verifier::email(secret(&format!("{tenant}-email")));
            let both = Verifier::extraction(secret(&tenant)).and(&email)?;
            Ok(Some((tenant, both)))
        }
    });
    let request = |path, signer: &str| {
        let signature = Signature::sign(Service::Extraction, &secret(signer), BODY).to_string();
        Request {
            path,
            headers: vec![("x-service-signature", signature)],
            ..signed(BODY)
        }
    };

    for (path, signer, status, text) in [
        (
            "/tenants/a/hooks",
            "a",
            200,
            "a/extraction:extraction.completed:id:7c0e a -",
        ),
        (
            "/tenants/b/hooks?x=1",
            "b",
            200,
            "b/extraction:extraction.completed:id:7c0e b -",
        ),
        (
            "/tenants/m%61in/hooks",
            "m%61in",
            200,
            "m%61in/extraction:extraction.completed:id:7c0e m%61in -",
        ),
        (
            "/hooks?tenant=a",
            "a",
            200,
            "a/extraction:extraction.completed:id:7c0e a -",
        ),
        ("/tenants/a/hooks", "b", 401, ""),
        ("/tenants/c/hooks", "c", 401, ""),
        ("/tenants/database-down/hooks", "a", 503, "5"),
    ] {
        let before = calls.load(Ordering::Relaxed);
        let (actual, response) = response(&receiver, &request(path, signer));
        assert_eq!(
            (actual, response.trim_start_matches("extraction.completed ")),
            (status, text)
        );
        assert_eq!(
            calls.load(Ordering::Relaxed) - before,
            4,
            "once in each adapter"
        );
    }

    let email = Signature::sign(Service::Email, &secret("a-email"), BODY).to_string();
    let headers = vec![("mail-signature", email), ("x-tenant", "a".to_owned())];
    let (status, text) = response(
        &receiver,
        &Request {
            headers,
            ..signed(BODY)
        },
    );
    assert_eq!(
        (status, &*text),
        (
            200,
            "extraction.completed a/email:extraction.completed:id:7c0e a -"
        )
    );

    // A forged header does not reach the resolver.
    let before = calls.load(Ordering::Relaxed);
    let unsigned = Request {
        path: "/tenants/a/hooks",
        headers: vec![],
        ..signed(BODY)
    };
    assert_eq!(response(&receiver, &unsigned), rejected(401));
    assert_eq!(calls.load(Ordering::Relaxed), before);
}

#[test]
fn actix_finds_shared_app_data_and_reports_none() {
    use actix_web::test::{TestRequest, call_service, init_service};
    use actix_web::{App, web};

    actix_web::rt::System::new().block_on(async {
        let request = || {
            let request = TestRequest::post().set_payload(BODY);
            request
                .insert_header(("x-service-signature", signature(BODY)))
                .to_request()
        };
        let app = App::new()
            .app_data(web::Data::new(receiver()))
            .route("/", web::post().to(handle));
        assert_eq!(
            call_service(&init_service(app).await, request())
                .await
                .status()
                .as_u16(),
            200
        );
        let app = App::new().route("/", web::post().to(handle));
        assert_eq!(
            call_service(&init_service(app).await, request())
                .await
                .status()
                .as_u16(),
            500
        );
    });
}
