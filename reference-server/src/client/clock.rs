//! The clock of the server.

use std::time::Duration;

use super::connection::Client;
use super::request::Request;
use crate::api::control::clock::Change;
use crate::api::control::clock::Clock;
use crate::api::control::endpoints as e;
use crate::model::time::duration_text;

impl Client {
    /// The clock, which all organizations of the server share.
    pub fn clock(&self) -> ClockControl<'_> {
        ClockControl(self)
    }
}

/// Requests for the clock; see [`Client::clock`].
#[derive(Clone, Copy, Debug)]
pub struct ClockControl<'a>(&'a Client);

/// How long an advance may take: it runs all work that falls due.
const MAX_ADVANCE: Duration = Duration::from_secs(600);

impl ClockControl<'_> {
    /// Returns the state of the clock.
    pub fn get(&self) -> Request<Clock> {
        self.0.json(&e::CLOCK, &[])
    }

    /// Freezes the clock.
    pub fn freeze(&self) -> Request<Clock> {
        self.change(&Change { freeze: Some(true), ..Change::default() })
    }

    /// Advances the clock, and waits until everything that falls due is done.
    pub fn advance(&self, by: Duration) -> Request<Clock> {
        let advance = Some(duration_text(by));
        self.change(&Change { advance, ..Change::default() })
    }

    /// Lets the clock continue from its own time.
    pub fn resume(&self) -> Request<Clock> {
        self.change(&Change { resume: Some(true), ..Change::default() })
    }

    fn change(&self, change: &Change) -> Request<Clock> {
        let request = self.0.json(&e::CLOCK_CHANGE, &[]);
        request.with_body(&e::CLOCK_CHANGE, change).waits(MAX_ADVANCE)
    }
}
