//! The tower layer: what it reads, when it stops, and what it answers.

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

/// A body of pieces that never says that it is at its end, and counts how
/// often it is asked.
#[derive(Default)]
struct Pieces {
    pieces: Vec<Result<Frame<Bytes>, io::Error>>,
    endless: bool,
    announced: Option<u64>,
    asked: Arc<AtomicUsize>,
}

impl Pieces {
    fn of(body: &'static str) -> Self {
        let pieces = body.as_bytes().chunks(7);
        let pieces = pieces.map(|piece| Ok(Frame::data(Bytes::from_static(piece)))).rev();
        Self { pieces: pieces.collect(), ..Self::default() }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.endless {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1024])))));
        }
        Poll::Ready(self.pieces.pop())
    }

    fn is_end_stream(&self) -> bool {
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

fn request<B>(signature: &str, body: B) -> Request<B> {
    Request::post("/").header("X-Service-Signature", signature).body(body).unwrap()
}

/// The status and the body of the answer; the inner service answers 202.
async fn answer<B>(request: Request<B>) -> (u16, Bytes)
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
    let answer = tokio::time::timeout(Duration::from_secs(60), service.oneshot(request));
    let (parts, body) = answer.await.expect("an answer").unwrap().into_parts();
    (parts.status.as_u16(), body.collect().await.unwrap().to_bytes())
}

const REFUSED: (u16, Bytes) = (401, Bytes::new());
const TOO_LARGE: (u16, Bytes) = (413, Bytes::new());

#[tokio::test]
async fn the_inner_service_gets_the_exact_bytes() {
    let good = request(&signature(BODY), Full::new(Bytes::from_static(BODY.as_bytes())));
    assert_eq!(answer(good).await, (202, Bytes::from_static(BODY.as_bytes())));
}

#[tokio::test]
async fn a_body_that_never_says_that_it_ended() {
    let good = request(&signature(BODY), Pieces::of(BODY));
    assert_eq!(answer(good).await, (202, Bytes::from_static(BODY.as_bytes())));
    let forged = request(&signature("other"), Pieces::of(BODY));
    assert_eq!(answer(forged).await, REFUSED);
}

#[tokio::test]
async fn nothing_is_read_without_a_signature() {
    let too_large = Some(1024 * 1024 + 1);
    for (line, announced) in
        [(None, None), (Some("sha256=00"), None), (Some(""), None), (None, too_large)]
    {
        let body = Pieces { endless: true, announced, ..Pieces::default() };
        let asked = body.asked.clone();
        let mut request = request("", body);
        request.headers_mut().clear();
        if let Some(line) = line {
            request.headers_mut().insert("x-service-signature", line.parse().unwrap());
        }
        assert_eq!(answer(request).await, REFUSED);
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test]
async fn what_is_announced_as_too_large_is_not_read() {
    let announced = Some(1024 * 1024 + 1);
    let body = Pieces { endless: true, announced, ..Pieces::default() };
    let asked = body.asked.clone();
    assert_eq!(answer(request(&signature(""), body)).await, TOO_LARGE);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn what_turns_out_too_large_is_read_up_to_the_limit() {
    let body = Pieces { endless: true, ..Pieces::default() };
    let asked = body.asked.clone();
    assert_eq!(answer(request(&signature(""), body)).await, TOO_LARGE);
    assert_eq!(asked.load(Ordering::Relaxed), 1025, "of 1 KiB each");
}

#[tokio::test]
async fn a_limit_set_further_out_is_a_limit() {
    let body = || Limited::new(Full::new(Bytes::from_static(BODY.as_bytes())), 10);
    assert_eq!(answer(request(&signature(BODY), body())).await, TOO_LARGE);
    // Wrapped in what stands between.
    let wrapped = body().map_err(axum::Error::new);
    assert_eq!(answer(request(&signature(BODY), wrapped)).await, TOO_LARGE);
}

#[tokio::test]
async fn a_body_that_breaks_off() {
    let mut body = Pieces::of(BODY);
    body.pieces[0] = Err(io::Error::other("reset"));
    assert_eq!(answer(request(&signature(BODY), body)).await, REFUSED);
}

#[tokio::test]
async fn trailers_are_no_part_of_the_body() {
    let mut body = Pieces::of(BODY);
    body.pieces.insert(0, Ok(Frame::trailers(http::HeaderMap::new())));
    assert_eq!(answer(request(&signature(BODY), body)).await.0, 202);
}

#[tokio::test]
async fn what_verified_and_is_no_delivery() {
    let body = Full::new(Bytes::from_static(b"[]"));
    assert_eq!(answer(request(&signature("[]"), body)).await, (400, Bytes::new()));
}

/// Pages long, if the sender wants: none of it is read, and none of it kept.
#[tokio::test]
async fn frames_with_nothing_in_them() {
    let mut body = Pieces::of(BODY);
    let empty = || Ok(Frame::data(Bytes::new()));
    body.pieces.splice(0..0, (0..10_000).map(|_| empty()));
    body.pieces.extend((0..10_000).map(|_| empty()));
    assert_eq!(answer(request(&signature(BODY), body)).await.0, 202);
}

/// It is verified as it was sent, whatever it says of its encoding.
#[tokio::test]
async fn nothing_is_unpacked() {
    use std::io::Write as _;

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(BODY.as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    let encoded = |signature: &str| {
        let mut request = request(signature, Full::new(Bytes::from(packed.clone())));
        request.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        request
    };
    // Signed before it was packed on the way: not what was received.
    assert_eq!(answer(encoded(&signature(BODY))).await, REFUSED);
    // Signed as it is: verified, and no JSON.
    assert_eq!(answer(encoded(&signature(&packed))).await, (400, Bytes::new()));
}

/// As a limit on what is under way: a clone has to be asked anew.
#[derive(Default)]
struct AskedFirst(bool);

impl Clone for AskedFirst {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl<B> Service<Request<B>> for AskedFirst {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0 = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        assert!(std::mem::take(&mut self.0), "it was not asked whether it is ready");
        std::future::ready(Ok(Response::default()))
    }
}

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let dedup = DedupLayer::new(Dedup::new(MemoryStore::new()));
    let mut service = VerifyLayer::new(receiver()).layer(dedup.layer(AskedFirst::default()));
    std::future::poll_fn(|cx| Service::<Request<Full<Bytes>>>::poll_ready(&mut service, cx))
        .await
        .unwrap();
    let good = request(&signature(BODY), Full::new(Bytes::from_static(BODY.as_bytes())));
    assert_eq!(service.call(good).await.unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn without_an_envelope_any_bytes_that_verify_are_let_through() {
    use webhook_verify::{Extraction, Verified};

    let inner = tower::service_fn(|request: Request<Full<Bytes>>| async move {
        let (parts, body) = request.into_parts();
        let verified = parts.extensions.get::<Verified<Extraction, Bytes>>().unwrap();
        assert_eq!(parts.extensions.get::<DeliveryKey>(), Some(&verified.key()));
        assert!(parts.extensions.get::<ExtractionDelivery>().is_none());
        assert_eq!(body.collect().await.unwrap().to_bytes(), verified.body());
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    // A maximum age is no concern of what has no `created`.
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
