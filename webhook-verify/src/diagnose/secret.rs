//! What key a secret could have been meant to be.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use super::{Mistake, Reading};
use crate::{Secret, SecretError};

type Key = Zeroizing<Vec<u8>>;

pub(super) fn readings(secret: &[u8], others: &[(Mistake, Key)]) -> Vec<Reading<Key>> {
    let mut readings: Vec<Reading<Key>> = vec![(as_given(secret), key(secret))];
    let mut add = |mistake, key: Key| {
        if !readings.iter().any(|(_, known)| *known == key) {
            readings.push((Some(mistake), key));
        }
    };

    for (mistake, other) in others {
        add(*mistake, other.clone());
        add(*mistake, key(bare(other)));
    }
    if let Some(rest) = secret.strip_prefix(b"\xEF\xBB\xBF") {
        add(Mistake::SecretByteOrderMark, key(bare(rest)));
    }
    let bare = bare(secret);
    add(Mistake::SecretWhiteSpace, key(bare));
    for quote in [&b"\""[..], b"'"] {
        if let Some(inner) = bare.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            add(Mistake::SecretQuoted, key(inner));
        }
    }
    for newline in ["\n", "\r\n"] {
        add(Mistake::SenderSecretWhiteSpace, key(&[bare, newline.as_bytes()].concat()));
    }
    for decoded in decoded(bare) {
        add(Mistake::SecretDecoded, decoded);
    }
    add(Mistake::SecretEmpty, key(b""));
    readings
}

/// A secret that no verifier would take is a mistake even where it matches.
fn as_given(secret: &[u8]) -> Option<Mistake> {
    match Secret::new(secret) {
        Ok(_) => None,
        Err(SecretError::Empty) => Some(Mistake::SecretEmpty),
        Err(SecretError::ByteOrderMark) => Some(Mistake::SecretByteOrderMark),
        Err(_) => Some(Mistake::SenderSecretWhiteSpace),
    }
}

fn key(bytes: &[u8]) -> Key {
    Zeroizing::new(bytes.to_vec())
}

fn bare(secret: &[u8]) -> &[u8] {
    match std::str::from_utf8(secret) {
        Ok(text) => text.trim().as_bytes(),
        Err(_) => secret.trim_ascii(),
    }
}

/// The secret as hex or Base64, with and without the word that some services
/// put before it.
fn decoded(secret: &[u8]) -> Vec<Key> {
    let after_word = secret.iter().position(|byte| *byte == b'_').map(|at| &secret[at + 1..]);
    let mut keys: Vec<Key> = after_word.map(key).into_iter().collect();
    for text in [Some(secret), after_word].into_iter().flatten() {
        for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
            keys.extend(engine.decode(text).ok().map(Zeroizing::new));
        }
        keys.extend(unhex(text));
    }
    keys
}

fn unhex(text: &[u8]) -> Option<Key> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    bytes.map(Zeroizing::new)
}
