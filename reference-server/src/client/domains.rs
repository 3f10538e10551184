//! Sending domains.

use svc_sdk::email::Domain;

use super::connection::Client;
use super::request::Request;
use crate::api::control::Page;
use crate::api::control::endpoints as e;

impl Client {
    /// The sending domains, as the email service has them.
    pub fn domains(&self) -> Domains<'_> {
        Domains(self)
    }
}

/// Requests for sending domains; see [`Client::domains`].
#[derive(Clone, Copy, Debug)]
pub struct Domains<'a>(&'a Client);

impl Domains<'_> {
    /// Lists the domains, oldest first.
    pub fn list(&self) -> Request<Page<Domain>> {
        self.0.json(&e::DOMAINS, &[])
    }
}
