//! Regression tests for defects found in other webhook verification libraries.
//!
//! Defects that concern one adapter or one module are tested there: reading
//! unsigned bodies, a layer that never returns, 400 instead of 413 (`tower`);
//! `md5=` and lists as signatures (`grammar`); Base64 bodies (`lambda`); ignored
//! timestamps (`http`); only one secret (`rotation`); no identity of a delivery,
//! deliveries marked as done too early or too late (`dedup`). Secrets in command
//! lines are covered by the tests of `svc`.

use webhook_verify::{
    EnvelopeError, ExtractionSigner, ExtractionVerifier, MailSigner, MailVerifier, Secret,
    SecretError, VerifyError,
};

fn secret() -> Secret {
    Secret::new("whsec_5a6b").unwrap()
}

/// The four other libraries accept an empty secret, and so this forgery.
#[test]
fn rejects_a_forgery_with_an_empty_secret() {
    // python3 -c "import hmac; print(hmac.new(b'', b'{}', 'sha256').hexdigest())"
    let forged = "22f8eea909400af98adf3681a9f31923ef6b7fcba4abb553d92823a3e9d5c25e";
    assert_eq!(Secret::new("").unwrap_err(), SecretError::Empty);
    // HMAC pads keys with zero bytes, so a key of zero bytes equals the empty key.
    for zeros in [1, 32, 64, 65] {
        assert_eq!(Secret::new(vec![0; zeros]).unwrap_err(), SecretError::Empty);
    }
    assert_eq!(
        serde_json::from_str::<Secret>("\"\"").unwrap_err().to_string(),
        "the signing secret is empty"
    );
    assert!("".parse::<Secret>().is_err() && Secret::try_from(String::new()).is_err());
    assert!(MailVerifier::with_secrets([]).is_err());
    for verifier in
        [MailVerifier::new(secret()), MailVerifier::with_secrets([secret(), secret()]).unwrap()]
    {
        assert_eq!(verifier.verify(forged, "{}").unwrap_err(), VerifyError::Mismatch);
    }
}

#[test]
fn rejects_a_secret_with_a_trailing_newline() {
    let error = Secret::new("whsec_5a6b\n").unwrap_err();
    assert_eq!(error, SecretError::SurroundingWhitespace);
}

#[test]
fn verifies_bodies_that_are_not_utf_8() {
    let bodies: [&[u8]; 4] =
        [b"\xFF\xFE\x00", "{\"event\":\"🎉\"}".as_bytes(), b"{\"n\":\"n\xE9\"}", b""];
    for body in bodies {
        let header = MailSigner::new(&secret()).sign(body).to_string();
        assert_eq!(MailVerifier::new(secret()).verify(header, body).unwrap().body(), body);
    }
}

/// Parsing is a separate step, so a body that is not JSON still verifies.
#[test]
fn verification_does_not_require_json() {
    let body = b"not json";
    let header = ExtractionSigner::new(&secret()).sign(body).to_string();
    let verified = ExtractionVerifier::new(secret()).verify(header, body).unwrap();
    let error = verified.clone().into_delivery().unwrap_err();
    assert_eq!(error, EnvelopeError::NotJson { line: 1, column: 2 });
    assert_eq!(verified.into_body(), body);
}

#[test]
fn rejects_a_reserialized_or_trimmed_body() {
    let body = "{\"event\": \"email.sent\", \"amount\": 1.50}\n";
    let header = MailSigner::new(&secret()).sign(body).to_string();
    let verifier = MailVerifier::new(secret());
    let again = serde_json::from_str::<serde_json::Value>(body).unwrap().to_string();
    for changed in [body.trim(), &again, &body.replace('\n', "\r\n")] {
        assert_eq!(verifier.verify(&header, changed).unwrap_err(), VerifyError::Mismatch);
    }
    assert!(verifier.verify(&header, body).is_ok());
}

/// Two of the other libraries broke with every breaking release of axum.
#[test]
fn depends_on_axum_core_only() {
    let manifest = include_str!("../../Cargo.toml");
    let (_, dependencies) = manifest.split_once("[dependencies]").unwrap();
    let (dependencies, _) = dependencies.split_once("[dev-dependencies]").unwrap();
    let names: Vec<_> = dependencies.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"axum-core") && !names.contains(&"axum"), "{names:?}");
}
