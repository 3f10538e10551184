//! The requests to the documented operations.

use std::fmt;

use svc_sdk::Operation;

use super::connection::Client;
use super::request::Request;
use crate::api::control::Page;
use crate::api::control::endpoints as e;
use crate::api::control::requests::LoggedRequest;

impl Client {
    /// The newest requests to the documented operations, which the server has in memory.
    pub fn requests(&self) -> Requests<'_> {
        Requests(self)
    }
}

/// Requests for the request log; see [`Client::requests`].
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a>(&'a Client);

impl Requests<'_> {
    /// Lists the requests with the beginning of their bodies, newest first.
    pub fn list(&self) -> Request<Page<LoggedRequest>> {
        self.0.json(&e::REQUESTS, &[])
    }

    /// Returns the request with this ID, the `X-Request-Id` of its response.
    pub fn get(&self, id: &str) -> Request<LoggedRequest> {
        self.0.json(&e::REQUESTS_GET, &[id])
    }
}

impl Request<Page<LoggedRequest>> {
    /// Selects the requests of this operation.
    pub fn operation(self, operation: Operation) -> Self {
        self.query("operation", operation.to_string())
    }

    /// Selects the requests with this status, such as `202`, or a class, such as `4xx`.
    pub fn status(self, status: impl fmt::Display) -> Self {
        self.query("status", status.to_string())
    }

    /// Selects the requests with the key that has this ID.
    pub fn key(self, id: impl AsRef<str>) -> Self {
        self.query("key", id)
    }

    /// Selects the requests after this time, or after the request with this ID.
    pub fn after(self, time_or_id: impl fmt::Display) -> Self {
        self.query("after", time_or_id.to_string())
    }
}
