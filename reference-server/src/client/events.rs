//! What changes on the server.

use std::time::Duration;

use super::connection::Client;
use super::request::Request;
use crate::api::control::endpoints as e;
use crate::api::control::live::LiveEvents;
use crate::model::time::duration_text;

impl Client {
    /// What changes on the server, as it changes.
    pub fn events(&self) -> Events<'_> {
        Events(self)
    }
}

/// Requests for changes; see [`Client::events`].
#[derive(Clone, Copy, Debug)]
pub struct Events<'a>(&'a Client);

/// How long a wait takes by default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);

impl Events<'_> {
    /// Returns the changes from now on: `Ready` at once.
    pub fn begin(&self) -> Request<LiveEvents> {
        self.0.json(&e::EVENTS_WAIT, &[])
    }

    /// Returns the changes after a position, the `next` of the last response, or waits up to
    /// 20 seconds for one.
    ///
    /// The server keeps the newest changes for a minute after the last request. Later, or after
    /// its restart, the response has a `Reset`.
    pub fn after(&self, position: impl AsRef<str>) -> Request<LiveEvents> {
        let request = self.0.json(&e::EVENTS_WAIT, &[]).query("after", position);
        request.waits(DEFAULT_TIMEOUT)
    }
}

impl Request<LiveEvents> {
    /// Sets how long to wait for a change, in real time, at most 60 seconds. Default: 20 seconds.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.query("timeout", duration_text(timeout)).waits(timeout)
    }
}
