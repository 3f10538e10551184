//! The table `dns_record`: the records published in the built-in zone.

use super::domains::Domain;
use super::rows::{Json, json};
use crate::model::dns::{Record, RecordKind};
use crate::model::error::ApiError;
use crate::store::{Reader, Tx};

/// Stores a record of the domain, in place of an earlier one of this kind.
pub(crate) fn put(
    tx: &Tx<'_>,
    organization: i64,
    domain: &Domain,
    record: &Record,
) -> Result<(), ApiError> {
    let Domain { id, name, .. } = domain;
    let sql = "INSERT OR REPLACE INTO dns_record (owner, kind, organization, domain, data)
               VALUES (?1, ?2, ?3, ?4, ?5)";
    tx.execute(
        sql,
        (id, record.kind.as_str(), organization, name, Json(record)),
    )?;
    Ok(())
}

/// Deletes the records of this kind, or all, of the domains with this name or ID. Returns whether there
/// were any.
pub(crate) fn delete(
    tx: &Tx<'_>,
    organization: i64,
    domain: &str,
    kind: Option<RecordKind>,
) -> Result<bool, ApiError> {
    let sql = "DELETE FROM dns_record WHERE organization = ?1 AND (domain = ?2 OR owner = ?2)
               AND (?3 IS NULL OR kind = ?3)";
    Ok(tx.execute(sql, (organization, domain, kind.map(RecordKind::as_str)))? > 0)
}

/// All records.
pub(crate) fn all(reader: Reader<'_>) -> Result<Vec<Record>, ApiError> {
    reader.all("SELECT data FROM dns_record", [], |row| json(row, 0))
}
