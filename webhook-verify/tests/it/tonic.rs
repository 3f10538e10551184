//! The tower layer under a tonic server, called over a real socket with frames
//! written by hand: a client of tonic's own would see its own view back.

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

/// Messages as the bytes that they are.
#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
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

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// What a generated service is: gives the message back, or fails if asked to.
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
            let verified = verified.expect("nothing else comes through");
            assert_eq!(verified.body(), frame(request.get_ref()));
            assert_eq!(request.extensions().get::<DeliveryKey>(), Some(&verified.key()));
            match &request.get_ref()[..] {
                b"fail" => Err(Status::aborted("asked to")),
                _ => Ok(tonic::Response::new(request.into_inner())),
            }
        });
        Box::pin(async move { Ok(Grpc::new(Plain).unary(echo, request).await) })
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

/// A message as gRPC frames it: not compressed, its length, itself.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    trailers: HeaderMap,
}

impl Answer {
    /// From the trailers, or from the headers where there is nothing else.
    fn grpc_status(&self) -> Option<Code> {
        let status = self.trailers.get("grpc-status").or(self.headers.get("grpc-status"));
        status.map(|status| Code::from_bytes(status.as_bytes()))
    }
}

/// One call, the body in two pieces.
async fn call(signature: Option<&str>, body: &[u8]) -> Answer {
    let (mut client, connection) = h2::client::handshake(start().await).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post("http://localhost/test.Echo/Echo")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(signature) = signature {
        request = request.header("x-service-signature", signature);
    }
    let (answer, mut sending) = client.send_request(request.body(()).unwrap(), false).unwrap();
    let (first, second) = body.split_at(body.len() / 2);
    // A refused call may be over by now.
    let _ = sending.send_data(Bytes::copy_from_slice(first), false);
    let _ = sending.send_data(Bytes::copy_from_slice(second), true);

    let (head, mut receiving) = answer.await.unwrap().into_parts();
    let mut body = Vec::new();
    while let Some(piece) = receiving.data().await {
        body.extend_from_slice(&piece.unwrap());
    }
    let trailers = receiving.trailers().await.unwrap().unwrap_or_default();
    Answer { status: head.status.as_u16(), headers: head.headers, body, trailers }
}

#[tokio::test]
async fn a_signed_call_passes_and_its_trailers_come_back() {
    let sent = frame(b"\x0a\x02hi\xFF");
    let answer = call(Some(&signature(&sent)), &sent).await;
    assert_eq!((answer.status, &answer.body), (200, &sent));
    assert_eq!(answer.headers["content-type"], "application/grpc");
    assert_eq!(answer.trailers["grpc-status"], "0", "in the trailers and not in the headers");
    assert_eq!(answer.grpc_status(), Some(Code::Ok));

    let sent = frame(b"fail");
    let answer = call(Some(&signature(&sent)), &sent).await;
    assert_eq!((answer.status, answer.grpc_status()), (200, Some(Code::Aborted)));
}

/// A client of gRPC makes `UNAUTHENTICATED` of 401.
#[tokio::test]
async fn other_calls_do_not() {
    let sent = frame(b"hello");
    let other = signature(frame(b"other"));
    let message_only = signature(b"hello");
    for header in [None, Some("sha256=00"), Some(&*other), Some(&*message_only)] {
        let answer = call(header, &sent).await;
        assert_eq!((answer.status, answer.body.len()), (401, 0), "{header:?}");
        assert_eq!(answer.grpc_status(), None);
    }
    let large = frame(&vec![b'x'; 1024 * 1024]);
    assert_eq!(call(Some(&signature(&large)), &large).await.status, 413);
}
