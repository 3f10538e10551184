//! Sending domains with their DNS records; audiences with their contacts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::email::{Audience, Contact, Domain};

use super::client::{Client, Request};
use super::endpoint::{DELETE, Endpoint, GET, POST, Page};
use super::query::PageQuery;
use crate::model::dns::{Record, RecordKind};

pub(crate) const DOMAINS: Endpoint<(), Page<Domain>, PageQuery> =
    Endpoint::new(GET, "/_sandbox/domains", "List the sending domains");
pub(crate) const AUDIENCES: Endpoint<(), Page<Audience>, PageQuery<String>> =
    Endpoint::new(GET, "/_sandbox/audiences", "List the audiences");
pub(crate) const CONTACTS: Endpoint<(), Page<Contact>, PageQuery> =
    Endpoint::new(GET, "/_sandbox/audiences/{id}/contacts", "List the contacts of an audience");
pub(crate) const PUBLISH: Endpoint<Publish, Published> = Endpoint::new(
    POST,
    "/_sandbox/dns/{domain}/publish",
    "Publish the DNS records of a sending domain in the built-in zone",
)
.optional_body();
pub(crate) const WITHDRAW: Endpoint<(), ()> =
    Endpoint::new(DELETE, "/_sandbox/dns/{domain}", "Withdraw all DNS records of a domain");
pub(crate) const WITHDRAW_RECORD: Endpoint<(), ()> =
    Endpoint::new(DELETE, "/_sandbox/dns/{domain}/{record}", "Withdraw one DNS record of a domain");

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Publish {
    pub(crate) organization: Option<String>,
    /// The kinds of records to publish. Default: all four.
    pub(crate) records: Option<Vec<RecordKind>>,
}

/// The DNS records that were published.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Published {
    /// The records.
    pub published: Vec<Record>,
}

impl Client {
    /// The sending domains, as the email service has them.
    pub fn domains(&self) -> Domains<'_> {
        Domains(self)
    }

    /// The audiences and their contacts, as the email service has them.
    pub fn audiences(&self) -> Audiences<'_> {
        Audiences(self)
    }

    /// The records of sending domains in the built-in DNS zone.
    pub fn dns(&self) -> Dns<'_> {
        Dns(self)
    }
}

/// Requests for sending domains; see [`Client::domains`].
#[derive(Clone, Copy, Debug)]
pub struct Domains<'a>(&'a Client);

impl Domains<'_> {
    /// Lists the domains, oldest first.
    pub fn list(&self) -> Request<Page<Domain>> {
        self.0.call(&DOMAINS, &[])
    }
}

/// Requests for audiences; see [`Client::audiences`].
#[derive(Clone, Copy, Debug)]
pub struct Audiences<'a>(&'a Client);

impl Audiences<'_> {
    /// Lists the audiences, oldest first.
    pub fn list(&self) -> Request<Page<Audience>> {
        self.0.call(&AUDIENCES, &[])
    }

    /// Lists the contacts of an audience, oldest first.
    pub fn contacts(&self, id: &str) -> Request<Page<Contact>> {
        self.0.call(&CONTACTS, &[id])
    }
}

/// Requests for DNS records; see [`Client::dns`].
#[derive(Clone, Copy, Debug)]
pub struct Dns<'a>(&'a Client);

impl Dns<'_> {
    /// Publishes the records of a sending domain, given by name or ID: these kinds, or all if
    /// there are none.
    pub fn publish(&self, domain: &str, kinds: &[RecordKind]) -> Request<Published> {
        let records = Some(kinds.to_vec()).filter(|kinds| !kinds.is_empty());
        self.0.send(&PUBLISH, &[domain], &Publish { organization: None, records })
    }

    /// Withdraws the records of a domain: one kind, or all.
    pub fn withdraw(&self, domain: &str, kind: Option<RecordKind>) -> Request<()> {
        match kind {
            Some(kind) => self.0.call(&WITHDRAW_RECORD, &[domain, kind.as_str()]),
            None => self.0.call(&WITHDRAW, &[domain]),
        }
    }
}
