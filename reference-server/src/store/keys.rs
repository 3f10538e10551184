//! API keys: creation, storage as hashes, and lookup on every request.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use svc_sdk::{Scope, Service};

use crate::model::error::ApiError;
use crate::model::id::{self, Prefix};
use crate::model::time::Millis;
use crate::store::{Reader, Store, Tx, lock};

/// The keys of the email service and of the extraction service that a new server on loopback
/// has. They are public knowledge.
pub(crate) const SEEDED: [&str; 2] = ["mk_test_sandbox", "sk_test_sandbox"];

/// An API key without its secret.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) organization: i64,
    pub(crate) service: Service,
    pub(crate) scopes: Vec<Scope>,
}

/// Whether a key is a live or a test key
/// (`docs/undocumented/both-services.md#live-and-test-keys`).
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

/// The keys that requests have used, by the hash of their secret, until a key of the server changes.
#[derive(Default)]
pub(crate) struct Keys(Mutex<Used>);

#[derive(Default)]
struct Used {
    keys: HashMap<Hash, Arc<Key>>,
    /// The number of changes before the keys were read.
    changes: u64,
}

impl Keys {
    /// Finds the key with this secret. The lookup uses the hash, so its duration
    /// reveals nothing about the secrets.
    pub(crate) async fn find(
        &self,
        store: &Store,
        secret: &[u8],
    ) -> Result<Option<Arc<Key>>, ApiError> {
        let hash = hash(secret);
        let changes = store.wake.key_changes.load(Ordering::SeqCst);
        let known = {
            let mut used = lock(&self.0);
            if used.changes != changes {
                *used = Used { keys: HashMap::new(), changes };
            }
            used.keys.get(&hash).cloned()
        };
        if known.is_some() {
            return Ok(known);
        }
        let found = store.read(move |reader| find_hash(reader, hash)).await?.map(Arc::new);
        if let Some(key) = &found {
            let mut used = lock(&self.0);
            // What was read before a change may have changed.
            if used.changes == changes && store.wake.key_changes.load(Ordering::SeqCst) == changes {
                used.keys.insert(hash, Arc::clone(key));
            }
        }
        Ok(found)
    }
}

/// Maximum number of keys of an organization: all of them are in memory, and a list has all of
/// them (`docs/undocumented/both-services.md#bounds`).
const MAX_KEYS: usize = 1_000;

/// Stores a new key. It becomes valid when the transaction commits.
pub(crate) fn create(
    tx: &mut Tx<'_>,
    secret: &str,
    organization: i64,
    service: Service,
    scopes: Vec<Scope>,
    mode: Mode,
) -> Result<Key, ApiError> {
    tx.limit("api_key", organization, MAX_KEYS)?;
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
            hint(secret),
            hash(secret.as_bytes()),
            tx.now,
        ),
    )?;
    tx.keys_changed();
    Ok(key)
}

/// Finds the key with this secret, whose organization it names.
pub(crate) fn find(reader: Reader<'_>, secret: &str) -> Result<Option<Key>, ApiError> {
    find_hash(reader, hash(secret.as_bytes()))
}

fn find_hash(reader: Reader<'_>, hash: Hash) -> Result<Option<Key>, ApiError> {
    let sql = "SELECT id, organization, service, scopes FROM api_key WHERE hash = ?1";
    Ok(reader.find(sql, [hash], |row| {
        Ok(Key {
            id: row.get(0)?,
            organization: row.get(1)?,
            service: service_from(&row.get::<_, String>(2)?),
            scopes: scopes_from(&row.get::<_, String>(3)?),
        })
    })?)
}

/// Deletes a key of an organization. Returns `false` if there is none. It stays valid until
/// the transaction commits.
pub(crate) fn delete(tx: &mut Tx<'_>, id: &str, organization: i64) -> Result<bool, ApiError> {
    let sql = "DELETE FROM api_key WHERE id = ?1 AND organization = ?2";
    tx.keys_changed();
    Ok(tx.execute(sql, (id, organization))? > 0)
}

/// Deletes all keys of an organization.
pub(crate) fn delete_all(tx: &mut Tx<'_>, organization: i64) -> Result<(), ApiError> {
    tx.execute("DELETE FROM api_key WHERE organization = ?1", [organization])?;
    tx.keys_changed();
    Ok(())
}

/// A key as a list shows it.
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) service: Service,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) mode: String,
    pub(crate) hint: String,
    pub(crate) created_at: Millis,
}

/// Lists the keys of an organization, oldest first.
pub(crate) fn list(reader: Reader<'_>, organization: i64) -> Result<Vec<Listed>, ApiError> {
    let sql = "SELECT id, service, scopes, mode, hint, created_at FROM api_key
               WHERE organization = ?1 ORDER BY id";
    reader.all(sql, [organization], |row| {
        Ok(Listed {
            id: row.get(0)?,
            service: service_from(&row.get::<_, String>(1)?),
            scopes: scopes_from(&row.get::<_, String>(2)?),
            mode: row.get(3)?,
            hint: row.get(4)?,
            created_at: row.get(5)?,
        })
    })
}

fn scopes_from(text: &str) -> Vec<Scope> {
    text.split(' ').filter_map(|scope| scope.parse().ok()).collect()
}

/// Generates a secret with the documented prefix of the service and mode.
pub(crate) fn new_secret(service: Service, mode: Mode) -> Result<String, ApiError> {
    let service = match service {
        Service::Email => "mk",
        _ => "sk",
    };
    Ok(format!("{service}_{}_{}", mode.as_str(), random_hex::<24>()?))
}

/// Returns `N` random bytes in hex.
pub(crate) fn random_hex<const N: usize>() -> Result<String, ApiError> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| ApiError::internal("the system random number generator failed"))?;
    Ok(hex::encode(bytes))
}

pub(crate) fn service_from(text: &str) -> Service {
    if text == "extraction" { Service::Extraction } else { Service::Email }
}

/// The start of a key: enough to recognize it, too little to use it.
fn hint(secret: &str) -> String {
    let shown: String = secret.chars().take(11).collect();
    format!("{shown}…")
}

fn hash(secret: &[u8]) -> Hash {
    Sha256::digest(secret).into()
}
