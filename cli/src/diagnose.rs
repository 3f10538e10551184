//! Finds out why a signature does not match: tries the usual mistakes in handling headers, secrets
//! and bodies, and reports which of them explain the mismatch. The result must not reach a sender.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::Value;
use webhook_verify::{Rejection, Service, Signature, Verifier};

use crate::failure::Failure;
use crate::signing::{scheme, tag, usable};

/// Verifies deliveries, and explains a mismatch.
pub struct Check {
    pub service: Service,
    verifier: Verifier,
    secret: Vec<u8>,
}

impl Check {
    /// For the secret of `--secret-file`.
    pub fn new(service: svc_sdk::Service, secret: Vec<u8>) -> Result<Self, Failure> {
        let service = scheme(service);
        let verifier = Verifier::with_secrets(service, [usable("--secret-file", &secret)?])
            .map_err(|error| Failure::input(error.to_string()))?;
        Ok(Self {
            service,
            verifier,
            secret,
        })
    }

    /// Verifies the signature in this header. The failure has the mistakes that explain it.
    pub fn verify(
        &self,
        signature: Result<Signature, Rejection>,
        header: &[u8],
        body: &[u8],
    ) -> Result<(), (Rejection, Vec<&'static Mistake>)> {
        let verified = signature.and_then(|it| self.verifier.verify_bytes(&it, body));
        let explain = |error| (error, diagnose(self.service, header, body, &self.secret));
        verified.map(drop).map_err(explain)
    }
}

/// A mistake that makes the verification of a genuine delivery fail.
#[derive(Debug, PartialEq, Eq)]
pub struct Mistake {
    /// A stable name for programs.
    pub code: &'static str,
    pub description: &'static str,
    pub advice: &'static str,
}

impl Mistake {
    const fn new(code: &'static str, description: &'static str, advice: &'static str) -> Self {
        Self {
            code,
            description,
            advice,
        }
    }
}

const OTHER_SCHEME_HEADER: Mistake = Mistake::new(
    "other_scheme_header",
    "the signature header has the other service's format",
    "verify this delivery with the other service's scheme",
);
const HEADER_WHITESPACE: Mistake = Mistake::new(
    "header_whitespace",
    "the signature header is surrounded by whitespace or quotes",
    "pass the header's value exactly as it was received",
);
const SECRET_QUOTED: Mistake = Mistake::new(
    "secret_quoted",
    "the stored secret is surrounded by quotes",
    "store the secret without the quotes",
);
const SECRET_DECODED: Mistake = Mistake::new(
    "secret_decoded",
    "the secret was decoded from hex or Base64 on one side only",
    "use the secret exactly as the service returned it, on both sides",
);
const WHITESPACE_CHANGED: Mistake = Mistake::new(
    "whitespace_changed",
    "white space around the body was added or removed, or its line endings were changed",
    "verify the received bytes before they are trimmed or converted to text",
);
const BASE64_BODY: Mistake = Mistake::new(
    "base64_body",
    "the body is still encoded as Base64",
    "decode it first (AWS Lambda: when `isBase64Encoded` is true)",
);
const RESERIALIZED: Mistake = Mistake::new(
    "reserialized",
    "the body was parsed as JSON and serialized again",
    "verify the received bytes, then parse them",
);

/// A value that the sender may have used, and the mistake that turned it into the received one.
/// `None` if it is the received one.
type Candidate<T> = (Option<&'static Mistake>, T);

/// The mistakes that together explain a mismatch: at most one each of the header, the secret and
/// the body, which are exactly those of the receiver. Empty if no known mistakes do.
fn diagnose(service: Service, header: &[u8], body: &[u8], secret: &[u8]) -> Vec<&'static Mistake> {
    let headers = headers(service, header);
    let secrets = secrets(secret);
    for (body_mistake, body) in bodies(body) {
        for (secret_mistake, key) in &secrets {
            let tag = tag(key, &body);
            let matching = headers.iter().find(|(_, claimed)| tag[..] == claimed[..]);
            if let Some((header_mistake, _)) = matching {
                let mistakes = [*header_mistake, *secret_mistake, body_mistake];
                return mistakes.into_iter().flatten().collect();
            }
        }
    }
    Vec::new()
}

/// The signatures that the sender may have put into the header.
fn headers(service: Service, header: &[u8]) -> Vec<Candidate<Vec<u8>>> {
    let trimmed = header.trim_ascii();
    let unquoted = trimmed
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    let candidates = [
        (None, header),
        (Some(&HEADER_WHITESPACE), unquoted.unwrap_or(trimmed)),
    ];
    let other = match service {
        Service::Email => Service::Extraction,
        _ => Service::Email,
    };
    let schemes = [(None, service), (Some(&OTHER_SCHEME_HEADER), other)];
    let parsed = candidates.iter().flat_map(|(mistake, header)| {
        schemes.iter().filter_map(move |(other, scheme)| {
            let signature = Signature::parse(*scheme, header).ok()?.to_string();
            let digits = signature.rsplit('=').next().unwrap_or_default();
            Some((other.or(*mistake), hex::decode(digits).ok()?))
        })
    });
    parsed.collect()
}

/// The keys that the sender may have signed with.
fn secrets(secret: &[u8]) -> Vec<Candidate<Vec<u8>>> {
    let mut keys = vec![(None, secret.to_vec())];
    for quote in [b"\"", b"'"] {
        let inner = secret
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        keys.extend(inner.map(|inner| (Some(&SECRET_QUOTED), inner.to_vec())));
    }

    // With and without a prefix such as `whsec_`.
    let after_prefix = secret.splitn(2, |byte| *byte == b'_').nth(1);
    let mut decoded = Vec::from_iter(after_prefix.map(<[u8]>::to_vec));
    for text in [Some(secret), after_prefix].into_iter().flatten() {
        let text = String::from_utf8_lossy(text);
        let digits = text
            .trim_end_matches('=')
            .replace('-', "+")
            .replace('_', "/");
        decoded.extend(STANDARD_NO_PAD.decode(digits));
        decoded.extend(hex::decode(&*text));
    }

    keys.extend(decoded.into_iter().map(|key| (Some(&SECRET_DECODED), key)));
    keys
}

/// The bytes that the sender may have signed.
fn bodies(body: &[u8]) -> Vec<Candidate<Cow<'_, [u8]>>> {
    let mut bodies: Vec<Candidate<Cow<'_, [u8]>>> = vec![(None, body.into())];
    let mut add = |mistake, candidate: Cow<'_, [u8]>| {
        bodies.push((Some(mistake), candidate.into_owned().into()));
    };
    if let Some(rest) = body.strip_suffix(b"\n") {
        add(
            &WHITESPACE_CHANGED,
            rest.strip_suffix(b"\r").unwrap_or(rest).into(),
        );
    }

    for newline in ["\n", "\r\n"] {
        add(
            &WHITESPACE_CHANGED,
            [body, newline.as_bytes()].concat().into(),
        );
    }

    add(&WHITESPACE_CHANGED, body.trim_ascii().into());
    if let Ok(text) = std::str::from_utf8(body) {
        let unix = text.replace("\r\n", "\n");
        add(
            &WHITESPACE_CHANGED,
            unix.replace('\n', "\r\n").into_bytes().into(),
        );
        add(&WHITESPACE_CHANGED, unix.into_bytes().into());
    }

    if let Ok(decoded) = STANDARD.decode(body.trim_ascii()) {
        add(&BASE64_BODY, decoded.into());
    }
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        for layout in [value.to_string(), spaced(&value), format!("{value:#}")] {
            add(&RESERIALIZED, layout.into_bytes().into());
        }
    }

    bodies
}

/// JSON as Python writes it by default: with a space after each comma and colon.
pub fn spaced(value: &Value) -> String {
    let lines = format!("{value:#}");
    lines.lines().fold(String::new(), |text, line| {
        let space = if text.ends_with(',') { " " } else { "" };
        text + space + line.trim_start()
    })
}
