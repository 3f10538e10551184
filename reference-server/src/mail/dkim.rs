//! DKIM (RFC 6376): signing keys, their DNS records, and signatures (`rsa-sha256`,
//! `relaxed/relaxed`).

pub(crate) mod canonical;
mod keys;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use canonical::{Form, canonical_body};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};

use crate::mail::header::{Field, Header};
use crate::model::error::Failure;
pub(crate) use keys::{StoredKey, new_key};

/// A domain's RSA-2048 signing key. It has no `Debug`: it is secret.
///
/// Parsing a key validates it, which is slow: parse it once and keep it.
pub(crate) struct SigningKey(RsaKeyPair);

impl SigningKey {
    /// Parses the stored form, an unencrypted PKCS#8 document.
    pub(crate) fn from_pkcs8(der: &[u8]) -> Result<Self, Failure> {
        RsaKeyPair::from_pkcs8(der)
            .map(Self)
            .map_err(Failure::internal)
    }

    /// The public key as the value of the TXT record under `_domainkey`.
    pub(crate) fn record(&self) -> String {
        let pkcs1 = self.0.public().as_ref();
        let spki = [SPKI_PREFIX, pkcs1].concat();
        format!("v=DKIM1; k=rsa; p={}", BASE64.encode(spki))
    }

    /// Returns the `DKIM-Signature` field to prepend to a message, including its line
    /// break.
    ///
    /// The result is deterministic. It contains no signing time: the server's clock may
    /// be in the future, and verifiers reject signatures from the future.
    pub(crate) fn sign(
        &self,
        domain: &str,
        selector: &str,
        message: &[u8],
    ) -> Result<String, Failure> {
        let header = Header::parse(message);
        let mut names: Vec<&str> = Vec::new();
        let mut data = Vec::new();
        for wanted in SIGNED {
            // Repeated fields are signed from the last to the first (§5.4.2).
            for field in header.fields.iter().rev().filter(|field| field.is(wanted)) {
                names.push(wanted);
                field.write(Form::Relaxed, &mut data);
                data.extend_from_slice(b"\r\n");
            }
        }

        // Naming `From` once more than it occurs prevents that a second one is added.
        names.push("From");

        let body = canonical_body(header.body, Form::Relaxed);
        let body_hash = BASE64.encode(digest(&SHA256, &body));
        let names = names.join(":\r\n\t ");
        let mut field = format!(
            "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r\n\td={domain}; s={selector};\
             \r\n\th={names};\r\n\tbh={body_hash};\r\n\tb="
        );
        Field::new(field.as_bytes()).write(Form::Relaxed, &mut data);

        field.push_str(&self.signature(&data)?);
        field.push_str("\r\n");
        Ok(field)
    }

    /// The value of the `b=` tag for the canonical data, folded.
    pub(crate) fn signature(&self, data: &[u8]) -> Result<String, Failure> {
        let mut signature = vec![0; self.0.public().modulus_len()];
        self.0
            .sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                data,
                &mut signature,
            )
            .map_err(Failure::internal)?;
        let mut text = String::new();
        for (number, piece) in BASE64.encode(signature).as_bytes().chunks(72).enumerate() {
            text.push_str(if number > 0 { "\r\n\t " } else { "" });
            text.extend(piece.iter().map(|&byte| char::from(byte)));
        }
        Ok(text)
    }
}

/// The key of `sandbox.test`. It is the same on every installation, so that the first
/// start does not have to generate one. It is not secret: a server that others can reach does not
/// sign with it.
pub(crate) const SANDBOX_KEY: &[u8] = include_bytes!("dkim/sandbox-key.pkcs8");

/// The signed fields, if present: those that RFC 6376 §5.4.1 recommends.
const SIGNED: [&str; 19] = [
    "From",
    "Reply-To",
    "Subject",
    "Date",
    "To",
    "Cc",
    "Message-ID",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "List-Id",
    "List-Help",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "List-Subscribe",
    "List-Owner",
    "List-Archive",
];

/// DER prefix of an RSA-2048 `SubjectPublicKeyInfo`, the form used in DNS, before the
/// 270 bytes of the `RSAPublicKey`.
const SPKI_PREFIX: &[u8] = b"\x30\x82\x01\x22\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\
    \x01\x05\x00\x03\x82\x01\x0f\x00";

#[cfg(test)]
mod tests {
    use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    use super::*;

    const MESSAGE: &[u8] = b"From: Ada <a@sandbox.test>\r\nTo: b@example.test\r\n\
        Subject: Hello\r\n  there\r\nX-Other: 1\r\n\r\nHi  \t you \r\n\r\n\r\n";

    #[test]
    fn signing_is_deterministic() {
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("valid");
        let field = key.sign("sandbox.test", "s1", MESSAGE).expect("signed");
        assert_eq!(
            field,
            key.sign("sandbox.test", "s1", MESSAGE).expect("signed")
        );
        assert!(field.starts_with("DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r\n"));
        assert!(
            field.contains("\th=From:\r\n\t Subject:\r\n\t To:\r\n\t From;\r\n"),
            "{field}"
        );
        assert!(field.ends_with("\r\n"));
        assert!(field.lines().all(|line| line.len() <= 78), "{field}");
    }

    #[test]
    fn the_signature_is_over_the_canonical_fields() {
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("valid");
        let field = key.sign("sandbox.test", "s1", MESSAGE).expect("signed");
        let (unsigned, signature) = field.rsplit_once("b=").expect("b=");
        // Written by hand according to RFC 6376 §3.4.2 and §3.4.4.
        let body_hash = BASE64.encode(digest(&SHA256, b"Hi you\r\n"));
        assert!(unsigned.contains(&format!("bh={body_hash};")), "{unsigned}");
        let data = format!(
            "from:Ada <a@sandbox.test>\r\nsubject:Hello there\r\nto:b@example.test\r\n\
             dkim-signature:v=1; a=rsa-sha256; c=relaxed/relaxed; d=sandbox.test; s=s1; \
             h=From: Subject: To: From; bh={body_hash}; b="
        );
        let signature: String = signature.split_whitespace().collect();
        let signature = BASE64.decode(signature).expect("base64");
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.0.public().as_ref())
            .verify(data.as_bytes(), &signature)
            .expect("verifies");
    }

    #[test]
    fn the_record_has_the_key_in_the_form_of_openssl() {
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("valid");
        let record = key.record();
        let public = record.strip_prefix("v=DKIM1; k=rsa; p=").expect("prefix");
        assert!(
            public.starts_with("MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA"),
            "{public}"
        );
        assert!(public.ends_with("IDAQAB"), "{public}");
        assert_eq!(public.len(), 392);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert!(SigningKey::from_pkcs8(b"no key").is_err());
    }

    #[test]
    fn new_keys_differ() {
        let [first, second] = [(true, true), (false, false)]
            .map(|(is_reserved, exposed)| new_key(is_reserved, exposed).expect("a key"));
        assert_ne!(*first, *second);
        let key = SigningKey::from_pkcs8(&first).expect("valid");
        assert!(key.sign("a.test", "s1", MESSAGE).is_ok());
        assert_eq!(**new_key(true, false).expect("the ready key"), *SANDBOX_KEY);
    }
}
