//! Outcomes that could not be stored, because the disk is full: they are kept, so that
//! what has been sent is not sent again before they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::mail::relay::Handoff;
use crate::model::time::Millis;
use crate::net::outbound::Attempt;
use crate::store::lock;

/// An attempt with the data that is recorded about it.
pub(crate) struct RecordedAttempt {
    pub(super) number: i64,
    pub(super) started_at: Millis,
    pub(super) url: String,
    /// Request headers as a JSON object.
    pub(super) headers: String,
    pub(crate) attempt: Attempt,
}

/// What became of the messages of an email at the relay.
#[derive(Clone, Default)]
pub(super) struct Relayed {
    /// The outcome of each recipient, by position.
    pub(super) outcomes: Vec<(usize, Handoff)>,
    /// A stop came before the other messages were handed over.
    pub(super) is_cut: bool,
}

impl Relayed {
    /// Adds the same outcome for the recipients at these positions.
    pub(super) fn add(&mut self, positions: Vec<usize>, outcome: &Handoff) {
        self.outcomes.extend(positions.into_iter().map(|position| (position, outcome.clone())));
    }
}

#[derive(Default)]
pub(crate) struct Unrecorded {
    deliveries: Mutex<HashMap<String, Arc<RecordedAttempt>>>,
    relayed: Mutex<HashMap<String, Relayed>>,
}

impl Unrecorded {
    /// The attempts that are not recorded yet, by the id of the delivery.
    pub(super) fn deliveries(&self) -> MutexGuard<'_, HashMap<String, Arc<RecordedAttempt>>> {
        lock(&self.deliveries)
    }

    /// The outcomes at the relay that are not recorded yet, by the id of the email.
    pub(super) fn relayed(&self) -> MutexGuard<'_, HashMap<String, Relayed>> {
        lock(&self.relayed)
    }
}
