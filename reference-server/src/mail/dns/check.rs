//! The four DNS checks of a sending domain (MX, SPF, DKIM, DMARC), each as a mail
//! receiver would perform it.

use std::net::{IpAddr, Ipv4Addr};

use super::resolver::{LookupError, Resolver};
use super::spf;
use crate::messages::message_wire::SpfVerdict;
use crate::model::dns::{Check, Record, RecordKind};

/// Looks up each record. The results are in the order of the records.
pub(crate) async fn check(resolver: &Resolver, records: &[Record]) -> Vec<Check> {
    let checks = records.iter().map(|record| check_one(resolver, record));
    futures_util::future::join_all(checks).await
}

async fn check_one(resolver: &Resolver, record: &Record) -> Check {
    let (found, reason) = match look_up(resolver, record).await {
        Ok(found) => {
            let reason = problem(resolver, record, &found).await;
            (found, reason)
        }
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Check {
        kind: record.kind,
        name: record.name.clone(),
        expected: match record.priority {
            Some(priority) => format!("{priority} {}", record.value),
            None => record.value.clone(),
        },
        found,
        passed: reason.is_none(),
        reason,
    }
}

/// The records of this kind. Those of DMARC may be, as for receivers, at a parent domain.
async fn look_up(resolver: &Resolver, record: &Record) -> Result<Vec<String>, LookupError> {
    let mut name = record.name.clone();
    loop {
        let mut found = match record.kind {
            RecordKind::Mx => {
                let exchangers = resolver.mx(&name).await?.into_iter();
                exchangers
                    .map(|(priority, host)| format!("{priority} {host}"))
                    .collect()
            }
            _ => resolver.txt(&name).await?,
        };
        found.retain(|text| match record.kind {
            RecordKind::Spf => spf::is_spf(text),
            RecordKind::Dmarc => is_dmarc(text),
            RecordKind::Mx | RecordKind::Dkim => true,
        });
        let domain = name.strip_prefix("_dmarc.").filter(|_| found.is_empty());
        let parent = domain
            .and_then(|domain| domain.split_once('.'))
            .map(|(_, parent)| parent);
        match parent.filter(|parent| parent.contains('.')) {
            Some(parent) => name = format!("_dmarc.{parent}"),
            None => return Ok(found),
        }
    }
}

/// The address that sends mail, which the policy to include lists.
const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The problem of the records found.
async fn problem(resolver: &Resolver, record: &Record, found: &[String]) -> Option<String> {
    let value = &record.value;
    let (passed, problem) = match (record.kind, found) {
        (RecordKind::Mx, []) => (false, "no MX record found".to_owned()),
        (RecordKind::Spf, []) => (false, "no TXT record with v=spf1 found".to_owned()),
        (RecordKind::Dkim, []) => (false, "no TXT record found".to_owned()),
        (RecordKind::Dmarc, []) => (false, "no TXT record with v=DMARC1 found".to_owned()),
        (RecordKind::Spf | RecordKind::Dmarc, [_, _, ..]) => {
            let kind = if record.kind == RecordKind::Spf {
                "v=spf1"
            } else {
                "v=DMARC1"
            };
            (
                false,
                format!("several TXT records with {kind} found; receivers ignore all of them"),
            )
        }
        (RecordKind::Mx, _) => {
            let hosts = found
                .iter()
                .filter_map(|found| Some(found.split_once(' ')?.1));
            let points_here = hosts
                .into_iter()
                .any(|host| host.eq_ignore_ascii_case(value));
            (points_here, format!("no MX record points to {value}"))
        }
        (RecordKind::Spf, _) => match spf::evaluate(resolver, SENDER, &record.name).await {
            SpfVerdict::TempError => (false, LookupError::Failed.to_string()),
            verdict => {
                let include = value.split(' ').find(|term| term.starts_with("include:"));
                let include = include.unwrap_or_default();
                let problem = format!("the SPF policy does not let this server send: {include}");
                (verdict == SpfVerdict::Pass, problem)
            }
        },
        (RecordKind::Dkim, _) => {
            let expected = tag(value, "p").unwrap_or_default();
            let has_key = found.iter().any(|text| {
                let version = tag(text, "v").is_none_or(|v| v == "DKIM1");
                let kind = tag(text, "k").is_none_or(|k| k.eq_ignore_ascii_case("rsa"));
                version && kind && tag(text, "p").is_some_and(|key| key == expected)
            });
            (
                has_key,
                "the key in p= does not match, or is not an RSA key".to_owned(),
            )
        }
        (RecordKind::Dmarc, [policy, ..]) => {
            let policy = tag(policy, "p").unwrap_or_default().to_ascii_lowercase();
            let is_known = ["none", "quarantine", "reject"].contains(&policy.as_str());
            (is_known, "p= must be none, quarantine or reject".to_owned())
        }
    };
    (!passed).then_some(problem)
}

fn is_dmarc(text: &str) -> bool {
    let first = text.split(';').next().unwrap_or_default();
    first.split_once('=').is_some_and(|(name, value)| {
        name.trim().eq_ignore_ascii_case("v") && value.trim() == "DMARC1"
    })
}

/// Returns the value of a tag in a `tag=value; …` list, without white space.
pub(crate) fn tag(text: &str, name: &str) -> Option<String> {
    text.split(';').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        (key.trim() == name).then(|| value.split_whitespace().collect())
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use super::super::Zone;
    use super::super::start;
    use super::*;
    use crate::model::dns::records;

    const DOMAIN: &str = "mail.shop.test";
    const KEY: &str = "v=DKIM1; k=rsa; p=QUJDREVG";

    struct Fixture {
        zone: Arc<Zone>,
        resolver: Resolver,
        records: [Record; 4],
        published: RefCell<Vec<Record>>,
    }

    fn fixture() -> Fixture {
        let zone = Arc::new(Zone::new());
        let resolver = Resolver::new(Arc::clone(&zone), None);
        Fixture {
            zone,
            resolver,
            records: records(DOMAIN, "s1", KEY),
            published: RefCell::default(),
        }
    }

    impl Fixture {
        fn publish(&self, record: Record) {
            self.published.borrow_mut().push(record);
            self.zone.set_records(&self.published.borrow());
        }

        fn txt(&self, name: &str, text: &str) {
            self.publish(Record::new(
                RecordKind::Spf,
                name.to_owned(),
                text.to_owned(),
                None,
            ));
        }

        async fn check(&self, kind: RecordKind) -> Check {
            let checks = check(&self.resolver, &self.records).await;
            checks
                .into_iter()
                .find(|check| check.kind == kind)
                .expect("every kind")
        }
    }

    #[tokio::test]
    async fn the_requested_records_pass() {
        let f = fixture();
        for check in check(&f.resolver, &f.records).await {
            assert!(
                !check.passed && check.found.is_empty() && check.reason.is_some(),
                "{check:?}"
            );
        }

        for record in &f.records {
            f.publish(record.clone());
        }

        for check in check(&f.resolver, &f.records).await {
            assert!(check.passed && check.reason.is_none(), "{check:?}");
            assert_eq!(check.found, [check.expected.as_str()]);
        }
    }

    #[tokio::test]
    async fn mx_may_be_one_of_several() {
        let f = fixture();
        let mx = |host: &str| {
            f.publish(Record::new(
                RecordKind::Mx,
                DOMAIN.to_owned(),
                host.to_owned(),
                Some(5),
            ));
        };

        mx("mx.other.test");
        let check = f.check(RecordKind::Mx).await;
        assert_eq!(check.found, ["5 mx.other.test"]);
        assert_eq!(
            check.reason.as_deref(),
            Some("no MX record points to inbound.sandbox.localhost")
        );
        mx("Inbound.Sandbox.LOCALHOST.");
        assert!(f.check(RecordKind::Mx).await.passed);
    }

    #[tokio::test]
    async fn spf_accepts_a_policy_that_lets_this_server_send() {
        for (policy, passes) in [
            (
                "v=spf1 mx include:spf.inbound.sandbox.localhost ip4:1.2.3.4 -all",
                true,
            ),
            ("V=SPF1 a +INCLUDE:SPF.inbound.sandbox.localhost ?all", true),
            ("v=spf1 include:team.shop.test -all", true),
            ("v=spf1 redirect=team.shop.test", true),
            ("v=spf1 mx -all", false),
            ("v=spf1 -all include:spf.inbound.sandbox.localhost", false),
            ("v=spf1 -include:spf.inbound.sandbox.localhost", false),
            ("v=spf1 include:loop.shop.test -all", false),
            ("v=spf1 all redirect=team.shop.test", true),
        ] {
            let f = fixture();
            f.txt(
                "team.shop.test",
                "v=spf1 include:spf.inbound.sandbox.localhost ~all",
            );
            f.txt("loop.shop.test", "v=spf1 include:loop.shop.test ~all");
            f.txt(DOMAIN, "google-site-verification=x");
            f.txt(DOMAIN, policy);
            let check = f.check(RecordKind::Spf).await;
            assert_eq!(check.passed, passes, "{policy}: {check:?}");
            assert_eq!(check.found, [policy]);
        }
    }

    #[tokio::test]
    async fn two_spf_records_fail() {
        let f = fixture();
        f.txt(DOMAIN, &f.records[1].value);
        f.txt(DOMAIN, "v=spf1 -all");
        let check = f.check(RecordKind::Spf).await;
        assert!(!check.passed && check.found.len() == 2, "{check:?}");
        assert!(
            check
                .reason
                .is_some_and(|reason| reason.contains("several"))
        );
    }

    #[tokio::test]
    async fn dkim_compares_only_the_key() {
        for (text, passes) in [
            ("p=QUJDREVG", true),
            ("v=DKIM1; h=sha256; k=rsa; t=s; p=QUJD REVG; n=note", true),
            ("v=DKIM1; k=rsa; p=", false),
            ("v=DKIM1; k=rsa; p=AAAA", false),
            ("v=DKIM2; k=rsa; p=QUJDREVG", false),
            ("v=DKIM1; k=ed25519; p=QUJDREVG", false),
        ] {
            let f = fixture();
            f.txt(&f.records[2].name, text);
            assert_eq!(f.check(RecordKind::Dkim).await.passed, passes, "{text}");
        }
    }

    #[tokio::test]
    async fn dmarc_accepts_any_policy_also_of_a_parent_domain() {
        for (name, text, passes) in [
            (
                "_dmarc.mail.shop.test",
                "v=DMARC1; p=reject; rua=mailto:x@y.test",
                true,
            ),
            (
                "_dmarc.mail.shop.test",
                "v=DMARC1;p=Quarantine;pct=50",
                true,
            ),
            ("_dmarc.shop.test", "v=DMARC1; p=none", true),
            ("_dmarc.test", "v=DMARC1; p=none", false),
            ("_dmarc.mail.shop.test", "v=DMARC1; p=maybe", false),
            ("_dmarc.mail.shop.test", "p=none; v=DMARC1", false),
        ] {
            let f = fixture();
            f.txt(name, text);
            assert_eq!(
                f.check(RecordKind::Dmarc).await.passed,
                passes,
                "{name} {text}"
            );
        }

        let f = fixture();
        f.txt("_dmarc.mail.shop.test", "v=DMARC1; p=none");
        f.txt("_dmarc.mail.shop.test", "v=DMARC1; p=reject");
        assert!(!f.check(RecordKind::Dmarc).await.passed);
    }

    #[tokio::test]
    async fn a_failed_lookup_fails_the_check() {
        let f = fixture();
        let records = records("shop.example.com", "s1", KEY);
        // This server refuses names outside its zone.
        let started = start("127.0.0.1:0".parse().expect("an address"), f.zone.clone());
        let (address, _tasks) = started.await.expect("started");
        let refusing = Resolver::new(f.zone, Some(address));
        for check in check(&refusing, &records).await {
            assert!(!check.passed && check.found.is_empty(), "{check:?}");
            assert!(check.reason.is_some_and(|reason| reason.contains("lookup")));
        }
    }
}
