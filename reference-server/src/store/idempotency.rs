//! The table `idempotency`: the first response to each `Idempotency-Key`.

use svc_sdk::Service;

use crate::model::{Millis, Result};
use crate::store::{Reader, Tx};

/// How long a response is stored, in milliseconds.
const LIFETIME: Millis = 24 * 3_600_000;

/// A key of a request, and a hash of what the request asks for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) organization: i64,
    pub(crate) service: Service,
    pub(crate) key: String,
    /// Hash of the operation, path and body.
    pub(crate) fingerprint: [u8; 32],
}

/// The response to the first request with a key.
pub(crate) struct StoredResponse {
    pub(crate) fingerprint: [u8; 32],
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn find(
    reader: Reader<'_>,
    request: &Request,
    now: Millis,
) -> Result<Option<StoredResponse>> {
    Ok(reader.find(
        "SELECT fingerprint, status, body FROM idempotency
         WHERE organization = ?1 AND service = ?2 AND key = ?3 AND expires_at > ?4",
        (
            request.organization,
            request.service.as_str(),
            &request.key,
            now,
        ),
        |row| {
            Ok(StoredResponse {
                fingerprint: row.get(0)?,
                status: row.get(1)?,
                body: row.get(2)?,
            })
        },
    )?)
}

/// Stores the response, and deletes some expired ones.
pub(crate) fn put(tx: &Tx<'_>, request: &Request, status: u16, body: &[u8]) -> Result<()> {
    // The oldest rows are the first to expire.
    tx.execute(
        "DELETE FROM idempotency WHERE expires_at <= ?1
         AND rowid IN (SELECT rowid FROM idempotency ORDER BY rowid LIMIT 8)",
        [tx.now],
    )?;
    tx.execute(
        "INSERT OR REPLACE INTO idempotency VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (
            request.organization,
            request.service.as_str(),
            &request.key,
            request.fingerprint,
            status,
            body,
            tx.now + LIFETIME,
        ),
    )?;
    Ok(())
}
