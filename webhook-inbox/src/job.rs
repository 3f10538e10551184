//! A delivery that a worker handles, and one that it has given up.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use svc_sql::{Row, read};
use webhook_verify::{Delivery, Service};

use crate::queue::Position;
use crate::{Error, ErrorKind};

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
    /// The first attempt of a delivery that was received now, for tests of a handler. Its
    /// [`scope`](Self::scope) is the delivery's tenant.
    pub fn new(delivery: Delivery) -> Self {
        Self {
            id: 0,
            token: 0,
            attempt: 1,
            scope: delivery.tenant().map(Arc::from),
            delivery,
            received_at: SystemTime::now(),
        }
    }

    /// Reads a row of `COLUMNS`.
    pub(crate) fn read(row: Row) -> Result<Self, Error> {
        type Columns = (
            i64,
            i64,
            u32,
            i64,
            Option<String>,
            String,
            String,
            String,
            Vec<u8>,
        );

        let row: Columns = read(row)?;
        let (id, token, attempt, received_at, scope, service, event, key, body) = row;
        let service: Service = service
            .parse()
            .map_err(|_| Error::new(ErrorKind::Database, "a delivery of an unknown service"))?;
        Ok(Self {
            id,
            token,
            attempt,
            scope: scope.map(Arc::from),
            delivery: Delivery::from_storage(service, &event, key, body),
            received_at: time(received_at),
        })
    }

    /// Where the row stood among those that wait, if it was claimed for the first time.
    pub(crate) fn position(&self) -> Option<Position> {
        if self.token != 1 {
            return None;
        }
        let since = self.received_at.duration_since(UNIX_EPOCH).ok()?;
        let due_at = i64::try_from(since.as_millis()).ok()?;
        let id = self.id;
        Some(Position { due_at, id })
    }

    /// The number of the row in the table `webhook_inbox`. It is not the delivery's `id`.
    pub fn id(&self) -> i64 {
        self.id
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

/// A delivery whose last attempt failed. It is kept until you retry or delete it.
///
/// [`Inbox::delivery`](crate::Inbox::delivery) reads its body.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The number of the row in the table `webhook_inbox`.
    pub id: i64,
    /// The scope in which the delivery was accepted, or its tenant.
    pub scope: Option<String>,
    /// The name of the event.
    pub event: String,
    /// The key of the delivery, which includes the scope.
    pub key: String,
    /// How many attempts were made.
    pub attempts: u32,
    /// The last attempt's error and its sources in ASCII, at most 2000 characters.
    pub error: String,
    /// When the delivery was accepted.
    pub received_at: SystemTime,
    /// When the last attempt failed.
    pub failed_at: SystemTime,
}

pub(crate) fn time(since_epoch: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(since_epoch.max(0) as u64)
}
