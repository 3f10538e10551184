//! The tower layer: how much of a body it reads, and how it responds.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, Limited};
use tower::{Layer, Service, ServiceExt};
use webhook_verify::dedup::{Dedup, DedupLayer, MemoryStore};
use webhook_verify::{DeliveryKey, ExtractionDelivery, ExtractionEvent, VerifyLayer};

use crate::http::{BODY, receiver, signature};

/// A body of several frames whose `is_end_stream` is always false. Counts the calls
/// of `poll_frame`.
#[derive(Default)]
struct Frames {
    frames: Vec<Result<Frame<Bytes>, io::Error>>,
    endless: bool,
    endless_and_empty: bool,
    size: Option<u64>,
    polled: Arc<AtomicUsize>,
}

impl Frames {
    fn of(body: &'static str) -> Self {
        let frames = body.as_bytes().chunks(7);
        let frames = frames.map(|chunk| Ok(Frame::data(Bytes::from_static(chunk)))).rev();
        Self { frames: frames.collect(), ..Self::default() }
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.polled.fetch_add(1, Ordering::Relaxed);
        if self.endless_and_empty {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::new()))));
        }
        if self.endless {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1024])))));
        }
        Poll::Ready(self.frames.pop())
    }

    fn is_end_stream(&self) -> bool {
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.size.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn request<B>(signature: &str, body: B) -> Request<B> {
    Request::post("/").header("X-Service-Signature", signature).body(body).unwrap()
}

/// Sends a request through the layer and returns the status and body of the
/// response. The inner service responds 202.
async fn send<B>(request: Request<B>) -> (u16, Bytes)
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let inner = tower::service_fn(|request: Request<Full<Bytes>>| async move {
        let (parts, body) = request.into_parts();
        let delivery = parts.extensions.get::<ExtractionDelivery>().unwrap();
        assert_eq!(*delivery.event(), ExtractionEvent::Completed);
        assert_eq!(parts.extensions.get::<DeliveryKey>(), Some(&delivery.key()));
        let body = body.collect().await.unwrap().to_bytes();
        Ok::<_, Infallible>(Response::builder().status(202).body(Full::new(body)).unwrap())
    });
    let service = VerifyLayer::new(receiver()).layer(inner);
    let response = tokio::time::timeout(Duration::from_secs(60), service.oneshot(request));
    let (parts, body) = response.await.expect("no response within 60 s").unwrap().into_parts();
    (parts.status.as_u16(), body.collect().await.unwrap().to_bytes())
}

const UNAUTHORIZED: (u16, Bytes) = (401, Bytes::new());
const TOO_LARGE: (u16, Bytes) = (413, Bytes::new());

#[tokio::test]
async fn the_inner_service_gets_the_exact_bytes() {
    let good = request(&signature(BODY), Full::new(Bytes::from_static(BODY.as_bytes())));
    assert_eq!(send(good).await, (202, Bytes::from_static(BODY.as_bytes())));
}

#[tokio::test]
async fn reads_a_body_that_never_reports_its_end() {
    let good = request(&signature(BODY), Frames::of(BODY));
    assert_eq!(send(good).await, (202, Bytes::from_static(BODY.as_bytes())));
    let forged = request(&signature("other"), Frames::of(BODY));
    assert_eq!(send(forged).await, UNAUTHORIZED);
}

#[tokio::test]
async fn does_not_read_the_body_without_a_well_formed_signature() {
    let too_large = Some(1024 * 1024 + 1);
    for (header, size) in
        [(None, None), (Some("sha256=00"), None), (Some(""), None), (None, too_large)]
    {
        let body = Frames { endless: true, size, ..Frames::default() };
        let polled = body.polled.clone();
        let mut request = request("", body);
        request.headers_mut().clear();
        if let Some(header) = header {
            request.headers_mut().insert("x-service-signature", header.parse().unwrap());
        }
        assert_eq!(send(request).await, UNAUTHORIZED);
        assert_eq!(polled.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test]
async fn does_not_read_a_body_announced_as_too_large() {
    let size = Some(1024 * 1024 + 1);
    let body = Frames { endless: true, size, ..Frames::default() };
    let polled = body.polled.clone();
    assert_eq!(send(request(&signature(""), body)).await, TOO_LARGE);
    assert_eq!(polled.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn stops_reading_at_the_limit() {
    let body = Frames { endless: true, ..Frames::default() };
    let polled = body.polled.clone();
    assert_eq!(send(request(&signature(""), body)).await, TOO_LARGE);
    assert_eq!(polled.load(Ordering::Relaxed), 1025, "frames of 1 KiB");
}

#[tokio::test]
async fn reports_an_outer_limit_as_too_large() {
    let body = || Limited::new(Full::new(Bytes::from_static(BODY.as_bytes())), 10);
    assert_eq!(send(request(&signature(BODY), body())).await, TOO_LARGE);
    // The error may be wrapped by middleware.
    let wrapped = body().map_err(axum::Error::new);
    assert_eq!(send(request(&signature(BODY), wrapped)).await, TOO_LARGE);
}

#[tokio::test]
async fn rejects_an_interrupted_body() {
    let mut body = Frames::of(BODY);
    body.frames[0] = Err(io::Error::other("reset"));
    assert_eq!(send(request(&signature(BODY), body)).await, UNAUTHORIZED);
}

#[tokio::test]
async fn ignores_trailers() {
    let mut body = Frames::of(BODY);
    body.frames.insert(0, Ok(Frame::trailers(http::HeaderMap::new())));
    assert_eq!(send(request(&signature(BODY), body)).await.0, 202);
}

#[tokio::test]
async fn rejects_a_signed_body_that_is_not_a_delivery() {
    let body = Full::new(Bytes::from_static(b"[]"));
    assert_eq!(send(request(&signature("[]"), body)).await, (400, Bytes::new()));
}

#[tokio::test]
async fn accepts_empty_frames() {
    let mut body = Frames::of(BODY);
    let empty = || Ok(Frame::data(Bytes::new()));
    body.frames.splice(0..0, (0..10_000).map(|_| empty()));
    body.frames.extend((0..10_000).map(|_| empty()));
    assert_eq!(send(request(&signature(BODY), body)).await.0, 202);
}

/// Otherwise such a body would occupy its thread, and its deadline would never be checked.
#[tokio::test]
async fn endless_empty_frames_end_at_the_deadline() {
    let body = Frames { endless_and_empty: true, ..Frames::default() };
    let inner = tower::service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let receiver = receiver().body_timeout(Duration::from_millis(50));
    let service = VerifyLayer::new(receiver).layer(inner);
    let service = service.oneshot(request(&signature(BODY), body));
    let other_tasks_run = tokio::spawn(async {});
    let (response, other) = tokio::join!(service, other_tasks_run);
    assert_eq!(response.unwrap().status().as_u16(), 408);
    other.unwrap();
}

/// The body is verified as sent, whatever its `Content-Encoding`.
#[tokio::test]
async fn does_not_decompress() {
    use std::io::Write as _;

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(BODY.as_bytes()).unwrap();
    let compressed = gzip.finish().unwrap();
    let encoded = |signature: &str| {
        let mut request = request(signature, Full::new(Bytes::from(compressed.clone())));
        request.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        request
    };
    // Signed before it was compressed.
    assert_eq!(send(encoded(&signature(BODY))).await, UNAUTHORIZED);
    // Signed after it was compressed: valid, but not JSON.
    assert_eq!(send(encoded(&signature(&compressed))).await, (400, Bytes::new()));
}

/// A service that panics unless `poll_ready` was called on the same instance, like
/// a concurrency limit. A clone starts as not ready.
#[derive(Default)]
struct RequiresReady(bool);

impl Clone for RequiresReady {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl<B> Service<Request<B>> for RequiresReady {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0 = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        assert!(std::mem::take(&mut self.0), "`call` without `poll_ready`");
        std::future::ready(Ok(Response::default()))
    }
}

#[tokio::test]
async fn calls_the_instance_that_is_ready() {
    let dedup = DedupLayer::new(Dedup::new(MemoryStore::new()));
    let mut service = VerifyLayer::new(receiver()).layer(dedup.layer(RequiresReady::default()));
    std::future::poll_fn(|cx| Service::<Request<Full<Bytes>>>::poll_ready(&mut service, cx))
        .await
        .unwrap();
    let good = request(&signature(BODY), Full::new(Bytes::from_static(BODY.as_bytes())));
    assert_eq!(service.call(good).await.unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn without_envelope_passes_any_verified_body() {
    use webhook_verify::{Extraction, Verified};

    let inner = tower::service_fn(|request: Request<Full<Bytes>>| async move {
        let (parts, body) = request.into_parts();
        let verified = parts.extensions.get::<Verified<Extraction, Bytes>>().unwrap();
        assert_eq!(parts.extensions.get::<DeliveryKey>(), Some(&verified.key()));
        assert!(parts.extensions.get::<ExtractionDelivery>().is_none());
        assert_eq!(body.collect().await.unwrap().to_bytes(), verified.body());
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    // The maximum age is not checked without an envelope.
    let receiver = receiver().max_age(Duration::from_secs(1));
    let service = VerifyLayer::new(receiver).without_envelope().layer(inner);
    let status = async |request| service.clone().oneshot(request).await.unwrap().status().as_u16();
    for body in [&b"\x00\xFF"[..], b"[]", b"", BODY.as_bytes()] {
        let good = request(&signature(body), Full::new(Bytes::from_static(body)));
        assert_eq!(status(good).await, 200);
        let forged = request(&signature("other"), Full::new(Bytes::from_static(body)));
        assert_eq!(status(forged).await, 401);
    }
}
