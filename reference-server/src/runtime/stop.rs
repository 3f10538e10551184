//! [`Stop`]: the request to stop, which all tasks of a server watch.

use tokio::sync::watch;

/// Once it is requested, nothing new begins.
#[derive(Debug, Default)]
pub(crate) struct Stop(watch::Sender<bool>);

impl Stop {
    pub(crate) fn request(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when the server is asked to stop.
    pub(crate) async fn requested(&self) {
        // The sender lives as long as `self` does.
        let _ = self
            .0
            .subscribe()
            .wait_for(|is_requested| *is_requested)
            .await;
    }
}
