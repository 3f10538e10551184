//! `diagnose` recognizes every known mistake, and reports none for a valid delivery.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use webhook_verify::{Secret, Service, Signature};

use super::{Case, Diagnosis, Hint, Mistake};

const SECRET: &str = "whsec_M2Y1YzQ=";
const BODY: &str =
    "{\"event\": \"email.sent\", \"created\": \"2026-03-01\", \"data\": {\"to\": \"ü/é\"}}";

fn sign(body: impl AsRef<[u8]>) -> String {
    Signature::sign(Service::Email, &Secret::new(SECRET).unwrap(), body).to_string()
}

/// The diagnosis if `signed` was signed and `received` was received.
fn diagnose_body(signed: impl AsRef<[u8]>, received: impl Into<Vec<u8>>) -> Diagnosis {
    of(sign(signed), received, SECRET)
}

fn of(
    header: impl Into<Vec<u8>>,
    body: impl Into<Vec<u8>>,
    secret: impl Into<Vec<u8>>,
) -> Diagnosis {
    Case::new(Service::Email, &header.into(), &body.into(), &secret.into()).diagnose()
}

fn explained(mistake: Mistake) -> Diagnosis {
    Diagnosis::Explained(vec![mistake])
}

#[test]
fn a_valid_delivery_verifies() {
    assert_eq!(diagnose_body(BODY, BODY), Diagnosis::Verifies);
    assert_eq!(diagnose_body("", ""), Diagnosis::Verifies);
}

#[test]
fn recognizes_mistakes_in_the_body() {
    let compact = r#"{"event":"email.sent","created":"2026-03-01","data":{"to":"ü/é"}}"#;
    let gzip = |level| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(BODY.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zlib = {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(BODY.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let deflate = {
        let level = flate2::Compression::fast();
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
        encoder.write_all(BODY.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let members = [gzip(flate2::Compression::fast()), gzip(flate2::Compression::best())].concat();
    let latin: Vec<u8> = BODY.chars().map(|c| u8::try_from(c).unwrap()).collect();
    let mojibake: String = BODY.bytes().map(char::from).collect();
    let cases: Vec<(Mistake, Vec<u8>, Vec<u8>)> = vec![
        (Mistake::NewlineAdded, BODY.into(), format!("{BODY}\n").into()),
        (Mistake::NewlineAdded, BODY.into(), format!("{BODY}\r\n").into()),
        (Mistake::NewlineRemoved, format!("{BODY}\n").into(), BODY.into()),
        (Mistake::NewlineRemoved, format!("{BODY}\r\n").into(), BODY.into()),
        (Mistake::WhitespaceAdded, BODY.into(), format!(" {BODY} ").into()),
        (Mistake::LineEndings, "{\r\n}".into(), "{\n}".into()),
        (Mistake::LineEndings, "{\n}".into(), "{\r\n}".into()),
        (Mistake::ByteOrderMarkAdded, BODY.into(), format!("\u{feff}{BODY}").into()),
        (Mistake::ByteOrderMarkRemoved, format!("\u{feff}{BODY}").into(), BODY.into()),
        (Mistake::Base64Body, BODY.into(), STANDARD.encode(BODY).into()),
        (Mistake::Base64Body, BODY.into(), format!("{}\n", STANDARD.encode(BODY)).into()),
        (Mistake::Base64Signed, STANDARD.encode(BODY).into(), BODY.into()),
        (Mistake::CompressedBody, BODY.into(), gzip(flate2::Compression::best())),
        (Mistake::CompressedBody, BODY.into(), zlib),
        (Mistake::CompressedBody, BODY.into(), deflate),
        (Mistake::CompressedBody, BODY.repeat(2).into(), members),
        (Mistake::Base64Body, "{???>>>}".into(), URL_SAFE_NO_PAD.encode("{???>>>}").into()),
        (Mistake::JsonInJson, BODY.into(), serde_json::to_vec(BODY).unwrap()),
        (Mistake::Charset, BODY.into(), latin.clone()),
        (Mistake::Charset, BODY.into(), mojibake.into()),
        (Mistake::Reserialized, compact.into(), BODY.into()),
        (Mistake::Reserialized, BODY.into(), compact.into()),
        (
            Mistake::Reserialized,
            r#"{"event": "email.sent", "created": "2026-03-01", "data": {"to": "\u00fc/\u00e9"}}"#
                .into(),
            compact.into(),
        ),
        (
            Mistake::Reserialized,
            r#"{"created":"2026-03-01","data":{"to":"ü/é"},"event":"email.sent"}"#.into(),
            BODY.into(),
        ),
        (
            Mistake::Reserialized,
            r#"{"event":"email.sent","created":"2026-03-01","data":{"to":"ü\/é"}}"#.into(),
            BODY.into(),
        ),
        // PHP's default.
        (
            Mistake::Reserialized,
            r#"{"event":"email.sent","created":"2026-03-01","data":{"to":"\u00fc\/\u00e9"}}"#.into(),
            BODY.into(),
        ),
        (Mistake::Reserialized, r#"{"to": ["a", "b"], "cc": []}"#.into(), r#"{"to":["a","b"],"cc":[]}"#.into()),
        (Mistake::Reserialized, "{\n    \"to\": [\n        1\n    ]\n}".into(), r#"{"to":[1]}"#.into()),
        (Mistake::Reserialized, "{\n\t\"to\": [\n\t\t1\n\t]\n}".into(), r#"{"to":[1]}"#.into()),
        (
            Mistake::Reserialized,
            "{\n  \"event\": \"email.sent\",\n  \"created\": \"2026-03-01\",\n  \"data\": {\n    \"to\": \"ü/é\"\n  }\n}".into(),
            BODY.into(),
        ),
    ];
    for (mistake, signed, received) in cases {
        assert_eq!(
            diagnose_body(&signed, received),
            explained(mistake),
            "{mistake:?}: {:?}",
            String::from_utf8_lossy(&signed)
        );
    }
}

/// JSON libraries of several languages sort the keys of an object, or lose their order.
#[test]
fn recognizes_sorted_and_reordered_keys() {
    let signed = r#"{"event":"email.bounced","id":"7c","data":{"to":"ü","emailId":1,"bounce":{"type":"hard","reason":""}},"created":"2026"}"#;
    for received in [
        r#"{"created":"2026","data":{"bounce":{"reason":"","type":"hard"},"emailId":1,"to":"ü"},"event":"email.bounced","id":"7c"}"#,
        r#"{"id": "7c", "event": "email.bounced", "created": "2026", "data": {"emailId": 1, "bounce": {"type": "hard", "reason": ""}, "to": "ü"}}"#,
    ] {
        assert_eq!(diagnose_body(signed, received), explained(Mistake::KeysReordered));
        let signed = signed.replace(':', ": ").replace(',', ", ");
        assert_eq!(diagnose_body(signed, received), explained(Mistake::KeysReordered));
    }
    // Too many orders of all keys: those of the envelope are tried.
    let data: Vec<String> = (0..20).map(|n| format!(r#""{n}":{n}"#)).collect();
    let data = data.join(",");
    let signed = format!(r#"{{"event":"e","id":"1","data":{{{data}}},"created":"2026"}}"#);
    let received = format!(r#"{{"created":"2026","data":{{{data}}},"event":"e","id":"1"}}"#);
    assert_eq!(diagnose_body(signed, received), explained(Mistake::KeysReordered));
}

#[test]
fn recognizes_mistakes_in_the_secret() {
    let signed_with = |secret: &str, stored: &str| {
        let secret = Secret::new(secret).unwrap();
        let header = Signature::sign(Service::Email, &secret, BODY).to_string();
        of(header, BODY, stored)
    };
    assert_eq!(signed_with("s3cret", "s3cret\n"), explained(Mistake::SecretWhitespace));
    assert_eq!(signed_with("s3cret", "\u{a0}s3cret"), explained(Mistake::SecretWhitespace));
    assert_eq!(signed_with("s3cret", "\u{feff}s3cret"), explained(Mistake::SecretByteOrderMark));
    assert_eq!(signed_with("s3cret", "\"s3cret\""), explained(Mistake::SecretQuoted));
    assert_eq!(signed_with("s3cret", "'s3cret'\n"), explained(Mistake::SecretQuoted));
    assert_eq!(signed_with("s3cret", "733363726574"), explained(Mistake::SecretDecoded));
    assert_eq!(signed_with("3f5c4", SECRET), explained(Mistake::SecretDecoded));
    assert_eq!(signed_with("s3cret", "whsec_s3cret"), explained(Mistake::SecretDecoded));
    for alphabet in [&URL_SAFE, &URL_SAFE_NO_PAD, &STANDARD_NO_PAD] {
        let stored = alphabet.encode("???>>>?");
        assert_eq!(signed_with("???>>>?", &stored), explained(Mistake::SecretDecoded), "{stored}");
    }

    // python3 -c "import hmac; print(hmac.new(b'', b'{}', 'sha256').hexdigest())"
    let empty = "22f8eea909400af98adf3681a9f31923ef6b7fcba4abb553d92823a3e9d5c25e";
    for stored in [SECRET, ""] {
        let diagnosis = of(empty, "{}", stored);
        assert_eq!(diagnosis, explained(Mistake::SecretEmpty));
    }
    // python3 -c "import hmac; print(hmac.new(b's3cret\\n', b'{}', 'sha256').hexdigest())"
    let newline = "f39cd3f95e0c0df0a620766d3cf004e55107255a85dd394c8d2c1b35a0f52a4e";
    for stored in ["s3cret", "s3cret\n"] {
        let diagnosis = of(newline, "{}", stored);
        assert_eq!(diagnosis, explained(Mistake::SenderSecretWhitespace));
    }

    // The same with the key b's3cret\\r\\n'.
    let newline = "2617c55bc6c782092bc7392d136b458313a1ca33dfb44a3e777a1dde24d67bd6";
    let diagnosis = of(newline, "{}", "s3cret");
    assert_eq!(diagnosis, explained(Mistake::SenderSecretWhitespace));

    let header = sign(BODY);
    for old in [SECRET, &format!("{SECRET}\n")] {
        let old = [old.as_bytes().to_vec()];
        let case = Case::new(Service::Email, header.as_bytes(), BODY.as_bytes(), b"new");
        let diagnosis = case.secrets(Mistake::OldSecret, &old).diagnose();
        assert_eq!(diagnosis, explained(Mistake::OldSecret));
    }
    let other = [SECRET.as_bytes().to_vec()];
    let case = Case::new(Service::Email, header.as_bytes(), BODY.as_bytes(), b"new");
    let diagnosis = case.secrets(Mistake::OtherSchemeSecret, &other).diagnose();
    assert_eq!(diagnosis, explained(Mistake::OtherSchemeSecret));
}

#[test]
fn recognizes_mistakes_in_the_header() {
    let by = |header: &str| of(header, BODY, SECRET);
    let good = sign(BODY);
    assert_eq!(by(&format!("sha256={good}")), explained(Mistake::OtherSchemeHeader));
    assert_eq!(by(&format!(" {good}\n")), explained(Mistake::HeaderWhitespace));
    assert_eq!(by(&format!("\"{good}\"")), explained(Mistake::HeaderWhitespace));
    assert_eq!(by(&format!("SHA256={good}")), explained(Mistake::HeaderPrefix));
    assert_eq!(by(&format!("v1={good}")), explained(Mistake::HeaderPrefix));
    for between in [", ", ",", "; ", ";", " "] {
        let several = format!("{}{between}{good}", sign("another body"));
        assert_eq!(by(&several), explained(Mistake::HeaderMultiple), "{between:?}");
    }
    let tag = STANDARD.encode(hex::decode(&good).unwrap());
    assert_eq!(by(&tag), explained(Mistake::HeaderBase64));
    assert_eq!(by(&format!("sha256={tag}")), explained(Mistake::HeaderBase64));

    let secret = Secret::new(SECRET).unwrap();
    let extraction = Signature::sign(Service::Extraction, &secret, BODY).to_string();
    let by = |header: &str| {
        let (header, body) = (header.as_bytes(), BODY.as_bytes());
        Case::new(Service::Extraction, header, body, SECRET.as_bytes()).diagnose()
    };
    assert_eq!(by(&extraction), Diagnosis::Verifies);
    assert_eq!(by(&good), explained(Mistake::OtherSchemeHeader));
}

#[test]
fn recognizes_several_mistakes_together() {
    let header = format!("sha256={}", sign(BODY));
    let diagnosis = of(header, format!("{BODY}\n"), format!("{SECRET}\n"));
    assert_eq!(
        diagnosis,
        Diagnosis::Explained(vec![
            Mistake::OtherSchemeHeader,
            Mistake::SecretWhitespace,
            Mistake::NewlineAdded
        ])
    );
}

#[test]
fn gives_hints_if_no_mistake_matches() {
    let other = sign("something else");
    assert_eq!(of(&*other, b"{}", SECRET), Diagnosis::Unexplained(vec![]));
    assert_eq!(of(&*other, b"", SECRET), Diagnosis::Unexplained(vec![Hint::BodyEmpty]));
    assert_eq!(of(&*other, b"{", SECRET), Diagnosis::Unexplained(vec![Hint::BodyNotJson]));
    // gzip, zlib and Zstandard.
    for compressed in [&b"\x1F\x8B\0"[..], b"\x78\x9C\0", b"\x28\xB5\x2F\xFD\0"] {
        let diagnosis = of(&*other, compressed, SECRET);
        assert_eq!(diagnosis, Diagnosis::Unexplained(vec![Hint::BodyCompressed]));
    }
    let lossy = "\"\u{fffd}\"".as_bytes();
    assert_eq!(of(&*other, lossy, SECRET), Diagnosis::Unexplained(vec![Hint::BodyLossy]));
    assert_eq!(of("abc", b"{}", SECRET), Diagnosis::Unexplained(vec![Hint::HeaderUnreadable]));
    assert_eq!(
        of("", b"{}", ""),
        Diagnosis::Unexplained(vec![Hint::SecretEmpty, Hint::HeaderEmpty])
    );
}
