//! Lambda events as API Gateway, function URLs and load balancers send them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use webhook_verify::{
    EnvelopeError, HeaderEvent, LambdaRequest, LambdaResponse, Rejection, TooLarge, VerifyError,
};

use crate::http::{BODY, receiver, signature};

fn receive(event: Value) -> Result<HeaderEvent, Rejection> {
    let request: LambdaRequest = serde_json::from_value(event).unwrap();
    receiver().receive_lambda(&request).map(|delivery| {
        assert_eq!(delivery.body(), BODY.as_bytes());
        delivery.header_event().clone()
    })
}

/// A REST API (payload 1.0): every line stands in `multiValueHeaders`.
fn rest(lines: &[&str]) -> Value {
    json!({
        "resource": "/hooks", "path": "/hooks", "httpMethod": "POST",
        "headers": {"Host": "h", "X-Service-Signature": lines.last()},
        "multiValueHeaders": {"Host": ["h"], "X-Service-Signature": lines},
        "requestContext": {"stage": "prod"}, "body": BODY, "isBase64Encoded": false
    })
}

/// An HTTP API or a function URL (payload 2.0): lower-case names, several
/// lines joined by commas.
fn http(signature: &str, body: &str, base64: bool) -> Value {
    json!({
        "version": "2.0", "routeKey": "POST /hooks", "rawPath": "/hooks",
        "headers": {"host": "h", "x-service-signature": signature,
                    "x-service-event": "extraction.completed"},
        "requestContext": {"http": {"method": "POST"}}, "body": body, "isBase64Encoded": base64
    })
}

/// A load balancer: headers in one form or the other, as it is set up.
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
fn each_kind_of_event() {
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
fn a_base64_body_is_not_taken_for_the_body() {
    let encoded = STANDARD.encode(BODY);
    let refused = receive(http(&signature(BODY), &encoded, false));
    assert_eq!(refused.unwrap_err(), VerifyError::Mismatch.into());
    // What Lambda never writes is not guessed at: padding left out, the
    // alphabet of URLs, lines, blanks.
    let bytes = "{\"event\":\"\u{3fe}\u{3fe}\u{3ff}\"}";
    let good = STANDARD.encode(bytes);
    assert!(good.contains('+') || good.contains('/'), "{good}");
    let for_urls = good.replace('+', "-").replace('/', "_");
    for odd in ["%%%%", "e30", "e30=\n", " e30=", "e3\n0=", "e30==", "e30=e30=", "=", &for_urls] {
        let broken = receive(http(&signature(bytes), odd, true)).unwrap_err();
        assert_eq!((broken.status(), broken), (401, Rejection::Unreadable), "{odd:?}");
    }
}

#[test]
fn exactly_one_line() {
    let good = signature(BODY);
    let refused = receive(rest(&[&good, &good])).unwrap_err();
    assert_eq!(refused, VerifyError::RepeatedSignature.into());
    let joined = receive(http(&format!("{good},{good}"), BODY, false)).unwrap_err();
    assert_eq!(joined, VerifyError::MalformedSignature.into());
    for lines in [json!([good, good]), json!([]), Value::Null] {
        let several = lines.as_array().is_some_and(|lines| lines.len() > 1);
        let event = balancer(Value::Null, Some(json!({"X-Service-Signature": lines})));
        let refused =
            if several { VerifyError::RepeatedSignature } else { VerifyError::MissingSignature };
        assert_eq!(receive(event).unwrap_err(), refused.into());
    }
    let mut both = http(&good, BODY, false);
    both["headers"]["X-SERVICE-SIGNATURE"] = json!(good);
    assert_eq!(receive(both).unwrap_err(), VerifyError::RepeatedSignature.into());
}

/// The header comes before the size, and the size before the Base64.
#[test]
fn the_order_of_the_checks() {
    let small = receiver().body_limit(10);
    let refused = |headers: Value, body: &str| {
        let event = json!({"headers": headers, "body": body, "isBase64Encoded": true});
        small.receive_lambda(&serde_json::from_value(event).unwrap()).unwrap_err()
    };
    let signed = || json!({"x-service-signature": signature(BODY)});
    for body in ["%%%%", &"%".repeat(100), &"e30=".repeat(100)] {
        assert_eq!(refused(json!({}), body), VerifyError::MissingSignature.into());
        let malformed = json!({"x-service-signature": "sha256=00"});
        assert_eq!(refused(malformed, body), VerifyError::MalformedSignature.into());
    }
    assert_eq!(refused(signed(), &"%".repeat(100)), TooLarge { limit: 10 }.into());
    assert_eq!(refused(signed(), "%%%%"), Rejection::Unreadable);
}

#[test]
fn events_with_nothing_in_them() {
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
        "Base64 is said, not guessed"
    );
}

#[test]
fn the_limit_is_of_the_decoded_body() {
    let at = |limit, body: &str, base64: bool| {
        let sent = if base64 { STANDARD.encode(body) } else { body.to_owned() };
        let request = serde_json::from_value(http(&signature(body), &sent, base64)).unwrap();
        receiver().body_limit(limit).receive_lambda(&request).map(drop)
    };
    // With none, one and two letters of padding.
    for body in [BODY, &format!("{BODY} "), &format!("{BODY}  ")] {
        for base64 in [false, true] {
            assert_eq!(at(body.len(), body, base64), Ok(()));
            assert_eq!(at(usize::MAX, body, base64), Ok(()), "no limit");
            for limit in [0, body.len() - 1] {
                assert_eq!(at(limit, body, base64), Err(TooLarge { limit }.into()));
            }
        }
    }
}

#[test]
fn answers_as_lambda_wants_them() {
    use webhook_verify::dedup::Once;

    let written = |answer: LambdaResponse| serde_json::to_string(&answer).unwrap();
    let request = |event| serde_json::from_value::<LambdaRequest>(event).unwrap();
    let refused = || receive(json!({})).unwrap_err();
    let in_flight = || {
        let retry_after = std::time::Duration::from_secs(2);
        Once::<LambdaResponse>::InFlight { retry_after }
    };

    for single in [http("", "", false), balancer(json!({}), None), json!({})] {
        assert_eq!(
            written(request(single.clone()).answer(refused())),
            r#"{"statusCode":401,"headers":{},"body":"","isBase64Encoded":false}"#
        );
        assert_eq!(
            written(request(single).answer(in_flight())),
            r#"{"statusCode":503,"headers":{"retry-after":"2"},"body":"","isBase64Encoded":false}"#
        );
    }
    for multi in [rest(&[]), balancer(Value::Null, Some(json!({})))] {
        assert_eq!(
            written(request(multi.clone()).answer(refused())),
            r#"{"statusCode":401,"multiValueHeaders":{},"body":"","isBase64Encoded":false}"#
        );
        let answer = request(multi).answer(in_flight()).header("x", "y");
        assert_eq!(
            written(answer),
            r#"{"statusCode":503,"multiValueHeaders":{"retry-after":["2"],"x":["y"]},"body":"","isBase64Encoded":false}"#
        );
    }
    // To whoever asked: the headers in the one form and in the other.
    assert_eq!(
        written(in_flight().into()),
        r#"{"statusCode":503,"headers":{"retry-after":"2"},"multiValueHeaders":{"retry-after":["2"]},"body":"","isBase64Encoded":false}"#
    );
}

#[test]
fn a_request_shows_nothing_of_itself() {
    let request: LambdaRequest = serde_json::from_value(rest(&[&signature(BODY)])).unwrap();
    assert!(!format!("{request:?}").contains("7c0e"));
}
