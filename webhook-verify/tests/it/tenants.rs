//! Several tenants, endpoints and services in one application.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::web;
use axum::Router;
use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use serde_json::json;
use tower::{ServiceBuilder, ServiceExt as _};
use webhook_verify::dedup::{
    Dedup, DedupError, DedupLayer, DedupStore, MemoryStore, Outcome, RedisStore,
};
use webhook_verify::{
    AnyDelivery, AnyReceiver, Extraction, ExtractionDelivery, ExtractionSigner, ExtractionVerifier,
    LambdaRequest, MailSigner, MailVerifier, Receiver, Rejection, Secret, SecretError, VerifyError,
    VerifyLayer,
};

use crate::dedup::delivery;
use crate::http::BODY;

const SAME_ID: &str = r#"{"event":"email.sent","id":"1"}"#;

async fn handle<D>(_: D) -> Result<StatusCode, StatusCode> {
    Ok(StatusCode::NO_CONTENT)
}

fn secret(tenant: &str) -> Secret {
    Secret::new(format!("whsec_{tenant}")).unwrap()
}

fn signature_of(tenant: &str, body: &str) -> String {
    ExtractionSigner::new(&secret(tenant)).sign(body).to_string()
}

#[tokio::test]
async fn a_delivery_of_one_scope_is_no_duplicate_of_another_scopes() {
    let dedup = Dedup::new(MemoryStore::new());
    let scopes = [dedup.clone(), dedup.scope("a"), dedup.scope("b"), dedup.scope("a/b")];
    for scope in &scopes {
        let outcome = scope.run_once(delivery(SAME_ID), handle).await.unwrap();
        assert_eq!(outcome, Outcome::Handled(StatusCode::NO_CONTENT), "{scope:?}");
    }
    for scope in &scopes {
        let outcome = scope.run_once(delivery(SAME_ID), handle).await.unwrap();
        assert_eq!(outcome, Outcome::Duplicate, "{scope:?}");
    }
}

#[tokio::test]
async fn a_forgotten_delivery_is_handled_again() {
    let dedup = Dedup::new(MemoryStore::new());
    let key = delivery(SAME_ID).key();
    let tenant = dedup.scope("a");
    assert!(!tenant.forget(&key).await.unwrap());
    tenant.run_once(delivery(SAME_ID), handle).await.unwrap();
    assert!(!dedup.forget(&key).await.unwrap(), "another scope");
    assert!(tenant.forget(&key).await.unwrap());
    let outcome = tenant.run_once(delivery(SAME_ID), handle).await.unwrap();
    assert_eq!(outcome, Outcome::Handled(StatusCode::NO_CONTENT));

    // A delivery in flight is not forgotten.
    let forget = tenant.scope("c");
    let in_flight = tenant.scope("c");
    let handler = async move |_| {
        assert!(!forget.forget(&key).await.unwrap());
        Ok::<_, Infallible>(())
    };
    assert_eq!(in_flight.run_once(delivery(SAME_ID), handler).await.unwrap(), Outcome::Handled(()));
}

#[tokio::test]
async fn a_store_is_chosen_at_run_time() {
    let choose = |redis: bool| -> Box<dyn DedupStore> {
        if redis {
            let client = redis::Client::open("redis://127.0.0.1:1/").unwrap();
            Box::new(RedisStore::new(client).unwrap())
        } else {
            Box::new(MemoryStore::new())
        }
    };
    let outcome = Dedup::new(choose(false)).run_once(delivery(SAME_ID), handle).await;
    assert!(matches!(outcome, Ok(Outcome::Handled(_))));
    let shared: Arc<dyn DedupStore> = choose(true).into();
    let result = Dedup::new(shared).run_once(delivery(SAME_ID), handle).await;
    assert!(matches!(result, Err(DedupError::Store(_))), "nothing listens there");
}

/// Resolves the tenants `a` and `b` from `/tenants/{tenant}/hooks` and counts the calls.
fn tenants(calls: &Arc<AtomicUsize>) -> Receiver<Extraction> {
    let calls = calls.clone();
    Receiver::resolving(move |head| {
        calls.fetch_add(1, Ordering::Relaxed);
        async move {
            match head.path().split('/').nth(2) {
                Some(tenant @ ("a" | "b")) => Ok(Some(ExtractionVerifier::new(secret(tenant)))),
                Some("database-down") => Err("no connection".into()),
                _ if head.header("X-Tenant") == Some("a") => {
                    Ok(Some(ExtractionVerifier::new(secret("a"))))
                }
                _ => Ok(None),
            }
        }
    })
}

/// The path, the signing tenant, and the expected status.
const TENANTS: [(&str, &str, u16); 6] = [
    ("/tenants/a/hooks", "a", 204),
    ("/tenants/b/hooks?x=1", "b", 204),
    ("/tenants/a/hooks", "b", 401),
    ("/tenants/c/hooks", "c", 401),
    ("/tenants/database-down/hooks", "a", 503),
    ("/tenants/a/hooks", "a", 200),
];

#[tokio::test]
async fn a_receiver_resolves_the_verifier_of_a_request_in_axum_and_tower() {
    async fn receive(
        State(dedup): State<Dedup>,
        Path(tenant): Path<String>,
        delivery: ExtractionDelivery,
    ) -> Result<Outcome<StatusCode>, DedupError<StatusCode>> {
        dedup.scope(tenant).run_once(delivery, handle).await
    }
    #[derive(Clone)]
    struct App(Receiver<Extraction>, Dedup);
    impl FromRef<App> for Receiver<Extraction> {
        fn from_ref(app: &App) -> Self {
            app.0.clone()
        }
    }
    impl FromRef<App> for Dedup {
        fn from_ref(app: &App) -> Self {
            app.1.clone()
        }
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let dedup = || Dedup::new(MemoryStore::new());
    let in_axum = Router::new()
        .route("/tenants/{tenant}/hooks", post(receive))
        .with_state(App(tenants(&calls), dedup()));
    let layer = DedupLayer::new(dedup())
        .scope_by(|parts| parts.uri.path().split('/').nth(2).unwrap_or_default().to_owned());
    let service = ServiceBuilder::new()
        .layer(VerifyLayer::new(tenants(&calls)))
        .layer(layer)
        .service_fn(|_: Request<Full<Bytes>>| async {
            let response = Response::builder().status(204).body(Full::<Bytes>::default());
            Ok::<_, Infallible>(response.unwrap())
        });
    let in_tower = Router::new().route_service("/tenants/{tenant}/hooks", service);

    for app in [in_axum, in_tower] {
        for (path, signer, status) in TENANTS {
            let request =
                Request::post(path).header("x-service-signature", signature_of(signer, BODY));
            let request = request.body(axum::body::Body::from(BODY)).unwrap();
            let response = app.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{path} signed by {signer}");
            assert_eq!(response.headers().contains_key("retry-after"), status == 503);
        }
        // The header is checked before the verifier is resolved.
        let before = calls.load(Ordering::Relaxed);
        let unsigned = Request::post("/tenants/a/hooks").body(axum::body::Body::from(BODY));
        let response = app.oneshot(unsigned.unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), 401);
        assert_eq!(calls.load(Ordering::Relaxed), before);
    }
}

#[test]
fn a_receiver_resolves_the_verifier_of_a_request_in_actix() {
    async fn receive(
        dedup: web::Data<Dedup>,
        tenant: web::Path<String>,
        delivery: ExtractionDelivery,
    ) -> impl actix_web::Responder {
        let handle = async |_| Ok::<_, std::io::Error>(());
        dedup.scope(tenant.into_inner()).run_once(delivery, handle).await
    }
    actix_web::rt::System::new().block_on(async {
        let app = actix_web::App::new()
            .app_data(tenants(&Arc::default()))
            .app_data(web::Data::new(Dedup::new(MemoryStore::new())))
            .route("/tenants/{tenant}/hooks", web::post().to(receive));
        let app = actix_web::test::init_service(app).await;
        for (path, signer, status) in TENANTS {
            let request = actix_web::test::TestRequest::post()
                .uri(path)
                .insert_header(("x-service-signature", signature_of(signer, BODY)))
                .set_payload(BODY);
            let response = actix_web::test::call_service(&app, request.to_request()).await;
            assert_eq!(response.status().as_u16(), status, "{path} signed by {signer}");
            assert_eq!(response.headers().contains_key("retry-after"), status == 503);
        }
    });
}

#[test]
fn a_receiver_resolves_the_verifier_of_a_request_in_lambda_and_http() {
    let receiver = tenants(&Arc::default());
    for (path, signer, status) in TENANTS {
        let signature = signature_of(signer, BODY);
        let expected = if status < 300 { None } else { Some(status) };
        let (path_only, query) = path.split_once('?').unwrap_or((path, ""));
        let headers = json!({"x-service-signature": signature});
        let function_url = json!({
            "rawPath": path_only, "rawQueryString": query, "headers": headers, "body": BODY
        });
        let rest_api = json!({"path": path_only, "headers": headers, "body": BODY});
        for event in [function_url, rest_api] {
            let request: LambdaRequest = serde_json::from_value(event).unwrap();
            let result = receiver.receive_lambda(&request).now_or_never().unwrap();
            assert_eq!(result.err().map(|rejection| rejection.status()), expected, "{path}");
        }
        let request = Request::post(path).header("x-service-signature", signature);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let result = receiver.receive(&parts, BODY).now_or_never().unwrap();
        assert_eq!(result.err().map(|rejection| rejection.status()), expected, "{path}");
    }
    let mut headers = HeaderMap::new();
    headers.insert("x-service-signature", signature_of("a", BODY).parse().unwrap());
    let without_tenant = receiver.receive(&headers, BODY).now_or_never().unwrap();
    assert_eq!(without_tenant.unwrap_err(), Rejection::UnknownVerifier);
    headers.insert("x-tenant", "a".parse().unwrap());
    assert!(receiver.receive(&headers, BODY).now_or_never().unwrap().is_ok());
}

const MAIL_BODY: &str = r#"{"event":"email.sent","id":"7c0e"}"#;

fn both() -> AnyReceiver {
    let extraction = ExtractionVerifier::new(secret("extraction"));
    AnyReceiver::new(extraction, MailVerifier::new(secret("mail"))).unwrap()
}

type Headers = Vec<(&'static str, String)>;

/// The signature headers, the body and the expected result.
fn deliveries() -> Vec<(Headers, &'static str, Result<&'static str, u16>)> {
    let extraction = ("x-service-signature", signature_of("extraction", BODY));
    let mail_signature = |tenant| MailSigner::new(&secret(tenant)).sign(MAIL_BODY).to_string();
    let mail = ("mail-signature", mail_signature("mail"));
    let other_secret = ("mail-signature", mail_signature("extraction"));
    vec![
        (vec![extraction.clone()], BODY, Ok("extraction extraction.completed")),
        (vec![mail.clone()], MAIL_BODY, Ok("mail email.sent")),
        (vec![other_secret], MAIL_BODY, Err(401)),
        (vec![extraction.clone()], MAIL_BODY, Err(401)),
        (vec![extraction, mail.clone()], BODY, Err(401)),
        (vec![mail.clone(), mail], MAIL_BODY, Err(401)),
        (vec![], BODY, Err(401)),
    ]
}

fn describe(delivery: &AnyDelivery) -> String {
    match delivery {
        AnyDelivery::Extraction(delivery) => format!("extraction {}", delivery.event()),
        AnyDelivery::Mail(delivery) => format!("mail {}", delivery.event()),
    }
}

#[tokio::test]
async fn both_services_at_one_endpoint_in_axum_tower_and_http() {
    async fn receive(delivery: AnyDelivery) -> String {
        describe(&delivery)
    }
    let in_axum = Router::new().route("/", post(receive)).with_state(both());
    let service = ServiceBuilder::new().layer(VerifyLayer::new(both())).service_fn(
        |request: Request<Full<Bytes>>| async move {
            let delivery = request.extensions().get::<AnyDelivery>().unwrap();
            assert!(request.extensions().get() == Some(&delivery.key()));
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(describe(delivery)))))
        },
    );
    let in_tower = Router::new().route_service("/", service);
    for (headers, body, expected) in deliveries() {
        let request = || {
            let request = Request::post("/");
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
            request.body(axum::body::Body::from(body)).unwrap()
        };
        for app in [in_axum.clone(), in_tower.clone()] {
            let response = app.oneshot(request()).await.unwrap();
            let status = response.status().as_u16();
            let text = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
            let result = if status == 200 { Ok(&text[..]) } else { Err(status) };
            assert_eq!(result, expected.map(str::as_bytes), "{headers:?}");
        }
        let (parts, _) = request().into_parts();
        let result = both().receive(&parts, body).await.map(|delivery| describe(&delivery));
        let result = result.map_err(|rejection| rejection.status());
        assert_eq!(result, expected.map(str::to_owned));
    }
}

#[test]
fn both_services_at_one_endpoint_in_actix_and_lambda() {
    async fn receive(delivery: AnyDelivery) -> String {
        describe(&delivery)
    }
    actix_web::rt::System::new().block_on(async {
        let app = actix_web::App::new().app_data(both()).route("/", web::post().to(receive));
        let app = actix_web::test::init_service(app).await;
        for (headers, body, expected) in deliveries() {
            let mut request = actix_web::test::TestRequest::post().set_payload(body);
            for (name, value) in &headers {
                request = request.append_header((*name, value.as_str()));
            }
            let response = actix_web::test::call_service(&app, request.to_request()).await;
            let status = response.status().as_u16();
            let text = actix_web::test::read_body(response).await;
            let result = if status == 200 { Ok(&text[..]) } else { Err(status) };
            assert_eq!(result, expected.map(str::as_bytes), "{headers:?}");

            let mut multiple = serde_json::Map::new();
            for (name, value) in &headers {
                let values = multiple.entry(*name).or_insert_with(|| json!([]));
                values.as_array_mut().unwrap().push(json!(value));
            }
            let event = json!({"multiValueHeaders": multiple, "body": body});
            let request: LambdaRequest = serde_json::from_value(event).unwrap();
            let result = both().receive_lambda(&request).await.map(|d| describe(&d));
            let result = result.map_err(|rejection| rejection.status());
            assert_eq!(result, expected.map(str::to_owned));
        }
    });
}

#[tokio::test]
async fn one_secret_for_both_services_is_refused() {
    let extraction = ExtractionVerifier::with_secrets([secret("new"), secret("old")]).unwrap();
    let same = MailVerifier::with_secrets([secret("mail"), secret("old")]).unwrap();
    let refused = AnyReceiver::new(extraction.clone(), same).unwrap_err();
    assert_eq!(refused, SecretError::Shared);

    // A rotation that makes them equal is refused at the next request.
    let mail = MailVerifier::new(secret("mail"));
    let receiver = AnyReceiver::new(extraction, mail.clone()).unwrap();
    let mut headers = HeaderMap::new();
    MailSigner::new(&secret("old")).sign_headers(&mut headers, MAIL_BODY);
    let rejection = receiver.receive(&headers, MAIL_BODY).await.unwrap_err();
    assert_eq!(rejection, VerifyError::Mismatch.into());
    mail.replace([secret("old")]).unwrap();
    let rejection = receiver.receive(&headers, MAIL_BODY).await.unwrap_err();
    assert_eq!((rejection.status(), rejection), (500, Rejection::SharedSecret));
    mail.replace([secret("other")]).unwrap();
    MailSigner::new(&secret("other")).sign_headers(&mut headers, MAIL_BODY);
    assert!(receiver.receive(&headers, MAIL_BODY).await.is_ok());

    // So are equal secrets of resolved verifiers.
    let resolving =
        || Receiver::resolving(|_| async { Ok(Some(ExtractionVerifier::new(secret("other")))) });
    let receiver = AnyReceiver::new(resolving(), mail).unwrap();
    let rejection = receiver.receive(&headers, MAIL_BODY).await.unwrap_err();
    assert_eq!(rejection, Rejection::SharedSecret);
}
