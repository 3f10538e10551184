//! The table `dns_record`: the records published in the built-in zone.

use super::domains::Domain;
use crate::model::dns::{Record, RecordKind};
use crate::model::error::ApiError;
use crate::store::{Reader, Tx};

/// Stores a record of the domain, in place of an earlier one of this kind.
pub(crate) fn put(tx: &Tx<'_>, domain: &Domain, record: &Record) -> Result<(), ApiError> {
    tx.execute(
        "INSERT OR REPLACE INTO dns_record VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        (
            &domain.id,
            record.kind.as_str(),
            domain.organization,
            &domain.name,
            &record.name,
            &record.value,
            record.priority,
        ),
    )?;
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
    let sql = "SELECT kind, name, value, priority FROM dns_record";
    let records = reader.all(sql, [], |row| {
        let kind = row.get_ref(0)?.as_str()?.parse().ok();
        let record = |kind| Ok(Record::new(kind, row.get(1)?, row.get(2)?, row.get(3)?));
        kind.map(record).transpose()
    });
    Ok(records?.into_iter().flatten().collect())
}
