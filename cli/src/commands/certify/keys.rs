//! Signatures, and the keys that a receiver may take for its secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};
use svc_sdk::Service;
use webhook_verify::Secret;

use crate::signing;

/// A key to sign with.
pub(super) enum Key {
    Secret(Secret),
    /// The key of a receiver whose configuration is missing.
    Empty,
}

impl Key {
    pub(super) fn sign(&self, service: Service, body: &[u8]) -> String {
        match self {
            Self::Secret(secret) => sign(service, secret, body),
            Self::Empty => {
                let (_, prefix) = header_of(service);
                // HMAC (RFC 2104) with a key of no bytes, which `Secret` refuses.
                let inner = Sha256::new().chain_update([0x36; 64]).chain_update(body).finalize();
                let tag = Sha256::new().chain_update([0x5C; 64]).chain_update(inner).finalize();
                tag.iter().fold(prefix.to_owned(), |text, byte| format!("{text}{byte:02x}"))
            }
        }
    }
}

/// The keys other than the secret that a receiver may take for it.
pub(super) fn other_keys(secret: &[u8]) -> Vec<(&'static str, Key)> {
    let without_prefix = secret.splitn(2, |byte| *byte == b'_').nth(1);
    let digits = without_prefix.unwrap_or(secret);
    let hex = secret.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let base64 = digits.strip_suffix(b"=").unwrap_or(digits);
    let base64 = base64.strip_suffix(b"=").unwrap_or(base64);
    let keys = [
        ("the secret without its prefix", without_prefix.map(<[u8]>::to_vec)),
        ("the secret with `whsec_` before it", Some([b"whsec_", secret].concat())),
        ("the secret in hex digits", Some(hex.into_bytes())),
        ("the secret decoded from hex", from_hex(digits)),
        ("the secret decoded from Base64", STANDARD_NO_PAD.decode(base64).ok()),
    ];
    let keys = keys.into_iter().filter_map(|(name, key)| {
        let key = Secret::from_bytes(key?).ok()?;
        Some((name, Key::Secret(key)))
    });
    std::iter::once(("an empty secret", Key::Empty)).chain(keys).collect()
}

/// The signature of a body, as the service writes it.
pub(super) fn sign(service: Service, secret: &Secret, body: &[u8]) -> String {
    signing::sign(service, secret, body).1
}

/// The name of a service's signature header, and the text before its digits.
pub(super) fn header_of(service: Service) -> (&'static str, &'static str) {
    let prefix = match service {
        Service::Email => "",
        _ => "sha256=",
    };
    (signing::scheme(service).signature_header(), prefix)
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let text = std::str::from_utf8(pair).ok()?;
        let are_digits = text.chars().all(|digit| digit.is_ascii_hexdigit());
        u8::from_str_radix(text, 16).ok().filter(|_| are_digits)
    };
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2104 with OpenSSL: `printf %s "$BODY" | openssl dgst -sha256 -mac HMAC -macopt hexkey:00`.
    #[test]
    fn an_empty_key_signs() {
        let digits = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";
        assert_eq!(Key::Empty.sign(Service::Email, b""), digits);
        assert_eq!(Key::Empty.sign(Service::Extraction, b""), format!("sha256={digits}"));
    }

    #[test]
    fn keys_that_are_taken_for_the_secret() {
        let signatures = |secret: &[u8]| {
            let keys = other_keys(secret).into_iter();
            keys.map(|(name, key)| (name, key.sign(Service::Email, b""))).collect::<Vec<_>>()
        };
        let signed =
            |key: &[u8]| sign(Service::Email, &Secret::from_bytes(key).expect("a key"), b"");
        // Four digits are Base64, too.
        let [empty, without, with, hex, from_hex, from_base64] = &signatures(b"whsec_4a6f")[..]
        else {
            panic!("six keys");
        };
        assert_eq!(*empty, ("an empty secret", Key::Empty.sign(Service::Email, b"")));
        assert_eq!(without.1, signed(b"4a6f"));
        assert_eq!(with.1, signed(b"whsec_whsec_4a6f"));
        assert_eq!(hex.1, signed(b"77687365635f34613666"));
        assert_eq!(from_hex.1, signed(b"Jo"));
        assert_eq!(from_base64.1, signed(b"\xe1\xae\x9f"));
        // Neither a prefix, nor hex digits, nor Base64.
        assert_eq!(signatures(b"-plus+1").len(), 3);
    }
}
