//! Verifies the DKIM signatures of incoming messages (RFC 6376 §6, RFC 8301): `rsa-sha256`, as every
//! signer has it.

use std::sync::{Arc, LazyLock};

use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use regex_lite::Regex;
use ring::digest::{Context, Digest, SHA256, digest};
use ring::signature::{RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY as RSA, UnparsedPublicKey};
use rsa::pkcs8::spki::SubjectPublicKeyInfoRef;

use crate::mail::dkim::canonical::{Form, canonical_body};
use crate::mail::dns::{Resolver, tag};
use crate::mail::header::{Field, Header};
use crate::mail::mime::{Incoming, mailboxes};
use crate::messages::message_wire::{DkimResult, DkimVerdict};
use crate::model::address::DomainName;
use crate::model::error::Failure;
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
) -> Result<DkimResult, Failure> {
    let parsed = Arc::clone(message);
    let signatures = heavy::run(move || Ok(signatures(&parsed, now / 1000))).await?;
    let mut best = DkimResult::default();
    for Signed {
        domain,
        aligned,
        signature,
    } in signatures
    {
        let verdict = match signature {
            Ok(signature) => match resolver.txt(&signature.key_name).await {
                Ok(records) => {
                    let signed = Arc::clone(message);
                    heavy::run(move || Ok(signature.verify(&signed, &records))).await?
                }
                Err(_) => DkimVerdict::TempError,
            },
            Err(verdict) => verdict,
        };
        let found = DkimResult {
            result: verdict,
            domain,
            aligned,
        };
        if (found.result, found.aligned) > (best.result, best.aligned) {
            best = found;
        }
    }
    Ok(best)
}

/// A signature of a message.
struct Signed {
    /// The signing domain, if it is named.
    domain: Option<String>,
    /// Whether it is the domain of the sender.
    aligned: bool,
    /// The verdict if it is clear without the key.
    signature: Result<Signature, DkimVerdict>,
}

/// The signatures of a message. A verifier may limit their number (§6.1).
fn signatures(message: &[u8], now: i64) -> Vec<Signed> {
    let header = Header::parse(message);
    let is_ambiguous = header.is_ambiguous();
    let senders = sender_domains(&header);
    let read = |field: &Field<'_>| {
        let text = String::from_utf8_lossy(field.value());
        let domain = tag(&text, "d").and_then(|text| DomainName::parse(&text).ok());
        let aligned = domain.as_ref().is_some_and(|domain| {
            !senders.is_empty() && senders.iter().all(|sender| is_aligned(sender, domain))
        });
        let signature = match &domain {
            Some(domain) if !is_ambiguous => Signature::parse(field, domain, now, &header),
            _ => Err(DkimVerdict::PermError),
        };
        Signed {
            domain: domain.map(|domain| domain.as_str().to_owned()),
            aligned,
            signature,
        }
    };

    let fields = header.all("DKIM-Signature");
    fields.take(MAX_SIGNATURES).map(read).collect()
}

const MAX_SIGNATURES: usize = 8;
/// Maximum number of signed fields, each of which is looked for in the message.
const MAX_SIGNED: usize = 100;
/// How far the clock of a signer may be ahead, in seconds.
const MAX_SKEW: i64 = 300;

/// The domains of the mailboxes that `From` shows; empty if one of them has none, since a name alone
/// could be shown as the sender.
fn sender_domains(header: &Header<'_>) -> Vec<DomainName> {
    let mut domains = Vec::new();
    for field in header.all("From") {
        let list = field.unfolded();
        for mailbox in mailboxes(&String::from_utf8_lossy(&list)) {
            let address = match mailbox.rsplit_once('<') {
                Some((_, address)) => address.trim_end_matches('>'),
                None => &mailbox,
            };
            let Some(domain) = domain_of(address) else {
                return Vec::new();
            };
            domains.push(domain);
        }
    }
    domains
}

fn domain_of(address: &str) -> Option<DomainName> {
    let (_, domain) = address.rsplit_once('@')?;
    DomainName::parse(domain).ok()
}

/// Whether a signature of a domain stands for a sender in the other: they are the same, or one is
/// above the other, as in relaxed alignment (RFC 7489 §3.1.1), but without a list of the domains
/// under which everyone can register.
fn is_aligned(sender: &DomainName, signer: &DomainName) -> bool {
    let sender = sender.as_str();
    let signer = signer.as_str();
    let is_below = |name: &str, above: &str| {
        above.contains('.')
            && name
                .strip_suffix(above)
                .is_some_and(|rest| rest.ends_with('.'))
    };

    sender == signer || is_below(sender, signer) || is_below(signer, sender)
}

/// A digest of all that a message shows, without white space. In its text, the marks of quotes do not
/// count, either: of a line that goes on in the next one (`format=flowed`), because of the space at its
/// end, only one mark is shown.
fn content_shown(message: &[u8]) -> Digest {
    let message = Incoming::parse(message);
    let mut digest = Context::new(&SHA256);
    let mut add = |text: &[u8], mark: Option<u8>| {
        for word in text.split(|byte| byte.is_ascii_whitespace() || Some(*byte) == mark) {
            digest.update(word);
        }
        digest.update(b"\0");
    };

    add(message.from.as_bytes(), None);
    add(message.subject.as_bytes(), None);
    add(message.text.unwrap_or_default().as_bytes(), Some(b'>'));
    add(message.html.unwrap_or_default().as_bytes(), None);
    for file in message.attachments {
        add(file.filename.unwrap_or_default().as_bytes(), None);
        add(file.content_type.as_bytes(), None);
        add(&file.content, None);
    }

    digest.finish()
}

struct Signature {
    /// The header field with an empty `b=` tag.
    unsigned: String,
    head_form: Form,
    body_form: Form,
    length: Option<usize>,
    /// In seconds since 1970, like `expires_at`.
    signed_at: Option<i64>,
    expires_at: Option<i64>,
    /// Where the DNS has the key.
    key_name: String,
    /// Names of the signed fields.
    signed: Vec<String>,
    body_hash: Vec<u8>,
    value: Vec<u8>,
}

impl Signature {
    /// Reads a signature, and checks what needs no key.
    fn parse(
        field: &Field<'_>,
        domain: &DomainName,
        now: i64,
        header: &Header<'_>,
    ) -> Result<Self, DkimVerdict> {
        let signature = Self::read(field, domain).ok_or(DkimVerdict::PermError)?;
        if signature.expires_at.is_some_and(|expires| expires < now) {
            return Err(DkimVerdict::PermError);
        }

        let is_from_the_future = signature
            .signed_at
            .is_some_and(|signed| signed > now + MAX_SKEW);
        // Otherwise anyone could add a field that changes what is shown.
        let mut shown = header.fields.iter().filter(|field| field.is_shown());
        let is_covered = shown.all(|field| signature.signed.iter().any(|name| field.is(name)));
        if is_from_the_future || !is_covered {
            return Err(DkimVerdict::Fail);
        }

        Ok(signature)
    }

    /// `None` if it is malformed.
    fn read(field: &Field<'_>, domain: &DomainName) -> Option<Self> {
        let text = std::str::from_utf8(field.raw).ok()?;
        let (_, tags) = text.split_once(':')?;
        let tag = |name: &str| tag(tags, name);
        let number = |name: &str| match tag(name) {
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse::<i64>().ok().map(Some)
            }
            Some(_) => None,
            None => Some(None),
        };

        let mut names: Vec<_> = tags
            .split(';')
            .filter_map(|pair| Some(pair.split_once('=')?.0.trim()))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        let is_own = match tag("i") {
            None => true,
            Some(identity) => {
                let (_, identity) = identity.rsplit_once('@')?;
                let identity = DomainName::parse(identity).ok()?;
                let below = identity.as_str().strip_suffix(domain.as_str())?;
                below.is_empty() || below.ends_with('.')
            }
        };
        if names.len() < all || tag("v")? != "1" || tag("a")? != "rsa-sha256" || !is_own {
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

        let length = match number("l")? {
            Some(length) => Some(usize::try_from(length).ok()?),
            None => None,
        };
        Some(Self {
            unsigned: without_signature(text),
            head_form: form(head_form)?,
            body_form: form(body_form)?,
            length,
            signed_at: number("t")?,
            expires_at: number("x")?,
            key_name: format!("{}._domainkey.{}", tag("s")?, domain.as_str()),
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

        let header = Header::parse(message);
        let body = canonical_body(header.body, self.body_form);
        // What follows a part that alone is signed could be of anyone.
        if self.length.is_some_and(|length| length != body.len()) {
            return DkimVerdict::Fail;
        }

        let body_hash = digest(&SHA256, &body);
        let canonical = self.canonical_message(&header, &body);
        let data = self.signed_data(header.fields);
        let verified = UnparsedPublicKey::new(&RSA, key).verify(&data, &self.value);
        if verified.is_err() || body_hash.as_ref() != self.body_hash {
            return DkimVerdict::Fail;
        }

        // The relaxed forms ignore white space, which anyone may have changed. In a boundary, say, it
        // decides which parts are shown.
        if content_shown(message).as_ref() == content_shown(&canonical).as_ref() {
            DkimVerdict::Pass
        } else {
            DkimVerdict::PermError
        }
    }

    /// The message in its canonical form, which is what is signed.
    fn canonical_message(&self, header: &Header<'_>, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::with_capacity(body.len());
        for field in &header.fields {
            field.write(self.head_form, &mut message);
            message.extend_from_slice(b"\r\n");
        }
        message.extend_from_slice(b"\r\n");
        message.extend_from_slice(body);
        message
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

/// The RSA key in a DNS record, if it may be used for email and with SHA-256 (§3.6.1).
fn key(record: &str) -> Option<Vec<u8>> {
    let is = |name, value| tag(record, name).is_none_or(|found| found == value);
    let allows = |name, values: &[&str]| {
        let found = tag(record, name);
        found.is_none_or(|found| found.split(':').any(|one| values.contains(&one)))
    };

    let is_usable = is("v", "DKIM1")
        && is("k", "rsa")
        && allows("h", &["sha256"])
        && allows("s", &["*", "email"]);
    if !is_usable {
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
    use super::*;
    use crate::mail::dkim::{SANDBOX_KEY, SigningKey};
    use crate::mail::dns::testing;
    use crate::model::dns::RecordKind;

    async fn result(resolver: &Resolver, message: &[u8], now: i64) -> DkimResult {
        let message = Arc::new(message.to_vec());
        super::verify(resolver, &message, now)
            .await
            .expect("a verdict")
    }

    async fn verify(resolver: &Resolver, message: &[u8], now: i64) -> DkimVerdict {
        result(resolver, message, now).await.result
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
        let second = message.replace("\r\nTo:", "\r\nFrom: eve@sandbox.test\r\nTo:");
        assert_eq!(verdict_of(second).await, DkimVerdict::PermError);
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

    /// Signs the message with these tags and signed fields.
    fn signed_with(tags: &str, message: &str) -> (Resolver, String) {
        let key = SigningKey::from_pkcs8(SANDBOX_KEY).expect("valid");
        let header = Header::parse(message.as_bytes());
        let body = canonical_body(header.body, Form::Relaxed);
        let length = tags.contains("l=5").then_some(5);
        let body_hash = BASE64.encode(digest(&SHA256, &body[..length.unwrap_or(body.len())]));
        let field = format!(
            "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; s=s1; {tags}; bh={body_hash}; b="
        );
        let domain = DomainName::parse("sandbox.test").expect("a domain");
        let read = Signature::read(&Field::new(field.as_bytes()), &domain).expect("well-formed");
        let data = read.signed_data(header.fields);
        let record = key.record();
        let field = field + &key.signature(&data).expect("signed");
        (
            resolver(&record, "s1._domainkey.sandbox.test"),
            format!("{field}\r\n{message}"),
        )
    }

    #[tokio::test]
    async fn a_key_for_another_purpose_verifies_nothing() {
        let (_, message) = signed();
        let record = SigningKey::from_pkcs8(SANDBOX_KEY).expect("valid").record();
        for (more, verdict) in [
            ("; s=email", DkimVerdict::Pass),
            ("; h=sha1:sha256; s=x:*", DkimVerdict::Pass),
            ("; s=tlsrpt", DkimVerdict::PermError),
            ("; h=sha1", DkimVerdict::PermError),
        ] {
            let resolver = resolver(&format!("{record}{more}"), "s1._domainkey.sandbox.test");
            let found = verify(&resolver, message.as_bytes(), 0).await;
            assert_eq!(found, verdict, "{more}");
        }
    }

    /// Each of these is a genuine signature, and is not of all that is shown.
    #[tokio::test]
    async fn a_signature_covers_all_that_is_shown() {
        let html = "Content-Type: text/html\r\n";
        let encoding = "Content-Transfer-Encoding: base64\r\n";
        for (tags, more, verdict) in [
            ("d=sandbox.test; h=from:subject", "", DkimVerdict::Pass),
            ("d=sandbox.test; h=from", "", DkimVerdict::Fail),
            ("d=sandbox.test; h=from:subject", html, DkimVerdict::Fail),
            (
                "d=sandbox.test; h=from:subject:content-type",
                html,
                DkimVerdict::Pass,
            ),
            (
                "d=sandbox.test; h=from:subject",
                encoding,
                DkimVerdict::Fail,
            ),
            ("d=sandbox.test; h=from:subject; l=5", "", DkimVerdict::Fail),
            ("d=sandbox.test; h=from:subject; l=8", "", DkimVerdict::Pass),
            (
                "d=sandbox.test; h=from:subject; t=1300",
                "",
                DkimVerdict::Pass,
            ),
            (
                "d=sandbox.test; h=from:subject; t=1301",
                "",
                DkimVerdict::Fail,
            ),
            (
                "d=sandbox.test; h=from:subject; x=999",
                "",
                DkimVerdict::PermError,
            ),
        ] {
            let (resolver, message) = signed_with(tags, &format!("{more}{MESSAGE}"));
            let found = verify(&resolver, message.as_bytes(), 1_000_000).await;
            assert_eq!(found, verdict, "{tags}, {more:?}");
        }
    }

    #[tokio::test]
    async fn the_signing_domain_is_reported_with_its_alignment() {
        for (from, aligned) in [
            ("a@sandbox.test", true),
            ("Ada <a@Mail.SANDBOX.test>", true),
            ("a@notsandbox.test", false),
            ("a@test", false),
            ("a@sandbox.test, eve@evil.test", false),
            ("\"a@bank.test\", a@sandbox.test", false),
            ("=?utf-8?q?a=40bank.test?=, a@sandbox.test", false),
            ("Bank, a@sandbox.test", false),
            ("nobody", false),
        ] {
            let message = format!("From: {from}\r\n\r\nHello\r\n");
            let (resolver, message) = signed_with("d=sandbox.test; h=from", &message);
            let expected = DkimResult {
                result: DkimVerdict::Pass,
                domain: Some("sandbox.test".to_owned()),
                aligned,
            };
            assert_eq!(
                result(&resolver, message.as_bytes(), 0).await,
                expected,
                "{from}"
            );
        }
    }

    /// A program that takes a bare CR, say, for a line end sees another sender, subject or body.
    #[tokio::test]
    async fn a_message_that_can_be_read_in_two_ways_never_passes() {
        let (resolver, message) = signed();
        let forged = "From: eve@evil.test\r\nSubject: Pay\r\n";
        for text in [
            format!("X: y\r\n\r{forged}"),
            format!("X: y\r\n\u{c}{forged}"),
            format!("{forged}\nPay now\r\n"),
            format!("{forged}\r\r\nPay now\r\n"),
            "From\u{a0}: eve@evil.test\r\n".to_owned(),
            "From: eve@evil.test\r\n".to_owned(),
        ] {
            let found = result(&resolver, format!("{text}{message}").as_bytes(), 0).await;
            assert_eq!(found.result, DkimVerdict::PermError, "{text:?}");
        }
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
        let [
            Signed {
                signature: Ok(signature),
                ..
            },
        ] = &signatures(message.as_bytes(), 1_600_000_000)[..]
        else {
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
