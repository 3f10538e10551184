//! Faults on demand (`docs/control-interface.md`): the next matching requests meet them, each
//! one recorded. They are looked at in memory and kept in the database: a
//! server that runs inside a command meets what an earlier command asked for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use rusqlite::Connection;
use svc_sdk::Operation;

use crate::app::App;
use crate::control::faults::read_effect;
use crate::error::ApiError;
use crate::store::Tx;
use crate::time::Millis;

/// What happens to a request that meets a fault.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    /// Waited before anything else, in real time.
    pub(crate) latency: Duration,
    /// Answered instead of what the operation would answer.
    pub(crate) answer: Option<FaultAnswer>,
    pub(crate) drop: Option<Drop>,
}

#[derive(Clone, Debug)]
pub(crate) struct FaultAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// When the connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drop {
    /// Before the request is processed.
    Before,
    /// After it was processed, before any of the answer.
    After,
    /// After it was processed, within the answer's body.
    Midway,
}

#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) id: String,
    pub(crate) organization: i64,
    /// Any, where none is named.
    pub(crate) operation: Option<Operation>,
    pub(crate) effect: Effect,
    /// Requests that pass before the first meets it.
    pub(crate) skip: u32,
    /// Requests that still meet it.
    pub(crate) times: u32,
    pub(crate) met: Vec<Met>,
    /// As it was asked for.
    pub(crate) shown: serde_json::Value,
}

/// A request that met a fault.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    pub(crate) at: Millis,
    pub(crate) operation: Operation,
}

/// The faults that are in place, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

/// Requests recorded with one fault; it goes on being met beyond them.
const RECORDED: usize = 1000;

/// What a request has changed about a fault.
#[derive(Debug)]
pub(crate) struct Change {
    fault: String,
    /// When it met it; it passed, where there is nothing.
    met: Option<Met>,
}

impl Faults {
    /// Puts a fault in place, once it is on disk.
    pub(crate) fn add(tx: &mut Tx<'_>, app: &Arc<App>, fault: &Fault) -> Result<(), ApiError> {
        tx.execute(
            "INSERT INTO fault (id, organization, definition, skip, times) VALUES (?1, ?2, ?3, ?4, ?5)",
            (&fault.id, fault.organization, fault.shown.to_string(), fault.skip, fault.times),
        )?;
        let (app, fault) = (Arc::clone(app), fault.clone());
        tx.after_commit(move || app.faults.lock().push(fault));
        Ok(())
    }

    /// What this request meets: of several faults the oldest that has any left.
    /// What changed by that is to be written down.
    pub(crate) fn meet(
        &self,
        organization: i64,
        operation: Operation,
        now: Millis,
    ) -> (Option<Effect>, Vec<Change>) {
        let mut changes = Vec::new();
        let mut faults = self.lock();
        let matching = faults.iter_mut().filter(|fault| {
            fault.organization == organization
                && fault.times > 0
                && fault.operation.is_none_or(|wanted| wanted == operation)
        });
        for fault in matching {
            if fault.skip > 0 {
                fault.skip -= 1;
                changes.push(Change { fault: fault.id.clone(), met: None });
                continue;
            }
            fault.times -= 1;
            let met = Met { at: now, operation };
            if fault.met.len() < RECORDED {
                fault.met.push(met.clone());
            }
            changes.push(Change { fault: fault.id.clone(), met: Some(met) });
            return (Some(fault.effect.clone()), changes);
        }
        (None, changes)
    }

    pub(crate) fn list(&self, organization: i64) -> Vec<Fault> {
        self.lock().iter().filter(|fault| fault.organization == organization).cloned().collect()
    }

    /// Takes one of an organization's faults away, or all of them; says whether
    /// there was any.
    pub(crate) fn remove(
        tx: &mut Tx<'_>,
        app: &Arc<App>,
        organization: i64,
        id: Option<String>,
    ) -> Result<bool, ApiError> {
        let which = "organization = ?1 AND (?2 IS NULL OR id = ?2)";
        tx.execute(
            &format!("DELETE FROM fault_hit WHERE fault IN (SELECT id FROM fault WHERE {which})"),
            (organization, &id),
        )?;
        let gone = tx.execute(&format!("DELETE FROM fault WHERE {which}"), (organization, &id))?;
        let app = Arc::clone(app);
        tx.after_commit(move || {
            app.faults.lock().retain(|fault| {
                fault.organization != organization || id.as_ref().is_some_and(|id| *id != fault.id)
            });
        });
        Ok(gone > 0)
    }

    /// Takes all faults of an organization away. The others' stay as they are:
    /// not all that has met them may be on disk.
    pub(crate) fn forget(&self, organization: i64) {
        self.lock().retain(|fault| fault.organization != organization);
    }

    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Reads all faults from the database anew.
    pub(crate) fn load(&self, connection: &Connection) -> Result<(), ApiError> {
        let mut loaded = Vec::new();
        let mut statement = connection.prepare_cached(
            "SELECT id, organization, definition, skip, times FROM fault ORDER BY id",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, asked): (String, String) = (row.get(0)?, row.get(2)?);
            let shown = serde_json::from_str(&asked).map_err(ApiError::internal)?;
            let (operation, effect) = read_effect(&asked)?;
            let (skip, times) = (row.get(3)?, row.get(4)?);
            let met = met(connection, &id)?;
            let organization = row.get(1)?;
            loaded.push(Fault { id, organization, operation, effect, skip, times, met, shown });
        }
        *self.lock() = loaded;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes down what a request has changed about faults. What it meets does not
/// depend on it: a full disk may be why the faults are there.
pub(crate) async fn record(app: &App, changes: Vec<Change>) {
    if changes.is_empty() {
        return;
    }
    let recorded = app.store.write_relaxed(move |tx| {
        for Change { fault, met } in changes {
            let Some(met) = met else {
                tx.execute("UPDATE fault SET skip = skip - 1 WHERE id = ?1", [&fault])?;
                continue;
            };
            tx.execute("UPDATE fault SET times = times - 1 WHERE id = ?1", [&fault])?;
            tx.execute(
                "INSERT INTO fault_hit (fault, at, operation) SELECT ?1, ?2, ?3
                 WHERE EXISTS (SELECT 1 FROM fault WHERE id = ?1)
                 AND (SELECT COUNT(*) FROM fault_hit WHERE fault = ?1) < ?4",
                (&fault, met.at, met.operation.to_string(), RECORDED as i64),
            )?;
        }
        Ok(())
    });
    if let Err(error) = recorded.await {
        tracing::warn!(message = error.message(), "what met a fault is not on disk");
    }
}

fn met(connection: &Connection, fault: &str) -> rusqlite::Result<Vec<Met>> {
    let sql = "SELECT at, operation FROM fault_hit WHERE fault = ?1 ORDER BY seq";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([fault], |row| {
        let name: String = row.get(1)?;
        let operation = Operation::ALL.into_iter().find(|known| known.to_string() == name);
        Ok(operation.map(|operation| (row.get(0), operation)))
    })?;
    let mut met = Vec::new();
    for row in rows {
        if let Some((at, operation)) = row? {
            met.push(Met { at: at?, operation });
        }
    }
    Ok(met)
}
