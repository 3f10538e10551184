//! The zone that answers for the names that no real zone will ever hold.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{INBOUND_HOST, RecordKind, spf_host};

/// The reserved top-level domains (RFC 2606 and RFC 6761) that the zone is the authority for.
pub(super) const RESERVED: [&str; 4] = ["test", "example", "invalid", "localhost"];

/// Whether the built-in zone, and no other server, answers for this name.
pub(crate) fn is_reserved(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or(name);
    RESERVED.iter().any(|reserved| last.eq_ignore_ascii_case(reserved))
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    Mx { preference: u16, exchange: String },
    Txt(String),
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
}

/// The records published under the reserved names. It lives in memory: who
/// publishes keeps them and puts them back after a start.
pub(crate) struct Zone {
    /// By the name's labels in reverse, so that what is below a name follows it.
    names: RwLock<BTreeMap<String, Vec<Published>>>,
}

struct Published {
    owner: String,
    kind: Option<RecordKind>,
    data: Data,
}

impl Zone {
    /// A zone that holds what belongs to the server itself.
    pub(crate) fn new() -> Self {
        let zone = Self { names: RwLock::default() };
        let senders = "v=spf1 ip4:127.0.0.0/8 ip6:::1 -all".to_owned();
        zone.insert("", None, &spf_host(INBOUND_HOST), Data::Txt(senders));
        zone
    }

    /// Publishes a record for `owner`, the domain's id: two organizations may
    /// hold the same domain, and the records of one do not depend on the other's.
    pub(crate) fn publish(&self, owner: &str, kind: RecordKind, name: &str, data: Data) {
        self.insert(owner, Some(kind), name, data);
    }

    /// Withdraws what `owner` has published of this kind, or all of it.
    pub(crate) fn withdraw(&self, owner: &str, kind: Option<RecordKind>) {
        self.write().retain(|_, published| {
            published.retain(|p| {
                p.kind.is_none() || p.owner != owner || (kind.is_some() && p.kind != kind)
            });
            !published.is_empty()
        });
    }

    /// Withdraws everything that was published.
    pub(crate) fn clear(&self) {
        self.write().retain(|_, published| {
            published.retain(|p| p.kind.is_none());
            !published.is_empty()
        });
    }

    /// Everything at a name, without repetition; nothing where the name does not exist.
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
        // RFC 6761: every name under localhost is this machine.
        if key == "localhost" || key.starts_with("localhost.") {
            exists = true;
            data.push(Data::A(Ipv4Addr::LOCALHOST));
            data.push(Data::Aaaa(Ipv6Addr::LOCALHOST));
        }
        // A name that only has names below it exists too.
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
                let there = entry.get_mut();
                if !there.iter().any(|p| p.owner == owner && p.data == published.data) {
                    there.push(published);
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
    fn names_exist_in_any_case_and_when_only_something_is_below() {
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
    fn each_owner_withdraws_its_own() {
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
    fn the_servers_own_names_stay() {
        let zone = Zone::new();
        zone.clear();
        zone.withdraw("", None);
        let senders = txt("v=spf1 ip4:127.0.0.0/8 ip6:::1 -all");
        let found = zone.lookup("spf.inbound.sandbox.localhost").expect("there");
        assert!(found.contains(&senders), "{found:?}");
        let loopback = [Data::A(Ipv4Addr::LOCALHOST), Data::Aaaa(Ipv6Addr::LOCALHOST)];
        assert_eq!(zone.lookup(INBOUND_HOST).as_deref(), Some(&loopback[..]));
    }

    #[test]
    fn reserved_names_are_known() {
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
