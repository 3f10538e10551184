//! Faults on demand (`control.md`): the next matching requests meet them, each
//! one recorded. They are kept in memory and end with the server.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use svc_sdk::Operation;

use crate::id::{self, Prefix};
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

impl Faults {
    pub(crate) fn add(&self, mut fault: Fault) -> Fault {
        fault.id = id::new(Prefix::Fault);
        self.lock().push(fault.clone());
        fault
    }

    /// What this request meets: of several faults the oldest that has any left.
    pub(crate) fn meet(
        &self,
        organization: i64,
        operation: Operation,
        now: Millis,
    ) -> Option<Effect> {
        let mut faults = self.lock();
        let matching = faults.iter_mut().filter(|fault| {
            fault.organization == organization
                && fault.times > 0
                && fault.operation.is_none_or(|wanted| wanted == operation)
        });
        for fault in matching {
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            fault.times -= 1;
            if fault.met.len() < RECORDED {
                fault.met.push(Met { at: now, operation });
            }
            return Some(fault.effect.clone());
        }
        None
    }

    pub(crate) fn list(&self, organization: i64) -> Vec<Fault> {
        self.lock().iter().filter(|fault| fault.organization == organization).cloned().collect()
    }

    /// Takes a fault away; says whether there was one.
    pub(crate) fn remove(&self, organization: i64, id: &str) -> bool {
        let mut faults = self.lock();
        let before = faults.len();
        faults.retain(|fault| fault.organization != organization || fault.id != id);
        faults.len() < before
    }

    /// Takes all of an organization's away, or all there are.
    pub(crate) fn clear(&self, organization: Option<i64>) {
        self.lock().retain(|fault| organization.is_some_and(|of| of != fault.organization));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
