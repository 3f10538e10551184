//! The tower layer in a tonic server, called over a socket with hand-written HTTP/2
//! frames, so that the test does not depend on tonic's client.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, NamedService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Status, body};
use tower::{Service, service_fn};
use webhook_verify::{DeliveryKey, Extraction, Verified, VerifyLayer};

use crate::http::{receiver, signature};

/// A codec that passes messages as raw bytes.
#[derive(Clone, Copy, Default)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// A service like the ones that tonic generates. Echoes the message, or fails if
/// the message is `fail`.
#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl Service<Request<body::Body>> for Echo {
    type Response = Response<body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<body::Body>) -> Self::Future {
        let echo = service_fn(|request: tonic::Request<Bytes>| async move {
            let verified = request.extensions().get::<Verified<Extraction, Bytes>>();
            let verified = verified.expect("the layer adds the verified body");
            assert_eq!(verified.body(), frame(request.get_ref()));
            assert_eq!(request.extensions().get::<DeliveryKey>(), Some(&verified.key()));
            match &request.get_ref()[..] {
                b"fail" => Err(Status::aborted("requested by the client")),
                _ => Ok(tonic::Response::new(request.into_inner())),
            }
        });
        Box::pin(async move { Ok(Grpc::new(RawCodec).unary(echo, request).await) })
    }
}

async fn start() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server =
        Server::builder().layer(VerifyLayer::new(receiver()).without_envelope()).add_service(Echo);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    TcpStream::connect(address).await.unwrap()
}

/// A gRPC message frame: an uncompressed flag, the length and the message.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

struct GrpcResponse {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    trailers: HeaderMap,
}

impl GrpcResponse {
    /// The status in the trailers, or in the headers of a response without a body.
    fn grpc_status(&self) -> Option<Code> {
        let status = self.trailers.get("grpc-status").or(self.headers.get("grpc-status"));
        status.map(|status| Code::from_bytes(status.as_bytes()))
    }
}

/// Sends one call, with the body in two DATA frames.
async fn call(signature: Option<&str>, body: &[u8]) -> GrpcResponse {
    let (mut client, connection) = h2::client::handshake(start().await).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post("http://localhost/test.Echo/Echo")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(signature) = signature {
        request = request.header("x-service-signature", signature);
    }
    let (response, mut stream) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let (first, second) = body.split_at(body.len() / 2);
    // The server may have rejected the call and reset the stream.
    let _ = stream.send_data(Bytes::copy_from_slice(first), false);
    let _ = stream.send_data(Bytes::copy_from_slice(second), true);

    let (head, mut receiving) = response.await.unwrap().into_parts();
    let mut body = Vec::new();
    while let Some(chunk) = receiving.data().await {
        body.extend_from_slice(&chunk.unwrap());
    }
    let trailers = receiving.trailers().await.unwrap().unwrap_or_default();
    GrpcResponse { status: head.status.as_u16(), headers: head.headers, body, trailers }
}

#[tokio::test]
async fn a_signed_call_passes_and_keeps_its_response_trailers() {
    let sent = frame(b"\x0a\x02hi\xFF");
    let response = call(Some(&signature(&sent)), &sent).await;
    assert_eq!((response.status, &response.body), (200, &sent));
    assert_eq!(response.headers["content-type"], "application/grpc");
    assert_eq!(response.trailers["grpc-status"], "0", "the status is in the trailers");
    assert_eq!(response.grpc_status(), Some(Code::Ok));

    let sent = frame(b"fail");
    let response = call(Some(&signature(&sent)), &sent).await;
    assert_eq!((response.status, response.grpc_status()), (200, Some(Code::Aborted)));
}

/// gRPC clients map the HTTP status 401 to `UNAUTHENTICATED`.
#[tokio::test]
async fn rejects_unsigned_and_forged_calls() {
    let sent = frame(b"hello");
    let other = signature(frame(b"other"));
    let message_only = signature(b"hello");
    for header in [None, Some("sha256=00"), Some(&*other), Some(&*message_only)] {
        let response = call(header, &sent).await;
        assert_eq!((response.status, response.body.len()), (401, 0), "{header:?}");
        assert_eq!(response.grpc_status(), None);
    }
    let large = frame(&vec![b'x'; 1024 * 1024]);
    assert_eq!(call(Some(&signature(&large)), &large).await.status, 413);
}
