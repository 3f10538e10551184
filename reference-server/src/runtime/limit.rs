//! [`Limit`]: how much of something there may be at the same time, in the whole server.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) struct Limit(Arc<Semaphore>);

/// Counts toward the limit until it is dropped.
pub(crate) type Permit = Option<OwnedSemaphorePermit>;

impl Limit {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most)))
    }

    /// Waits until there may be one more.
    pub(crate) async fn permit(&self) -> Permit {
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}
