//! The table `body`: bytes that several rows refer to, stored once. A message to many
//! recipients, announced to many webhooks, takes the space of one.

use sha2::{Digest as _, Sha256};

use super::Tx;
use crate::model::Result;

/// Bytes to store. Creating one costs a hash of them, so do it outside of transactions.
pub(crate) struct NewBody {
    digest: [u8; 32],
    bytes: Vec<u8>,
}

impl NewBody {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self {
            digest: Sha256::digest(&bytes).into(),
            bytes,
        }
    }
}

/// Stores the bytes, unless they are stored already. Returns their id. The same transaction
/// must store a reference to it.
pub(crate) fn put(tx: &Tx<'_>, new: &NewBody) -> Result<i64> {
    let sql = "SELECT id FROM body WHERE digest = ?1";
    if let Some(id) = tx.reader().find(sql, [new.digest], |row| row.get(0))? {
        return Ok(id);
    }

    tx.execute(
        "INSERT INTO body (digest, bytes) VALUES (?1, ?2)",
        (new.digest, &new.bytes),
    )?;
    Ok(tx.last_row())
}
