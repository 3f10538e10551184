//! Layers of a program's own around every attempt.

use std::sync::{Arc, Mutex};

use svc_sdk::{AttemptService, Body};
use tower::ServiceExt;

use crate::peer::{Peer, answer, with_headers};

#[tokio::test]
async fn a_tower_layer_around_every_attempt() {
    let count = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&count);
    let layer = tower::layer::layer_fn(move |inner: AttemptService| {
        let seen = Arc::clone(&seen);
        inner.map_request(move |mut request: http::Request<Body>| {
            *seen.lock().unwrap() += 1;
            request.headers_mut().insert("x-layer", "1".parse().unwrap());
            request
        })
    });
    let peer =
        Peer::start([with_headers(503, "Retry-After: 0\r\n", ""), answer(200, r#"{"id":"x"}"#)])
            .await;
    let client = peer.email().layer(layer).build().unwrap();
    assert_eq!(client.emails().get("x").await.unwrap().id, "x");
    assert_eq!(*count.lock().unwrap(), 2);
    assert!(peer.seen().iter().all(|seen| seen.header("x-layer") == Some("1")));

    // A layer's own error, before anything went out.
    let refuse = tower::layer::layer_fn(|inner: AttemptService| {
        inner.filter(|_: http::Request<Body>| Err::<http::Request<Body>, _>("not today"))
    });
    let client = peer.email().layer(refuse).build().unwrap();
    let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
    let error = client.emails().send(&email).await.unwrap_err();
    assert_eq!(error.kind(), &svc_sdk::ErrorKind::Layer);
    assert_eq!(error.outcome(), svc_sdk::Outcome::NotSent);

    // And after the answer came: it was processed, and is not sent again.
    let spoil = tower::layer::layer_fn(|inner: AttemptService| {
        inner.map_result(|answer| match answer {
            Ok::<http::Response<Body>, _>(_) => Err("not like this".into()),
            Err(error) => {
                Err::<http::Response<Body>, Box<dyn std::error::Error + Send + Sync>>(error)
            }
        })
    });
    let client = peer.email().layer(spoil).build().unwrap();
    let seen = peer.seen().len();
    let error = client.emails().send(&email).idempotency_key("k").await.unwrap_err();
    assert_eq!(error.kind(), &svc_sdk::ErrorKind::Layer);
    assert_eq!(error.outcome(), svc_sdk::Outcome::Unknown);
    assert_eq!(peer.seen().len(), seen + 1);
}

/// A layer that logs what it sees logs no key.
#[tokio::test]
async fn the_key_does_not_show_in_a_layer_s_log() {
    let log = Arc::new(Mutex::new(String::new()));
    let write = Arc::clone(&log);
    let layer = tower::layer::layer_fn(move |inner: AttemptService| {
        let write = Arc::clone(&write);
        inner.map_request(move |request: http::Request<Body>| {
            assert_eq!(request.headers()["x-api-key"], "mk_secret");
            *write.lock().unwrap() = format!("{request:?}");
            request
        })
    });
    let peer = Peer::json(200, r#"{"id":"x"}"#).await;
    let client = peer.email().key_header("X-Api-Key").key_prefix("").layer(layer).build().unwrap();
    client.emails().get("x").header("Cookie", "private").await.unwrap();
    let log = log.lock().unwrap();
    assert!(log.contains("x-api-key") && log.contains("cookie"), "{log}");
    assert!(!log.contains("mk_secret") && !log.contains("private"), "{log}");
}

/// A layer may send the request elsewhere, and with a body of its own.
#[tokio::test]
async fn a_layer_may_change_address_and_bodies() {
    let peer = Peer::json(202, r#"{"id":"x"}"#).await;
    let change = tower::layer::layer_fn(|inner: AttemptService| {
        let asked = |request: http::Request<Body>| {
            let (mut head, body) = request.into_parts();
            assert!(http_body::Body::size_hint(&body).exact().is_some());
            let uri = head.uri.to_string().replace("/api/v1/emails", "/v2/mail?of=us");
            head.uri = uri.parse().unwrap();
            http::Request::from_parts(head, Body::wrap(body))
        };
        let answered = |answer: http::Response<Body>| {
            assert!(!http_body::Body::is_end_stream(answer.body()));
            answer.map(Body::wrap)
        };
        inner.map_request(asked).map_response(answered)
    });
    let client = peer.email().layer(change).build().unwrap();
    let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
    let sent = client.emails().send(&email).with_response().await.unwrap();
    assert_eq!((sent.status, sent.value.id.as_str()), (202, "x"));
    let seen = peer.only();
    assert_eq!(seen.line, "POST /v2/mail?of=us HTTP/1.1");
    assert_eq!(seen.body, r#"{"from":"a@b","to":["c@d"],"subject":"s"}"#);
    assert_eq!(seen.header("content-length"), Some("41"));

    // Its own body, in both directions.
    let replace = tower::layer::layer_fn(|inner: AttemptService| {
        inner
            .map_request(|request: http::Request<Body>| request.map(|_| Body::new("{}")))
            .map_response(|answer: http::Response<Body>| answer.map(|_| Body::new(r#"{"id":"y"}"#)))
    });
    let client = peer.email().layer(replace).build().unwrap();
    assert_eq!(client.emails().get("x").await.unwrap().id, "y");
    assert_eq!(peer.seen()[1].body, "{}");
}

/// The last one added is outermost, and every attempt goes through all.
#[tokio::test]
async fn layers_are_around_each_other() {
    let named = |name: &'static str| {
        tower::layer::layer_fn(move |inner: AttemptService| {
            inner.map_request(move |mut request: http::Request<Body>| {
                request.headers_mut().append("x-layers", name.parse().unwrap());
                request
            })
        })
    };
    let peer = Peer::json(200, r#"{"id":"x"}"#).await;
    let client = peer.email().layer(named("inner")).layer(named("outer")).build().unwrap();
    client.emails().get("x").await.unwrap();
    let seen = peer.only();
    let layers = seen.headers.iter().filter(|(name, _)| name == "x-layers");
    assert_eq!(layers.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["outer", "inner"]);
}
