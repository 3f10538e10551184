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

#[test]
fn none_and_more_than_four_are_refused() {
    assert_eq!(MailVerifier::rotating([]).unwrap_err(), SecretError::None);
    let five = MailVerifier::rotating(secrets(MAX_SECRETS + 1));
    assert_eq!(five.unwrap_err(), SecretError::TooMany);
}
