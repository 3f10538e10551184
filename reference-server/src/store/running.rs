//! Interrupts a search whose client has disconnected.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::InterruptHandle;

use super::lock::lock;

/// The connection of a search, while it runs.
#[derive(Default)]
pub(super) struct Running(Mutex<Option<InterruptHandle>>);

impl Running {
    pub(super) fn begin(&self, connection: InterruptHandle) -> EndOnDrop<'_> {
        *lock(&self.0) = Some(connection);
        EndOnDrop(self)
    }

    /// Interrupts the search. Returns `false` if it does not run.
    fn interrupt(&self) -> bool {
        // The search cannot end, and leave its connection to another, while this is locked.
        let connection = lock(&self.0);
        connection.as_ref().map(InterruptHandle::interrupt).is_some()
    }
}

/// Ends a search, even by a panic.
pub(super) struct EndOnDrop<'a>(&'a Running);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) = None;
    }
}

/// Interrupts a search, if it is running, when its client disconnects.
#[derive(Default)]
pub(super) struct InterruptOnDrop {
    pub(super) running: Arc<Running>,
}

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        let running = Arc::clone(&self.running);
        if running.interrupt()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // An interruption has no effect between two statements.
            runtime.spawn(async move {
                while running.interrupt() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
    }
}
