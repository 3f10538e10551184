//! What the inbox needs of a database.

use std::sync::Arc;
use std::time::Duration;

use webhook_verify::Delivery;

use crate::job::Ticket;
use crate::{Accepted, DeadLetter, Error, Job};

/// The database of an inbox: `Sqlite` or `Postgres`.
///
/// This trait is sealed and cannot be implemented outside this crate.
pub trait Database: Operations {}

impl<T: Operations> Database for T {}

/// A delivery to be stored.
pub struct Entry {
    pub(crate) scope: Option<Arc<str>>,
    /// The delivery's key in its scope.
    pub(crate) key: String,
    pub(crate) delivery: Delivery,
}

/// No lease and no back-off is that long. A delivery that is due later was written while the
/// clock was wrong, and would not be handled before then.
pub(crate) const WRONG_CLOCK: Duration = Duration::from_secs(31 * 24 * 60 * 60);

/// How many deliveries one statement deletes at most. Between two, others can write.
pub(crate) const SLICE: u32 = 1000;

/// Each method is one transaction, except `purge`, which is one for each slice.
pub trait Operations: Clone + Send + Sync + 'static {
    fn migrate(&self) -> impl Future<Output = Result<(), Error>> + Send;

    fn accept(&self, entry: Entry) -> impl Future<Output = Result<Accepted, Error>> + Send;

    /// Claims the delivery that is due for the longest time, until the lease ends. The attempt
    /// is counted here, or by the worker when the handler starts.
    fn claim(&self, lease: Duration) -> impl Future<Output = Result<Option<Job>, Error>> + Send;

    /// The time until the next delivery can be claimed, if there is any. What is due later than
    /// `WRONG_CLOCK` becomes due at once. So does what no worker has claimed yet, if it is due
    /// later than all other deliveries: it was accepted while the clock was ahead.
    fn next_due(&self) -> impl Future<Output = Result<Option<Duration>, Error>> + Send;

    /// Extends the lease. Returns whether the ticket is still valid.
    fn renew(
        &self,
        ticket: Ticket,
        lease: Duration,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Ends an attempt: the delivery is due again after `retry_in`, or is a dead letter.
    /// Returns whether the ticket was still valid.
    fn fail(
        &self,
        ticket: Ticket,
        error: String,
        retry_in: Option<Duration>,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Makes a claimed delivery due again, with the number of attempts before the claim. Nothing
    /// changes if the ticket is not valid any more.
    fn release(
        &self,
        ticket: Ticket,
        attempts: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The dead letters with higher ids than `after`.
    fn dead_letters(
        &self,
        after: i64,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<DeadLetter>, Error>> + Send;

    /// Makes one dead letter, or all, pending again. Returns how many.
    fn replay(&self, id: Option<i64>) -> impl Future<Output = Result<u64, Error>> + Send;

    fn delete_dead_letter(&self, id: i64) -> impl Future<Output = Result<bool, Error>> + Send;

    fn purge(&self, older_than: Duration) -> impl Future<Output = Result<u64, Error>> + Send;
}
