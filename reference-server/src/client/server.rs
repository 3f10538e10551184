//! Requests about the server as a whole.

use super::connection::Client;
use super::request::Request;
use crate::api::control::endpoints as e;
use crate::api::control::health::Health;
use crate::api::control::reset::Reset;

impl Client {
    /// The state of the server.
    pub fn health(&self) -> Request<Health> {
        self.json(&e::HEALTH, &[])
    }

    /// Deletes the data of an organization, whose keys stay valid.
    pub fn reset_organization(&self, id_or_name: impl Into<String>) -> Request<()> {
        let body = Reset { organization: Some(id_or_name.into()) };
        self.reset().with_body(&e::RESET, &body)
    }

    /// Deletes all data of the server, and restores the seed data.
    pub fn reset(&self) -> Request<()> {
        self.server_wide().empty(&e::RESET, &[])
    }

    /// Without an organization in the query.
    fn server_wide(&self) -> Self {
        Self { http: self.http.clone(), organization: None }
    }
}
