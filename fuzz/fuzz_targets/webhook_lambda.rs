//! Checks that no Lambda event causes a panic, and that only signed bodies are
//! accepted, decoded as the event says.
#![no_main]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use webhook_verify::{
    Extraction, ExtractionSigner, ExtractionVerifier, LambdaRequest, Receiver, Rejection, Secret,
};

const LIMIT: usize = 256;

fuzz_target!(|input: &[u8]| {
    let secret = || Secret::new("whsec_fuzz").unwrap();
    let receiver = Receiver::new(ExtractionVerifier::new(secret())).body_limit(LIMIT);

    // The input as it is: it has no valid signature.
    if let Ok(request) = serde_json::from_slice::<LambdaRequest>(input) {
        assert!(matches!(rejection_status(&receiver, &request), Some(401 | 413)));
    }

    // The input with a valid signature of its body.
    let Ok(Value::Object(mut event)) = serde_json::from_slice(input) else { return };
    let text = event.get("body").and_then(Value::as_str).unwrap_or_default().to_owned();
    let base64 = event.get("isBase64Encoded").and_then(Value::as_bool).unwrap_or_default();
    let body = if base64 { STANDARD.decode(&text).ok() } else { Some(text.into_bytes()) };
    let signed = ExtractionSigner::new(&secret()).sign(body.as_deref().unwrap_or_default());
    event.insert("headers".to_owned(), json!({"x-service-signature": signed.to_string()}));
    event.insert("multiValueHeaders".to_owned(), Value::Null);
    let Ok(request) = serde_json::from_value::<LambdaRequest>(Value::Object(event)) else { return };
    let status = rejection_status(&receiver, &request);
    match body {
        Some(body) if body.len() > LIMIT => assert_eq!(status, Some(413)),
        Some(body) if !body.trim_ascii_start().starts_with(b"{") => assert_eq!(status, Some(400)),
        Some(_) => assert!(
            matches!(status, None | Some(400)),
            "a signed body was rejected as unauthorized"
        ),
        // A body that is too large is not decoded.
        None => assert!(matches!(status, Some(401 | 413))),
    }
});

fn rejection_status(receiver: &Receiver<Extraction>, request: &LambdaRequest) -> Option<u16> {
    // Only the resolution of a verifier waits, and this receiver has one.
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(result) = pin!(receiver.receive_lambda(request)).poll(&mut context) else {
        panic!("the receiver waits")
    };
    result.err().map(|rejection: Rejection| rejection.status())
}
