//! API keys: made, kept as hashes, found again on every request.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use ring::rand::{SecureRandom, SystemRandom};
use rusqlite::Connection;
use sha2::{Digest, Sha256};
use svc_sdk::{Scope, Service};

use crate::error::ApiError;
use crate::id::{self, Prefix};
use crate::store::Tx;

/// What a key may do, and for whom.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) organization: i64,
    pub(crate) service: Service,
    pub(crate) scopes: Vec<Scope>,
}

/// Whether a key is for live use or for tests (`docs/undocumented/both-services.md#live-and-test-keys`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Live,
    Test,
}

impl Mode {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Test => "test",
        }
    }
}

type Hash = [u8; 32];

/// Every key that is valid now, by the hash of its secret. The database has
/// them too; only the writer changes either.
#[derive(Debug, Default)]
pub(crate) struct Keys(RwLock<HashMap<Hash, Arc<Key>>>);

impl Keys {
    /// The key with this secret. Found by its hash, so nothing is learned from
    /// how long the look-up takes.
    pub(crate) fn find(&self, secret: &[u8]) -> Option<Arc<Key>> {
        let hash = hash(secret);
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned()
    }

    /// Reads all keys from the database anew.
    pub(crate) fn load(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection
            .prepare_cached("SELECT hash, id, organization, service, scopes FROM api_key")?;
        let rows = statement.query_map([], |row| {
            let scopes: String = row.get(4)?;
            let key = Key {
                id: row.get(1)?,
                organization: row.get(2)?,
                service: service_from(&row.get::<_, String>(3)?),
                scopes: scopes.split(' ').filter_map(|scope| scope.parse().ok()).collect(),
            };
            Ok((row.get::<_, Hash>(0)?, Arc::new(key)))
        })?;
        let keys = rows.collect::<rusqlite::Result<HashMap<_, _>>>()?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    pub(crate) fn add(&self, secret: &str, key: Key) {
        let hash = hash(secret.as_bytes());
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(hash, Arc::new(key));
    }

    pub(crate) fn remove(&self, id: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|_, key| key.id != id);
    }

    /// Does not know the key with this secret, for as long as the server runs.
    pub(crate) fn disregard(&self, secret: &str) {
        let hash = hash(secret.as_bytes());
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&hash);
    }

    /// Takes all keys of an organization away.
    pub(crate) fn forget(&self, organization: i64) {
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|_, key| key.organization != organization);
    }

    pub(crate) fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Stores a new key; it works once the job is committed.
pub(crate) fn create(
    tx: &mut Tx<'_>,
    keys: &Arc<Keys>,
    secret: String,
    organization: i64,
    service: Service,
    scopes: Vec<Scope>,
    mode: Mode,
) -> Result<Key, ApiError> {
    let key = Key { id: id::new(Prefix::Key), organization, service, scopes };
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    tx.execute(
        "INSERT INTO api_key (id, organization, service, scopes, mode, hint, hash, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        (
            &key.id,
            organization,
            service.as_str(),
            scopes.join(" "),
            mode.as_str(),
            hint(&secret),
            hash(secret.as_bytes()),
            tx.now,
        ),
    )?;
    let (keys, added) = (Arc::clone(keys), key.clone());
    tx.after_commit(move || keys.add(&secret, added));
    Ok(key)
}

/// A new secret with the documented prefix of its service and mode.
pub(crate) fn new_secret(service: Service, mode: Mode) -> Result<String, ApiError> {
    let service = match service {
        Service::Email => "mk",
        Service::Extraction => "sk",
    };
    Ok(format!("{service}_{}_{}", mode.as_str(), random_hex::<24>()?))
}

/// So many random bytes in hex.
pub(crate) fn random_hex<const N: usize>() -> Result<String, ApiError> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| ApiError::internal("the system gives no random numbers"))?;
    Ok(hex::encode(bytes))
}

pub(crate) fn service_from(text: &str) -> Service {
    if text == "extraction" { Service::Extraction } else { Service::Email }
}

/// The start of a key, enough to tell it from others and no more.
fn hint(secret: &str) -> String {
    let shown: String = secret.chars().take(11).collect();
    format!("{shown}…")
}

fn hash(secret: &[u8]) -> Hash {
    Sha256::digest(secret).into()
}
