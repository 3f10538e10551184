//! `Receiver` over a whole body: the order of the checks.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use webhook_verify::{
    AgeError, EnvelopeError, Extraction, ExtractionSigner, ExtractionVerifier, HeaderEvent,
    MailSigner, MailVerifier, Receiver, Rejection, Secret, Timestamp, TooLarge, VerifyError,
};

pub(crate) const SECRET: &str = "whsec_8d21";
pub(crate) const BODY: &str = r#"{"event":"extraction.completed","id":"7c0e","data":{"total":3},"created":"2026-03-01T09:30:00Z"}"#;

pub(crate) fn receiver() -> Receiver<Extraction> {
    Receiver::new(ExtractionVerifier::new(Secret::new(SECRET).unwrap()))
}

pub(crate) fn signature(body: impl AsRef<[u8]>) -> String {
    ExtractionSigner::new(&Secret::new(SECRET).unwrap()).sign(body).to_string()
}

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

pub(crate) fn signed(body: impl AsRef<[u8]>) -> HeaderMap {
    headers(&[("x-service-signature", &signature(body))])
}

#[test]
fn a_good_delivery() {
    let mut headers = signed(BODY);
    headers.insert("X-Service-Event", HeaderValue::from_static("extraction.completed"));
    let delivery = receiver().receive(&headers, BODY).unwrap();
    assert_eq!(delivery.id(), Some("7c0e"));
    assert_eq!(*delivery.header_event(), HeaderEvent::Same);
}

#[test]
fn the_header_comes_before_the_size_and_the_size_before_the_signature() {
    let small = receiver().body_limit(10);
    let too_large = Rejection::TooLarge(TooLarge { limit: 10 });
    let refused = |headers: &HeaderMap| small.receive(headers, BODY).unwrap_err();
    assert_eq!(refused(&HeaderMap::new()), VerifyError::MissingSignature.into());
    let malformed = headers(&[("X-Service-Signature", "sha256=00")]);
    assert_eq!(refused(&malformed), VerifyError::MalformedSignature.into());
    assert_eq!(refused(&signed(BODY)), too_large);
    assert_eq!(too_large.status(), 413);
    assert!(receiver().body_limit(BODY.len()).receive(&signed(BODY), BODY).is_ok());
}

#[test]
fn two_lines_are_refused_even_if_both_are_right() {
    let good = signature(BODY);
    for second in [&good[..], "", "sha256="] {
        let headers = headers(&[("X-Service-Signature", &good), ("x-service-signature", second)]);
        let refused = receiver().receive(&headers, BODY).unwrap_err();
        assert_eq!(refused, VerifyError::RepeatedSignature.into());
        assert_eq!(refused.status(), 401);
    }
}

#[test]
fn signing_again_leaves_one_line() {
    let mut headers = signed("another body");
    let secret = Secret::new(SECRET).unwrap();
    ExtractionSigner::new(&secret).sign_headers(&mut headers, BODY);
    assert!(receiver().receive(&headers, BODY).is_ok());
}

#[test]
fn the_other_services_header_is_no_signature() {
    let mut headers = HeaderMap::new();
    let secret = Secret::new(SECRET).unwrap();
    MailSigner::new(&secret).sign_headers(&mut headers, BODY);
    let refused = receiver().receive(&headers, BODY).unwrap_err();
    assert_eq!(refused, VerifyError::MissingSignature.into());
    let mail = Receiver::new(MailVerifier::new(secret));
    assert!(mail.receive(&headers, BODY).is_ok(), "the same MAC: only the header differs");
}

#[test]
fn nothing_is_parsed_before_it_verified() {
    let refused = receiver().receive(&signed(BODY), "no json").unwrap_err();
    assert_eq!((refused.status(), refused), (401, VerifyError::Mismatch.into()));
    let refused = receiver().receive(&signed("no json"), "no json").unwrap_err();
    assert_eq!(refused, EnvelopeError::NotJson { line: 1, column: 2 }.into());
    assert_eq!(refused.status(), 400);
    // Latin-1 and the like verify as bytes, whatever they are as text.
    let bytes = b"{\"event\":\"extraction.failed\",\"data\":\"\xFC\"}";
    let verifier = ExtractionVerifier::new(Secret::new(SECRET).unwrap());
    assert_eq!(verifier.verify_headers(&signed(bytes), bytes).unwrap().body(), bytes);
}

#[test]
fn a_maximum_age() {
    let receiver = receiver().max_age(Duration::from_secs(60));
    let at = |clock| receiver.clone().clock(clock).receive(&signed(BODY), BODY);
    let created = || Timestamp::parse("2026-03-01T09:30:00Z").unwrap();
    assert!(at(created).is_ok());
    let refused = at(|| Timestamp::parse("2026-03-01T09:31:01Z").unwrap()).unwrap_err();
    assert_eq!((refused.status(), refused), (400, AgeError::TooOld.into()));
    let undated = r#"{"event":"extraction.failed"}"#;
    let refused = receiver.receive(&signed(undated), undated).unwrap_err();
    assert_eq!(refused, AgeError::Unknown.into());
}

#[test]
fn the_event_header_is_compared_and_never_believed() {
    let receive = |lines: &[(&'static str, &str)]| {
        let mut all = signed(BODY);
        all.extend(headers(lines));
        receiver().receive(&all, BODY).unwrap().header_event().clone()
    };
    assert_eq!(receive(&[]), HeaderEvent::Absent);
    let other = receive(&[("x-service-event", "extraction.failed")]);
    assert_eq!(other, HeaderEvent::Different("extraction.failed".into()));
    let twice = [("x-service-event", "extraction.completed"); 2];
    let joined = "extraction.completed, extraction.completed";
    assert_eq!(receive(&twice), HeaderEvent::Different(joined.into()));

    // The email service's is not shown: none is looked at but one that is named.
    let mail = || Receiver::new(MailVerifier::new(Secret::new(SECRET).unwrap()));
    let body = r#"{"event":"email.sent"}"#;
    let mut headers_of_mail = headers(&[("Mail-Event", "email.opened")]);
    MailSigner::new(&Secret::new(SECRET).unwrap()).sign_headers(&mut headers_of_mail, body);
    let delivery = mail().receive(&headers_of_mail, body).unwrap();
    assert_eq!(*delivery.header_event(), HeaderEvent::Absent);
    let delivery = mail().event_header("mail-event").receive(&headers_of_mail, body).unwrap();
    assert_eq!(*delivery.header_event(), HeaderEvent::Different("email.opened".into()));
    assert_eq!(delivery.event().as_str(), "email.sent");

    // A body that names no event gets none from a header that nobody named.
    let mut chosen = signed("{}");
    chosen.extend(headers(&[("x-service-event", "extraction.completed")]));
    let refused = receiver().receive(&chosen, "{}").unwrap_err();
    assert_eq!((refused.status(), refused), (400, EnvelopeError::NoEvent.into()));
    let verifier = ExtractionVerifier::new(Secret::new(SECRET).unwrap());
    let verified = verifier.verify_headers(&chosen, "{}").unwrap();
    assert_eq!(verified.into_delivery().unwrap_err(), EnvelopeError::NoEvent);

    // A sender that names the event only in a header of its own.
    let receiver = receiver().event_header("Kind");
    let mut headers = signed("{}");
    headers.insert("kind", HeaderValue::from_static("extraction.failed"));
    let delivery = receiver.receive(&headers, "{}").unwrap();
    assert_eq!(*delivery.header_event(), HeaderEvent::Only);
    assert_eq!(delivery.event().as_str(), "extraction.failed");
}
