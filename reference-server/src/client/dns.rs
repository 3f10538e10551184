//! The built-in DNS zone.

use super::connection::Client;
use super::request::Request;
use crate::api::control::dns::Publish;
use crate::api::control::dns::Published;
use crate::api::control::endpoints as e;
use crate::model::dns::RecordKind;

impl Client {
    /// The records of sending domains in the built-in DNS zone.
    pub fn dns(&self) -> Dns<'_> {
        Dns(self)
    }
}

/// Requests for DNS records; see [`Client::dns`].
#[derive(Clone, Copy, Debug)]
pub struct Dns<'a>(&'a Client);

impl Dns<'_> {
    /// Publishes the records of a sending domain, given by name or ID: these kinds, or all if
    /// there are none.
    pub fn publish(&self, domain: &str, kinds: &[RecordKind]) -> Request<Published> {
        let records = kinds.iter().map(ToString::to_string).collect();
        let body =
            Publish { records: Some(records).filter(|_| !kinds.is_empty()), ..Publish::default() };
        self.0.json(&e::DNS_PUBLISH, &[domain]).with_body(&e::DNS_PUBLISH, &body)
    }

    /// Withdraws the records of a domain: one kind, or all.
    pub fn withdraw(&self, domain: &str, kind: Option<RecordKind>) -> Request<()> {
        match kind {
            Some(kind) => self.0.empty(&e::DNS_WITHDRAW_RECORD, &[domain, kind.as_str()]),
            None => self.0.empty(&e::DNS_WITHDRAW, &[domain]),
        }
    }
}
