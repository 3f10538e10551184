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

/// The domains of an organization that published records, by their id: those with this
/// name or id, or all of them. A domain may have been deleted since.
pub(crate) fn owners(
    tx: &Tx<'_>,
    organization: i64,
    domain: Option<&str>,
) -> Result<Vec<String>, ApiError> {
    let mut statement = tx.reader().statement(
        "SELECT DISTINCT owner FROM dns_record
         WHERE organization = ?1 AND (?2 IS NULL OR domain = ?2 OR owner = ?2)",
    )?;
    let rows = statement.query_map((organization, domain), |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// All records, each with its owner.
pub(crate) fn all(reader: Reader<'_>) -> Result<Vec<(String, Record)>, ApiError> {
    let mut statement =
        reader.statement("SELECT owner, kind, name, value, priority FROM dns_record")?;
    let rows = statement.query_map([], |row| {
        let kind: String = row.get(1)?;
        let record = |kind| -> rusqlite::Result<Record> {
            Ok(Record::new(kind, row.get(2)?, row.get(3)?, row.get(4)?))
        };
        Ok((row.get::<_, String>(0)?, kind.parse().ok().map(record).transpose()?))
    })?;
    let mut records = Vec::new();
    for row in rows {
        if let (owner, Some(record)) = row? {
            records.push((owner, record));
        }
    }
    Ok(records)
}
