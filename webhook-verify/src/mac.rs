//! HMAC-SHA256 with the `hmac` and `sha2` crates, and constant-time comparison with
//! `subtle`.
//!
//! The features `zeroize` of `hmac` and `sha2` overwrite the keyed state on drop. They
//! do not cover the padded key that `hmac` builds on the stack when it is keyed.

use alloc::vec::Vec;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::Secret;

/// HMAC-SHA256 keyed with a secret. Keying hashes one block for each of the two
/// paddings, so it is done once, and the keyed state is cloned for every body.
#[derive(Clone)]
pub(crate) struct HmacKey(Hmac<Sha256>);

impl HmacKey {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self::from_bytes(secret.as_bytes())
    }

    pub(crate) fn from_bytes(key: &[u8]) -> Self {
        let mac = Hmac::new_from_slice(key);
        Self(mac.unwrap_or_else(|_| unreachable!("HMAC accepts keys of any length")))
    }

    /// The tag of a complete body.
    #[inline]
    pub(crate) fn tag(&self, body: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(body);
        mac.finalize().into_bytes().into()
    }
}

/// The tags of a body that arrives in chunks, one for each key.
#[derive(Clone)]
pub(crate) struct HmacStream {
    newest: Hmac<Sha256>,
    /// Separate from `newest`, so that a single key needs no allocation.
    older: Vec<Hmac<Sha256>>,
}

impl HmacStream {
    /// Starts the computation. There must be at least one key.
    #[inline]
    pub(crate) fn new(keys: &[HmacKey]) -> Self {
        let older = keys[1..].iter().map(|key| key.0.clone()).collect();
        Self { newest: keys[0].0.clone(), older }
    }

    #[inline]
    pub(crate) fn update(&mut self, chunk: &[u8]) {
        self.newest.update(chunk);
        for mac in &mut self.older {
            mac.update(chunk);
        }
    }

    /// The tag for the first key.
    #[inline]
    pub(crate) fn tag(self) -> [u8; 32] {
        self.newest.finalize().into_bytes().into()
    }

    /// The index of the first key that produces this tag.
    #[inline]
    pub(crate) fn matching_key(self, tag: &[u8; 32]) -> Option<usize> {
        core::iter::once(self.newest)
            .chain(self.older)
            .position(|mac| tags_equal(&mac.finalize().into_bytes().into(), tag))
    }
}

/// Compares two tags in a time that does not depend on where they differ.
pub(crate) fn tags_equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.ct_eq(b).into()
}

#[cfg(test)]
mod tests {
    use core::slice;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;
    use sha2::Digest as _;

    use super::*;

    /// HMAC as RFC 2104 defines it, on top of SHA-256 only.
    fn rfc_2104(key: &[u8], body: &[u8]) -> [u8; 32] {
        let mut block = [0; 64];
        if key.len() <= block.len() {
            block[..key.len()].copy_from_slice(key);
        } else {
            block[..32].copy_from_slice(&Sha256::digest(key));
        }
        let inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36)).chain_update(body);
        let outer = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5C));
        outer.chain_update(inner.finalize()).finalize().into()
    }

    proptest! {
        #[test]
        fn matches_rfc_2104(key: Vec<u8>, body in vec(any::<u8>(), 0..300), cut: Index) {
            let expected = rfc_2104(&key, &body);
            let key = HmacKey::from_bytes(&key);
            prop_assert_eq!(key.tag(&body), expected);

            let (start, end) = body.split_at(cut.index(body.len() + 1));
            let mut stream = HmacStream::new(slice::from_ref(&key));
            stream.update(start);
            stream.update(end);
            prop_assert_eq!(stream.tag(), expected);
        }
    }

    #[test]
    fn tags_that_differ_in_any_bit_are_not_equal() {
        let tag = core::array::from_fn(|i| i as u8);
        assert!(tags_equal(&tag, &tag.clone()));
        for bit in 0..256 {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!tags_equal(&tag, &other), "bit {bit}");
        }
    }
}
