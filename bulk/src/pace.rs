//! The rate of a job.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The longest time between two requests, so that the clock can represent it.
const MAX_SPACE: Duration = Duration::from_secs(365 * 86_400);

/// Spaces requests so that their emails keep to a rate.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Emails a second.
    rate: Option<f64>,
    /// When the next request may start.
    due: Instant,
}

impl Pace {
    pub(crate) fn new(rate: Option<f64>) -> Self {
        Self { rate, due: Instant::now() }
    }

    /// Whether a request may start now.
    pub(crate) fn is_due(&self) -> bool {
        self.due <= Instant::now()
    }

    /// Waits until a request may start. Cancel safe.
    pub(crate) async fn wait(&self) {
        if Instant::now() < self.due {
            sleep_until(self.due).await;
        }
    }

    /// A request with this many emails starts now.
    pub(crate) fn start(&mut self, emails: usize) {
        let Some(rate) = self.rate else { return };
        let seconds = Duration::try_from_secs_f64(emails as f64 / rate).unwrap_or(MAX_SPACE);
        self.due = self.due.max(Instant::now()) + seconds.min(MAX_SPACE);
    }

    /// Starts no request within this time.
    pub(crate) fn pause(&mut self, time: Duration) {
        self.due = self.due.max(Instant::now() + time);
    }
}
