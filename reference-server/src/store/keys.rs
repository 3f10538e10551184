//! API keys: creation, storage as hashes, and lookup on every request.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};
use svc_sdk::{Scope, Service};

use crate::control::keys::{self as control, KeyMode};
use crate::model::error::ApiError;
use crate::model::id::{self, Prefix};
use crate::model::timestamp::Timestamp;
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

/// Stores a new key. It becomes valid when the transaction commits.
pub(crate) fn create(
    tx: &mut Tx<'_>,
    secret: &str,
    organization: i64,
    service: Service,
    scopes: Vec<Scope>,
    mode: KeyMode,
) -> Result<control::Key, ApiError> {
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
            mode.to_string(),
            hint(secret),
            hash(secret.as_bytes()),
            tx.now,
        ),
    )?;
    tx.keys_changed();
    Ok(control::Key {
        key: Some(secret.to_owned()),
        ..shown(key.id, service, &key.scopes, mode.to_string(), tx.now.into())
    })
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

/// Deletes a key of an organization. It stays valid until the transaction commits.
pub(crate) fn delete(tx: &mut Tx<'_>, id: &str, organization: i64) -> Result<(), ApiError> {
    let sql = "DELETE FROM api_key WHERE id = ?1 AND organization = ?2";
    tx.keys_changed();
    tx.change("key", sql, (id, organization))
}

/// Deletes all keys of an organization.
pub(crate) fn delete_all(tx: &mut Tx<'_>, organization: i64) -> Result<(), ApiError> {
    tx.execute("DELETE FROM api_key WHERE organization = ?1", [organization])?;
    tx.keys_changed();
    Ok(())
}

/// Lists the keys of an organization, oldest first.
pub(crate) fn list(reader: Reader<'_>, organization: i64) -> Result<Vec<control::Key>, ApiError> {
    let sql = "SELECT id, service, scopes, mode, hint, created_at, hash FROM api_key
               WHERE organization = ?1 ORDER BY id";
    reader.all(sql, [organization], |row| {
        let service = service_from(row.get_ref(1)?.as_str()?);
        let scopes = scopes_from(row.get_ref(2)?.as_str()?);
        let hint = Some(row.get(4)?);
        let sha256 = Some(hex::encode(row.get::<_, Hash>(6)?));
        let key = shown(row.get(0)?, service, &scopes, row.get(3)?, row.get(5)?);
        Ok(control::Key { hint, sha256, ..key })
    })
}

/// A key as the control interface shows it.
fn shown(
    id: String,
    service: Service,
    scopes: &[Scope],
    mode: String,
    created_at: Timestamp,
) -> control::Key {
    let mut names: Vec<String> = scopes.iter().map(ToString::to_string).collect();
    let (scopes, scope) = match service {
        Service::Email => (Some(names), None),
        _ => (None, names.pop()),
    };
    let service = service.as_str().to_owned();
    let (key, hint, sha256) = Default::default();
    control::Key { id, service, mode, scopes, scope, key, hint, sha256, created_at }
}

fn scopes_from(text: &str) -> Vec<Scope> {
    text.split(' ').filter_map(|scope| scope.parse().ok()).collect()
}

/// Generates a secret with the documented prefix of the service and mode.
pub(crate) fn new_secret(service: Service, mode: KeyMode) -> Result<String, ApiError> {
    let service = match service {
        Service::Email => "mk",
        _ => "sk",
    };
    Ok(format!("{service}_{mode}_{}", random_hex::<24>()?))
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
