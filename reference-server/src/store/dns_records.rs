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

/// The name of the domain that has this ID, if it has published records.
pub(crate) fn domain_of(reader: Reader<'_>, id: &str) -> Result<Option<String>, ApiError> {
    let sql = "SELECT domain FROM dns_record WHERE owner = ?1 LIMIT 1";
    Ok(reader.find(sql, [id], |row| row.get(0))?)
}

/// The records of the domains with this name, of all organizations.
pub(crate) fn of_domain(reader: Reader<'_>, domain: &str) -> Result<Vec<Record>, ApiError> {
    let sql = "SELECT data FROM dns_record WHERE domain = ?1";
    reader.all(sql, [domain], |row| json(row, 0))
}

/// All records, each with the name of its domain.
pub(crate) fn all(reader: Reader<'_>) -> Result<Vec<(String, Record)>, ApiError> {
    reader.all("SELECT domain, data FROM dns_record", [], |row| {
        Ok((row.get(0)?, json(row, 1)?))
    })
}
