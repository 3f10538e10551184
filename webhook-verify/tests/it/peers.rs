//! The defects that were seen in other libraries, one test each; those that
//! concern one adapter or the grammar stand with it: unsigned bodies drained, a
//! layer that never returns, 400 for 413 (`tower`), `md5=` and lists as a
//! signature (`grammar`), Base64 bodies (`lambda`), time stamps ignored (`http`),
//! no second secret (`rotation`), no id to tell deliveries apart, deliveries
//! marked as done too early or too late (`dedup`). A secret in the command line
//! is the business of `svc`, whose tests look for options that take one.

use webhook_verify::{
    EnvelopeError, ExtractionSigner, ExtractionVerifier, MailSigner, MailVerifier, Secret,
    SecretError, VerifyError,
};

fn secret() -> Secret {
    Secret::new("whsec_5a6b").unwrap()
}

/// All four others accept an empty secret, and then this.
#[test]
fn a_forgery_under_the_empty_secret() {
    // python3 -c "import hmac; print(hmac.new(b'', b'{}', 'sha256').hexdigest())"
    let forged = "22f8eea909400af98adf3681a9f31923ef6b7fcba4abb553d92823a3e9d5c25e";
    assert_eq!(Secret::new("").unwrap_err(), SecretError::Empty);
    // HMAC fills keys up with zeros, so that a buffer of zeros is the same key.
    for zeros in [1, 32, 64, 65] {
        assert_eq!(Secret::new(vec![0; zeros]).unwrap_err(), SecretError::Empty);
    }
    assert_eq!(
        serde_json::from_str::<Secret>("\"\"").unwrap_err().to_string(),
        "the signing secret is empty"
    );
    assert!("".parse::<Secret>().is_err() && Secret::try_from(String::new()).is_err());
    assert!(MailVerifier::rotating([]).is_err());
    for verifier in
        [MailVerifier::new(secret()), MailVerifier::rotating([secret(), secret()]).unwrap()]
    {
        assert_eq!(verifier.verify(forged, "{}").unwrap_err(), VerifyError::Mismatch);
    }
}

#[test]
fn a_newline_at_the_end_of_the_secret() {
    let error = Secret::new("whsec_5a6b\n").unwrap_err();
    assert_eq!(error, SecretError::SurroundingWhiteSpace);
}

#[test]
fn bodies_that_are_no_utf_8_and_bodies_with_emoji() {
    let bodies: [&[u8]; 4] =
        [b"\xFF\xFE\x00", "{\"event\":\"🎉\"}".as_bytes(), b"{\"n\":\"n\xE9\"}", b""];
    for body in bodies {
        let header = MailSigner::new(&secret()).sign(body).to_string();
        assert_eq!(MailVerifier::new(secret()).verify(header, body).unwrap().body(), body);
    }
}

/// Parsing is a step of its own, and what cannot be parsed has still verified.
#[test]
fn verification_and_parsing_are_not_welded_together() {
    let body = b"not json";
    let header = ExtractionSigner::new(&secret()).sign(body).to_string();
    let verified = ExtractionVerifier::new(secret()).verify(header, body).unwrap();
    let refused = verified.clone().into_delivery().unwrap_err();
    assert_eq!(refused, EnvelopeError::NotJson { line: 1, column: 2 });
    assert_eq!(verified.into_body(), body);
}

#[test]
fn a_body_that_was_written_again_or_trimmed() {
    let body = "{\"event\": \"email.sent\", \"amount\": 1.50}\n";
    let header = MailSigner::new(&secret()).sign(body).to_string();
    let verifier = MailVerifier::new(secret());
    let again = serde_json::from_str::<serde_json::Value>(body).unwrap().to_string();
    for changed in [body.trim(), &again, &body.replace('\n', "\r\n")] {
        assert_eq!(verifier.verify(&header, changed).unwrap_err(), VerifyError::Mismatch);
    }
    assert!(verifier.verify(&header, body).is_ok());
}

/// Two of them broke with each major version of axum.
#[test]
fn no_coupling_to_a_version_of_axum() {
    let manifest = include_str!("../../Cargo.toml");
    let (_, dependencies) = manifest.split_once("[dependencies]").unwrap();
    let (dependencies, _) = dependencies.split_once("[dev-dependencies]").unwrap();
    let names: Vec<_> = dependencies.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"axum-core") && !names.contains(&"axum"), "{names:?}");
}
