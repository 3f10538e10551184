//! Signed bytes verify, and changed bytes do not.

use proptest::prelude::*;
use webhook_verify::{
    BodyTooLarge, ExtractionSigner, ExtractionVerifier, MailSigner, MailVerifier, Secret,
    SecretError, VerifyError,
};

fn secret() -> Secret {
    Secret::new("whsec_b5c1").unwrap()
}

#[test]
fn verifies_a_signature_from_openssl() {
    // printf '{"event":"email.sent"}' | openssl dgst -sha256 -hmac whsec_b5c1
    let tag = "b34de1d3af107c0fb9ce38b943a09ced37cf4ea7f88911b5e23bc667af2166ac";
    let body = br#"{"event":"email.sent"}"#;
    let verified = MailVerifier::new(secret()).verify(tag, body).unwrap();
    assert_eq!(verified.body(), body);
    assert_eq!(verified.tag().to_string(), tag);
    let prefixed = format!("sha256={tag}");
    ExtractionVerifier::new(secret()).verify(prefixed, body).unwrap();
    assert_eq!(MailSigner::new(&secret()).sign(body).to_string(), tag);
}

#[test]
fn each_scheme_rejects_the_other_schemes_header() {
    let extraction = ExtractionSigner::new(&secret()).sign("{}").to_string();
    let mail = MailSigner::new(&secret()).sign("{}").to_string();
    let malformed = VerifyError::MalformedSignature;
    assert_eq!(MailVerifier::new(secret()).verify(extraction, "{}").unwrap_err(), malformed);
    assert_eq!(ExtractionVerifier::new(secret()).verify(mail, "{}").unwrap_err(), malformed);
}

#[test]
fn debug_output_shows_neither_secret_nor_body() {
    let verifier = MailVerifier::new(secret());
    let signer = MailSigner::new(&secret());
    let header = signer.sign("hush").to_string();
    let verified = verifier.verify(&header, "hush").unwrap();
    let stream = verifier.verify_stream(&header).unwrap();
    let mut buffered = verifier.verify_buffered(&header, 10).unwrap();
    buffered.push("hush").unwrap();
    let printed = format!(
        "{verifier:?} {signer:?} {verified:?} {stream:?} {buffered:?} {:?} {:?}",
        signer.sign("hush"),
        signer.sign_stream(),
    );
    assert_eq!(
        printed,
        "Verifier { scheme: \"mail\", secrets: 1 } Signer { scheme: \"mail\", .. } \
         Verified { scheme: \"mail\", bytes: 4, matched_secret: 0, .. } \
         StreamVerifier { scheme: \"mail\", .. } \
         BufferedVerifier { scheme: \"mail\", bytes: 4, limit: 10, .. } \
         Signature { scheme: \"mail\", .. } StreamSigner { scheme: \"mail\", .. }"
    );
}

#[test]
fn public_types_are_send_sync_and_clone() {
    fn assert_bounds<T: Send + Sync + Clone + Unpin + 'static>() {}
    assert_bounds::<ExtractionVerifier>();
    assert_bounds::<MailSigner>();
    assert_bounds::<Secret>();
    assert_bounds::<webhook_verify::Delivery<webhook_verify::Mail, Vec<u8>>>();
}

#[test]
fn tags_are_equal_for_equal_bodies_only() {
    let tag = |body| {
        let header = MailSigner::new(&secret()).sign(body).to_string();
        let confirmed = MailVerifier::new(secret()).verify(header, body).unwrap();
        confirmed.tag()
    };
    assert_eq!(tag("one"), tag("one"));
    assert_ne!(tag("one"), tag("two"));
}

/// A caller that ignores the error must not get a body with a missing chunk.
#[test]
fn exceeding_the_limit_fails_for_good() {
    let header = MailSigner::new(&secret()).sign("one two").to_string();
    let mut buffered = MailVerifier::new(secret()).verify_buffered(&header, 7).unwrap();
    buffered.push("one ").unwrap();
    assert_eq!(buffered.push("junk").unwrap_err(), BodyTooLarge { limit: 7 });
    assert_eq!(buffered.push("two").unwrap_err(), BodyTooLarge { limit: 7 });
    assert_eq!(buffered.finish().unwrap_err(), VerifyError::Mismatch);

    let mut buffered = MailVerifier::new(secret()).verify_buffered(&header, 7).unwrap();
    buffered.push("one two").unwrap();
    assert!(buffered.push("!").is_err());
    assert_eq!(buffered.finish().unwrap_err(), VerifyError::Mismatch);
}

/// Any byte of a random key may be whitespace, as in a test case of RFC 4231.
#[test]
fn accepts_binary_keys() {
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../vectors/rfc4231_hmac_sha256.json")).unwrap();
    for vector in vectors["vectors"].as_array().unwrap() {
        let bytes = |name: &str| hex::decode(vector[name].as_str().unwrap()).unwrap();
        let verifier = MailVerifier::new(Secret::from_bytes(bytes("key")).unwrap());
        let verified = verifier.verify(vector["tag"].as_str().unwrap(), bytes("data"));
        assert_eq!(verified.unwrap().body(), bytes("data"), "case {}", vector["case"]);
    }
    for unusable in [&b""[..], b"\0", &[0; 32]] {
        assert_eq!(Secret::from_bytes(unusable).unwrap_err(), SecretError::Empty);
    }
}

proptest! {
    #[test]
    fn every_binary_key_signs_and_verifies(key in prop::array::uniform32(any::<u8>())) {
        prop_assume!(key != [0; 32]);
        let secret = Secret::from_bytes(key).unwrap();
        let header = MailSigner::new(&secret).sign("{}").to_string();
        let verified = MailVerifier::new(secret).verify(header, "{}");
        prop_assert!(verified.is_ok());
    }

    #[test]
    fn signed_bodies_verify(body: Vec<u8>, key in "[!-~]{1,200}") {
        let secret = Secret::new(key).unwrap();
        let header = ExtractionSigner::new(&secret).sign(&body).to_string();
        let verified = ExtractionVerifier::new(secret).verify(header, &body).unwrap();
        prop_assert_eq!(verified.body(), &body[..]);
        prop_assert_eq!(verified.matched_secret(), 0);
    }

    #[test]
    fn rejects_any_flipped_bit_in_the_body(
        mut body in prop::collection::vec(any::<u8>(), 1..300),
        at: prop::sample::Index,
        bit in 0..8_u8,
    ) {
        let header = MailSigner::new(&secret()).sign(&body).to_string();
        let at = at.index(body.len());
        body[at] ^= 1 << bit;
        let result = MailVerifier::new(secret()).verify(header, &body);
        prop_assert_eq!(result.unwrap_err(), VerifyError::Mismatch);
    }

    #[test]
    fn rejects_any_flipped_bit_in_the_header(at in 0..64_usize, bit in 0..8_u8) {
        let mut header = MailSigner::new(&secret()).sign("body").to_string().into_bytes();
        let before = header[at];
        header[at] ^= 1 << bit;
        // Changing the case of a hex digit does not change its value.
        prop_assume!(!header[at].eq_ignore_ascii_case(&before));
        prop_assert!(MailVerifier::new(secret()).verify(header, "body").is_err());
    }

    #[test]
    fn chunks_verify_like_the_complete_body(
        body in prop::collection::vec(any::<u8>(), 0..2000),
        cuts: Vec<prop::sample::Index>,
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]);

        let header = MailSigner::new(&secret()).sign(&body).to_string();
        let verifier = MailVerifier::new(secret());
        let mut stream = verifier.verify_stream(&header).unwrap();
        let mut buffered = verifier.verify_buffered(&header, body.len()).unwrap();
        let mut signer = MailSigner::new(&secret()).sign_stream();
        for chunk in chunks {
            stream.update(chunk);
            buffered.push(chunk).unwrap();
            signer.update(chunk);
        }
        prop_assert_eq!(stream.finish().unwrap().tag().to_string(), &header[..]);
        prop_assert_eq!(buffered.finish().unwrap().into_body(), body);
        prop_assert_eq!(signer.finish().to_string(), header);
    }
}
