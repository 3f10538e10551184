//! API keys.

use super::connection::Client;
use super::request::Request;
use crate::api::control::endpoints as e;
use crate::api::control::keys::{Key, NewKey};

impl Client {
    /// The API keys of both services.
    pub fn keys(&self) -> Keys<'_> {
        Keys(self)
    }
}

/// Requests for API keys; see [`Client::keys`].
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a>(&'a Client);

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
