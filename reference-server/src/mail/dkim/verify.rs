//! Verifies the DKIM signatures of incoming messages (RFC 6376 §6, RFC 8301): `rsa-sha256`, as every
//! signer has it.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{alphabet, engine::DecodePaddingMode};
use regex_lite::Regex;
use ring::signature::{RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY as RSA, UnparsedPublicKey};
use rsa::pkcs8::spki::SubjectPublicKeyInfoRef;

use super::canonical::{self, Field, Form};
use crate::control::messages::DkimVerdict;
use crate::mail::dns::{Resolver, tag};
use crate::model::error::ApiError;
use crate::runtime::heavy;

/// Verifies the signatures of a message. Returns the best result, because one
/// valid signature is enough. Lines must end in CRLF.
/// `now` is in milliseconds.
///
/// A large message takes time to hash, once for each signature, so this computes on blocking
/// threads.
pub(crate) async fn verify(
    resolver: &Resolver,
    message: &Arc<Vec<u8>>,
    now: i64,
) -> Result<DkimVerdict, ApiError> {
    let parsed = Arc::clone(message);
    let signatures = heavy::run(move || Ok(signatures(&parsed, now / 1000))).await?;
    let mut verdicts = Vec::new();
    for signature in signatures {
        verdicts.push(match signature {
            Some(signature) => match resolver.txt(&signature.key_name).await {
                Ok(records) => {
                    let signed = Arc::clone(message);
                    heavy::run(move || Ok(signature.verify(&signed, &records))).await?
                }
                Err(_) => DkimVerdict::TempError,
            },
            None => DkimVerdict::PermError,
        });
    }
    Ok(verdicts.into_iter().max().unwrap_or(DkimVerdict::None))
}

/// The signatures of a message; `None` for one that is malformed or expired. A verifier may limit
/// their number (§6.1).
fn signatures(message: &[u8], now: i64) -> Vec<Option<Signature>> {
    let fields = canonical::fields(canonical::split(message).0);
    let signatures = fields.iter().filter(|field| field.is("DKIM-Signature"));
    signatures
        .take(MAX_SIGNATURES)
        .map(|field| Signature::parse(field, now))
        .collect()
}

const MAX_SIGNATURES: usize = 8;
/// Maximum number of signed fields, each of which is looked for in the message.
const MAX_SIGNED: usize = 100;

struct Signature {
    /// Its field with an empty `b=` tag.
    unsigned: String,
    head_form: Form,
    body_form: Form,
    length: Option<usize>,
    /// Where the DNS has the key.
    key_name: String,
    /// Names of the signed fields.
    signed: Vec<String>,
    body_hash: Vec<u8>,
    value: Vec<u8>,
}

impl Signature {
    fn parse(field: &Field<'_>, now: i64) -> Option<Self> {
        let text = std::str::from_utf8(field.raw).ok()?;
        let tag = |name: &str| tag(text.split_once(':')?.1, name);
        let number = |name: &str| tag(name).map(|text| text.parse::<i64>()).transpose().ok();
        let domain = tag("d")?.to_ascii_lowercase();
        let identity = tag("i")
            .unwrap_or_else(|| format!("@{domain}"))
            .to_ascii_lowercase();
        let identity = identity.rsplit('@').next()?;
        let is_own = identity == domain || identity.ends_with(&format!(".{domain}"));
        if tag("v")? != "1" || tag("a")? != "rsa-sha256" || !is_own {
            return None;
        }
        if number("x")?.is_some_and(|expires| expires < now) {
            return None;
        }
        let forms = tag("c").unwrap_or_default();
        let (head_form, body_form) = forms.split_once('/').unwrap_or((&forms, "simple"));
        let form = |text: &str| match text {
            "" | "simple" => Some(Form::Simple),
            "relaxed" => Some(Form::Relaxed),
            _ => None,
        };
        let signed: Vec<_> = tag("h")?.split(':').map(str::to_owned).collect();
        // The `From` field must be signed (§5.4).
        if !signed.iter().any(|name| name.eq_ignore_ascii_case("from")) || signed.len() > MAX_SIGNED
        {
            return None;
        }
        Some(Self {
            unsigned: without_signature(text),
            head_form: form(head_form)?,
            body_form: form(body_form)?,
            length: number("l")?.and_then(|length| usize::try_from(length).ok()),
            key_name: format!("{}._domainkey.{domain}", tag("s")?),
            signed,
            body_hash: BASE64.decode(tag("bh")?).ok()?,
            value: BASE64.decode(tag("b")?).ok()?,
        })
    }

    /// Verifies the signature with a key in these DNS records.
    fn verify(&self, message: &[u8], records: &[String]) -> DkimVerdict {
        let Some(key) = records.iter().find_map(|record| key(record)) else {
            return DkimVerdict::PermError;
        };
        let (head, body) = canonical::split(message);
        let body_hash = canonical::body_hash(body, self.body_form, self.length);
        let data = self.signed_data(canonical::fields(head));
        let verified = UnparsedPublicKey::new(&RSA, key).verify(&data, &self.value);
        match verified.is_ok() && body_hash.as_ref() == self.body_hash {
            true => DkimVerdict::Pass,
            false => DkimVerdict::Fail,
        }
    }

    /// The signed data (§3.7): the signed fields, repeated fields from the last to the
    /// first, then the signature field with an empty `b=`.
    fn signed_data(&self, mut fields: Vec<Field<'_>>) -> Vec<u8> {
        let mut data = Vec::new();
        for name in &self.signed {
            if let Some(last) = fields.iter().rposition(|field| field.is(name)) {
                fields.remove(last).write(self.head_form, &mut data);
                data.extend_from_slice(b"\r\n");
            }
        }
        Field::new(self.unsigned.as_bytes()).write(self.head_form, &mut data);
        data
    }
}

/// The field with an empty `b=` tag.
fn without_signature(field: &str) -> String {
    static SIGNATURE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"((?:^[^:]*:|;)\s*b\s*=)[^;]*").expect("a valid pattern"));
    SIGNATURE.replace(field, "$1").into_owned()
}

/// The RSA key in a DNS record.
fn key(record: &str) -> Option<Vec<u8>> {
    let is = |name, value| tag(record, name).is_none_or(|found| found == value);
    if !is("v", "DKIM1") || !is("k", "rsa") {
        return None;
    }
    let key = BASE64.decode(tag(record, "p")?).ok()?;
    // Or a plain `RSAPublicKey` (§3.6.1).
    let info = SubjectPublicKeyInfoRef::try_from(&key[..]);
    Some(info.map_or(key.clone(), |info| {
        info.subject_public_key.raw_bytes().to_vec()
    }))
}

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use super::super::SANDBOX_KEY;
    use super::super::SigningKey;
    use super::*;
    use crate::mail::dns::testing;
    use crate::model::dns::RecordKind;

    async fn verify(resolver: &Resolver, message: &[u8], now: i64) -> DkimVerdict {
        let message = Arc::new(message.to_vec());
        super::verify(resolver, &message, now)
            .await
            .expect("a verdict")
    }

    const MESSAGE: &str = "From: Ada <a@sandbox.test>\r\nTo: b@example.test\r\n\
        Subject: Hello\r\n there\r\n\r\nHi  you \r\n\r\n";

    fn resolver(record: &str, name: &str) -> Resolver {
        Resolver::new(testing::zone(&[(RecordKind::Dkim, name, record)]), None)
    }

    fn signed() -> (Resolver, String) {
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("valid");
        let field = key
            .sign("sandbox.test", "s1", MESSAGE.as_bytes())
            .expect("signed");
        (
            resolver(&key.record(), "s1._domainkey.sandbox.test"),
            field + MESSAGE,
        )
    }

    #[tokio::test]
    async fn signed_messages_pass_and_changed_ones_fail() {
        let (resolver, message) = signed();
        let verdict_of = |text: String| {
            let resolver = &resolver;
            async move { verify(resolver, text.as_bytes(), 0).await }
        };
        assert_eq!(verdict_of(message.clone()).await, DkimVerdict::Pass);
        // The relaxed form allows changed white space and prepended fields.
        let refolded = message.replace("Subject: Hello\r\n there", "subject:  Hello there ");
        assert_eq!(
            verdict_of(format!("Received: by x\r\n{refolded}")).await,
            DkimVerdict::Pass
        );
        assert_eq!(
            verdict_of(message.replace("Hi  you", "Hi You")).await,
            DkimVerdict::Fail
        );
        assert_eq!(
            verdict_of(message.replace("Hello", "Hullo")).await,
            DkimVerdict::Fail
        );
        // `From` is signed once more than it occurs, so a second one breaks the
        // signature.
        let second = message.replace("\r\nTo:", "\r\nFrom: eve@sandbox.test\r\nTo:");
        assert_eq!(verdict_of(second).await, DkimVerdict::Fail);
        assert_eq!(verdict_of(MESSAGE.to_owned()).await, DkimVerdict::None);
        assert_eq!(
            verdict_of(message.replace("s=s1", "s=s2")).await,
            DkimVerdict::PermError
        );
        assert_eq!(
            verdict_of(message.replace("v=1;", "v=2;")).await,
            DkimVerdict::PermError
        );
        assert_eq!(
            verdict_of(message.replace("rsa-sha256", "rsa-sha1")).await,
            DkimVerdict::PermError
        );
        let expired = message.replace("v=1;", "v=1; x=10;");
        assert_eq!(
            verify(&resolver, expired.as_bytes(), 11_000).await,
            DkimVerdict::PermError
        );
        let unsigned = message
            .replace("h=From:", "h=To:")
            .replace("\t From;", "\t To;");
        assert_eq!(
            verdict_of(unsigned).await,
            DkimVerdict::PermError,
            "the From field is not signed"
        );
        let foreign = message.replace("v=1;", "v=1; i=@evil.test;");
        assert_eq!(
            verdict_of(foreign).await,
            DkimVerdict::PermError,
            "the identity is of another domain"
        );
        let two = format!("DKIM-Signature: v=1; nonsense\r\n{message}");
        assert_eq!(verdict_of(two).await, DkimVerdict::Pass);
    }

    #[tokio::test]
    async fn keys_of_another_version_are_ignored() {
        let (_, message) = signed();
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("valid").record();
        for (record, verdict) in [
            (key.clone(), DkimVerdict::Pass),
            (key.replace("v=DKIM1; ", ""), DkimVerdict::Pass),
            (key.replace("DKIM1", "DKIM2"), DkimVerdict::PermError),
            (
                format!("p={}", BASE64.encode(super::key(&key).expect("a key"))),
                DkimVerdict::Pass,
            ),
        ] {
            let resolver = resolver(&record, "s1._domainkey.sandbox.test");
            assert_eq!(
                verify(&resolver, message.as_bytes(), 0).await,
                verdict,
                "{record}"
            );
        }
    }

    // The message, key and RSA signature of RFC 8463, appendix A.
    #[test]
    fn the_example_of_rfc_8463_passes() {
        const BODY: &str = "From: Joe SixPack <joe@football.example.com>\r\n\
            To: Suzie Q <suzie@shopping.example.net>\r\nSubject: Is dinner ready?\r\n\
            Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n\
            Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n\r\n\
            Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n";
        const RSA_FIELD: &str = "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r\n \
            d=football.example.com; i=@football.example.com;\r\n q=dns/txt; s=test; t=1528637909; h=from : to : subject :\r\n \
            date : message-id : from : subject : date;\r\n \
            bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n \
            b=F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3\r\n \
            DhCVlUrSjV4BwcVcOF6+FF3Zo9Rpo1tFOeS9mPYQTnGdaSGsgeefOsk2Jz\r\n \
            dA+L10TeYt9BgDfQNZtKdN1WO//KgIqXP7OdEFE4LjFYNcUxZQ4FADY+8=\r\n";
        let key = "v=DKIM1; k=rsa; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWR\
            iGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2jLQiY/J16JYi0Qvx/byYzCNb3W91y3FutAC\
            DfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3\
            Ip3G+2kryOTIKT+l/K4w3QIDAQAB";
        let message = format!("{RSA_FIELD}{BODY}");
        let [Some(signature)] = &signatures(message.as_bytes(), 0)[..] else {
            panic!("malformed")
        };
        assert_eq!(signature.key_name, "test._domainkey.football.example.com");
        let verify = |text: &str| signature.verify(text.as_bytes(), &[key.to_owned()]);
        assert_eq!(verify(&message), DkimVerdict::Pass);
        assert_eq!(
            verify(&message.replace("dinner", "supper")),
            DkimVerdict::Fail
        );
    }

    #[test]
    fn removes_the_signature_from_its_field() {
        for (field, cut) in [
            (
                "DKIM-Signature: v=1; b=abc\r\n def; bh=x",
                "DKIM-Signature: v=1; b=; bh=x",
            ),
            ("DKIM-Signature: b=abc", "DKIM-Signature: b="),
            (
                "DKIM-Signature: bh=b=; b =\r\n abc",
                "DKIM-Signature: bh=b=; b =",
            ),
            (
                "DKIM-Signature: z=From:b=x; b=abc",
                "DKIM-Signature: z=From:b=x; b=",
            ),
        ] {
            assert_eq!(without_signature(field), cut);
        }
    }
}
