//! Verifiers with several secrets.

use webhook_verify::{MAX_SECRETS, MailSigner, MailVerifier, Secret, SecretError, VerifyError};

fn secrets(count: usize) -> Vec<Secret> {
    (0..count).map(|n| Secret::new(format!("secret-{n}")).unwrap()).collect()
}

#[test]
fn reports_which_secret_matched() {
    let verifier = MailVerifier::with_secrets(secrets(MAX_SECRETS)).unwrap();
    for (index, secret) in secrets(MAX_SECRETS).iter().enumerate() {
        let header = MailSigner::new(secret).sign("{}").to_string();
        assert_eq!(verifier.verify(&header, "{}").unwrap().matched_secret(), index);
        let mut stream = verifier.verify_stream(&header).unwrap();
        stream.update("{}");
        assert_eq!(stream.finish().unwrap().matched_secret(), index);
    }
}

#[test]
fn rejects_a_retired_secret() {
    let verifier = MailVerifier::with_secrets(secrets(2)).unwrap();
    let header = MailSigner::new(&secrets(3)[2]).sign("{}").to_string();
    assert_eq!(verifier.verify(&header, "{}").unwrap_err(), VerifyError::Mismatch);
    let stream = verifier.verify_stream(&header).unwrap();
    assert_eq!(stream.finish().unwrap_err(), VerifyError::Mismatch);
}

/// The new secret may be a copy of the old one: the newest index is reported.
#[test]
fn accepts_the_same_secret_twice() {
    let twice = || [secrets(1), secrets(2)].concat();
    let verifier = MailVerifier::with_secrets(twice()).unwrap();
    let header = MailSigner::new(&secrets(1)[0]).sign("{}").to_string();
    assert_eq!(verifier.verify(&header, "{}").unwrap().matched_secret(), 0);
    let stream = verifier.verify_stream(&header).unwrap();
    let mut buffered = verifier.verify_buffered(&header, 2).unwrap();
    buffered.push("{}").unwrap();
    assert_eq!(buffered.finish().unwrap().matched_secret(), 0);
    assert_eq!(stream.finish().unwrap_err(), VerifyError::Mismatch, "no chunk was added");
}

/// Far longer than HMAC's block size.
#[test]
fn accepts_a_secret_of_one_mebibyte() {
    let secret = || Secret::new(vec![b's'; 1 << 20]).unwrap();
    // head -c 1048576 /dev/zero | tr '\0' s >key; python3 -c
    // "import hmac; print(hmac.new(open('key','rb').read(), b'{}', 'sha256').hexdigest())"
    let tag = "fa4a2f5f6103aede3f2afe6d569f72e5573810d64ea1bd43a9414d99f9156932";
    assert_eq!(MailSigner::new(&secret()).sign("{}").to_string(), tag);
    assert!(MailVerifier::new(secret()).verify(tag, "{}").is_ok());
}

#[test]
fn rejects_no_secrets_and_more_than_four() {
    assert_eq!(MailVerifier::with_secrets([]).unwrap_err(), SecretError::NoSecrets);
    let five = MailVerifier::with_secrets(secrets(MAX_SECRETS + 1));
    assert_eq!(five.unwrap_err(), SecretError::TooManySecrets);
}

#[test]
fn replaced_secrets_apply_to_all_clones() {
    let [old, new, newest]: [Secret; 3] = secrets(3).try_into().unwrap();
    let header = |secret: &Secret| MailSigner::new(secret).sign("{}").to_string();
    let verifier = MailVerifier::new(old.clone());
    let clone = verifier.clone();
    let mut in_progress = clone.verify_stream(header(&old)).unwrap();
    in_progress.update("{}");

    verifier.replace([new.clone(), old.clone()]).unwrap();
    assert_eq!(clone.secret_count(), 2);
    assert_eq!(clone.verify(header(&new), "{}").unwrap().matched_secret(), 0);
    assert_eq!(clone.verify(header(&old), "{}").unwrap().matched_secret(), 1);

    clone.replace([newest.clone()]).unwrap();
    assert!(verifier.verify(header(&newest), "{}").is_ok());
    assert_eq!(verifier.verify(header(&old), "{}").unwrap_err(), VerifyError::Mismatch);
    assert!(in_progress.finish().is_ok(), "it uses the secrets that it began with");

    // Refused lists change nothing.
    assert_eq!(verifier.replace([]).unwrap_err(), SecretError::NoSecrets);
    let too_many = secrets(MAX_SECRETS + 1);
    assert_eq!(verifier.replace(too_many).unwrap_err(), SecretError::TooManySecrets);
    assert!(clone.verify(header(&newest), "{}").is_ok());
}
