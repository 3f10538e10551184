//! The table `api_key`: creates, finds and deletes keys. Only the hash of a secret is stored; the
//! secret itself is in the response that creates the key, and nowhere else. Requests find a key in
//! memory, in `Wake::keys`. Every change of the table changes that map after its commit, so that no
//! request sees a key that is not stored. The checks of a key and its scopes are in `http/auth.rs`.

use std::sync::Arc;

use ring::rand::{SecureRandom as _, SystemRandom};
use rusqlite::Row as Columns;
use sha2::{Digest as _, Sha256};
use svc_sdk::{Scope, Service};

use crate::keys::key_wire as control;
use crate::keys::key_wire::KeyMode;
use crate::model::error::Failure;
use crate::model::id;
use crate::model::key::Key;
use crate::store::rows::{Json, Row, json};
use crate::store::{AllKeys, Hash, Reader, Store, Tx, lock};

impl Row for control::Key {
    const TABLE: &'static str = "api_key";
}

impl Store {
    /// Finds the key with this secret. The lookup uses the hash, so its duration
    /// reveals nothing about the secrets.
    pub(crate) fn key(&self, secret: &[u8]) -> Option<Arc<Key>> {
        lock(&self.wake.keys).get(&hash(secret)).cloned()
    }
}

/// Reads all keys, which are valid once the transaction commits.
pub(crate) fn load(tx: &mut Tx<'_>) -> Result<(), Failure> {
    let all = tx
        .reader()
        .all("SELECT organization, data, hash FROM api_key", [], |row| {
            Ok((row.get(2)?, Arc::new(read(row)?)))
        })?;
    change(tx, move |keys| *keys = all.into_iter().collect());
    Ok(())
}

/// Changes the keys that requests find, after the commit.
fn change(tx: &mut Tx<'_>, change: impl FnOnce(&mut AllKeys) + Send + 'static) {
    let keys = Arc::clone(&tx.wake.keys);
    tx.after_commit(move || change(&mut lock(&keys)));
}

/// Stores a new key. It becomes valid when the transaction commits.
pub(crate) fn create(
    tx: &mut Tx<'_>,
    secret: &str,
    organization: i64,
    service: Service,
    scopes: Vec<Scope>,
    mode: KeyMode,
) -> Result<control::Key, Failure> {
    let hash = hash(secret.as_bytes());
    let mut names: Vec<String> = scopes.iter().map(Scope::to_string).collect();
    let (names, name) = match service {
        Service::Email => (Some(names), None),
        _ => (None, names.pop()),
    };
    let key = control::Key {
        id: id::new(id::KEY),
        service: service.to_string(),
        mode: mode.to_string(),
        scopes: names,
        scope: name,
        key: None,
        hint: Some(hint(secret)),
        sha256: Some(hex::encode(hash)),
        created_at: tx.now.into(),
    };
    let sql = "INSERT INTO api_key (id, organization, hash, data) VALUES (?1, ?2, ?3, ?4)";
    tx.execute(sql, (&key.id, organization, hash, Json(&key)))?;
    let added = Arc::new(Key {
        id: key.id.clone(),
        organization,
        service,
        scopes,
    });
    change(tx, move |keys| drop(keys.insert(hash, added)));
    Ok(control::Key {
        key: Some(secret.to_owned()),
        hint: None,
        sha256: None,
        ..key
    })
}

/// Finds the key with this secret, whose organization it names.
pub(crate) fn find(reader: Reader<'_>, secret: &str) -> Result<Option<Key>, Failure> {
    let sql = "SELECT organization, data FROM api_key WHERE hash = ?1";
    Ok(reader.find(sql, [hash(secret.as_bytes())], read)?)
}

/// Reads the columns `organization` and `data`.
fn read(row: &Columns<'_>) -> rusqlite::Result<Key> {
    let control::Key {
        id,
        service,
        scopes,
        scope,
        ..
    } = json(row, 1)?;
    let names = scopes.into_iter().flatten().chain(scope);
    Ok(Key {
        id,
        organization: row.get(0)?,
        service: service_from(&service),
        scopes: names.filter_map(|name| name.parse().ok()).collect(),
    })
}

/// Deletes a key of an organization. It stays valid until the transaction commits.
pub(crate) fn delete(tx: &mut Tx<'_>, id: &str, organization: i64) -> Result<(), Failure> {
    let sql = "DELETE FROM api_key WHERE id = ?1 AND organization = ?2 RETURNING hash";
    let hash: Option<Hash> = tx
        .reader()
        .find(sql, (id, organization), |row| row.get(0))?;
    let hash = hash.ok_or_else(|| Failure::not_found("key"))?;
    change(tx, move |keys| drop(keys.remove(&hash)));
    Ok(())
}

/// Generates a secret with the documented prefix of the service and mode.
pub(crate) fn new_secret(service: Service, mode: KeyMode) -> Result<String, Failure> {
    let service = match service {
        Service::Email => "mk",
        _ => "sk",
    };
    Ok(format!("{service}_{mode}_{}", random_hex::<24>()?))
}

/// Returns `N` random bytes in hex.
pub(crate) fn random_hex<const N: usize>() -> Result<String, Failure> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Failure::internal("the system random number generator failed"))?;
    Ok(hex::encode(bytes))
}

pub(crate) fn service_from(text: &str) -> Service {
    if text == "extraction" {
        Service::Extraction
    } else {
        Service::Email
    }
}

/// The start of a key: enough to recognize it, too little to use it. Of a short key, which a seed file may
/// have, it is at most a half.
fn hint(secret: &str) -> String {
    let most = (secret.chars().count() / 2).min(11);
    let shown: String = secret.chars().take(most).collect();
    format!("{shown}…")
}

fn hash(secret: &[u8]) -> Hash {
    Sha256::digest(secret).into()
}
