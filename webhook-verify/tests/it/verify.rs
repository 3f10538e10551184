//! Any bytes verify, and nothing else does.

use proptest::prelude::*;
use webhook_verify::{
    ExtractionSigner, ExtractionVerifier, MailSigner, MailVerifier, Secret, TooLarge, VerifyError,
};

fn secret() -> Secret {
    Secret::new("whsec_b5c1").unwrap()
}

#[test]
fn a_signature_made_elsewhere() {
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
fn one_scheme_does_not_read_the_header_of_the_other() {
    let extraction = ExtractionSigner::new(&secret()).sign("{}").to_string();
    let mail = MailSigner::new(&secret()).sign("{}").to_string();
    let malformed = VerifyError::MalformedSignature;
    assert_eq!(MailVerifier::new(secret()).verify(extraction, "{}").unwrap_err(), malformed);
    assert_eq!(ExtractionVerifier::new(secret()).verify(mail, "{}").unwrap_err(), malformed);
}

#[test]
fn nothing_of_secret_or_body_is_printed() {
    let verifier = MailVerifier::new(secret());
    let signer = MailSigner::new(&secret());
    let header = signer.sign("hush").to_string();
    let verified = verifier.verify(&header, "hush").unwrap();
    let verifying = verifier.begin(&header).unwrap();
    let mut collecting = verifier.collect(&header, 10).unwrap();
    collecting.push("hush").unwrap();
    let printed = format!(
        "{verifier:?} {signer:?} {verified:?} {verifying:?} {collecting:?} {:?} {:?}",
        signer.sign("hush"),
        signer.begin(),
    );
    assert_eq!(
        printed,
        "Verifier { scheme: \"mail\", secrets: 1 } Signer { scheme: \"mail\", .. } \
         Verified { scheme: \"mail\", bytes: 4, matched_secret: 0, .. } \
         Verifying { scheme: \"mail\", .. } \
         Collecting { scheme: \"mail\", bytes: 4, limit: 10, .. } \
         Signature { scheme: \"mail\", .. } Signing { scheme: \"mail\", .. }"
    );
}

#[test]
fn handles_go_everywhere() {
    fn everywhere<T: Send + Sync + Clone + Unpin + 'static>() {}
    everywhere::<ExtractionVerifier>();
    everywhere::<MailSigner>();
    everywhere::<Secret>();
    everywhere::<webhook_verify::Delivery<webhook_verify::Mail, Vec<u8>>>();
}

#[test]
fn the_tag_tells_bodies_apart() {
    let tag = |body| {
        let header = MailSigner::new(&secret()).sign(body).to_string();
        let confirmed = MailVerifier::new(secret()).verify(header, body).unwrap();
        confirmed.tag()
    };
    assert_eq!(tag("one"), tag("one"));
    assert_ne!(tag("one"), tag("two"));
}

/// A caller that carries on after the error must not get a body of which a
/// piece was left out.
#[test]
fn a_piece_past_the_limit_spoils_the_rest() {
    let header = MailSigner::new(&secret()).sign("one two").to_string();
    let mut collecting = MailVerifier::new(secret()).collect(&header, 7).unwrap();
    collecting.push("one ").unwrap();
    assert_eq!(collecting.push("junk").unwrap_err(), TooLarge { limit: 7 });
    assert_eq!(collecting.push("two").unwrap_err(), TooLarge { limit: 7 });
    assert_eq!(collecting.finish().unwrap_err(), VerifyError::Mismatch);

    let mut collecting = MailVerifier::new(secret()).collect(&header, 7).unwrap();
    collecting.push("one two").unwrap();
    assert!(collecting.push("!").is_err());
    assert_eq!(collecting.finish().unwrap_err(), VerifyError::Mismatch);
}

proptest! {
    #[test]
    fn what_was_signed_verifies(body: Vec<u8>, key in "[!-~]{1,200}") {
        let secret = Secret::new(key).unwrap();
        let header = ExtractionSigner::new(&secret).sign(&body).to_string();
        let verified = ExtractionVerifier::new(secret).verify(header, &body).unwrap();
        prop_assert_eq!(verified.body(), &body[..]);
        prop_assert_eq!(verified.matched_secret(), 0);
    }

    #[test]
    fn any_flipped_bit_of_the_body_is_refused(
        mut body in prop::collection::vec(any::<u8>(), 1..300),
        at: prop::sample::Index,
        bit in 0..8_u8,
    ) {
        let header = MailSigner::new(&secret()).sign(&body).to_string();
        let at = at.index(body.len());
        body[at] ^= 1 << bit;
        let refused = MailVerifier::new(secret()).verify(header, &body);
        prop_assert_eq!(refused.unwrap_err(), VerifyError::Mismatch);
    }

    #[test]
    fn any_flipped_bit_of_the_header_is_refused(at in 0..64_usize, bit in 0..8_u8) {
        let mut header = MailSigner::new(&secret()).sign("body").to_string().into_bytes();
        let before = header[at];
        header[at] ^= 1 << bit;
        // The bit that tells upper from lower case is no part of the digit.
        prop_assume!(!header[at].eq_ignore_ascii_case(&before));
        prop_assert!(MailVerifier::new(secret()).verify(header, "body").is_err());
    }

    #[test]
    fn any_split_into_pieces_equals_one_shot(
        body in prop::collection::vec(any::<u8>(), 0..2000),
        cuts: Vec<prop::sample::Index>,
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &body[cut[0]..cut[1]]);

        let header = MailSigner::new(&secret()).sign(&body).to_string();
        let verifier = MailVerifier::new(secret());
        let mut verifying = verifier.begin(&header).unwrap();
        let mut collecting = verifier.collect(&header, body.len()).unwrap();
        let mut signing = MailSigner::new(&secret()).begin();
        for piece in pieces {
            verifying.update(piece);
            collecting.push(piece).unwrap();
            signing.update(piece);
        }
        prop_assert_eq!(verifying.finish().unwrap().tag().to_string(), &header[..]);
        prop_assert_eq!(collecting.finish().unwrap().into_body(), body);
        prop_assert_eq!(signing.finish().to_string(), header);
    }
}
