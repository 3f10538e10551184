//! HMAC-SHA256 with the key's work done once, and the comparison.

use hmac::{Hmac, KeyInit, Mac as _};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

use crate::Secret;

/// A keyed state. Keying costs two compressions, which for a small body would
/// be a quarter of the whole verification.
#[derive(Clone)]
pub(crate) struct Keyed(Hmac<Sha256>);

impl Keyed {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self::from_key(secret.as_bytes())
    }

    pub(crate) fn from_key(key: &[u8]) -> Self {
        match Hmac::new_from_slice(key) {
            Ok(keyed) => Self(keyed),
            Err(_) => unreachable!("HMAC takes a key of any length"),
        }
    }

    pub(crate) fn tag_of(&self, body: &[u8]) -> [u8; 32] {
        let mut running = self.clone();
        running.update(body);
        running.finish()
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into_bytes().into()
    }
}

/// Whether two tags are equal, in a time that does not depend on where they
/// differ. Words and not bytes: a quarter of the barriers, which at 32 bytes
/// are what `subtle` spends its time on.
pub(crate) fn same_tag(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let (a, b) = (words(a), words(b));
    let mut equal = Choice::from(1);
    for (a, b) in a.iter().zip(&b) {
        equal &= a.ct_eq(b);
    }
    equal.into()
}

fn words(tag: &[u8; 32]) -> [u64; 4] {
    let (words, _) = tag.as_chunks::<8>();
    core::array::from_fn(|i| u64::from_ne_bytes(words[i]))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use super::*;

    #[derive(serde::Deserialize)]
    struct Vectors {
        vectors: Vec<Vector>,
    }

    #[derive(serde::Deserialize)]
    struct Vector {
        case: u32,
        key: String,
        data: String,
        tag: String,
    }

    /// Here and not over the public API, because two of the keys are nothing
    /// but control characters that count as white space.
    #[test]
    fn rfc_4231() {
        let vectors: Vectors =
            serde_json::from_str(include_str!("../tests/vectors/rfc4231_hmac_sha256.json"))
                .unwrap();
        assert_eq!(vectors.vectors.len(), 7);
        for vector in vectors.vectors {
            let keyed = Keyed::from_key(&hex::decode(vector.key).unwrap());
            let tag = keyed.tag_of(&hex::decode(vector.data).unwrap());
            assert_eq!(hex::encode(tag), vector.tag, "case {}", vector.case);
        }
    }

    #[test]
    fn tags_differ_wherever_one_bit_does() {
        let tag = core::array::from_fn(|i| i as u8);
        assert!(same_tag(&tag, &tag.clone()));
        for bit in 0..256 {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!same_tag(&tag, &other), "bit {bit}");
        }
    }
}
