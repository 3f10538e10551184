//! The built-in DNS zone for reserved names such as `*.test`, which no public zone
//! contains.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{PoisonError, RwLock};

use hickory_proto::rr::rdata::{MX, TXT};
use hickory_proto::rr::{Name, RData};

use crate::model::dns::{Record, RecordKind, SPF_HOST};

/// Reserved top-level domains (RFC 2606, RFC 6761) for which the zone is authoritative.
pub(super) const RESERVED: [&str; 4] = ["test", "example", "invalid", "localhost"];

/// Whether only the built-in zone answers for this name.
pub(crate) fn is_reserved(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or(name);
    RESERVED
        .iter()
        .any(|reserved| last.eq_ignore_ascii_case(reserved))
}

/// The records published under the reserved names, by the domain whose they are, and that of the
/// server itself.
pub(crate) struct Zone(RwLock<HashMap<String, Vec<ZoneRecord>>>);

/// A record of the table.
struct ZoneRecord {
    /// In lower case and without the final dot.
    name: String,
    data: RData,
}

impl Zone {
    /// Creates a zone that contains only the record of the server itself.
    pub(crate) fn new() -> Self {
        Self(RwLock::new(own()))
    }

    /// Replaces all published records, each with its domain.
    pub(crate) fn set(&self, published: &[(String, Record)]) {
        let mut domains = own();
        for (domain, record) in published {
            let records = domains.entry(domain.clone()).or_default();
            records.extend(ZoneRecord::of(record));
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = domains;
    }

    /// Replaces all published records, those of domains with two labels.
    #[cfg(test)]
    pub(crate) fn set_records(&self, records: &[Record]) {
        let domain = |record: &Record| {
            let name = normal(&record.name);
            let start = name.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
            name[start..].to_owned()
        };
        let of_domains: Vec<_> = records
            .iter()
            .map(|record| (domain(record), record.clone()))
            .collect();
        self.set(&of_domains);
    }

    /// Replaces the published records of one domain, which several organizations may have.
    pub(crate) fn set_domain(&self, domain: &str, published: &[Record]) {
        let records: Vec<_> = published.iter().filter_map(ZoneRecord::of).collect();
        let mut domains = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if records.is_empty() {
            domains.remove(domain);
        } else {
            domains.insert(domain.to_owned(), records);
        }
    }

    /// Returns all records of a name without duplicates, or `None` if the name does not
    /// exist.
    pub(crate) fn lookup(&self, name: &str) -> Option<Vec<RData>> {
        let name = normal(name);
        let domains = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<RData> = Vec::new();
        for domain in parents(&name) {
            for record in domains.get(domain).into_iter().flatten() {
                if record.name == name && !found.contains(&record.data) {
                    found.push(record.data.clone());
                }
            }
        }

        let below = format!(".{name}");
        // RFC 6761: every name under localhost resolves to the loopback addresses.
        if name == "localhost" || name.ends_with(".localhost") {
            found.push(RData::A(Ipv4Addr::LOCALHOST.into()));
            found.push(RData::AAAA(Ipv6Addr::LOCALHOST.into()));
        }
        // A name without records exists if it has subdomains.
        let exists = !found.is_empty()
            || RESERVED.contains(&name.as_str())
            || domains
                .values()
                .flatten()
                .any(|record| record.name.ends_with(&below));
        exists.then_some(found)
    }
}

impl ZoneRecord {
    fn of(record: &Record) -> Option<Self> {
        Some(Self {
            name: normal(&record.name),
            data: rdata(record)?,
        })
    }
}

/// The name itself, and the domains that it is in.
fn parents(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| Some(name.split_once('.')?.1))
}

/// The policy of the addresses that the server sends from.
fn own() -> HashMap<String, Vec<ZoneRecord>> {
    let senders = "v=spf1 ip4:127.0.0.0/8 ip6:::1 -all".to_owned();
    let record = ZoneRecord {
        name: SPF_HOST.to_owned(),
        data: RData::TXT(TXT::new(vec![senders])),
    };
    HashMap::from([(SPF_HOST.to_owned(), vec![record])])
}

fn rdata(record: &Record) -> Option<RData> {
    Some(match record.kind {
        RecordKind::Mx => {
            let exchange = absolute(&record.value)?;
            RData::MX(MX::new(record.priority.unwrap_or_default(), exchange))
        }
        RecordKind::Spf | RecordKind::Dkim | RecordKind::Dmarc => RData::TXT(TXT::from_bytes(
            record.value.as_bytes().chunks(255).collect(),
        )),
    })
}

pub(super) fn absolute(name: &str) -> Option<Name> {
    let mut name = Name::from_ascii(name).ok()?;
    name.set_fqdn(true);
    Some(name)
}

fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::dns::INBOUND_HOST;

    fn txt(text: &str) -> RData {
        RData::TXT(TXT::new(vec![text.to_owned()]))
    }

    fn record(kind: RecordKind, name: &str, value: &str) -> Record {
        Record::new(kind, name.to_owned(), value.to_owned(), None)
    }

    #[test]
    fn lookup_ignores_case_and_finds_empty_non_terminals() {
        let zone = Zone::new();
        assert_eq!(zone.lookup("a.test"), None);
        let dkim = record(RecordKind::Dkim, "s1._domainkey.A.Test", "key");
        zone.set_domain("a.test", &[dkim]);
        assert_eq!(zone.lookup("S1._DomainKey.a.TEST."), Some(vec![txt("key")]));
        assert_eq!(zone.lookup("_domainkey.a.test"), Some(vec![]));
        assert_eq!(zone.lookup("a.test"), Some(vec![]));
        assert_eq!(zone.lookup("test"), Some(vec![]));
        assert_eq!(zone.lookup("b.test"), None);
        assert_eq!(zone.lookup("main.test"), None);
    }

    #[test]
    fn the_same_record_of_two_owners_is_there_once() {
        let zone = Zone::new();
        let spf = record(RecordKind::Spf, "a.test", "v=spf1 -all");
        let dmarc = |value| record(RecordKind::Dmarc, "_dmarc.a.test", value);
        let records = [spf.clone(), spf, dmarc("d1"), dmarc("d2")];
        zone.set(&records.map(|record| ("a.test".to_owned(), record)));
        assert_eq!(zone.lookup("a.test"), Some(vec![txt("v=spf1 -all")]));
        assert_eq!(
            zone.lookup("_dmarc.a.test"),
            Some(vec![txt("d1"), txt("d2")])
        );
        zone.set(&[]);
        assert_eq!(zone.lookup("a.test"), None);
    }

    #[test]
    fn the_servers_own_records_stay() {
        let zone = Zone::new();
        zone.set(&[]);
        let senders = txt("v=spf1 ip4:127.0.0.0/8 ip6:::1 -all");
        let found = zone
            .lookup("spf.inbound.sandbox.localhost")
            .expect("records");
        assert!(found.contains(&senders), "{found:?}");
        let loopback = [
            RData::A(Ipv4Addr::LOCALHOST.into()),
            RData::AAAA(Ipv6Addr::LOCALHOST.into()),
        ];
        assert_eq!(zone.lookup(INBOUND_HOST).as_deref(), Some(&loopback[..]));
    }

    #[test]
    fn recognizes_reserved_names() {
        for (name, reserved) in [
            ("test", true),
            ("a.Test.", true),
            ("x.example", true),
            ("x.invalid", true),
            ("localhost", true),
            ("example.com", false),
            ("contest", false),
            ("test.org", false),
        ] {
            assert_eq!(is_reserved(name), reserved, "{name}");
        }
    }
}
