//! HMAC-SHA256 (RFC 2104) with the key's work done once, and the comparison.
//!
//! Written on SHA-256's compression function and not on the `hmac` crate, whose
//! buffer and copies of the keyed state take a third longer for a body as small
//! as most deliveries are. The tests hold it to that crate and to RFC 4231, and
//! `bench/` shows what it is worth.

use alloc::vec::Vec;
use core::slice;

use sha2::block_api::compress256;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize as _, Zeroizing};

use crate::Secret;

const BLOCK: usize = 64;

/// The state of SHA-256 after the block of inner or outer padding: as secret
/// as the key.
type State = Zeroizing<[u32; 8]>;

/// A key, with the two compressions that depend on nothing else done; in
/// [`HmacStream`] with the body's first blocks after the inner one.
#[derive(Clone)]
pub(crate) struct HmacKey {
    inner: State,
    outer: State,
}

impl HmacKey {
    pub(crate) fn new(secret: &Secret) -> Self {
        Self::from_key(secret.as_bytes())
    }

    pub(crate) fn from_key(key: &[u8]) -> Self {
        let mut block = Zeroizing::new([0; BLOCK]);
        if key.len() <= BLOCK {
            block[..key.len()].copy_from_slice(key);
        } else {
            let mut digest = Sha256::digest(key);
            block[..32].copy_from_slice(&digest);
            digest.as_mut_slice().zeroize();
        }
        let padded = |padding: u8| {
            // In place: what an array's own `map` is given, nobody wipes.
            let mut block = block.clone();
            block.iter_mut().for_each(|byte| *byte ^= padding);
            let mut state = Zeroizing::new(INITIAL);
            compress256(&mut state, slice::from_ref(&*block));
            state
        };
        Self { inner: padded(0x36), outer: padded(0x5C) }
    }

    pub(crate) fn tag(&self, body: &[u8]) -> [u8; 32] {
        let (blocks, rest) = body.as_chunks();
        let mut state = *self.inner;
        compress256(&mut state, blocks);
        finish(&self.outer, &mut state, rest, body.len() as u64)
    }
}

/// The tag, from the inner state after all whole blocks of a body of this
/// length, and the rest that fills none.
///
/// Both states end overwritten with what is no secret, so that there is nothing
/// to wipe.
fn finish(outer: &State, inner: &mut [u32; 8], rest: &[u8], length: u64) -> [u8; 32] {
    // The rest, a mark, zeros up to the end of a block, and there the length.
    let mut tail = [[0; BLOCK]; 2];
    let flat = tail.as_flattened_mut();
    let blocks = (rest.len() + 1 + 8).div_ceil(BLOCK);
    flat[..rest.len()].copy_from_slice(rest);
    flat[rest.len()] = 0x80;
    flat[blocks * BLOCK - 8..blocks * BLOCK].copy_from_slice(&bits(length));
    compress256(inner, &tail[..blocks]);

    let mut last = [0; BLOCK];
    last[..32].copy_from_slice(&bytes(inner));
    last[32] = 0x80;
    last[BLOCK - 8..].copy_from_slice(&bits(32));
    let mut outer = **outer;
    compress256(&mut outer, &[last]);
    bytes(&outer)
}

/// The tags of a body that comes in pieces, one for each key.
///
/// All of it can be inlined into the crate that calls: where it is not, the
/// moves of this state cost a small body a sixth more.
#[derive(Clone)]
pub(crate) struct HmacStream {
    newest: HmacKey,
    /// Nothing is allocated but for a rotation.
    older: Vec<HmacKey>,
    /// The start of a block that is not whole yet.
    rest: [u8; BLOCK],
    length: u64,
}

impl HmacStream {
    /// For these keys, of which there is at least one.
    #[inline]
    pub(crate) fn new(keys: &[HmacKey]) -> Self {
        let (newest, older) = (keys[0].clone(), keys[1..].to_vec());
        Self { newest, older, rest: [0; BLOCK], length: 0 }
    }

    #[inline]
    pub(crate) fn update(&mut self, mut piece: &[u8]) {
        let held = self.held();
        self.length = self.length.wrapping_add(piece.len() as u64);
        if held > 0 {
            let taken = piece.len().min(BLOCK - held);
            let (now, later) = piece.split_at(taken);
            self.rest[held..held + taken].copy_from_slice(now);
            if held + taken < BLOCK {
                return;
            }
            let block = self.rest;
            self.compress(&[block]);
            piece = later;
        }
        let (blocks, rest) = piece.as_chunks();
        self.compress(blocks);
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// The tag for the first of the keys.
    #[inline]
    pub(crate) fn tag(&self) -> [u8; 32] {
        self.tag_for(&self.newest)
    }

    /// The place of the first key for which the tag is this one.
    #[inline]
    pub(crate) fn matching_key(&self, tag: &[u8; 32]) -> Option<usize> {
        if tags_equal(&self.tag(), tag) {
            return Some(0);
        }
        self.older.iter().position(|key| tags_equal(&self.tag_for(key), tag)).map(|place| place + 1)
    }

    #[inline]
    fn tag_for(&self, key: &HmacKey) -> [u8; 32] {
        let mut state = *key.inner;
        finish(&key.outer, &mut state, &self.rest[..self.held()], self.length)
    }

    #[inline]
    fn compress(&mut self, blocks: &[[u8; BLOCK]]) {
        compress256(&mut self.newest.inner, blocks);
        for key in &mut self.older {
            compress256(&mut key.inner, blocks);
        }
    }

    #[inline]
    fn held(&self) -> usize {
        (self.length % BLOCK as u64) as usize
    }
}

/// The length of what was hashed in bits: the padding's block, then this.
fn bits(length: u64) -> [u8; 8] {
    (length.wrapping_add(BLOCK as u64)).wrapping_mul(8).to_be_bytes()
}

fn bytes(state: &[u32; 8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    let (words, _) = bytes.as_chunks_mut();
    for (word, value) in words.iter_mut().zip(state) {
        *word = value.to_be_bytes();
    }
    bytes
}

/// FIPS 180-4 §5.3.3.
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Whether two tags are equal, in a time that does not depend on where they
/// differ. Words and not bytes: an eighth of the barriers, which at 32 bytes are
/// what `subtle` spends its time on.
pub(crate) fn tags_equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let ((a, _), (b, _)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let same = |i: usize| u64::from_ne_bytes(a[i]).ct_eq(&u64::from_ne_bytes(b[i]));
    (same(0) & same(1) & same(2) & same(3)).into()
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use hmac::{Hmac, KeyInit as _, Mac as _};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

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
            let keyed = HmacKey::from_key(&hex::decode(vector.key).unwrap());
            let tag = keyed.tag(&hex::decode(vector.data).unwrap());
            assert_eq!(hex::encode(tag), vector.tag, "case {}", vector.case);
        }
    }

    proptest! {
        #[test]
        fn as_the_hmac_crate_says(key: Vec<u8>, body in vec(any::<u8>(), 0..300), cut: Index) {
            let mut theirs = Hmac::<Sha256>::new_from_slice(&key).unwrap();
            theirs.update(&body);
            let theirs: [u8; 32] = theirs.finalize().into_bytes().into();

            let keyed = HmacKey::from_key(&key);
            prop_assert_eq!(keyed.tag(&body), theirs);
            let (start, end) = body.split_at(cut.index(body.len() + 1));
            let mut running = HmacStream::new(slice::from_ref(&keyed));
            running.update(start);
            running.update(end);
            prop_assert_eq!(running.tag(), theirs);
        }
    }

    #[test]
    fn tags_differ_wherever_one_bit_does() {
        let tag = core::array::from_fn(|i| i as u8);
        assert!(tags_equal(&tag, &tag.clone()));
        for bit in 0..256 {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!tags_equal(&tag, &other), "bit {bit}");
        }
    }
}
