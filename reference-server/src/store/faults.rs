//! Fault injection (`docs/control-interface.md#faults`): a fault affects the next
//! matching requests.
//!
//! Requests look up faults in memory. The database stores them too, because a server
//! that runs inside a command must apply the faults that an earlier command added.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svc_sdk::Operation;

use crate::control::faults::{Fault, FaultHit, NewFault, operation};
use crate::model::error::{ApiError, Code};
use crate::model::id::{self, Prefix};
use crate::model::timestamp::Timestamp;
use crate::store::{Reader, Store, Tx};

/// A fault of an organization, with what is left of it.
#[derive(Debug)]
struct Owned {
    organization: i64,
    /// `None` matches every operation.
    operation: Option<Operation>,
    /// Matching requests that are still unaffected.
    skip: u32,
    fault: Fault,
}

impl Owned {
    fn new(organization: i64, fault: Fault, skip: u32) -> Self {
        let operation = fault.definition.operation.as_deref().and_then(operation);
        Self { organization, operation, skip, fault }
    }
}

/// All faults, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Owned>>);

/// Maximum number of faults of an organization, and of the bytes of their definitions together:
/// all of them are in memory (`reference-server/LIMITS.md`).
const MAX_FAULTS: usize = 200;
const MAX_DEFINITIONS: usize = 16 << 20;

/// Maximum number of hits saved for one fault. Further hits are not saved.
const MAX_HITS: usize = 1000;

/// A change of a fault by a request, to be saved.
#[derive(Debug)]
pub(crate) struct FaultUpdate {
    fault: String,
    /// `None` if the request was skipped.
    hit: Option<FaultHit>,
}

impl FaultUpdate {
    /// The ID of the fault, if the request was affected.
    pub(crate) fn hit(&self) -> Option<&str> {
        self.hit.as_ref().map(|_| self.fault.as_str())
    }
}

impl Faults {
    /// Stores a fault. It takes effect when the transaction commits.
    pub(crate) fn add(
        self: &Arc<Self>,
        tx: &mut Tx<'_>,
        organization: i64,
        new: NewFault,
    ) -> Result<Fault, ApiError> {
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
            return Err(ApiError::new(Code::Conflict, message)
                .with(|details| details.limit = Some(MAX_FAULTS)));
        }
        let (skip, remaining) = (new.skip.unwrap_or(0), new.times.unwrap_or(1));
        let fault =
            Fault { id: id::new(Prefix::Fault), definition: new, remaining, hits: Vec::new() };
        tx.execute(
            "INSERT INTO fault (id, organization, definition, skip, times, hits)
             VALUES (?1, ?2, ?3, ?4, ?5, '[]')",
            (&fault.id, organization, definition, skip, remaining),
        )?;
        let (faults, added) = (Arc::clone(self), Owned::new(organization, fault.clone(), skip));
        tx.after_commit(move || faults.lock().push(added));
        Ok(fault)
    }

    /// Applies the faults to a request: the oldest matching one that is not used up
    /// takes effect. The caller must [`save`] the returned updates.
    pub(crate) fn trigger(
        &self,
        organization: i64,
        operation: Operation,
        now: Timestamp,
    ) -> (Option<NewFault>, Vec<FaultUpdate>) {
        let mut updates = Vec::new();
        let mut faults = self.lock();
        let matching = faults.iter_mut().filter(|owned| {
            owned.organization == organization
                && owned.fault.remaining > 0
                && owned.operation.is_none_or(|wanted| wanted == operation)
        });
        for Owned { skip, fault, .. } in matching {
            if *skip > 0 {
                *skip -= 1;
                updates.push(FaultUpdate { fault: fault.id.clone(), hit: None });
                continue;
            }
            fault.remaining -= 1;
            let hit = FaultHit { at: now, operation: operation.to_string() };
            if fault.hits.len() < MAX_HITS {
                fault.hits.push(hit.clone());
            }
            updates.push(FaultUpdate { fault: fault.id.clone(), hit: Some(hit) });
            return (Some(fault.definition.clone()), updates);
        }
        (None, updates)
    }

    pub(crate) fn list(&self, organization: i64) -> Vec<Fault> {
        let faults = self.lock();
        let own = faults.iter().filter(|owned| owned.organization == organization);
        own.map(|owned| owned.fault.clone()).collect()
    }

    /// Removes one fault of an organization, or all of them if `id` is `None`. Returns
    /// whether there was any.
    pub(crate) fn remove(
        self: &Arc<Self>,
        tx: &mut Tx<'_>,
        organization: i64,
        id: Option<String>,
    ) -> Result<bool, ApiError> {
        let removed = tx.execute(
            "DELETE FROM fault WHERE organization = ?1 AND (?2 IS NULL OR id = ?2)",
            (organization, &id),
        )?;
        let faults = Arc::clone(self);
        tx.after_commit(move || {
            faults.lock().retain(|owned| {
                owned.organization != organization
                    || id.as_ref().is_some_and(|id| *id != owned.fault.id)
            });
        });
        Ok(removed > 0)
    }

    /// Removes the faults of one organization from memory. Does not reload the others
    /// from the database, because not all of their hits may be saved.
    pub(crate) fn remove_organization(&self, organization: i64) {
        self.lock().retain(|owned| owned.organization != organization);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Replaces all faults by those in the database.
    pub(crate) fn load(&self, reader: Reader<'_>) -> Result<(), ApiError> {
        let sql = "SELECT id, organization, definition, skip, times, hits FROM fault ORDER BY id";
        let rows = reader.all(sql, [], |row| {
            let (definition, hits): (String, String) = (row.get(2)?, row.get(5)?);
            let fault = Fault {
                id: row.get(0)?,
                definition: serde_json::from_str(&definition).unwrap_or_default(),
                remaining: row.get(4)?,
                hits: serde_json::from_str(&hits).unwrap_or_default(),
            };
            Ok(Owned::new(row.get(1)?, fault, row.get(3)?))
        });
        *self.lock() = rows?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Owned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Saves the updates of a request. An error is only logged: faults must also work
/// while the disk is full.
pub(crate) async fn save(store: &Store, updates: Vec<FaultUpdate>) {
    if updates.is_empty() {
        return;
    }
    let saved = store.write_relaxed(move |tx| {
        for FaultUpdate { fault, hit } in updates {
            let Some(hit) = hit else {
                tx.execute("UPDATE fault SET skip = skip - 1 WHERE id = ?1", [&fault])?;
                continue;
            };
            tx.execute(
                "UPDATE fault SET times = times - 1, hits = CASE
                     WHEN json_array_length(hits) < ?3
                     THEN json_insert(hits, '$[#]', json(?2)) ELSE hits END
                 WHERE id = ?1",
                (&fault, serde_json::to_string(&hit).map_err(ApiError::internal)?, MAX_HITS as i64),
            )?;
        }
        Ok(())
    });
    if let Err(error) = saved.await {
        tracing::warn!(message = error.message(), "did not save a fault hit");
    }
}
