//! The verification itself: vectors, the format of the headers, several secrets, both services.
//! Among them are the defects of other verification libraries.

use proptest::prelude::*;
use webhook_verify::{
    Delivery, MAX_SECRETS, Rejection, Secret, SecretError, Service, Signature, Verifier,
};

const BODY: &str = r#"{"event":"email.sent","id":"1"}"#;

fn secret(n: usize) -> Secret {
    Secret::new(format!("secret-{n}")).unwrap()
}

fn header(secret: &Secret, body: impl AsRef<[u8]>) -> String {
    Signature::sign(Service::Email, secret, body).to_string()
}

fn check(verifier: &Verifier, header: &str, body: &[u8]) -> Result<usize, Rejection> {
    verifier.verify_bytes(&Signature::parse(Service::Email, header)?, body)
}

/// Any byte of a random key may be whitespace, as in a test case of RFC 4231.
#[test]
fn published_vectors_verify() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../vectors/rfc4231_hmac_sha256.json")).unwrap();
    for vector in vectors["vectors"].as_array().unwrap() {
        let bytes = |name: &str| hex::decode(vector[name].as_str().unwrap()).unwrap();
        let verifier = Verifier::email(Secret::from_bytes(bytes("key")).unwrap());
        let tag = vector["tag"].as_str().unwrap();
        assert_eq!(
            check(&verifier, tag, &bytes("data")),
            Ok(0),
            "case {}",
            vector["case"]
        );
        let upper = tag.to_uppercase();
        assert_eq!(
            check(&verifier, &upper, &bytes("data")),
            Ok(0),
            "upper case"
        );
    }

    // Far longer than HMAC's block size:
    // head -c 1048576 /dev/zero | tr '\0' s >key; python3 -c
    // "import hmac; print(hmac.new(open('key','rb').read(), b'{}', 'sha256').hexdigest())"
    let tag = "fa4a2f5f6103aede3f2afe6d569f72e5573810d64ea1bd43a9414d99f9156932";
    assert_eq!(
        header(&Secret::new(vec![b's'; 1 << 20]).unwrap(), "{}"),
        tag
    );
}

#[test]
fn only_the_exact_format_is_a_signature() {
    let digits = "7f".repeat(32);
    let extraction = format!("sha256={digits}");
    assert!(Signature::parse(Service::Email, &digits).is_ok());
    assert!(Signature::parse(Service::Extraction, &extraction).is_ok());

    let is_malformed = |service, value: &str| {
        assert_eq!(
            Signature::parse(service, value).unwrap_err(),
            Rejection::MalformedSignature,
            "{value:?}"
        );
    };

    is_malformed(Service::Email, &extraction);
    is_malformed(Service::Extraction, &digits);
    for prefix in [
        "md5=",
        "SHA256=",
        "sha256:",
        "sha256= ",
        " sha256=",
        "sha256=sha256=",
        "v1=",
    ] {
        is_malformed(Service::Extraction, &format!("{prefix}{digits}"));
    }

    let g = format!("{}g0", &digits[2..]);
    for value in [
        "",
        &digits[1..],
        &g,
        &format!("{digits}0"),
        &format!("{digits},{digits}"),
    ] {
        is_malformed(Service::Email, value);
        is_malformed(Service::Extraction, &format!("sha256={value}"));
    }

    for around in [" ", "\n", "\"", "\0", "ü"] {
        is_malformed(Service::Email, &format!("{digits}{around}"));
        is_malformed(Service::Email, &format!("{around}{digits}"));
    }
}

#[test]
fn exactly_one_header_of_either_service_is_accepted() {
    let digits = "7f".repeat(32);
    let extraction = format!("sha256={digits}");
    let find = |headers: &[(&str, &str)]| {
        let headers = headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()));
        Signature::from_headers(headers).map(|signature| signature.service())
    };

    assert_eq!(
        find(&[("host", "x"), ("MAIL-signature", &digits)]),
        Ok(Service::Email)
    );
    assert_eq!(
        find(&[("x-service-signature", &extraction)]),
        Ok(Service::Extraction)
    );
    assert_eq!(
        find(&[("signature", &digits)]),
        Err(Rejection::MissingSignature)
    );

    for second in [
        ("mail-signature", &*digits),
        ("x-service-signature", ""),
        ("Mail-Signature", ""),
    ] {
        let found = find(&[("mail-signature", &digits), second]);
        assert_eq!(found, Err(Rejection::DuplicateSignature));
    }

    assert_eq!(
        find(&[("mail-signature", &extraction)]),
        Err(Rejection::MalformedSignature)
    );
}

#[test]
fn the_headers_of_a_request_verify_in_one_line() {
    let verifier = Verifier::email(secret(0));
    let mut headers = http::HeaderMap::new();
    assert_eq!(
        verifier.verify(&headers, BODY).unwrap_err(),
        Rejection::MissingSignature
    );

    let value: http::HeaderValue = header(&secret(0), BODY).parse().unwrap();
    headers.insert("mail-signature", value.clone());
    assert_eq!(verifier.verify(&headers, BODY).unwrap().id(), Some("1"));
    assert_eq!(verifier.verify(&value, BODY).unwrap().id(), Some("1"));

    headers.append("Mail-Signature", value);
    assert_eq!(
        verifier.verify(&headers, BODY).unwrap_err(),
        Rejection::DuplicateSignature
    );
}

/// Four other libraries accept an empty secret, and so this forgery.
#[test]
fn unusable_secrets_are_refused() {
    // python3 -c "import hmac; print(hmac.new(b'', b'{}', 'sha256').hexdigest())"
    let forged = "22f8eea909400af98adf3681a9f31923ef6b7fcba4abb553d92823a3e9d5c25e";
    assert_eq!(
        check(&Verifier::email(secret(0)), forged, b"{}"),
        Err(Rejection::Mismatch)
    );

    // HMAC pads keys with zero bytes, so a key of zero bytes equals the empty key.
    for zeros in [0, 1, 32, 64, 65] {
        assert_eq!(Secret::new(vec![0; zeros]).unwrap_err(), SecretError::Empty);
        assert_eq!(
            Secret::from_bytes(vec![0; zeros]).unwrap_err(),
            SecretError::Empty
        );
    }

    assert_eq!(
        Secret::new("whsec_5a6b\n").unwrap_err(),
        SecretError::SurroundingWhitespace
    );
    assert!(Secret::new("").is_err());

    let no_secrets = Verifier::with_secrets(Service::Email, []).unwrap_err();
    assert_eq!(no_secrets, SecretError::NoSecrets);

    let five = Verifier::with_secrets(Service::Email, (0..=MAX_SECRETS).map(secret));
    assert_eq!(five.unwrap_err(), SecretError::TooManySecrets);
}

#[test]
fn a_changed_body_does_not_verify() {
    let body = "{\"event\": \"email.sent\", \"amount\": 1.50}\n";
    let verifier = Verifier::email(secret(0));
    let signature = header(&secret(0), body);
    let again = serde_json::from_str::<serde_json::Value>(body)
        .unwrap()
        .to_string();
    for changed in [body.trim(), &again, &body.replace('\n', "\r\n"), ""] {
        let rejected = verifier.verify(&signature, changed.to_owned());
        assert_eq!(rejected.unwrap_err(), Rejection::Mismatch);
    }

    assert!(verifier.verify(&signature, body).is_ok());

    // Bodies that are no delivery verify as bytes, and are not parsed before they do.
    for body in [&b"\xFF\xFE\x00"[..], b"not json", b""] {
        assert_eq!(check(&verifier, &header(&secret(0), body), body), Ok(0));
        let rejection = verifier.verify(header(&secret(0), body), body).unwrap_err();
        assert!(
            matches!(rejection, Rejection::NotJson { .. }),
            "{rejection}"
        );
        assert_eq!(
            verifier.verify(&signature, body).unwrap_err(),
            Rejection::Mismatch
        );
    }
}

#[test]
fn rotation_accepts_several_secrets() {
    let verifier = Verifier::with_secrets(Service::Email, (0..MAX_SECRETS).map(secret)).unwrap();
    for index in 0..MAX_SECRETS {
        let delivery = verifier.verify(header(&secret(index), BODY), BODY).unwrap();
        assert_eq!(delivery.matched_secret(), Some(index));
    }

    let retired = header(&secret(MAX_SECRETS), BODY);
    assert_eq!(
        verifier.verify(&retired, BODY).unwrap_err(),
        Rejection::Mismatch
    );

    // Replaced secrets apply to all clones.
    let clone = verifier.clone();
    let old = Signature::parse(Service::Email, header(&secret(0), BODY)).unwrap();
    verifier
        .replace(Service::Email, [secret(MAX_SECRETS)])
        .unwrap();
    assert!(clone.verify(&retired, BODY).is_ok());
    assert_eq!(
        clone.verify_signature(&old, BODY).unwrap_err(),
        Rejection::Mismatch
    );
    // Refused lists change nothing.
    assert_eq!(
        verifier.replace(Service::Email, []).unwrap_err(),
        SecretError::NoSecrets
    );
    assert!(clone.verify(&retired, BODY).is_ok());
}

#[test]
fn one_verifier_for_both_services_needs_two_secrets() {
    let email = Verifier::email(secret(0));
    let extraction = Verifier::extraction(secret(1));
    let extraction_body = r#"{"event":"extraction.failed","id":"1"}"#;
    let signed = Signature::sign(Service::Extraction, &secret(1), extraction_body);

    // A verifier of one service knows nothing of the other.
    let rejection = email
        .verify_signature(&signed, extraction_body)
        .unwrap_err();
    assert_eq!(rejection, Rejection::MissingSignature);

    let rejection = email
        .verify(signed.to_string(), extraction_body)
        .unwrap_err();
    assert_eq!(rejection, Rejection::MalformedSignature);

    let both = email.clone().and(&extraction).unwrap();
    let delivery = both.verify(signed.to_string(), extraction_body).unwrap();
    assert_eq!(
        (delivery.service(), delivery.event().as_str()),
        (Service::Extraction, "extraction.failed")
    );
    assert_eq!(
        both.verify(header(&secret(0), BODY), BODY)
            .unwrap()
            .service(),
        Service::Email
    );

    // Both compute the same MAC, so with one secret each would accept the other's deliveries.
    let refused = email
        .clone()
        .and(&Verifier::extraction(secret(0)))
        .unwrap_err();
    assert_eq!(refused, SecretError::Shared);

    let refused = both
        .replace(Service::Extraction, [secret(2), secret(0)])
        .unwrap_err();
    assert_eq!(refused, SecretError::Shared);
}

#[test]
fn debug_output_shows_neither_secret_nor_body() {
    let verifier = Verifier::email(Secret::new("hush").unwrap());
    let body = r#"{"event":"email.sent","data":"hush"}"#;
    let signature = Signature::sign(Service::Email, &Secret::new("hush").unwrap(), body);
    let delivery = verifier.verify_signature(&signature, body).unwrap();
    let printed = format!("{verifier:?} {signature:?} {delivery:?}");
    assert!(printed.starts_with("Verifier { email_secrets: 1, extraction_secrets: 0 }"));
    assert!(
        !printed.contains("hush") && !printed.contains(&signature.to_string()),
        "{printed}"
    );
    fn assert_bounds<T: Send + Sync + Clone + Unpin + 'static>() {}

    assert_bounds::<Verifier>();
    assert_bounds::<Secret>();
    assert_bounds::<Delivery>();
    assert_bounds::<webhook_verify::Receiver>();
}

/// Two of the other libraries broke with every breaking release of axum.
#[test]
fn depends_on_axum_core_only() {
    let manifest = include_str!("../../Cargo.toml");
    let (_, dependencies) = manifest.split_once("[dependencies]").unwrap();
    let (dependencies, _) = dependencies.split_once("[dev-dependencies]").unwrap();
    let names: Vec<_> = dependencies
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(
        names.contains(&"axum-core") && !names.contains(&"axum"),
        "{names:?}"
    );
}

proptest! {
    #[test]
    fn signed_bodies_verify(body: Vec<u8>, key in prop::array::uniform32(any::<u8>())) {
        prop_assume!(key != [0; 32]);
        let secret = Secret::from_bytes(key).unwrap();
        let signature = header(&secret, &body);
        prop_assert_eq!(check(&Verifier::email(secret), &signature, &body), Ok(0));
    }

    #[test]
    fn any_flipped_bit_is_rejected(
        mut body in prop::collection::vec(any::<u8>(), 1..300),
        at: prop::sample::Index,
        in_header in 0..64_usize,
        bit in 0..8_u8,
    ) {
        let verifier = Verifier::email(secret(0));
        let good = header(&secret(0), &body);
        let mut bad = good.clone().into_bytes();
        bad[in_header] ^= 1 << bit;
        // Changing the case of a hex digit does not change its value.
        if !bad.eq_ignore_ascii_case(good.as_bytes()) {
            prop_assert!(verifier.verify(&bad, body.clone()).is_err());
        }
        let at = at.index(body.len());
        body[at] ^= 1 << bit;
        prop_assert_eq!(check(&verifier, &good, &body), Err(Rejection::Mismatch));
    }
}
