//! Audiences and their contacts.

use svc_sdk::email::{Audience, Contact};

use super::connection::Client;
use super::request::Request;
use crate::api::control::Page;
use crate::api::control::endpoints as e;

impl Client {
    /// The audiences and their contacts, as the email service has them.
    pub fn audiences(&self) -> Audiences<'_> {
        Audiences(self)
    }
}

/// Requests for audiences; see [`Client::audiences`].
#[derive(Clone, Copy, Debug)]
pub struct Audiences<'a>(&'a Client);

impl Audiences<'_> {
    /// Lists the audiences, oldest first.
    pub fn list(&self) -> Request<Page<Audience>> {
        self.0.json(&e::AUDIENCES, &[])
    }

    /// Lists the contacts of an audience, oldest first.
    pub fn contacts(&self, id: &str) -> Request<Page<Contact>> {
        self.0.json(&e::AUDIENCES_CONTACTS, &[id])
    }
}
