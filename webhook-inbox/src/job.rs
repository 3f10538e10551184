//! A delivery that a worker handles.

use std::sync::Arc;
use std::time::SystemTime;

use webhook_verify::Delivery;

/// A delivery that a worker has claimed, passed to your handler.
#[derive(Clone, Debug)]
pub struct Job {
    pub(crate) ticket: Ticket,
    pub(crate) attempt: u32,
    pub(crate) scope: Option<Arc<str>>,
    pub(crate) delivery: Delivery,
    pub(crate) received_at: SystemTime,
}

impl Job {
    /// The number of the row in the table `webhook_inbox`. It is not the delivery's `id`.
    pub fn id(&self) -> i64 {
        self.ticket.id
    }

    /// The delivery. Its key includes the scope.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// The scope in which the delivery was accepted, such as a tenant
    /// ([`Inbox::scope`](crate::Inbox::scope)).
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

/// The right to handle a delivery. Each claim of a row has a higher token, so that a worker
/// whose lease has ended cannot change what another worker has claimed.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub(crate) id: i64,
    pub(crate) token: i64,
}
