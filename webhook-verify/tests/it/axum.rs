//! The axum extractors, and the tower layer in an axum router.

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRef, State};
use axum::http::{Request, StatusCode};
use axum::routing::post;
use bytes::Bytes;
use http_body_util::BodyExt;
use tower::ServiceExt;
use webhook_verify::{
    Extraction, ExtractionDelivery, Mail, MailSigner, MailVerifier, Receiver, Secret, Verified,
};

use crate::http::{BODY, SECRET, receiver, signature};

async fn send(app: Router, request: Request<Body>) -> (u16, Bytes) {
    let (parts, body) = app.oneshot(request).await.unwrap().into_parts();
    (parts.status.as_u16(), body.collect().await.unwrap().to_bytes())
}

fn request(path: &str, name: &str, signature: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path).header(name, signature).body(body.into()).unwrap()
}

fn app() -> Router {
    async fn receive(delivery: ExtractionDelivery) -> String {
        delivery.id().unwrap_or_default().to_owned()
    }
    Router::new().route("/", post(receive)).with_state(receiver())
}

#[tokio::test]
async fn the_extractor_verifies_and_rejects() {
    let name = "X-Service-Signature";
    let good = request("/", name, &signature(BODY), BODY);
    assert_eq!(send(app(), good).await, (200, Bytes::from_static(b"7c0e")));

    let empty = Bytes::new();
    let unsigned = Request::post("/").body(BODY.into()).unwrap();
    assert_eq!(send(app(), unsigned).await, (401, empty.clone()));
    let forged = request("/", name, &signature("other"), BODY);
    assert_eq!(send(app(), forged).await, (401, empty.clone()));
    let large = vec![b'x'; 1024 * 1024 + 1];
    let large = request("/", name, &signature(&large), large);
    assert_eq!(send(app(), large).await, (413, empty.clone()));
    let odd = request("/", name, &signature("[]"), "[]");
    assert_eq!(send(app(), odd).await, (400, empty));
}

/// A router state with a receiver for each service.
#[derive(Clone)]
struct App {
    extraction: Receiver<Extraction>,
    mail: Receiver<Mail>,
}

impl FromRef<App> for Receiver<Extraction> {
    fn from_ref(app: &App) -> Self {
        app.extraction.clone()
    }
}

impl FromRef<App> for Receiver<Mail> {
    fn from_ref(app: &App) -> Self {
        app.mail.clone()
    }
}

#[tokio::test]
async fn both_services_in_one_router() {
    async fn mail(State(_): State<App>, body: Verified<Mail, Bytes>) -> Bytes {
        body.into_body()
    }
    async fn extraction(_: ExtractionDelivery) -> StatusCode {
        StatusCode::NO_CONTENT
    }
    let secret = Secret::new("whsec_mail").unwrap();
    let signer = MailSigner::new(&secret);
    let mail_receiver = Receiver::new(MailVerifier::new(secret));
    let app = Router::new()
        .route("/mail", post(mail))
        .route("/extraction", post(extraction))
        .with_state(App { extraction: receiver(), mail: mail_receiver });

    // `Verified` accepts bodies that are neither JSON nor UTF-8.
    let body: &[u8] = b"\xFF\x00";
    let raw = request("/mail", "Mail-Signature", &signer.sign(body).to_string(), body);
    assert_eq!(send(app.clone(), raw).await, (200, Bytes::from_static(body)));
    let good = request("/extraction", "X-Service-Signature", &signature(BODY), BODY);
    assert_eq!(send(app.clone(), good).await.0, 204);
    let mixed_up = request("/mail", "X-Service-Signature", &signature(BODY), BODY);
    assert_eq!(send(app.clone(), mixed_up).await.0, 401);
    let other_secret = MailSigner::new(&Secret::new(SECRET).unwrap()).sign(BODY);
    let forged = request("/mail", "Mail-Signature", &other_secret.to_string(), BODY);
    assert_eq!(send(app, forged).await.0, 401);
}

/// The comparison is kept until the handler parses the envelope.
#[tokio::test]
async fn the_event_header_is_compared_for_a_verified_body() {
    async fn receive(verified: Verified<Extraction, Bytes>) -> String {
        format!("{:?}", verified.into_delivery().unwrap().header_event())
    }
    let app = Router::new().route("/", post(receive)).with_state(receiver());
    let mut named = request("/", "X-Service-Signature", &signature(BODY), BODY);
    named.headers_mut().insert("x-service-event", "extraction.failed".parse().unwrap());
    let expected = Bytes::from(r#"Different("extraction.failed")"#);
    assert_eq!(send(app, named).await, (200, expected));
}

/// The lower one of the receiver's limit and axum's applies.
#[tokio::test]
async fn the_lower_body_limit_applies() {
    async fn receive(delivery: ExtractionDelivery) -> String {
        delivery.body().len().to_string()
    }
    let limited = |bytes, axum: Option<DefaultBodyLimit>| {
        let app = Router::new().route("/", post(receive));
        let app = match axum {
            Some(limit) => app.layer(limit),
            None => app,
        };
        app.with_state(receiver().body_limit(bytes))
    };
    let body = |length: usize| {
        let envelope = r#"{"event":"e","data":""}"#.len();
        format!(r#"{{"event":"e","data":"{}"}}"#, "x".repeat(length - envelope))
    };
    let large = 3 << 20;
    for (length, ours, axum, status) in [
        (100, 100, None, 200),
        (101, 100, None, 413),
        (large, large, Some(DefaultBodyLimit::disable()), 200),
        (large, large - 1, Some(DefaultBodyLimit::disable()), 413),
        (100, large, Some(DefaultBodyLimit::max(100)), 200),
        (101, large, Some(DefaultBodyLimit::max(100)), 413),
        (large, large, Some(DefaultBodyLimit::max(large)), 200),
        // axum's default.
        (2_097_152, large, None, 200),
        (2_097_153, large, None, 413),
    ] {
        let body = body(length);
        let signature = signature(&body);
        // With and without an announced length.
        let frames = futures_util::stream::iter([Ok::<_, std::io::Error>(body.clone())]);
        for body in [Body::from(body), Body::from_stream(frames)] {
            let request = request("/", "X-Service-Signature", &signature, body);
            let response = send(limited(ours, axum), request).await;
            assert_eq!(response.0, status, "{length} bytes, {ours}, {axum:?}");
        }
    }
}

#[tokio::test]
async fn the_tower_layer_works_in_axum() {
    use axum::Extension;
    use webhook_verify::VerifyLayer;

    async fn receive(Extension(delivery): Extension<ExtractionDelivery>, body: Bytes) -> Bytes {
        assert_eq!(delivery.body(), body);
        body
    }
    let app = Router::new().route("/", post(receive)).layer(VerifyLayer::new(receiver()));
    let good = request("/", "X-Service-Signature", &signature(BODY), BODY);
    assert_eq!(send(app.clone(), good).await, (200, Bytes::from_static(BODY.as_bytes())));
    let forged = request("/", "X-Service-Signature", &signature("other"), BODY);
    assert_eq!(send(app, forged).await, (401, Bytes::new()));
}
