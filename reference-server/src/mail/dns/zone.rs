//! The built-in DNS zone for reserved names such as `*.test`, which no public zone
//! contains.

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

/// The records published under the reserved names, and that of the server itself. They are those of
/// the table, each with its name in lower case and without the final dot.
pub(crate) struct Zone(RwLock<Vec<(String, RData)>>);

impl Zone {
    /// Creates a zone that contains only the record of the server itself.
    pub(crate) fn new() -> Self {
        Self(RwLock::new(vec![own()]))
    }

    /// Replaces the published records.
    pub(crate) fn set(&self, published: &[Record]) {
        let published = published
            .iter()
            .filter_map(|record| Some((normal(&record.name), rdata(record)?)));
        let records = [own()].into_iter().chain(published).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = records;
    }

    /// Returns all records of a name without duplicates, or `None` if the name does not
    /// exist.
    pub(crate) fn lookup(&self, name: &str) -> Option<Vec<RData>> {
        let name = normal(name);
        let records = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<RData> = Vec::new();
        for (_, data) in records.iter().filter(|(owner, _)| *owner == name) {
            if !found.contains(data) {
                found.push(data.clone());
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
            || records.iter().any(|(owner, _)| owner.ends_with(&below));
        exists.then_some(found)
    }
}

/// The policy of the addresses that the server sends from.
fn own() -> (String, RData) {
    let senders = "v=spf1 ip4:127.0.0.0/8 ip6:::1 -all".to_owned();
    (SPF_HOST.to_owned(), RData::TXT(TXT::new(vec![senders])))
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
        zone.set(&[record(RecordKind::Dkim, "s1._domainkey.A.Test", "key")]);
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
        zone.set(&[spf.clone(), spf, dmarc("d1"), dmarc("d2")]);
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
