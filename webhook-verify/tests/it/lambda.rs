//! Lambda events in the formats of API Gateway, function URLs and load balancers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use webhook_verify::{
    BodyTooLarge, EnvelopeError, Extraction, ExtractionDelivery, HeaderEvent, LambdaRequest,
    LambdaResponse, Receiver, Rejection, VerifyError,
};

use crate::http::{BODY, receiver, signature};

/// Only the resolution of a verifier waits, and these receivers have one.
fn receive_request(
    receiver: &Receiver<Extraction>,
    request: &LambdaRequest,
) -> Result<ExtractionDelivery, Rejection> {
    receiver.receive_lambda(request).now_or_never().expect("it does not wait")
}

fn receive(event: Value) -> Result<HeaderEvent, Rejection> {
    let request: LambdaRequest = serde_json::from_value(event).unwrap();
    receive_request(&receiver(), &request).map(|delivery| {
        assert_eq!(delivery.body(), BODY.as_bytes());
        delivery.header_event().clone()
    })
}

/// A REST API event (payload 1.0): all header values are in `multiValueHeaders`.
fn rest(values: &[&str]) -> Value {
    json!({
        "resource": "/hooks", "path": "/hooks", "httpMethod": "POST",
        "headers": {"Host": "h", "X-Service-Signature": values.last()},
        "multiValueHeaders": {"Host": ["h"], "X-Service-Signature": values},
        "requestContext": {"stage": "prod"}, "body": BODY, "isBase64Encoded": false
    })
}

/// An HTTP API or function URL event (payload 2.0): lowercase names, several values
/// joined by commas.
fn http(signature: &str, body: &str, base64: bool) -> Value {
    json!({
        "version": "2.0", "routeKey": "POST /hooks", "rawPath": "/hooks",
        "headers": {"host": "h", "x-service-signature": signature,
                    "x-service-event": "extraction.completed"},
        "requestContext": {"http": {"method": "POST"}}, "body": body, "isBase64Encoded": base64
    })
}

/// A load balancer event: headers in one of the two fields.
fn balancer(headers: Value, multi_value_headers: Option<Value>) -> Value {
    let mut event = json!({
        "requestContext": {"elb": {"targetGroupArn": "arn"}}, "httpMethod": "POST", "path": "/",
        "body": STANDARD.encode(BODY), "isBase64Encoded": true
    });
    if !headers.is_null() {
        event["headers"] = headers;
    }
    if let Some(headers) = multi_value_headers {
        event["multiValueHeaders"] = headers;
    }
    event
}

#[test]
fn accepts_every_event_format() {
    assert_eq!(receive(rest(&[&signature(BODY)])), Ok(HeaderEvent::Absent));
    assert_eq!(receive(http(&signature(BODY), BODY, false)), Ok(HeaderEvent::Same));
    let encoded = STANDARD.encode(BODY);
    assert_eq!(receive(http(&signature(BODY), &encoded, true)), Ok(HeaderEvent::Same));
    let single = json!({"x-service-signature": signature(BODY)});
    assert_eq!(receive(balancer(single.clone(), None)), Ok(HeaderEvent::Absent));
    assert_eq!(receive(balancer(single, Some(Value::Null))), Ok(HeaderEvent::Absent));
    let multi = json!({"x-service-signature": [signature(BODY)]});
    assert_eq!(receive(balancer(Value::Null, Some(multi))), Ok(HeaderEvent::Absent));
}

#[test]
fn decodes_base64_strictly_and_only_if_announced() {
    let encoded = STANDARD.encode(BODY);
    let undecoded = receive(http(&signature(BODY), &encoded, false));
    assert_eq!(undecoded.unwrap_err(), VerifyError::Mismatch.into());
    // Variants that Lambda never sends are rejected: missing padding, the URL-safe
    // alphabet, newlines, spaces.
    let bytes = "{\"event\":\"\u{3fe}\u{3fe}\u{3ff}\"}";
    let valid = STANDARD.encode(bytes);
    assert!(valid.contains('+') || valid.contains('/'), "{valid}");
    let url_safe = valid.replace('+', "-").replace('/', "_");
    for invalid in ["%%%%", "e30", "e30=\n", " e30=", "e3\n0=", "e30==", "e30=e30=", "=", &url_safe]
    {
        let broken = receive(http(&signature(bytes), invalid, true)).unwrap_err();
        assert_eq!((broken.status(), broken), (401, Rejection::Unreadable), "{invalid:?}");
    }
}

#[test]
fn requires_exactly_one_signature_header() {
    let good = signature(BODY);
    let duplicate = receive(rest(&[&good, &good])).unwrap_err();
    assert_eq!(duplicate, VerifyError::DuplicateSignature.into());
    let joined = receive(http(&format!("{good},{good}"), BODY, false)).unwrap_err();
    assert_eq!(joined, VerifyError::MalformedSignature.into());
    for values in [json!([good, good]), json!([]), Value::Null] {
        let multiple = values.as_array().is_some_and(|values| values.len() > 1);
        let event = balancer(Value::Null, Some(json!({"X-Service-Signature": values})));
        let expected =
            if multiple { VerifyError::DuplicateSignature } else { VerifyError::MissingSignature };
        assert_eq!(receive(event).unwrap_err(), expected.into());
    }
    let mut both = http(&good, BODY, false);
    both["headers"]["X-SERVICE-SIGNATURE"] = json!(good);
    assert_eq!(receive(both).unwrap_err(), VerifyError::DuplicateSignature.into());
}

/// The header is checked before the size, and the size before Base64 is decoded.
#[test]
fn checks_in_the_documented_order() {
    let small = receiver().body_limit(10);
    let rejection = |headers: Value, body: &str| {
        let event = json!({"headers": headers, "body": body, "isBase64Encoded": true});
        receive_request(&small, &serde_json::from_value(event).unwrap()).unwrap_err()
    };
    let signed = || json!({"x-service-signature": signature(BODY)});
    for body in ["%%%%", &"%".repeat(100), &"e30=".repeat(100)] {
        assert_eq!(rejection(json!({}), body), VerifyError::MissingSignature.into());
        let malformed = json!({"x-service-signature": "sha256=00"});
        assert_eq!(rejection(malformed, body), VerifyError::MalformedSignature.into());
    }
    assert_eq!(rejection(signed(), &"%".repeat(100)), BodyTooLarge { limit: 10 }.into());
    assert_eq!(rejection(signed(), "%%%%"), Rejection::Unreadable);
}

#[test]
fn rejects_events_without_headers_or_body() {
    for event in [json!({}), json!({"headers": null, "body": null, "isBase64Encoded": null})] {
        assert_eq!(receive(event).unwrap_err(), VerifyError::MissingSignature.into());
    }
    let empty = EnvelopeError::NotJson { line: 1, column: 0 };
    assert_eq!(receive(http(&signature(""), "", true)).unwrap_err(), empty.into());
    let headers = json!({"x-service-signature": signature("")});
    assert_eq!(receive(json!({"headers": headers})).unwrap_err(), empty.into());
    let headers = json!({"x-service-signature": signature(BODY)});
    assert!(
        receive(json!({"headers": headers, "body": BODY})).is_ok(),
        "a body is not Base64 by default"
    );
}

#[test]
fn the_limit_applies_to_the_decoded_body() {
    let receive_with_limit = |limit, body: &str, base64: bool| {
        let encoded = if base64 { STANDARD.encode(body) } else { body.to_owned() };
        let request = serde_json::from_value(http(&signature(body), &encoded, base64)).unwrap();
        receive_request(&receiver().body_limit(limit), &request).map(drop)
    };
    // With zero, one and two padding characters.
    for body in [BODY, &format!("{BODY} "), &format!("{BODY}  ")] {
        for base64 in [false, true] {
            assert_eq!(receive_with_limit(body.len(), body, base64), Ok(()));
            assert_eq!(receive_with_limit(usize::MAX, body, base64), Ok(()), "no limit");
            for limit in [0, body.len() - 1] {
                assert_eq!(
                    receive_with_limit(limit, body, base64),
                    Err(BodyTooLarge { limit }.into())
                );
            }
        }
    }
}

#[test]
fn serializes_responses_in_the_format_of_the_request() {
    use webhook_verify::dedup::Outcome;

    let json = |response: LambdaResponse| serde_json::to_string(&response).unwrap();
    let request = |event| serde_json::from_value::<LambdaRequest>(event).unwrap();
    let rejection = || receive(json!({})).unwrap_err();
    let in_flight = || {
        let retry_after = std::time::Duration::from_secs(2);
        Outcome::<LambdaResponse>::InFlight { retry_after }
    };

    for single in [http("", "", false), balancer(json!({}), None), json!({})] {
        assert_eq!(
            json(request(single.clone()).respond(rejection())),
            r#"{"statusCode":401,"headers":{},"body":"","isBase64Encoded":false}"#
        );
        assert_eq!(
            json(request(single).respond(in_flight())),
            r#"{"statusCode":503,"headers":{"retry-after":"2"},"body":"","isBase64Encoded":false}"#
        );
    }
    for multi in [rest(&[]), balancer(Value::Null, Some(json!({})))] {
        assert_eq!(
            json(request(multi.clone()).respond(rejection())),
            r#"{"statusCode":401,"multiValueHeaders":{},"body":"","isBase64Encoded":false}"#
        );
        let response = request(multi).respond(in_flight()).header("x", "y");
        assert_eq!(
            json(response),
            r#"{"statusCode":503,"multiValueHeaders":{"retry-after":["2"],"x":["y"]},"body":"","isBase64Encoded":false}"#
        );
    }
    // Without a request to respond to, in both formats.
    assert_eq!(
        json(in_flight().into()),
        r#"{"statusCode":503,"headers":{"retry-after":"2"},"multiValueHeaders":{"retry-after":["2"]},"body":"","isBase64Encoded":false}"#
    );
}

#[test]
fn debug_output_of_a_request_shows_no_content() {
    let request: LambdaRequest = serde_json::from_value(rest(&[&signature(BODY)])).unwrap();
    assert!(!format!("{request:?}").contains("7c0e"));
}
