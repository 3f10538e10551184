//! The table `fault`: a fault affects the next matching requests
//! (`docs/control-interface.md#faults`).

use rusqlite::Row;
use serde::de::DeserializeOwned;
use svc_sdk::Operation;

use crate::control::faults::{Fault, FaultHit, NewFault, operation as named};
use crate::model::error::{ApiError, Code};
use crate::model::id::{self, Prefix};
use crate::store::{Reader, Tx};

/// Maximum number of faults of an organization, and of the bytes of their definitions together: a
/// list has all of them (`reference-server/LIMITS.md`).
const MAX_FAULTS: usize = 200;
const MAX_DEFINITIONS: usize = 16 << 20;

/// Maximum number of hits saved for one fault. Further hits are not saved.
const MAX_HITS: usize = 1000;

/// Stores a fault.
pub(crate) fn add(tx: &Tx<'_>, organization: i64, new: NewFault) -> Result<Fault, ApiError> {
    let definition = serde_json::to_string(&new).map_err(ApiError::internal)?;
    let sql = "SELECT COUNT(*), COALESCE(SUM(octet_length(definition)), 0) FROM fault
               WHERE organization = ?1";
    let present: Option<(usize, usize)> = tx.find(sql, [organization], |row| {
        Ok((row.get::<_, i64>(0)? as usize, row.get::<_, i64>(1)? as usize))
    })?;
    let (count, size) = present.unwrap_or_default();
    if count >= MAX_FAULTS || size + definition.len() > MAX_DEFINITIONS {
        let message = format!(
            "an organization can have at most {MAX_FAULTS} faults with {} MiB; remove some",
            MAX_DEFINITIONS >> 20
        );
        return Err(
            ApiError::new(Code::Conflict, message).with(|details| details.limit = Some(MAX_FAULTS))
        );
    }
    let (skip, remaining) = (new.skip.unwrap_or(0), new.times.unwrap_or(1));
    let fault = Fault { id: id::new(Prefix::Fault), definition: new, remaining, hits: Vec::new() };
    tx.execute(
        "INSERT INTO fault (id, organization, definition, skip, times, hits)
         VALUES (?1, ?2, ?3, ?4, ?5, '[]')",
        (&fault.id, organization, definition, skip, remaining),
    )?;
    Ok(fault)
}

/// Applies the faults to a request: the oldest matching one that is not used up takes effect.
/// Returns its ID and what it does.
pub(crate) fn trigger(
    tx: &Tx<'_>,
    organization: i64,
    operation: Operation,
) -> Result<Option<(String, NewFault)>, ApiError> {
    let sql = "SELECT id, definition, skip FROM fault WHERE organization = ?1 AND times > 0
               ORDER BY id";
    let faults: Vec<(String, NewFault, u32)> = tx
        .reader()
        .all(sql, [organization], |row| Ok((row.get(0)?, json(row, 1)?, row.get(2)?)))?;
    for (id, fault, skip) in faults {
        let wanted = fault.operation.as_deref().and_then(named);
        if wanted.is_some_and(|wanted| wanted != operation) {
            continue;
        }
        if skip > 0 {
            tx.execute("UPDATE fault SET skip = skip - 1 WHERE id = ?1", [&id])?;
            continue;
        }
        let hit = FaultHit { at: tx.now.into(), operation: operation.to_string() };
        tx.execute(
            "UPDATE fault SET times = times - 1, hits = CASE
                 WHEN json_array_length(hits) < ?3
                 THEN json_insert(hits, '$[#]', json(?2)) ELSE hits END
             WHERE id = ?1",
            (&id, serde_json::to_string(&hit).map_err(ApiError::internal)?, MAX_HITS as i64),
        )?;
        return Ok(Some((id, fault)));
    }
    Ok(None)
}

/// The faults of an organization, oldest first.
pub(crate) fn list(reader: Reader<'_>, organization: i64) -> Result<Vec<Fault>, ApiError> {
    let sql = "SELECT id, definition, times, hits FROM fault WHERE organization = ?1 ORDER BY id";
    reader.all(sql, [organization], |row| {
        let (definition, remaining, hits) = (json(row, 1)?, row.get(2)?, json(row, 3)?);
        Ok(Fault { id: row.get(0)?, definition, remaining, hits })
    })
}

/// Whether any organization has a fault that is not used up.
pub(crate) fn exist(reader: Reader<'_>) -> Result<bool, ApiError> {
    Ok(reader.find("SELECT 1 FROM fault WHERE times > 0 LIMIT 1", [], |_| Ok(()))?.is_some())
}

/// Removes one fault of an organization.
pub(crate) fn remove(tx: &Tx<'_>, organization: i64, id: &str) -> Result<(), ApiError> {
    tx.change("fault", "DELETE FROM fault WHERE organization = ?1 AND id = ?2", (organization, id))
}

/// Removes all faults of an organization.
pub(crate) fn clear(tx: &Tx<'_>, organization: i64) -> Result<(), ApiError> {
    tx.execute("DELETE FROM fault WHERE organization = ?1", [organization])?;
    Ok(())
}

fn json<T: Default + DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    Ok(serde_json::from_str(row.get_ref(column)?.as_str()?).unwrap_or_default())
}
