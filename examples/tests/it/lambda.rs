//! Runs the Lambda example against a mock of the Lambda runtime API, alone and behind a mock of a
//! function URL.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

use crate::program::Program;
use crate::{body, signature};

/// A mock of the Lambda runtime API: provides events and collects responses.
struct RuntimeApi {
    events: mpsc::Sender<Value>,
    responses: mpsc::Receiver<Value>,
    address: String,
}

struct Shared {
    events: Mutex<mpsc::Receiver<Value>>,
    responses: mpsc::Sender<Value>,
}

impl RuntimeApi {
    async fn start() -> Self {
        let (events, event_receiver) = mpsc::channel(1);
        let (response_sender, responses) = mpsc::channel(1);
        let shared =
            Arc::new(Shared { events: Mutex::new(event_receiver), responses: response_sender });
        let invocation = "/2018-06-01/runtime/invocation";
        let app = Router::new()
            .route(&format!("{invocation}/next"), get(next))
            .route(&format!("{invocation}/{{id}}/response"), post(collect_response))
            .with_state(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { events, responses, address }
    }

    async fn call(&mut self, event: Value) -> Value {
        self.events.send(event).await.unwrap();
        self.responses.recv().await.unwrap()
    }
}

async fn next(State(shared): State<Arc<Shared>>) -> Response {
    let event = shared.events.lock().await.recv().await;
    let headers = [
        ("lambda-runtime-aws-request-id", "8476a536"),
        ("lambda-runtime-deadline-ms", "4102444800000"),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:eu-west-1:1:function:receiver"),
    ];
    (headers, event.unwrap_or_default().to_string()).into_response()
}

async fn collect_response(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    response: String,
) -> StatusCode {
    assert_eq!(id, "8476a536");
    shared.responses.send(serde_json::from_str(&response).unwrap()).await.unwrap();
    StatusCode::ACCEPTED
}

/// The example, started against the mock.
fn start(address: &str) -> Program {
    Program::start(
        env!("CARGO_BIN_EXE_receiver-lambda"),
        &[
            ("AWS_LAMBDA_RUNTIME_API", address),
            ("AWS_LAMBDA_FUNCTION_NAME", "receiver"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
        ],
    )
}

/// The maximum size of an event in AWS Lambda.
const MAX_EVENT_SIZE: usize = 6 << 20;

/// The example behind a function URL: an HTTP server that calls it with an event for each
/// request.
pub(crate) struct FunctionUrl {
    pub(crate) url: String,
    _program: Program,
}

impl FunctionUrl {
    pub(crate) async fn start() -> Self {
        let api = RuntimeApi::start().await;
        let program = start(&api.address);
        let app = Router::new()
            .route("/hooks", post(invoke))
            .layer(DefaultBodyLimit::max(MAX_EVENT_SIZE))
            .with_state(Arc::new(Mutex::new(api)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, _program: program }
    }
}

/// One instance of a function handles one event at a time.
async fn invoke(
    State(api): State<Arc<Mutex<RuntimeApi>>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    // A function URL joins the values of equal headers with commas.
    let joined: Vec<(&str, String)> = headers
        .keys()
        .map(|name| {
            let values = headers.get_all(name).iter().map(|value| value.to_str().unwrap());
            (name.as_str(), values.collect::<Vec<_>>().join(","))
        })
        .collect();
    let joined: Vec<_> = joined.iter().map(|(name, value)| (*name, &value[..])).collect();
    // A task of its own, so that a call is not left half done if the sender disconnects.
    let event = event(&joined, &body);
    let call = tokio::spawn(async move { api.lock().await.call(event).await });
    let response = call.await.unwrap();
    let status = response["statusCode"].as_u64().unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in response["headers"].as_object().unwrap() {
        let name: HeaderName = name.parse().unwrap();
        headers.insert(name, value.as_str().unwrap().parse().unwrap());
    }
    let status = StatusCode::from_u16(status.try_into().unwrap()).unwrap();
    (status, headers, response["body"].as_str().unwrap().to_owned()).into_response()
}

/// An event of a function URL, with a Base64 body.
fn event(headers: &[(&str, &str)], body: &[u8]) -> Value {
    let headers: serde_json::Map<String, Value> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({
        "version": "2.0",
        "rawPath": "/hooks",
        "headers": headers,
        "requestContext": {"http": {"method": "POST", "path": "/hooks"}},
        "body": STANDARD.encode(body),
        "isBase64Encoded": true
    })
}

#[tokio::test]
async fn lambda() {
    let mut lambda = RuntimeApi::start().await;
    let mut program = start(&lambda.address);
    let response =
        |status| json!({"statusCode": status, "headers": {}, "body": "", "isBase64Encoded": false});

    let first = body("one");
    let first = first.as_bytes();
    let first_signature = signature(first);
    let good = [("x-service-signature", &first_signature[..])];
    assert_eq!(lambda.call(event(&good, first)).await, response(204));
    assert_eq!(lambda.call(event(&good, first)).await, response(200), "repeated");
    assert_eq!(lambda.call(event(&[], first)).await, response(401), "unsigned");
    assert_eq!(lambda.call(event(&good, b"{}")).await, response(401), "forged");
    let large = vec![b'x'; 1024 * 1024 + 1];
    let signed = signature(&large);
    let large = event(&[("x-service-signature", &signed)], &large);
    assert_eq!(lambda.call(large).await, response(413));
    let second = body("two");
    let signed = signature(second.as_bytes());
    let second = event(&[("x-service-signature", &signed)], second.as_bytes());
    assert_eq!(lambda.call(second).await, response(204));

    // A load balancer configured for multi-value headers.
    let third = body("three");
    let balancer = json!({
        "requestContext": {"elb": {"targetGroupArn": "arn"}}, "httpMethod": "POST",
        "multiValueHeaders": {"x-service-signature": [signature(third.as_bytes())]},
        "body": third, "isBase64Encoded": false
    });
    let balancer_response = lambda.call(balancer).await;
    let multi =
        json!({"statusCode": 204, "multiValueHeaders": {}, "body": "", "isBase64Encoded": false});
    assert_eq!(balancer_response, multi);

    // The handled deliveries, and no others.
    assert_eq!(program.next_line(), "extraction.completed one");
    assert_eq!(program.next_line(), "extraction.completed two");
    assert_eq!(program.next_line(), "extraction.completed three");
}
