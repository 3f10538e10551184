//! [`Stop`]: the request to stop, which all tasks of a server watch.

use tokio::sync::watch;

/// How far a server is on its way to the end. Each phase lasts until the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Running,
    /// Nothing new begins, and what is in progress is completed.
    Requested,
    /// What is still in progress is cut, and its outcome is unknown.
    Cut,
}

#[derive(Debug, Default)]
pub(crate) struct Stop(watch::Sender<Phase>);

impl Stop {
    pub(crate) fn request(&self) {
        self.enter(Phase::Requested);
    }

    /// Cuts what is in progress.
    pub(crate) fn cut(&self) {
        self.enter(Phase::Cut);
    }

    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow() >= Phase::Requested
    }

    /// Completes when the server is asked to stop.
    pub(crate) async fn requested(&self) {
        self.entered(Phase::Requested).await;
    }

    /// Completes when what is in progress must end.
    pub(crate) async fn until_cut(&self) {
        self.entered(Phase::Cut).await;
    }

    fn enter(&self, phase: Phase) {
        self.0.send_if_modified(|current| {
            let is_later = *current < phase;
            *current = phase.max(*current);
            is_later
        });
    }

    async fn entered(&self, phase: Phase) {
        // The sender lives as long as `self` does.
        let _ = self.0.subscribe().wait_for(|current| *current >= phase).await;
    }
}
