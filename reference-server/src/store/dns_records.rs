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
    tx.execute(sql, (id, record.kind.as_str(), organization, name, Json(record)))?;
    Ok(())
}

/// Deletes the owner's records of this kind, or all of its records.
pub(crate) fn delete(tx: &Tx<'_>, owner: &str, kind: Option<RecordKind>) -> Result<(), ApiError> {
    tx.execute(
        "DELETE FROM dns_record WHERE owner = ?1 AND (?2 IS NULL OR kind = ?2)",
        (owner, kind.map(RecordKind::as_str)),
    )?;
    Ok(())
}

/// The domains of an organization that published records and have this name or ID, by their ID. A
/// domain may have been deleted since.
pub(crate) fn owners(
    tx: &Tx<'_>,
    organization: i64,
    domain: &str,
) -> Result<Vec<String>, ApiError> {
    let sql = "SELECT DISTINCT owner FROM dns_record
               WHERE organization = ?1 AND (domain = ?2 OR owner = ?2)";
    tx.reader().all(sql, (organization, domain), |row| row.get(0))
}

/// All records.
pub(crate) fn all(reader: Reader<'_>) -> Result<Vec<Record>, ApiError> {
    reader.all("SELECT data FROM dns_record", [], |row| json(row, 0))
}
