//! Verifies the DKIM signatures of incoming messages (RFC 6376 §6, RFC 8301, RFC 8463).

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{alphabet, engine::DecodePaddingMode};
use ring::digest;
use ring::signature::{
    ED25519, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY as RSA, UnparsedPublicKey,
};

use super::canonical::{self, Field, Form};
use crate::control::messages::DkimVerdict;
use crate::mail::dns::Resolver;
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
    let parse = move || Ok(signatures(&parsed));
    let signatures = heavy::run(parse).await?;
    let mut best = DkimVerdict::None;
    for signature in signatures {
        let verdict = match signature {
            Some(signature) if signature.expires.is_none_or(|expires| expires >= now / 1000) => {
                let name = format!("{}._domainkey.{}", signature.selector, signature.domain);
                match resolver.txt(&name).await {
                    Ok(records) => {
                        let signed = Arc::clone(message);
                        let verify = move || Ok(signature.verify(&signed, &records));
                        heavy::run(verify).await?
                    }
                    Err(_) => DkimVerdict::TempError,
                }
            }
            _ => DkimVerdict::PermError,
        };
        best = best.max(verdict);
    }
    Ok(best)
}

/// The signatures of a message; `None` for a malformed one. A verifier may limit their number
/// (§6.1).
fn signatures(message: &[u8]) -> Vec<Option<Signature>> {
    let fields = canonical::fields(canonical::split(message).0);
    let numbered = fields.iter().enumerate();
    let signatures = numbered.filter(|(_, field)| field.is("DKIM-Signature"));
    signatures.take(MAX_SIGNATURES).map(|(number, field)| Signature::parse(number, field)).collect()
}

const MAX_SIGNATURES: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rsa,
    Ed25519,
}

struct Signature {
    /// The number of its field in the message.
    number: usize,
    algorithm: Algorithm,
    head_form: Form,
    body_form: Form,
    length: Option<u64>,
    domain: String,
    selector: String,
    /// Names of the signed fields.
    signed: Vec<String>,
    body_hash: Vec<u8>,
    value: Vec<u8>,
    /// Seconds since the Unix epoch.
    expires: Option<i64>,
}

impl Signature {
    fn parse(number: usize, field: &Field<'_>) -> Option<Self> {
        let text = std::str::from_utf8(field.value()).ok()?;
        let tag = |name: &str| crate::mail::dns::tag(text, name);
        let domain = tag("d")?;
        let identity = tag("i").unwrap_or_else(|| format!("@{domain}"));
        let identity_domain = identity.rsplit('@').next()?.to_ascii_lowercase();
        let lower = domain.to_ascii_lowercase();
        let below = identity_domain.ends_with(&format!(".{lower}"));
        if tag("v")? != "1" || !(identity_domain == lower || below) {
            return None;
        }
        let algorithm = match tag("a")?.as_str() {
            "rsa-sha256" => Algorithm::Rsa,
            "ed25519-sha256" => Algorithm::Ed25519,
            _ => return None,
        };
        let forms = tag("c").unwrap_or_default();
        let (head_form, body_form) = forms.split_once('/').unwrap_or((&forms, "simple"));
        let form = |text: &str| match text {
            "" | "simple" => Some(Form::Simple),
            "relaxed" => Some(Form::Relaxed),
            _ => None,
        };
        let signed: Vec<_> = tag("h")?.split(':').map(str::to_owned).collect();
        // The `From` field must be signed (§5.4).
        if !signed.iter().any(|name| name.eq_ignore_ascii_case("from")) {
            return None;
        }
        Some(Self {
            number,
            algorithm,
            head_form: form(head_form)?,
            body_form: form(body_form)?,
            length: tag("l").map(|text| text.parse()).transpose().ok()?,
            selector: tag("s")?,
            signed,
            body_hash: BASE64.decode(tag("bh")?).ok()?,
            value: BASE64.decode(tag("b")?).ok()?,
            expires: tag("x").map(|text| text.parse()).transpose().ok()?,
            domain,
        })
    }

    /// Verifies the signature with a key in these DNS records.
    fn verify(&self, message: &[u8], records: &[String]) -> DkimVerdict {
        let Some(key) = records.iter().find_map(|record| self.key(record)) else {
            return DkimVerdict::PermError;
        };
        let (head, body) = canonical::split(message);
        let body_hash = canonical::body_hash(body, self.body_form, self.length);
        if body_hash.as_ref() != self.body_hash {
            return DkimVerdict::Fail;
        }
        let data = self.signed_data(&canonical::fields(head));
        let verified = match self.algorithm {
            Algorithm::Rsa => UnparsedPublicKey::new(&RSA, key).verify(&data, &self.value),
            Algorithm::Ed25519 => {
                let hash = digest::digest(&digest::SHA256, &data);
                UnparsedPublicKey::new(&ED25519, key).verify(hash.as_ref(), &self.value)
            }
        };
        if verified.is_ok() { DkimVerdict::Pass } else { DkimVerdict::Fail }
    }

    /// The key in a DNS record, if its type fits this signature.
    fn key(&self, record: &str) -> Option<Vec<u8>> {
        let tag = |name| crate::mail::dns::tag(record, name);
        if tag("v").is_some_and(|version| version != "DKIM1") {
            return None;
        }
        let kind = tag("k").unwrap_or_else(|| "rsa".to_owned());
        let key = BASE64.decode(tag("p")?).ok()?;
        match (self.algorithm, kind.as_str()) {
            (Algorithm::Rsa, "rsa") => Some(rsa_public_key(&key)?.to_vec()),
            (Algorithm::Ed25519, "ed25519") => Some(key),
            _ => None,
        }
    }

    /// The signed data (§3.7): the signed fields, repeated fields from the last to the
    /// first, then the signature field with an empty `b=`.
    fn signed_data(&self, fields: &[Field<'_>]) -> Vec<u8> {
        let mut data = Vec::new();
        // A message may have as many fields as `h=` has names.
        let mut by_name: HashMap<Vec<u8>, Vec<&Field<'_>>> = HashMap::new();
        for field in fields {
            by_name.entry(field.name().to_ascii_lowercase()).or_default().push(field);
        }
        for name in &self.signed {
            let found = by_name.get_mut(name.to_ascii_lowercase().as_bytes());
            if let Some(field) = found.and_then(Vec::pop) {
                field.write(self.head_form, &mut data);
                data.extend_from_slice(b"\r\n");
            }
        }
        if let Some(own) = fields.get(self.number) {
            Field::new(&without_signature(own.raw())).write(self.head_form, &mut data);
        }
        data
    }
}

/// The field with an empty `b=` tag.
fn without_signature(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    for (index, tag) in raw.split(|&byte| byte == b';').enumerate() {
        if index > 0 {
            out.push(b';');
        }
        let start =
            if index == 0 { tag.iter().position(|&b| b == b':').map_or(0, |n| n + 1) } else { 0 };
        let equals = tag[start..].iter().position(|&b| b == b'=').map(|n| start + n);
        match equals {
            Some(equals) if tag[start..equals].trim_ascii() == b"b" => {
                out.extend_from_slice(&tag[..=equals]);
            }
            _ => out.extend_from_slice(tag),
        }
    }
    out
}

/// Extracts the `RSAPublicKey` from a `SubjectPublicKeyInfo`; accepts a plain
/// `RSAPublicKey` as well.
fn rsa_public_key(der: &[u8]) -> Option<&[u8]> {
    let (0x30, inner, _) = element(der)? else { return None };
    let (first, _, rest) = element(inner)?;
    if first == 0x02 {
        return Some(der);
    }
    let (0x03, bits, _) = element(rest)? else { return None };
    bits.strip_prefix(&[0])
}

/// Reads one DER element. Returns its tag, its content, and the remaining bytes.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), &rest[2..]),
        _ => return None,
    };
    Some((tag, rest.get(..length)?, &rest[length..]))
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
    use crate::mail::dns::{Zone, testing};
    use crate::model::dns::RecordKind;

    async fn verify(resolver: &Resolver, message: &[u8], now: i64) -> DkimVerdict {
        let message = Arc::new(message.to_vec());
        super::verify(resolver, &message, now).await.expect("a verdict")
    }

    const MESSAGE: &str = "From: Ada <a@sandbox.test>\r\nTo: b@example.test\r\n\
        Subject: Hello\r\n there\r\n\r\nHi  you \r\n\r\n";

    fn resolver(record: &str, name: &str) -> Resolver {
        Resolver::new(testing::zone(&[(RecordKind::Dkim, name, record)]), None)
    }

    fn signed() -> (Resolver, String) {
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("valid");
        let field = key.sign("sandbox.test", "s1", MESSAGE.as_bytes()).expect("signed");
        (resolver(&key.record(), "s1._domainkey.sandbox.test"), field + MESSAGE)
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
        assert_eq!(verdict_of(format!("Received: by x\r\n{refolded}")).await, DkimVerdict::Pass);
        assert_eq!(verdict_of(message.replace("Hi  you", "Hi You")).await, DkimVerdict::Fail);
        assert_eq!(verdict_of(message.replace("Hello", "Hullo")).await, DkimVerdict::Fail);
        // `From` is signed once more than it occurs, so a second one breaks the
        // signature.
        let second = message.replace("\r\nTo:", "\r\nFrom: eve@sandbox.test\r\nTo:");
        assert_eq!(verdict_of(second).await, DkimVerdict::Fail);
        assert_eq!(verdict_of(MESSAGE.to_owned()).await, DkimVerdict::None);
        assert_eq!(verdict_of(message.replace("s=s1", "s=s2")).await, DkimVerdict::PermError);
        assert_eq!(verdict_of(message.replace("v=1;", "v=2;")).await, DkimVerdict::PermError);
        assert_eq!(
            verdict_of(message.replace("rsa-sha256", "rsa-sha1")).await,
            DkimVerdict::PermError
        );
        let expired = message.replace("v=1;", "v=1; x=10;");
        assert_eq!(verify(&resolver, expired.as_bytes(), 11_000).await, DkimVerdict::PermError);
        let unsigned = message.replace("h=From:", "h=To:").replace("\t From;", "\t To;");
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
        ] {
            let resolver = resolver(&record, "s1._domainkey.sandbox.test");
            assert_eq!(verify(&resolver, message.as_bytes(), 0).await, verdict, "{record}");
        }
    }

    // The message, key and Ed25519 signature of RFC 8463, appendix A.
    #[tokio::test]
    async fn the_example_of_rfc_8463_passes() {
        const BODY: &str = "From: Joe SixPack <joe@football.example.com>\r\n\
            To: Suzie Q <suzie@shopping.example.net>\r\nSubject: Is dinner ready?\r\n\
            Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n\
            Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n\r\n\
            Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n";
        const ED25519_FIELD: &str = "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n \
            d=football.example.com; i=@football.example.com;\r\n q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r\n \
            subject : date : message-id : from : subject : date;\r\n \
            bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n \
            b=/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11Bus\r\n \
            Fa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==\r\n";
        let key = "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        // The domain is not a reserved one, so a test server answers for its record.
        let server = testing::serve("brisbane._domainkey.football.example.com", key).await;
        let resolver = Resolver::new(Arc::new(Zone::new()), Some(server));
        let message = format!("{ED25519_FIELD}{BODY}");
        assert_eq!(verify(&resolver, message.as_bytes(), 0).await, DkimVerdict::Pass);
        let changed = message.replace("dinner", "supper");
        assert_eq!(verify(&resolver, changed.as_bytes(), 0).await, DkimVerdict::Fail);
    }

    #[test]
    fn removes_the_signature_from_its_field() {
        for (field, cut) in [
            ("DKIM-Signature: v=1; b=abc\r\n def; bh=x", "DKIM-Signature: v=1; b=; bh=x"),
            ("DKIM-Signature: b=abc", "DKIM-Signature: b="),
            ("DKIM-Signature: bh=b=; b =\r\n abc", "DKIM-Signature: bh=b=; b ="),
        ] {
            assert_eq!(String::from_utf8_lossy(&without_signature(field.as_bytes())), cut);
        }
    }
}
