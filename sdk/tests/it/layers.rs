//! Tower layers around attempts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use svc_sdk::{AttemptService, Body};
use tower::ServiceExt;

use crate::mock_server::{MockServer, read_request, response, response_with_headers};

#[tokio::test]
async fn layers_wrap_every_attempt() {
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
    let server = MockServer::start([
        response_with_headers(503, "Retry-After: 0\r\n", ""),
        response(200, r#"{"id":"x"}"#),
    ])
    .await;
    let client = server.email().layer(layer).build().unwrap();
    assert_eq!(client.emails().get("x").await.unwrap().id, "x");
    assert_eq!(*count.lock().unwrap(), 2);
    assert!(
        server.received_requests().iter().all(|request| request.header("x-layer") == Some("1"))
    );

    // An error of a layer before the request was sent.
    let refuse = tower::layer::layer_fn(|inner: AttemptService| {
        inner.filter(|_: http::Request<Body>| Err::<http::Request<Body>, _>("not today"))
    });
    let client = server.email().layer(refuse).build().unwrap();
    let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
    let error = client.emails().send(&email).await.unwrap_err();
    assert_eq!(error.kind(), &svc_sdk::ErrorKind::Layer);
    assert_eq!(error.outcome(), svc_sdk::Outcome::NotSent);

    // An error of a layer after the response: the request was processed and is not retried.
    let spoil = tower::layer::layer_fn(|inner: AttemptService| {
        inner.map_result(|response| match response {
            Ok::<http::Response<Body>, _>(_) => Err("not like this".into()),
            Err(error) => {
                Err::<http::Response<Body>, Box<dyn std::error::Error + Send + Sync>>(error)
            }
        })
    });
    let client = server.email().layer(spoil).build().unwrap();
    let seen = server.received_requests().len();
    let error = client.emails().send(&email).idempotency_key("k").await.unwrap_err();
    assert_eq!(error.kind(), &svc_sdk::ErrorKind::Layer);
    assert_eq!(error.outcome(), svc_sdk::Outcome::Unknown);
    assert_eq!(server.received_requests().len(), seen + 1);
}

/// Printing a request in a layer does not reveal the key.
#[tokio::test]
async fn debug_output_of_requests_in_layers_masks_secrets() {
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
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let client =
        server.email().key_header("X-Api-Key").key_prefix("").layer(layer).build().unwrap();
    client.emails().get("x").header("Cookie", "private").await.unwrap();
    let log = log.lock().unwrap();
    assert!(log.contains("x-api-key") && log.contains("cookie"), "{log}");
    assert!(!log.contains("mk_secret") && !log.contains("private"), "{log}");
}

/// A layer may change the URL and replace the body.
#[tokio::test]
async fn layers_may_change_url_and_bodies() {
    let server = MockServer::json(202, r#"{"id":"x"}"#).await;
    let change = tower::layer::layer_fn(|inner: AttemptService| {
        let asked = |request: http::Request<Body>| {
            let (mut head, body) = request.into_parts();
            assert!(http_body::Body::size_hint(&body).exact().is_some());
            let uri = head.uri.to_string().replace("/api/v1/emails", "/v2/mail?of=us");
            head.uri = uri.parse().unwrap();
            http::Request::from_parts(head, Body::wrap(body))
        };
        let answered = |response: http::Response<Body>| {
            assert!(!http_body::Body::is_end_stream(response.body()));
            response.map(Body::wrap)
        };
        inner.map_request(asked).map_response(answered)
    });
    let client = server.email().layer(change).build().unwrap();
    let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
    let sent = client.emails().send(&email).with_response().await.unwrap();
    assert_eq!((sent.status.as_u16(), sent.value.id.as_str()), (202, "x"));
    let request = server.single_request();
    assert_eq!(request.line, "POST /v2/mail?of=us HTTP/1.1");
    assert_eq!(request.body, r#"{"from":"a@b","to":["c@d"],"subject":"s"}"#);
    assert_eq!(request.header("content-length"), Some("41"));

    // Replaces the bodies of request and response.
    let replace = tower::layer::layer_fn(|inner: AttemptService| {
        inner
            .map_request(|request: http::Request<Body>| request.map(|_| Body::new("{}")))
            .map_response(|response: http::Response<Body>| {
                response.map(|_| Body::new(r#"{"id":"y"}"#))
            })
    });
    let client = server.email().layer(replace).build().unwrap();
    assert_eq!(client.emails().get("x").await.unwrap().id, "y");
    assert_eq!(server.received_requests()[1].body, "{}");
}

/// The layer added last is the outermost, and every attempt passes through all layers.
#[tokio::test]
async fn the_last_layer_is_outermost() {
    let named = |name: &'static str| {
        tower::layer::layer_fn(move |inner: AttemptService| {
            inner.map_request(move |mut request: http::Request<Body>| {
                request.headers_mut().append("x-layers", name.parse().unwrap());
                request
            })
        })
    };
    let server = MockServer::json(200, r#"{"id":"x"}"#).await;
    let client = server.email().layer(named("inner")).layer(named("outer")).build().unwrap();
    client.emails().get("x").await.unwrap();
    let request = server.single_request();
    let layers = request.headers.iter().filter(|(name, _)| name == "x-layers");
    assert_eq!(layers.map(|(_, value)| value.as_str()).collect::<Vec<_>>(), ["outer", "inner"]);
}

/// Starts a server that processes each request and closes the connection without a response.
async fn start_cutting_server() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let processed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&processed);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if read_request(&mut stream, &mut Vec::new()).await.is_some() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (url, processed)
}

/// The body that is handed to the HTTP client decides whether a send may be repeated,
/// whatever a layer did with the original.
#[tokio::test]
async fn a_send_whose_body_a_layer_replaced_is_not_repeated() {
    type Change = fn(http::Request<Body>) -> http::Request<Body>;
    let changes: [Change; 5] = [
        |request| request.map(|_| Body::new("{}")),
        |request| request.map(|_| Body::new("")),
        |request| request.map(Body::wrap),
        // Without the original's extensions.
        |request| {
            let mut new = http::Request::new(Body::new("{}"));
            *new.method_mut() = request.method().clone();
            *new.uri_mut() = request.uri().clone();
            new
        },
        |request| {
            let (head, body) = request.into_parts();
            let mut new = http::Request::new(body);
            (*new.method_mut(), *new.uri_mut()) = (head.method, head.uri);
            new
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (url, processed) = start_cutting_server().await;
        let layer = tower::layer::layer_fn(move |inner: AttemptService| inner.map_request(change));
        let client = svc_sdk::EmailClient::builder(url, "k").no_proxy().layer(layer);
        let client = client.build().unwrap();
        let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
        let error = client.emails().send(&email).await.unwrap_err();
        assert_eq!(error.outcome(), svc_sdk::Outcome::Unknown, "change {number}: {error}");
        assert_eq!((error.attempts(), processed.load(Ordering::SeqCst)), (1, 1), "change {number}");
    }
}

/// A layer may read the whole body before a connection exists, for example to sign it.
#[tokio::test]
async fn a_send_whose_body_was_only_read_by_a_layer_is_not_sent() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let read = tower::layer::layer_fn(|inner: AttemptService| {
        tower::service_fn(move |request: http::Request<Body>| {
            let inner = inner.clone();
            async move {
                let (head, mut body) = request.into_parts();
                let frame = std::future::poll_fn(|cx| {
                    http_body::Body::poll_frame(std::pin::Pin::new(&mut body), cx)
                });
                let bytes = frame.await.unwrap().unwrap().into_data().unwrap();
                inner.oneshot(http::Request::from_parts(head, Body::new(bytes))).await
            }
        })
    });
    let client = svc_sdk::EmailClient::builder(url, "k").no_proxy().layer(read).retries(0);
    let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
    let error = client.build().unwrap().emails().send(&email).await.unwrap_err();
    assert_eq!(error.kind(), &svc_sdk::ErrorKind::Connect);
    assert_eq!(error.outcome(), svc_sdk::Outcome::NotSent);
}
