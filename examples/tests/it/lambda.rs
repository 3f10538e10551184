//! The Lambda function, called through Lambda's own runtime interface.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

use crate::program::Program;
use crate::{body, signature};

/// Lambda's side of the interface: hands out the events and takes the answers.
struct Lambda {
    events: mpsc::Sender<Value>,
    answers: mpsc::Receiver<Value>,
    address: String,
}

struct Shared {
    events: Mutex<mpsc::Receiver<Value>>,
    answers: mpsc::Sender<Value>,
}

impl Lambda {
    async fn start() -> Self {
        let (events, taken) = mpsc::channel(1);
        let (given, answers) = mpsc::channel(1);
        let shared = Arc::new(Shared { events: Mutex::new(taken), answers: given });
        let invocation = "/2018-06-01/runtime/invocation";
        let app = Router::new()
            .route(&format!("{invocation}/next"), get(next))
            .route(&format!("{invocation}/{{id}}/response"), post(answered))
            .with_state(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { events, answers, address }
    }

    async fn call(&mut self, event: Value) -> Value {
        self.events.send(event).await.unwrap();
        self.answers.recv().await.unwrap()
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

async fn answered(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    answer: String,
) -> StatusCode {
    assert_eq!(id, "8476a536");
    shared.answers.send(serde_json::from_str(&answer).unwrap()).await.unwrap();
    StatusCode::ACCEPTED
}

/// A request as a function URL sends it, with its body in Base64.
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
    let mut lambda = Lambda::start().await;
    let mut program = Program::start(
        env!("CARGO_BIN_EXE_receiver-lambda"),
        &[
            ("AWS_LAMBDA_RUNTIME_API", &lambda.address),
            ("AWS_LAMBDA_FUNCTION_NAME", "receiver"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
        ],
    );
    let answer =
        |status| json!({"statusCode": status, "headers": {}, "body": "", "isBase64Encoded": false});

    let first = body("one");
    let first = first.as_bytes();
    let first_signature = signature(first);
    let good = [("x-service-signature", &first_signature[..])];
    assert_eq!(lambda.call(event(&good, first)).await, answer(204));
    assert_eq!(lambda.call(event(&good, first)).await, answer(200), "repeated");
    assert_eq!(lambda.call(event(&[], first)).await, answer(401), "unsigned");
    assert_eq!(lambda.call(event(&good, b"{}")).await, answer(401), "forged");
    let large = vec![b'x'; 1024 * 1024 + 1];
    let signed = signature(&large);
    let large = event(&[("x-service-signature", &signed)], &large);
    assert_eq!(lambda.call(large).await, answer(413));
    let second = body("two");
    let signed = signature(second.as_bytes());
    let second = event(&[("x-service-signature", &signed)], second.as_bytes());
    assert_eq!(lambda.call(second).await, answer(204));

    // A load balancer that is set up for multi-value headers.
    let third = body("three");
    let balancer = json!({
        "requestContext": {"elb": {"targetGroupArn": "arn"}}, "httpMethod": "POST",
        "multiValueHeaders": {"x-service-signature": [signature(third.as_bytes())]},
        "body": third, "isBase64Encoded": false
    });
    let answered = lambda.call(balancer).await;
    let multi =
        json!({"statusCode": 204, "multiValueHeaders": {}, "body": "", "isBase64Encoded": false});
    assert_eq!(answered, multi);

    // What was handled, and in between nothing else.
    assert_eq!(program.says(), "extraction.completed one");
    assert_eq!(program.says(), "extraction.completed two");
    assert_eq!(program.says(), "extraction.completed three");
}
