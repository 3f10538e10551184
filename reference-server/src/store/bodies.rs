//! The table `body`: bytes that several rows refer to, stored once. A message to many
//! recipients, announced to many webhooks, takes the space of one.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::large::{self, Staged};
use super::{Reader, Store, Tx};
use crate::model::error::ApiError;

/// Bytes to store. Creating one costs a hash of them, so do it outside of transactions.
pub(crate) struct NewBody {
    digest: [u8; 32],
    /// Empty if they are staged.
    bytes: Bytes,
    is_staged: bool,
    /// Taken by the transaction that stores a reference to them.
    staged: Mutex<Option<Staged>>,
}

impl NewBody {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let digest = Sha256::digest(&bytes).into();
        Self { digest, bytes: bytes.into(), is_staged: false, staged: Mutex::default() }
    }

    /// Stores the bytes in pieces if they are large, and not stored already.
    pub(crate) async fn stage(&mut self, store: &Store) -> Result<(), ApiError> {
        let digest = self.digest;
        if !large::is_large(self.bytes.len())
            || store.read(move |reader| find_id(reader, &digest)).await?.is_some()
        {
            return Ok(());
        }
        let mut staged = store.stage(vec![std::mem::take(&mut self.bytes)]).await?;
        (self.is_staged, self.staged) = (true, Mutex::new(staged.pop()));
        Ok(())
    }
}

/// Stores the bytes, unless they are stored already. Returns their id. The same transaction
/// must store a reference to it.
pub(crate) fn put(tx: &mut Tx<'_>, new: &NewBody) -> Result<i64, ApiError> {
    if let Some(id) = find_id(tx.reader(), &new.digest)? {
        return Ok(id);
    }
    let staged = new.staged.lock().unwrap_or_else(PoisonError::into_inner).take();
    if new.is_staged && staged.is_none() {
        return Err(ApiError::internal("staged bytes are stored by one transaction only"));
    }
    let large = staged.map(|staged| staged.keep(tx)).transpose()?;
    let sql = "INSERT INTO body (digest, bytes, large) VALUES (?1, ?2, ?3)";
    tx.execute(sql, (&new.digest, &new.bytes[..], large))?;
    Ok(tx.last_row())
}

fn find_id(reader: Reader<'_>, digest: &[u8; 32]) -> Result<Option<i64>, ApiError> {
    Ok(reader.find("SELECT id FROM body WHERE digest = ?1", [digest], |row| row.get(0))?)
}

pub(crate) fn find(reader: Reader<'_>, id: i64) -> Result<Option<Vec<u8>>, ApiError> {
    let sql = "SELECT bytes, large FROM body WHERE id = ?1";
    let found: Option<(Vec<u8>, Option<i64>)> =
        reader.find(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    match found {
        Some((_, Some(large))) => large::read(reader, large).map(Some),
        found => Ok(found.map(|(bytes, _)| bytes)),
    }
}

/// The number of bytes, without reading them.
pub(crate) fn size(reader: Reader<'_>, id: i64) -> Result<usize, ApiError> {
    let sql = "SELECT octet_length(bytes), large FROM body WHERE id = ?1";
    let found: Option<(i64, Option<i64>)> =
        reader.find(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    match found {
        Some((_, Some(large))) => large::size(reader, large),
        found => Ok(found.and_then(|(size, _)| usize::try_from(size).ok()).unwrap_or(0)),
    }
}

/// Deletes these bytes if nothing refers to them any more. Returns how many bytes were deleted.
pub(crate) fn delete_if_unused(tx: &mut Tx<'_>, id: i64) -> Result<i64, ApiError> {
    let sql = format!(
        "DELETE FROM body AS b WHERE id = ?1 AND {UNUSED} RETURNING octet_length(bytes), large"
    );
    let deleted: Option<(i64, Option<i64>)> =
        tx.find(&sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (size, large) = deleted.unwrap_or_default();
    if let Some(large) = large {
        large::remove(tx, large)?;
    }
    Ok(size)
}

const UNUSED: &str = "NOT EXISTS (SELECT 1 FROM message_source WHERE body = b.id)
     AND NOT EXISTS (SELECT 1 FROM delivery_body WHERE shared = b.id)
     AND NOT EXISTS (SELECT 1 FROM pending_event WHERE shared = b.id)";
