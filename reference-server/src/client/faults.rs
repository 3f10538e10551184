//! Faults of the next requests.

use super::connection::Client;
use super::request::Request;
use crate::api::control::endpoints as e;
use crate::api::control::faults::{Fault, NewFault};

impl Client {
    /// The faults of the next requests.
    pub fn faults(&self) -> Faults<'_> {
        Faults(self)
    }
}

/// Requests for faults; see [`Client::faults`].
#[derive(Clone, Copy, Debug)]
pub struct Faults<'a>(&'a Client);

impl Faults<'_> {
    /// Adds a fault, which affects the next matching requests.
    pub fn add(&self, fault: &NewFault) -> Request<Fault> {
        self.0.json(&e::FAULTS_CREATE, &[]).with_body(&e::FAULTS_CREATE, fault)
    }

    /// Lists the faults with the requests that they affected.
    pub fn list(&self) -> Request<Vec<Fault>> {
        self.0.json(&e::FAULTS, &[])
    }

    /// Returns a fault with the requests that it affected.
    pub fn get(&self, id: &str) -> Request<Fault> {
        self.0.json(&e::FAULTS_GET, &[id])
    }

    /// Removes a fault.
    pub fn remove(&self, id: &str) -> Request<()> {
        self.0.empty(&e::FAULTS_DELETE, &[id])
    }

    /// Removes all faults.
    pub fn clear(&self) -> Request<()> {
        self.0.empty(&e::FAULTS_CLEAR, &[])
    }
}
