//! The key that identifies a delivery for de-duplication.

use alloc::boxed::Box;
use alloc::format;
use core::fmt;

use sha2::{Digest as _, Sha256};

use crate::signature::Hex;
use crate::{Scheme, Tag};

/// Longest event name and `id`, in bytes and taken together, that a key
/// contains verbatim. Longer ones are hashed.
const MAX_VERBATIM: usize = 256;

/// Identifies a delivery: all retries of a delivery have the same key, and two
/// different deliveries never do.
///
/// A key consists of the scheme, the event name and the delivery's `id`. A
/// delivery without an `id` is identified by its [`Tag`]. A key is at most 300
/// bytes long, whatever the sender puts into event and `id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeliveryKey(Box<str>);

impl DeliveryKey {
    #[cfg(all(test, feature = "dedup"))]
    pub(crate) fn new(key: &str) -> Self {
        Self(key.into())
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
