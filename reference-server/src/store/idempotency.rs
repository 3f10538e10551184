//! The table `idempotency`: the first response to each `Idempotency-Key`.

use svc_sdk::Service;

use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::store::Tx;

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
pub(crate) struct Stored {
    pub(crate) fingerprint: [u8; 32],
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn find(tx: &Tx<'_>, request: &Request) -> Result<Option<Stored>, ApiError> {
    Ok(tx.find(
        "SELECT fingerprint, status, body FROM idempotency
         WHERE organization = ?1 AND service = ?2 AND key = ?3 AND expires_at > ?4",
        (request.organization, request.service.as_str(), &request.key, tx.now),
        |row| Ok(Stored { fingerprint: row.get(0)?, status: row.get(1)?, body: row.get(2)? }),
    )?)
}

/// Stores the response, and deletes some expired ones.
pub(crate) fn put(
    tx: &Tx<'_>,
    request: &Request,
    status: u16,
    body: &[u8],
) -> Result<(), ApiError> {
    let sql = "SELECT organization, service, key FROM idempotency WHERE expires_at <= ?1 LIMIT 8";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let expired = tx.statement(sql)?.query_map([tx.now], read)?.collect::<Result<Vec<_>, _>>()?;
    for row in expired {
        let row: (i64, String, String) = row;
        let sql = "DELETE FROM idempotency WHERE organization = ?1 AND service = ?2 AND key = ?3";
        tx.execute(sql, row)?;
    }
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

/// Deletes the response to a key of an organization. Returns its size in bytes, or `None` if there
/// is none.
pub(super) fn delete_next(tx: &mut Tx<'_>, organization: i64) -> Result<Option<i64>, ApiError> {
    let sql = "SELECT service, key FROM idempotency WHERE organization = ?1 LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found: Option<(String, String)> = tx.find(sql, [organization], read)?;
    let Some((service, key)) = found else { return Ok(None) };
    let sql = "DELETE FROM idempotency WHERE organization = ?1 AND service = ?2 AND key = ?3
               RETURNING octet_length(body)";
    Ok(tx.find(sql, (organization, service, key), |row| row.get(0))?)
}
