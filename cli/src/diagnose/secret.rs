//! Candidates for the key that the sender signed with.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::{Candidate, Mistake};
use webhook_verify::{Secret, SecretError};

type Key = Vec<u8>;

pub(super) fn candidates(secret: &[u8], others: &[(Mistake, &[u8])]) -> Vec<Candidate<Key>> {
    let mut candidates: Vec<Candidate<Key>> = vec![(mistake_as_given(secret), key(secret))];
    let mut add = |mistake, key: Key| {
        if !candidates.iter().any(|(_, known)| *known == key) {
            candidates.push((Some(mistake), key));
        }
    };

    for (mistake, other) in others {
        add(*mistake, key(other));
        add(*mistake, key(trim(other)));
    }
    if let Some(rest) = secret.strip_prefix(b"\xEF\xBB\xBF") {
        add(Mistake::SecretByteOrderMark, key(trim(rest)));
    }
    let trimmed = trim(secret);
    add(Mistake::SecretWhitespace, key(trimmed));
    for quote in [&b"\""[..], b"'"] {
        if let Some(inner) = trimmed.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            add(Mistake::SecretQuoted, key(inner));
        }
    }
    for newline in ["\n", "\r\n"] {
        add(Mistake::SenderSecretWhitespace, key(&[trimmed, newline.as_bytes()].concat()));
    }
    for decoded in decode(trimmed) {
        add(Mistake::SecretDecoded, decoded);
    }
    add(Mistake::SecretEmpty, key(b""));
    candidates
}

/// A secret that [`Secret`] rejects is a mistake even if it matches.
fn mistake_as_given(secret: &[u8]) -> Option<Mistake> {
    match Secret::new(secret) {
        Ok(_) => None,
        Err(SecretError::Empty) => Some(Mistake::SecretEmpty),
        Err(SecretError::ByteOrderMark) => Some(Mistake::SecretByteOrderMark),
        Err(_) => Some(Mistake::SenderSecretWhitespace),
    }
}

fn key(bytes: &[u8]) -> Key {
    bytes.to_vec()
}

fn trim(secret: &[u8]) -> &[u8] {
    match std::str::from_utf8(secret) {
        Ok(text) => text.trim().as_bytes(),
        Err(_) => secret.trim_ascii(),
    }
}

/// The secret decoded from hex or Base64, with and without a prefix such as
/// `whsec_`.
fn decode(secret: &[u8]) -> Vec<Key> {
    let after_prefix = secret.iter().position(|byte| *byte == b'_').map(|at| &secret[at + 1..]);
    let mut keys: Vec<Key> = after_prefix.map(key).into_iter().collect();
    for text in [Some(secret), after_prefix].into_iter().flatten() {
        for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
            keys.extend(engine.decode(text).ok());
        }
        keys.extend(hex::decode(text).ok());
    }
    keys
}
