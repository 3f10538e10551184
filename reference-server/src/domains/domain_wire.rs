//! Sending domains with their DNS records.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::email::Domain;

use crate::control::{Client, Cursor, DELETE, Endpoint, POST, Page, Request, requests};
use crate::model::{Record, RecordKind};

requests! {
    /// Lists the sending domains as the email service has them, oldest first.
    DOMAINS: fn domains() -> Page<Domain> = Endpoint::list(
        "sandboxDomainsList",
        "/_sandbox/domains",
        "List the sending domains",
        Cursor::Id,
    );
}

pub(crate) const PUBLISH: Endpoint<Publish, Published> = Endpoint::new(
    POST,
    "sandboxDnsPublish",
    "/_sandbox/dns/{domain}/publish",
    "Publish the DNS records of a sending domain in the built-in zone",
)
.optional_body();
pub(crate) const WITHDRAW: Endpoint<(), ()> = Endpoint::new(
    DELETE,
    "sandboxDnsClear",
    "/_sandbox/dns/{domain}",
    "Clear the DNS records of a domain",
);
pub(crate) const WITHDRAW_RECORD: Endpoint<(), ()> = Endpoint::new(
    DELETE,
    "sandboxDnsWithdraw",
    "/_sandbox/dns/{domain}/{record}",
    "Withdraw one DNS record of a domain",
);

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
    /// Publishes the records of a sending domain, given by name or ID, in the built-in DNS zone:
    /// these kinds, or all if there are none.
    pub fn publish_dns(&self, domain: &str, kinds: &[RecordKind]) -> Request<Published> {
        let records = Some(kinds.to_vec()).filter(|kinds| !kinds.is_empty());
        self.send(
            &PUBLISH,
            &[domain],
            &Publish {
                organization: None,
                records,
            },
        )
    }

    /// Withdraws the records of a domain from the zone: one kind, or all.
    pub fn withdraw_dns(&self, domain: &str, kind: Option<RecordKind>) -> Request<()> {
        match kind {
            Some(kind) => self.call(&WITHDRAW_RECORD, &[domain, kind.as_str()]),
            None => self.call(&WITHDRAW, &[domain]),
        }
    }
}
