//! [`Activity`]: the requests in progress and the open leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::jobs::{Command, EngineHandle};
use crate::runtime::stop::Stop;

/// Counts the requests in progress and the open leases.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    active: watch::Sender<usize>,
    /// No more leases are granted.
    closing: AtomicBool,
}

/// Counts as one request or one lease until it is dropped.
pub(crate) struct ActivityGuard(Arc<Activity>);

impl Activity {
    pub(crate) fn request(self: &Arc<Self>) -> ActivityGuard {
        self.active.send_modify(|active| *active += 1);
        ActivityGuard(Arc::clone(self))
    }

    /// Returns `None` if the server is about to stop.
    pub(crate) fn lease(self: &Arc<Self>, stop: &Stop) -> Option<ActivityGuard> {
        // Count first, then check `closing`. `close_when_idle` does it in the opposite
        // order, so at least one of the two sees the other.
        let lease = self.request();
        let closing = self.closing.load(Ordering::SeqCst);
        (!closing && !stop.is_requested()).then_some(lease)
    }

    /// Waits until no request is in progress, no lease is open, and no work is due.
    pub(crate) async fn until_idle(&self, engine: &EngineHandle) {
        let mut active = self.active.subscribe();
        loop {
            // The sender lives as long as `self` does.
            let _ = active.wait_for(|active| *active == 0).await;
            // It fails once the engine has stopped.
            let _ = engine.send(Command::Settle).await;
            if self.is_idle() {
                return;
            }
        }
    }

    /// Waits until the server is idle, and grants no lease from then on.
    pub(crate) async fn close_when_idle(&self, engine: &EngineHandle) {
        loop {
            self.until_idle(engine).await;
            self.closing.store(true, Ordering::SeqCst);
            if self.is_idle() {
                return;
            }
            self.closing.store(false, Ordering::SeqCst);
        }
    }

    fn is_idle(&self) -> bool {
        *self.active.borrow() == 0
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.active.send_modify(|active| *active -= 1);
    }
}
