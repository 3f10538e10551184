//! `Receiver` with `http::HeaderMap` and a complete body.

use std::time::Duration;

use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue};
use webhook_verify::{
    AgeError, BodyBytes, BodyTooLarge, Delivery, EnvelopeError, Extraction, ExtractionSigner,
    ExtractionVerifier, HeaderEvent, MailSigner, MailVerifier, Receiver, Rejection, Scheme, Secret,
    Timestamp, VerifyError,
};

pub(crate) const SECRET: &str = "whsec_8d21";
pub(crate) const BODY: &str = r#"{"event":"extraction.completed","id":"7c0e","data":{"total":3},"created":"2026-03-01T09:30:00Z"}"#;

pub(crate) fn receiver() -> Receiver<Extraction> {
    Receiver::new(ExtractionVerifier::new(Secret::new(SECRET).unwrap()))
}

pub(crate) fn signature(body: impl AsRef<[u8]>) -> String {
    ExtractionSigner::new(&Secret::new(SECRET).unwrap()).sign(body).to_string()
}

/// Only the resolution of a verifier waits, and these receivers have one.
pub(crate) fn receive<S: Scheme, B: BodyBytes>(
    receiver: &Receiver<S>,
    headers: &HeaderMap,
    body: B,
) -> Result<Delivery<S, B>, Rejection> {
    receiver.receive(headers, body).now_or_never().expect("it does not wait")
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

pub(crate) fn signed(body: impl AsRef<[u8]>) -> HeaderMap {
    headers(&[("x-service-signature", &signature(body))])
}

#[test]
fn accepts_a_valid_delivery() {
    let mut headers = signed(BODY);
    headers.insert("X-Service-Event", HeaderValue::from_static("extraction.completed"));
    let delivery = receive(&receiver(), &headers, BODY).unwrap();
    assert_eq!(delivery.id(), Some("7c0e"));
    assert_eq!(*delivery.header_event(), HeaderEvent::Same);
}

#[test]
fn checks_header_then_size_then_signature() {
    let small = receiver().body_limit(10);
    let too_large = Rejection::TooLarge(BodyTooLarge { limit: 10 });
    let rejection = |headers: &HeaderMap| receive(&small, headers, BODY).unwrap_err();
    assert_eq!(rejection(&HeaderMap::new()), VerifyError::MissingSignature.into());
    let malformed = headers(&[("X-Service-Signature", "sha256=00")]);
    assert_eq!(rejection(&malformed), VerifyError::MalformedSignature.into());
    assert_eq!(rejection(&signed(BODY)), too_large);
    assert_eq!(too_large.status(), 413);
    assert!(receive(&receiver().body_limit(BODY.len()), &signed(BODY), BODY).is_ok());
}

#[test]
fn rejects_two_signature_headers_even_if_both_are_valid() {
    let good = signature(BODY);
    for second in [&good[..], "", "sha256="] {
        let headers = headers(&[("X-Service-Signature", &good), ("x-service-signature", second)]);
        let rejection = receive(&receiver(), &headers, BODY).unwrap_err();
        assert_eq!(rejection, VerifyError::DuplicateSignature.into());
        assert_eq!(rejection.status(), 401);
    }
}

#[test]
fn signing_again_replaces_the_header() {
    let mut headers = signed("another body");
    let secret = Secret::new(SECRET).unwrap();
    ExtractionSigner::new(&secret).sign_headers(&mut headers, BODY);
    assert!(receive(&receiver(), &headers, BODY).is_ok());
}

#[test]
fn ignores_the_other_services_header() {
    let mut headers = HeaderMap::new();
    let secret = Secret::new(SECRET).unwrap();
    MailSigner::new(&secret).sign_headers(&mut headers, BODY);
    let rejection = receive(&receiver(), &headers, BODY).unwrap_err();
    assert_eq!(rejection, VerifyError::MissingSignature.into());
    let mail = Receiver::new(MailVerifier::new(secret));
    assert!(receive(&mail, &headers, BODY).is_ok(), "the schemes differ in the header only");
}

#[test]
fn verifies_before_parsing() {
    let rejection = receive(&receiver(), &signed(BODY), "no json").unwrap_err();
    assert_eq!((rejection.status(), rejection), (401, VerifyError::Mismatch.into()));
    let rejection = receive(&receiver(), &signed("no json"), "no json").unwrap_err();
    assert_eq!(rejection, EnvelopeError::NotJson { line: 1, column: 2 }.into());
    assert_eq!(rejection.status(), 400);
    // Bodies that are not UTF-8, such as Latin-1, verify as bytes.
    let bytes = b"{\"event\":\"extraction.failed\",\"data\":\"\xFC\"}";
    let verifier = ExtractionVerifier::new(Secret::new(SECRET).unwrap());
    assert_eq!(verifier.verify_headers(&signed(bytes), bytes).unwrap().body(), bytes);
}

#[test]
fn enforces_the_maximum_age() {
    let receiver = receiver().max_age(Duration::from_secs(60));
    let at = |clock| receive(&receiver.clone().clock(clock), &signed(BODY), BODY);
    let created = || Timestamp::parse("2026-03-01T09:30:00Z").unwrap();
    assert!(at(created).is_ok());
    let rejection = at(|| Timestamp::parse("2026-03-01T09:31:01Z").unwrap()).unwrap_err();
    assert_eq!((rejection.status(), rejection), (400, AgeError::TooOld.into()));
    let undated = r#"{"event":"extraction.failed"}"#;
    let rejection = receive(&receiver, &signed(undated), undated).unwrap_err();
    assert_eq!(rejection, AgeError::Unknown.into());
}

#[test]
fn compares_the_event_header_and_never_trusts_it() {
    let compared = |extra: &[(&'static str, &str)]| {
        let mut all = signed(BODY);
        all.extend(headers(extra));
        receive(&receiver(), &all, BODY).unwrap().header_event().clone()
    };
    assert_eq!(compared(&[]), HeaderEvent::Absent);
    let other = compared(&[("x-service-event", "extraction.failed")]);
    assert_eq!(other, HeaderEvent::Different("extraction.failed".into()));
    let twice = [("x-service-event", "extraction.completed"); 2];
    let joined = "extraction.completed, extraction.completed";
    assert_eq!(compared(&twice), HeaderEvent::Different(joined.into()));

    // The email scheme defines no event header, so only a configured one is compared.
    let mail = || Receiver::new(MailVerifier::new(Secret::new(SECRET).unwrap()));
    let body = r#"{"event":"email.sent"}"#;
    let mut headers_of_mail = headers(&[("Mail-Event", "email.opened")]);
    MailSigner::new(&Secret::new(SECRET).unwrap()).sign_headers(&mut headers_of_mail, body);
    let delivery = receive(&mail(), &headers_of_mail, body).unwrap();
    assert_eq!(*delivery.header_event(), HeaderEvent::Absent);
    let delivery = receive(&mail().event_header("mail-event"), &headers_of_mail, body).unwrap();
    assert_eq!(*delivery.header_event(), HeaderEvent::Different("email.opened".into()));
    assert_eq!(delivery.event().as_str(), "email.sent");

    // The default event header is not a fallback for a body without an event.
    let mut chosen = signed("{}");
    chosen.extend(headers(&[("x-service-event", "extraction.completed")]));
    let rejection = receive(&receiver(), &chosen, "{}").unwrap_err();
    assert_eq!((rejection.status(), rejection), (400, EnvelopeError::MissingEvent.into()));
    let verifier = ExtractionVerifier::new(Secret::new(SECRET).unwrap());
    let verified = verifier.verify_headers(&chosen, "{}").unwrap();
    assert_eq!(verified.into_delivery().unwrap_err(), EnvelopeError::MissingEvent);

    // A configured event header is.
    let receiver = receiver().event_header("Kind");
    let mut headers = signed("{}");
    headers.insert("kind", HeaderValue::from_static("extraction.failed"));
    let delivery = receive(&receiver, &headers, "{}").unwrap();
    assert_eq!(*delivery.header_event(), HeaderEvent::Fallback);
    assert_eq!(delivery.event().as_str(), "extraction.failed");
}

/// The extraction service's events can have any JSON as their body.
#[test]
fn any_json_is_a_delivery_if_a_configured_header_names_the_event() {
    let named = receiver().event_header("X-Service-Event");
    for body in ["[1]", "\"text\"", "17", "null", " []"] {
        let mut headers = signed(body);
        headers.insert("x-service-event", HeaderValue::from_static("extraction.completed"));
        let delivery = receive(&named, &headers, body).unwrap();
        assert_eq!(delivery.event().as_str(), "extraction.completed");
        assert_eq!(*delivery.header_event(), HeaderEvent::Fallback);
        assert_eq!((delivery.id(), delivery.data_json()), (None, "null"));
        assert_eq!(delivery.body(), body.as_bytes());
        assert_eq!(delivery.key(), delivery.verified().key());
        // A header that only is compared does not name the event.
        let rejection = receive(&receiver(), &headers, body).unwrap_err();
        assert_eq!(rejection, EnvelopeError::NotAnObject.into());
        headers.remove("x-service-event");
        let rejection = receive(&named, &headers, body).unwrap_err();
        assert_eq!(rejection, EnvelopeError::NotAnObject.into());
    }
    let mut headers = signed("[");
    headers.insert("x-service-event", HeaderValue::from_static("extraction.completed"));
    let rejection = receive(&named, &headers, "[").unwrap_err();
    assert_eq!(rejection, EnvelopeError::NotJson { line: 1, column: 1 }.into());
}
