//! `diagnose` recognizes every known mistake, and reports none for a valid delivery.

use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use webhook_verify::Secret;

use super::*;

const SECRET: &str = "whsec_M2Y1YzQ=";
const BODY: &str =
    "{\"event\": \"email.sent\", \"created\": \"2026-03-01\", \"data\": {\"to\": \"ü/é\"}}";

fn sign(secret: &str, body: impl AsRef<[u8]>) -> String {
    Signature::sign(Service::Email, &Secret::new(secret).unwrap(), body).to_string()
}

/// The codes of the mistakes that are found.
fn found(header: &str, body: impl AsRef<[u8]>, secret: &str) -> Vec<&'static str> {
    let header = header.as_bytes();
    let secret = secret.as_bytes();
    let mistakes = diagnose(Service::Email, header, body.as_ref(), secret);
    mistakes.iter().map(|mistake| mistake.code).collect()
}

#[test]
fn a_valid_delivery_has_no_mistakes() {
    assert!(found(&sign(SECRET, BODY), BODY, SECRET).is_empty());
    assert!(found(&sign(SECRET, ""), "", SECRET).is_empty());
}

#[test]
fn recognizes_mistakes_in_the_body() {
    let compact = r#"{"event":"email.sent","created":"2026-03-01","data":{"to":"ü/é"}}"#;
    let indented = "{\n  \"event\": \"email.sent\",\n  \"created\": \"2026-03-01\",\n  \"data\": {\n    \"to\": \"ü/é\"\n  }\n}";
    let cases: [(&str, &str, Vec<u8>); 13] = [
        ("whitespace_changed", BODY, format!("{BODY}\n").into()),
        ("whitespace_changed", BODY, format!("{BODY}\r\n").into()),
        ("whitespace_changed", &format!("{BODY}\n"), BODY.into()),
        ("whitespace_changed", &format!("{BODY}\r\n"), BODY.into()),
        ("whitespace_changed", BODY, format!(" {BODY} ").into()),
        ("whitespace_changed", "{\r\n}", "{\n}".into()),
        ("whitespace_changed", "{\n}", "{\r\n}".into()),
        ("base64_body", BODY, STANDARD.encode(BODY).into()),
        (
            "base64_body",
            BODY,
            format!("{}\n", STANDARD.encode(BODY)).into(),
        ),
        ("reserialized", compact, BODY.into()),
        ("reserialized", BODY, compact.into()),
        ("reserialized", indented, compact.into()),
        (
            "reserialized",
            r#"{"to": ["a", "b"], "cc": []}"#,
            r#"{"to":["a","b"],"cc":[]}"#.into(),
        ),
    ];
    for (mistake, signed, received) in cases {
        assert_eq!(
            found(&sign(SECRET, signed), received, SECRET),
            [mistake],
            "{signed}"
        );
    }
}

#[test]
fn recognizes_mistakes_in_the_secret() {
    let stored = |stored: &str| found(&sign("s3cret", BODY), BODY, stored);
    for quoted in ["\"s3cret\"", "'s3cret'"] {
        assert_eq!(stored(quoted), ["secret_quoted"]);
    }

    for decoded in ["733363726574", "whsec_s3cret"] {
        assert_eq!(stored(decoded), ["secret_decoded"]);
    }

    assert_eq!(
        found(&sign("3f5c4", BODY), BODY, SECRET),
        ["secret_decoded"]
    );
    for alphabet in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
        let stored = alphabet.encode("???>>>?");
        assert_eq!(
            found(&sign("???>>>?", BODY), BODY, &stored),
            ["secret_decoded"],
            "{stored}"
        );
    }

    assert!(stored("another").is_empty());
}

#[test]
fn recognizes_mistakes_in_the_header() {
    let good = sign(SECRET, BODY);
    let by = |header: &str| found(header, BODY, SECRET);
    assert_eq!(by(&format!("sha256={good}")), ["other_scheme_header"]);
    assert_eq!(by(&format!(" {good}\n")), ["header_whitespace"]);
    assert_eq!(by(&format!("\"{good}\"")), ["header_whitespace"]);
    assert!(by("").is_empty() && by("abc").is_empty());
    let body = BODY.as_bytes();
    let secret = SECRET.as_bytes();
    let found = diagnose(Service::Extraction, good.as_bytes(), body, secret);
    assert_eq!(found, [&OTHER_SCHEME_HEADER]);
}

#[test]
fn recognizes_several_mistakes_together() {
    let header = format!("sha256={}", sign(SECRET, BODY));
    assert_eq!(
        found(&header, format!("{BODY}\n"), &format!("\"{SECRET}\"")),
        ["other_scheme_header", "secret_quoted", "whitespace_changed"]
    );
}
