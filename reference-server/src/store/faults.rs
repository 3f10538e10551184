//! The table `fault`: a fault affects the next matching requests
//! (`docs/control-interface.md#faults`).

use rusqlite::Row as Columns;
use svc_sdk::Operation;

use super::rows::{Row, json};
use crate::control::faults::{Fault, FaultHit, NewFault, operation as named};
use crate::model::error::{ApiError, Code};
use crate::model::id;
use crate::store::{Reader, Tx};

/// Maximum number of faults of an organization, and of the bytes of their definitions together: a
/// list has all of them (`reference-server/LIMITS.md`).
const MAX_FAULTS: i64 = 200;
const MAX_DEFINITIONS: i64 = 16 << 20;

/// Maximum number of hits saved for one fault. Further hits are not saved.
const MAX_HITS: usize = 1000;

impl Row for Fault {
    const TABLE: &'static str = "fault";
}

/// Stores a fault.
pub(crate) fn add(tx: &Tx<'_>, organization: i64, new: NewFault) -> Result<Fault, ApiError> {
    let fault = Fault {
        id: id::new(id::FAULT),
        remaining: new.times.unwrap_or(1),
        definition: new,
        hits: Vec::new(),
    };
    tx.insert(organization, &fault)?;
    let sql = "SELECT COUNT(*), SUM(octet_length(data) - coalesce(octet_length(data -> 'hits'), 0))
               FROM fault WHERE organization = ?1";
    let present: Option<(i64, i64)> = tx
        .reader()
        .find(sql, [organization], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if present.is_some_and(|(count, size)| count > MAX_FAULTS || size > MAX_DEFINITIONS) {
        let message = format!(
            "an organization can have at most {MAX_FAULTS} faults with {} MiB; remove some",
            MAX_DEFINITIONS >> 20
        );
        return Err(ApiError::new(Code::Conflict, message)
            .with(|details| details.limit = Some(MAX_FAULTS as usize)));
    }
    Ok(fault)
}

/// Applies the faults to a request: the oldest matching one that is not used up takes effect.
/// Returns its ID and what it does.
pub(crate) fn trigger(
    tx: &Tx<'_>,
    organization: i64,
    operation: Operation,
) -> Result<Option<(String, NewFault)>, ApiError> {
    let sql = "SELECT data, skip FROM fault WHERE organization = ?1 AND times > 0 ORDER BY id";
    let read = |row: &Columns<'_>| Ok((json(row, 0)?, row.get(1)?));
    let faults: Vec<(Fault, i64)> = tx.reader().all(sql, [organization], read)?;
    for (mut fault, skip) in faults {
        let wanted = fault.definition.operation.as_deref().and_then(named);
        if wanted.is_some_and(|wanted| wanted != operation) {
            continue;
        }
        if skip > 0 {
            tx.execute(
                "UPDATE fault SET skipped = skipped + 1 WHERE id = ?1",
                [&fault.id],
            )?;
            continue;
        }
        fault.remaining -= 1;
        if fault.hits.len() < MAX_HITS {
            fault.hits.push(FaultHit {
                at: tx.now.into(),
                operation: operation.to_string(),
            });
        }
        tx.update(organization, &mut fault)?;
        return Ok(Some((fault.id, fault.definition)));
    }
    Ok(None)
}

/// Whether any organization has a fault that is not used up.
pub(crate) fn exist(reader: Reader<'_>) -> Result<bool, ApiError> {
    Ok(reader
        .find(
            "SELECT 1 FROM fault WHERE times > 0 LIMIT 1",
            [],
            |_| Ok(()),
        )?
        .is_some())
}

/// Removes all faults of an organization.
pub(crate) fn clear(tx: &Tx<'_>, organization: i64) -> Result<(), ApiError> {
    tx.execute("DELETE FROM fault WHERE organization = ?1", [organization])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Store, organizations};

    #[tokio::test]
    async fn hits_do_not_count_for_the_limit() {
        let (store, _) = Store::open(None, None).unwrap();
        let written = store.write(|tx| {
            let organization = organizations::insert(tx, None, 0)?.number;
            add(tx, organization, NewFault::default())?;
            let hits = "UPDATE fault SET data = json_set(data, '$.hits[0]', ?1)";
            tx.execute(hits, ["x".repeat(17 << 20)])?;
            add(tx, organization, NewFault::default())?;
            let large = "UPDATE fault SET data = json_set(data, '$.body', ?1)";
            tx.execute(large, ["x".repeat(17 << 20)])?;
            add(tx, organization, NewFault::default())
        });
        assert_eq!(written.await.unwrap_err().code(), Code::Conflict);
    }
}
