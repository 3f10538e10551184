//! The key that identifies a delivery for de-duplication.

use alloc::boxed::Box;
use alloc::format;
use core::fmt;

use sha2::{Digest as _, Sha256};

use crate::signature::Hex;
use crate::{BodyBytes, Delivery, Scheme, Tag, Verified};

/// Longest event name and `id`, in bytes and taken together, that a key
/// contains verbatim. Longer ones are hashed.
const MAX_VERBATIM: usize = 256;

/// Identifies a delivery: all retries of a delivery have the same key, and two
/// different deliveries of one account never do.
///
/// A key consists of the scheme, the event name and the delivery's `id`. A
/// delivery without an `id` is identified by its [`Tag`]. A key is at most 300
/// bytes long, whatever the sender puts into event and `id`, and at most 400 bytes with
/// a scope ([`scoped`](Self::scoped)).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryKey(Box<str>);

impl DeliveryKey {
    pub(crate) fn from_stored(key: Box<str>) -> Self {
        Self(key)
    }

    pub(crate) fn from_tag<S: Scheme>(tag: Tag) -> Self {
        Self(format!("{}:tag:{tag}", S::NAME).into())
    }

    /// Different pairs of event and id always give different keys. Pairs that
    /// are too long, or whose event contains the separator, are hashed.
    pub(crate) fn from_event_and_id<S: Scheme>(event: &str, id: &str) -> Self {
        let scheme = S::NAME;
        if event.len() + id.len() <= MAX_VERBATIM && !event.contains(':') {
            return Self(format!("{scheme}:{event}:id:{id}").into());
        }
        let digest = Sha256::new_with_prefix((event.len() as u64).to_be_bytes());
        let digest = digest.chain_update(event).chain_update(id).finalize();
        Self(format!("{scheme}:sha256:{}", Hex(&digest.into())).into())
    }

    /// The key in a scope, such as a tenant: an `id` is unique only within the account that
    /// sent it. Different pairs of scope and key always give different keys.
    #[must_use]
    pub fn scoped(&self, scope: &str) -> Self {
        // A scope in front of the first slash contains no colon, which every key without a
        // scope has there. A scope that is too long or contains these is hashed.
        const MAX_SCOPE: usize = 64;
        if scope.len() <= MAX_SCOPE && !scope.contains(['/', ':', '#']) {
            return Self(format!("{scope}/{self}").into());
        }
        Self(format!("#{}/{self}", Hex(&Sha256::digest(scope).into())).into())
    }

    /// The key as text, for example `extraction:extraction.completed:id:7c0e`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeliveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A value that identifies a delivery, for de-duplication.
///
/// Implement it for your own type that contains a delivery.
pub trait Keyed {
    /// The key that all attempts of the delivery have in common.
    fn key(&self) -> DeliveryKey;
}

impl Keyed for DeliveryKey {
    fn key(&self) -> DeliveryKey {
        self.clone()
    }
}

impl<S: Scheme, B: BodyBytes> Keyed for Delivery<S, B> {
    fn key(&self) -> DeliveryKey {
        self.key()
    }
}

impl<S: Scheme, B: BodyBytes> Keyed for Verified<S, B> {
    fn key(&self) -> DeliveryKey {
        self.key()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    fn key(text: &str) -> DeliveryKey {
        DeliveryKey::from_stored(text.into())
    }

    #[test]
    fn scoped_keys_are_unique_and_bounded() {
        let long = "x".repeat(300);
        let keys = ["mail:e:id:1", "mail:e:id:/mail:e:id:1", "mail:e:id:a/mail:e:id:1"];
        let scopes =
            ["", "a", "a/mail:e:id:", "mail:e:id:a", "mail:e:id:", "#", "#a", "a/b", &long[..64]];
        let mut seen = BTreeSet::new();
        for key in keys.map(key) {
            for scope in scopes.into_iter().chain([&long[..65], &long[..]]) {
                let scoped = key.scoped(scope);
                assert!(scoped.as_str().len() <= 100, "{scoped}");
                assert!(seen.insert(scoped), "{scope:?} {key}");
            }
            assert!(seen.insert(key));
        }
        assert_eq!(key("mail:e:id:1").scoped("a").as_str(), "a/mail:e:id:1");
        // printf 'a/b' | sha256sum
        let hashed = key("k").scoped("a/b");
        assert_eq!(
            hashed.as_str(),
            "#c14cddc033f64b9dea80ea675cf280a015e672516090a5626781153dc68fea11/k"
        );
    }
}
