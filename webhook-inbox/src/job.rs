//! A delivery that a worker handles, and one that it has given up.

use std::sync::Arc;
use std::time::SystemTime;

use webhook_verify::Delivery;

use crate::database::Value;

/// A delivery that a worker has claimed, passed to your handler.
#[derive(Clone, Debug)]
pub struct Job {
    pub(crate) id: i64,
    /// Each claim of a row has a higher one, so that a worker whose claim has ended cannot change
    /// what another worker has claimed.
    pub(crate) token: i64,
    pub(crate) attempt: u32,
    pub(crate) scope: Option<Arc<str>>,
    pub(crate) delivery: Delivery,
    pub(crate) received_at: SystemTime,
}

impl Job {
    /// The number of the row in the table `webhook_inbox`. It is not the delivery's `id`.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// What a statement about the claim begins with.
    pub(crate) fn claim(&self) -> Vec<Value> {
        vec![Value::Int(self.id), Value::Int(self.token)]
    }

    /// The delivery. Its key includes the scope.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// The scope in which the delivery was accepted ([`Inbox::scope`](crate::Inbox::scope)), or
    /// the tenant for which it was verified
    /// ([`Delivery::tenant`](webhook_verify::Delivery::tenant)).
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// The number of this attempt. The first is 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When the delivery was accepted, by the clock of the database.
    pub fn received_at(&self) -> SystemTime {
        self.received_at
    }
}

/// A delivery whose last attempt failed. It is kept until you replay or delete it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The number of the row in the table `webhook_inbox`.
    pub id: i64,
    /// The delivery. Its key includes the scope.
    pub delivery: Delivery,
    /// The scope in which the delivery was accepted, or its tenant.
    pub scope: Option<Arc<str>>,
    /// How many attempts were made.
    pub attempts: u32,
    /// The last attempt's error and its sources, at most 2000 characters.
    pub error: String,
    /// When the delivery was accepted.
    pub received_at: SystemTime,
    /// When the last attempt failed.
    pub failed_at: SystemTime,
}
