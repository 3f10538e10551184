//! API keys.

use super::{Client, Key, NewKey, Request, e};

/// Requests for API keys; see [`Client::keys`].
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a>(pub(super) &'a Client);

impl Keys<'_> {
    /// Creates a key. Only this response contains the key itself.
    pub fn create(&self, key: &NewKey) -> Request<Key> {
        self.0.json(&e::KEYS_CREATE, &[]).with_body(&e::KEYS_CREATE, key)
    }

    /// Lists the keys, without their secrets.
    pub fn list(&self) -> Request<Vec<Key>> {
        self.0.json(&e::KEYS, &[])
    }

    /// Revokes a key with immediate effect.
    pub fn delete(&self, id: &str) -> Request<()> {
        self.0.empty(&e::KEYS_DELETE, &[id])
    }
}
