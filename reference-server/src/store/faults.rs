//! Fault injection (`docs/control-interface.md#faults`): a fault affects the next
//! matching requests.
//!
//! Requests look up faults in memory. The database stores them too, because a server
//! that runs inside a command must apply the faults that an earlier command added.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use svc_sdk::Operation;

pub(crate) use crate::control::faults::DropPoint;
use crate::model::error::{ApiError, Code};
use crate::model::time::Millis;
use crate::store::{Reader, Store, Tx};

/// What a fault does to a request.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    /// Delay before anything else, in real time.
    pub(crate) latency: Duration,
    /// Returned instead of processing the request.
    pub(crate) response: Option<FaultResponse>,
    pub(crate) drop: Option<DropPoint>,
}

#[derive(Clone, Debug)]
pub(crate) struct FaultResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) id: String,
    pub(crate) organization: i64,
    /// `None` matches every operation.
    pub(crate) operation: Option<Operation>,
    pub(crate) effect: Effect,
    /// Matching requests that are still unaffected.
    pub(crate) skip: u32,
    /// Matching requests that are still affected after that.
    pub(crate) times: u32,
    pub(crate) hits: Vec<FaultHit>,
    /// The JSON that the fault was created from.
    pub(crate) definition: serde_json::Value,
}

/// A request that a fault affected.
#[derive(Clone, Debug)]
pub(crate) struct FaultHit {
    pub(crate) at: Millis,
    pub(crate) operation: Operation,
}

/// All faults, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

/// Maximum number of faults of an organization, and of the bytes of their definitions together:
/// all of them are in memory (`docs/undocumented/both-services.md#bounds`).
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
    pub(crate) fn add(self: &Arc<Self>, tx: &mut Tx<'_>, fault: &Fault) -> Result<(), ApiError> {
        let definition = fault.definition.to_string();
        let sql = "SELECT COUNT(*), COALESCE(SUM(octet_length(definition)), 0) FROM fault
                   WHERE organization = ?1";
        let present: Option<(usize, usize)> = tx.find(sql, [fault.organization], |row| {
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
        tx.execute(
            "INSERT INTO fault (id, organization, definition, skip, times, hits)
             VALUES (?1, ?2, ?3, ?4, ?5, '[]')",
            (&fault.id, fault.organization, definition, fault.skip, fault.times),
        )?;
        let (faults, fault) = (Arc::clone(self), fault.clone());
        tx.after_commit(move || faults.lock().push(fault));
        Ok(())
    }

    /// Applies the faults to a request: the oldest matching one that is not used up
    /// takes effect. The caller must [`save`] the returned updates.
    pub(crate) fn trigger(
        &self,
        organization: i64,
        operation: Operation,
        now: Millis,
    ) -> (Option<Effect>, Vec<FaultUpdate>) {
        let mut updates = Vec::new();
        let mut faults = self.lock();
        let matching = faults.iter_mut().filter(|fault| {
            fault.organization == organization
                && fault.times > 0
                && fault.operation.is_none_or(|wanted| wanted == operation)
        });
        for fault in matching {
            if fault.skip > 0 {
                fault.skip -= 1;
                updates.push(FaultUpdate { fault: fault.id.clone(), hit: None });
                continue;
            }
            fault.times -= 1;
            let hit = FaultHit { at: now, operation };
            if fault.hits.len() < MAX_HITS {
                fault.hits.push(hit.clone());
            }
            updates.push(FaultUpdate { fault: fault.id.clone(), hit: Some(hit) });
            return (Some(fault.effect.clone()), updates);
        }
        (None, updates)
    }

    pub(crate) fn list(&self, organization: i64) -> Vec<Fault> {
        self.lock().iter().filter(|fault| fault.organization == organization).cloned().collect()
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
            faults.lock().retain(|fault| {
                fault.organization != organization || id.as_ref().is_some_and(|id| *id != fault.id)
            });
        });
        Ok(removed > 0)
    }

    /// Removes the faults of one organization from memory. Does not reload the others
    /// from the database, because not all of their hits may be saved.
    pub(crate) fn remove_organization(&self, organization: i64) {
        self.lock().retain(|fault| fault.organization != organization);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Replaces all faults by those in the database. `parse` reads a definition.
    pub(crate) fn load(
        &self,
        reader: Reader<'_>,
        parse: impl Fn(&str) -> Result<(Option<Operation>, Effect), ApiError>,
    ) -> Result<(), ApiError> {
        let mut loaded = Vec::new();
        let sql = "SELECT id, organization, definition, skip, times, hits FROM fault ORDER BY id";
        let mut statement = reader.statement(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (asked, hits): (String, String) = (row.get(2)?, row.get(5)?);
            let (operation, effect) = parse(&asked)?;
            loaded.push(Fault {
                id: row.get(0)?,
                organization: row.get(1)?,
                operation,
                effect,
                skip: row.get(3)?,
                times: row.get(4)?,
                hits: hits_from(&hits),
                definition: serde_json::from_str(&asked).map_err(ApiError::internal)?,
            });
        }
        *self.lock() = loaded;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Fault>> {
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
                     WHEN json_array_length(hits) < ?4
                     THEN json_insert(hits, '$[#]', json_array(?2, ?3)) ELSE hits END
                 WHERE id = ?1",
                (&fault, hit.at, hit.operation.to_string(), MAX_HITS as i64),
            )?;
        }
        Ok(())
    });
    if let Err(error) = saved.await {
        tracing::warn!(message = error.message(), "did not save a fault hit");
    }
}

/// Reads the column `hits`: times, each with the name of an operation.
fn hits_from(json: &str) -> Vec<FaultHit> {
    let hits: Vec<(Millis, String)> = serde_json::from_str(json).unwrap_or_default();
    let hit = |(at, name): (Millis, String)| {
        let operation = Operation::ALL.iter().copied().find(|known| known.to_string() == name);
        operation.map(|operation| FaultHit { at, operation })
    };
    hits.into_iter().filter_map(hit).collect()
}
