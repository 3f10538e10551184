//! Up to four secrets at once, the newest first.

use webhook_verify::{MAX_SECRETS, MailSigner, MailVerifier, Secret, SecretError, VerifyError};

fn secrets(count: usize) -> Vec<Secret> {
    (0..count).map(|n| Secret::new(format!("secret-{n}")).unwrap()).collect()
}

#[test]
fn each_active_secret_verifies_and_is_named() {
    let verifier = MailVerifier::rotating(secrets(MAX_SECRETS)).unwrap();
    for (place, secret) in secrets(MAX_SECRETS).iter().enumerate() {
        let header = MailSigner::new(secret).sign("{}").to_string();
        assert_eq!(verifier.verify(&header, "{}").unwrap().matched_secret(), place);
        let mut verifying = verifier.begin(&header).unwrap();
        verifying.update("{}");
        assert_eq!(verifying.finish().unwrap().matched_secret(), place);
    }
}

#[test]
fn a_retired_secret_does_not() {
    let verifier = MailVerifier::rotating(secrets(2)).unwrap();
    let header = MailSigner::new(&secrets(3)[2]).sign("{}").to_string();
    assert_eq!(verifier.verify(&header, "{}").unwrap_err(), VerifyError::Mismatch);
    let verifying = verifier.begin(&header).unwrap();
    assert_eq!(verifying.finish().unwrap_err(), VerifyError::Mismatch);
}

/// As when the new secret was copied from the old one: the newest is named.
#[test]
fn the_same_secret_twice() {
    let twice = || [secrets(1), secrets(2)].concat();
    let verifier = MailVerifier::rotating(twice()).unwrap();
    let header = MailSigner::new(&secrets(1)[0]).sign("{}").to_string();
    assert_eq!(verifier.verify(&header, "{}").unwrap().matched_secret(), 0);
    let verifying = verifier.begin(&header).unwrap();
    let mut collecting = verifier.collect(&header, 2).unwrap();
    collecting.push("{}").unwrap();
    assert_eq!(collecting.finish().unwrap().matched_secret(), 0);
    assert_eq!(verifying.finish().unwrap_err(), VerifyError::Mismatch, "of no body");
}

/// Longer than HMAC's block, and than anybody would make one.
#[test]
fn a_secret_of_a_mebibyte() {
    let secret = || Secret::new(vec![b's'; 1 << 20]).unwrap();
    // head -c 1048576 /dev/zero | tr '\0' s >key; python3 -c
    // "import hmac; print(hmac.new(open('key','rb').read(), b'{}', 'sha256').hexdigest())"
    let tag = "fa4a2f5f6103aede3f2afe6d569f72e5573810d64ea1bd43a9414d99f9156932";
    assert_eq!(MailSigner::new(&secret()).sign("{}").to_string(), tag);
    assert!(MailVerifier::new(secret()).verify(tag, "{}").is_ok());
}

#[test]
fn none_and_more_than_four_are_refused() {
    assert_eq!(MailVerifier::rotating([]).unwrap_err(), SecretError::None);
    let five = MailVerifier::rotating(secrets(MAX_SECRETS + 1));
    assert_eq!(five.unwrap_err(), SecretError::TooMany);
}
