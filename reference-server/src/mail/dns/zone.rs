//! The built-in DNS zone for reserved names such as `*.test`, which no public zone
//! contains.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::model::dns::{INBOUND_HOST, Record, RecordKind, spf_host};

/// Reserved top-level domains (RFC 2606, RFC 6761) for which the zone is authoritative.
pub(super) const RESERVED: [&str; 4] = ["test", "example", "invalid", "localhost"];

/// Whether only the built-in zone answers for this name.
pub(crate) fn is_reserved(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or(name);
    RESERVED.iter().any(|reserved| last.eq_ignore_ascii_case(reserved))
}

/// Data of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    Mx { preference: u16, exchange: String },
    Txt(String),
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
}

impl From<&Record> for Data {
    fn from(record: &Record) -> Self {
        match record.kind {
            RecordKind::Mx => Self::Mx {
                preference: record.priority.unwrap_or_default(),
                exchange: record.value.clone(),
            },
            RecordKind::Spf | RecordKind::Dkim | RecordKind::Dmarc => {
                Self::Txt(record.value.clone())
            }
        }
    }
}

/// Records published under the reserved names, in memory. The callers store the records
/// and publish them again after a restart.
pub(crate) struct Zone {
    /// Keyed by the labels in reverse order, so that subdomains follow their parent.
    names: RwLock<BTreeMap<String, Vec<Published>>>,
}

struct Published {
    owner: String,
    kind: Option<RecordKind>,
    data: Data,
}

impl Zone {
    /// Creates a zone that contains only the records of the server itself.
    pub(crate) fn new() -> Self {
        let zone = Self { names: RwLock::default() };
        let senders = "v=spf1 ip4:127.0.0.0/8 ip6:::1 -all".to_owned();
        zone.insert("", None, &spf_host(INBOUND_HOST), Data::Txt(senders));
        zone
    }

    /// Publishes a record for `owner`, a domain id. Two organizations may have the same
    /// domain, and their records are independent of each other.
    pub(crate) fn publish(&self, owner: &str, kind: RecordKind, name: &str, data: Data) {
        self.insert(owner, Some(kind), name, data);
    }

    /// Withdraws the owner's records of this kind, or all of its records.
    pub(crate) fn withdraw(&self, owner: &str, kind: Option<RecordKind>) {
        self.write().retain(|_, published| {
            published.retain(|p| {
                p.kind.is_none() || p.owner != owner || (kind.is_some() && p.kind != kind)
            });
            !published.is_empty()
        });
    }

    /// Withdraws all published records.
    pub(crate) fn clear(&self) {
        self.write().retain(|_, published| {
            published.retain(|p| p.kind.is_none());
            !published.is_empty()
        });
    }

    /// Returns all records of a name without duplicates, or `None` if the name does not
    /// exist.
    pub(crate) fn lookup(&self, name: &str) -> Option<Vec<Data>> {
        let key = key(name);
        let names = self.read();
        let mut data: Vec<Data> = Vec::new();
        let mut exists = RESERVED.contains(&key.as_str());
        if let Some(published) = names.get(&key) {
            exists = true;
            for p in published {
                if !data.contains(&p.data) {
                    data.push(p.data.clone());
                }
            }
        }
        // RFC 6761: every name under localhost resolves to the loopback addresses.
        if key == "localhost" || key.starts_with("localhost.") {
            exists = true;
            data.push(Data::A(Ipv4Addr::LOCALHOST));
            data.push(Data::Aaaa(Ipv6Addr::LOCALHOST));
        }
        // A name without records exists if it has subdomains.
        let below = format!("{key}.");
        exists = exists
            || names.range(below.clone()..).next().is_some_and(|(k, _)| k.starts_with(&below));
        exists.then_some(data)
    }

    fn insert(&self, owner: &str, kind: Option<RecordKind>, name: &str, data: Data) {
        let published = Published { owner: owner.to_owned(), kind, data };
        match self.write().entry(key(name)) {
            Entry::Vacant(entry) => {
                entry.insert(vec![published]);
            }
            Entry::Occupied(mut entry) => {
                let entries = entry.get_mut();
                if !entries.iter().any(|p| p.owner == owner && p.data == published.data) {
                    entries.push(published);
                }
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Vec<Published>>> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Vec<Published>>> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(name: &str) -> String {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name.rsplit('.').collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txt(text: &str) -> Data {
        Data::Txt(text.to_owned())
    }

    #[test]
    fn lookup_ignores_case_and_finds_empty_non_terminals() {
        let zone = Zone::new();
        assert_eq!(zone.lookup("a.test"), None);
        zone.publish("d1", RecordKind::Dkim, "s1._domainkey.A.Test", txt("key"));
        assert_eq!(zone.lookup("S1._DomainKey.a.TEST."), Some(vec![txt("key")]));
        assert_eq!(zone.lookup("_domainkey.a.test"), Some(vec![]));
        assert_eq!(zone.lookup("a.test"), Some(vec![]));
        assert_eq!(zone.lookup("test"), Some(vec![]));
        assert_eq!(zone.lookup("b.test"), None);
        assert_eq!(zone.lookup("main.test"), None);
    }

    #[test]
    fn withdraw_removes_only_the_owners_records() {
        let zone = Zone::new();
        for owner in ["d1", "d2"] {
            zone.publish(owner, RecordKind::Spf, "a.test", txt("v=spf1 -all"));
            zone.publish(owner, RecordKind::Dmarc, "_dmarc.a.test", txt(owner));
        }
        assert_eq!(zone.lookup("a.test"), Some(vec![txt("v=spf1 -all")]));
        zone.withdraw("d1", Some(RecordKind::Spf));
        assert_eq!(zone.lookup("a.test"), Some(vec![txt("v=spf1 -all")]));
        assert_eq!(zone.lookup("_dmarc.a.test"), Some(vec![txt("d1"), txt("d2")]));
        zone.withdraw("d1", None);
        assert_eq!(zone.lookup("_dmarc.a.test"), Some(vec![txt("d2")]));
        zone.clear();
        assert_eq!(zone.lookup("a.test"), None);
    }

    #[test]
    fn the_servers_own_records_cannot_be_withdrawn() {
        let zone = Zone::new();
        zone.clear();
        zone.withdraw("", None);
        let senders = txt("v=spf1 ip4:127.0.0.0/8 ip6:::1 -all");
        let found = zone.lookup("spf.inbound.sandbox.localhost").expect("records");
        assert!(found.contains(&senders), "{found:?}");
        let loopback = [Data::A(Ipv4Addr::LOCALHOST), Data::Aaaa(Ipv6Addr::LOCALHOST)];
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
