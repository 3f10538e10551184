//! The actix-web extractors.

use actix_web::body::{BoxBody, to_bytes};
use actix_web::dev::{Payload, ServiceResponse};
use actix_web::error::PayloadError;
use actix_web::rt::System;
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, FromRequest as _, HttpResponse, web};
use bytes::Bytes;
use webhook_verify::{Extraction, ExtractionDelivery, Verified};

use crate::http::{BODY, receiver, signature};

async fn receive(delivery: ExtractionDelivery) -> String {
    format!("{} {:?}", delivery.id().unwrap_or_default(), delivery.header_event())
}

async fn raw(body: Verified<Extraction, Bytes>) -> HttpResponse {
    HttpResponse::Ok().body(body.into_body())
}

async fn parse_later(body: Verified<Extraction, Bytes>) -> String {
    format!("{:?}", body.into_delivery().unwrap().header_event())
}

fn send(request: TestRequest) -> (u16, Bytes) {
    System::new().block_on(send_async(request))
}

async fn send_async(request: TestRequest) -> (u16, Bytes) {
    let app = App::new()
        .app_data(receiver())
        .route("/", web::post().to(receive))
        .route("/raw", web::post().to(raw))
        .route("/parse-later", web::post().to(parse_later))
        .service(
            web::scope("/shared")
                .app_data(web::Data::new(receiver()))
                .route("", web::post().to(receive)),
        );
    let app = init_service(app).await;
    let response: ServiceResponse<BoxBody> = call_service(&app, request.to_request()).await;
    let status = response.status().as_u16();
    (status, to_bytes(response.into_body()).await.unwrap())
}

fn post(uri: &str, body: &[u8]) -> TestRequest {
    TestRequest::post().uri(uri).set_payload(body.to_vec())
}

fn signed(uri: &str, body: &[u8]) -> TestRequest {
    post(uri, body).insert_header(("X-Service-Signature", signature(body)))
}

#[test]
fn the_extractors_verify_and_reject() {
    let body = BODY.as_bytes();
    assert_eq!(send(signed("/", body)), (200, Bytes::from("7c0e Absent")));
    assert_eq!(send(signed("/shared", body)), (200, Bytes::from("7c0e Absent")));
    let named = |uri| signed(uri, body).insert_header(("x-service-event", "extraction.failed"));
    let expected = r#"Different("extraction.failed")"#;
    assert_eq!(send(named("/")), (200, Bytes::from(format!("7c0e {expected}"))));
    assert_eq!(send(named("/parse-later")), (200, Bytes::from(expected)));
    assert_eq!(send(signed("/raw", b"\xFF")), (200, Bytes::from_static(b"\xFF")));

    let empty = Bytes::new();
    assert_eq!(send(post("/", body)), (401, empty.clone()));
    let forged = post("/", body).insert_header(("X-Service-Signature", signature("other")));
    assert_eq!(send(forged), (401, empty.clone()));
    let twice = signed("/", body).append_header(("X-Service-Signature", signature(body)));
    assert_eq!(send(twice), (401, empty.clone()));
    let large = vec![b'x'; 1024 * 1024 + 1];
    assert_eq!(send(signed("/", &large)), (413, empty.clone()));
    assert_eq!(send(signed("/", b"[]")), (400, empty));
}

#[test]
fn rejects_bodies_that_are_too_large_or_incomplete() {
    let announced = signed("/", BODY.as_bytes()).insert_header(("content-length", "1048577"));
    assert_eq!(send(announced), (413, Bytes::new()));

    System::new().block_on(async {
        for (error, status) in [
            (PayloadError::Overflow, 413),
            (PayloadError::EncodingCorrupted, 401),
            (PayloadError::Incomplete(None), 401),
        ] {
            let request = signed("/", BODY.as_bytes()).app_data(receiver()).to_http_request();
            let chunks = [Ok(Bytes::from_static(b"{")), Err(error)];
            let stream = futures_util::stream::iter(chunks);
            let mut payload: Payload = Payload::Stream { payload: Box::pin(stream) };
            let result = ExtractionDelivery::from_request(&request, &mut payload).await;
            assert_eq!(result.unwrap_err().error_response().status().as_u16(), status);
        }
    });
}

/// A registered `PayloadConfig` applies if its limit is lower than the receiver's.
#[test]
fn the_limit_of_a_payload_config_applies() {
    let status = |config: web::PayloadConfig, length: usize| {
        System::new().block_on(async {
            let body = vec![b' '; length];
            let request = TestRequest::post()
                .app_data(receiver())
                .app_data(config)
                .insert_header(("X-Service-Signature", signature(&body)))
                .insert_header(("content-type", "application/json"));
            let (request, mut payload) = request.set_payload(body).to_http_parts();
            assert!(request.headers().contains_key("content-length"));
            let verified = Verified::<Extraction, Bytes>::from_request(&request, &mut payload);
            match verified.await {
                Ok(_) => 200,
                Err(error) => error.error_response().status().as_u16(),
            }
        })
    };
    let limit = web::PayloadConfig::new;
    assert_eq!(status(limit(100), 100), 200);
    assert_eq!(status(limit(100), 101), 413);
    assert_eq!(status(limit(0), 1), 413);
    assert_eq!(status(limit(1), 1), 200);
    let two_mib = 2 * 1024 * 1024;
    assert_eq!(status(limit(two_mib), 1024 * 1024), 200);
    assert_eq!(status(limit(two_mib), 1024 * 1024 + 1), 413, "the receiver's own limit");
    let json = limit(100).mimetype("application/json".parse().unwrap());
    assert_eq!(status(json, 101), 413);
}

/// A body without an announced length is limited as well.
#[test]
fn the_limit_of_a_payload_config_applies_to_chunks() {
    System::new().block_on(async {
        for (limit, status) in [(10, None), (9, Some(413))] {
            let request = TestRequest::post()
                .app_data(web::Data::new(receiver()))
                .app_data(web::Data::new(web::PayloadConfig::new(limit)))
                .insert_header(("X-Service-Signature", signature("0123456789")))
                .to_http_request();
            let chunks = ["01234", "56789"].map(|chunk| Ok(Bytes::from_static(chunk.as_bytes())));
            let stream = futures_util::stream::iter(chunks);
            let mut payload: Payload = Payload::Stream { payload: Box::pin(stream) };
            let verified = Verified::<Extraction, Bytes>::from_request(&request, &mut payload);
            let rejected = verified.await.err();
            let rejected = rejected.map(|error| error.error_response().status().as_u16());
            assert_eq!(rejected, status);
        }
    });
}

#[test]
fn responds_500_without_a_receiver() {
    System::new().block_on(async {
        let app = init_service(App::new().route("/", web::post().to(receive))).await;
        let response = call_service(&app, signed("/", BODY.as_bytes()).to_request()).await;
        assert_eq!(response.status().as_u16(), 500);
    });
}
