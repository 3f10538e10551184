//! The rate of a job.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Spaces requests so that their emails keep to a rate.
#[derive(Debug)]
pub(super) struct Pace {
    /// Emails a second.
    rate: Option<u32>,
    /// When the next request may start.
    due: Instant,
}

impl Pace {
    pub(super) fn new(rate: Option<u32>) -> Self {
        Self { rate, due: Instant::now() }
    }

    /// Waits until a request may start. Cancel safe.
    pub(super) async fn wait(&self) {
        if self.rate.is_some() && Instant::now() < self.due {
            sleep_until(self.due).await;
        }
    }

    /// A request with this many emails starts now.
    pub(super) fn start(&mut self, emails: usize) {
        let Some(rate) = self.rate else { return };
        let emails = u32::try_from(emails).unwrap_or(u32::MAX);
        self.due = self.due.max(Instant::now()) + Duration::from_secs(1) * emails / rate;
    }
}
