//! SPF (RFC 7208): evaluates the policy of a sender's domain. It is our own, because `mail-auth`
//! costs minutes of a build. `exists`, `ptr` and names with macros are passed over: they name the
//! hosts of large senders, and mail comes here from this machine or this team. No failure follows
//! from a policy with them.

use std::net::IpAddr;

use super::resolver::{LookupError, Resolver};
use crate::messages::message_wire::SpfVerdict;
use crate::net::target::contains;

/// Whether a TXT record is an SPF policy.
pub(super) fn is_spf(text: &str) -> bool {
    let version = text.split(' ').next().unwrap_or_default();
    version.eq_ignore_ascii_case("v=spf1")
}

/// Evaluates the policy of a domain for a client address.
pub(crate) async fn evaluate(resolver: &Resolver, client: IpAddr, domain: &str) -> SpfVerdict {
    let mut session = Session {
        resolver,
        client: client.to_canonical(),
        lookups: MAX_LOOKUPS,
        passed_over: false,
    };
    session
        .check_host(domain)
        .await
        .unwrap_or_else(|error| error)
}

/// Maximum number of terms that need a lookup (§4.6.4), and of exchangers of an `mx`.
const MAX_LOOKUPS: usize = 10;

struct Session<'a> {
    resolver: &'a Resolver,
    client: IpAddr,
    /// How many terms may still need a lookup.
    lookups: usize,
    /// Whether a term that might match was passed over.
    passed_over: bool,
}

impl From<LookupError> for SpfVerdict {
    fn from(_: LookupError) -> Self {
        Self::TempError
    }
}

impl Session<'_> {
    /// `check_host()` of §4. The errors are `TempError` and `PermError`.
    async fn check_host(&mut self, domain: &str) -> Result<SpfVerdict, SpfVerdict> {
        let mut policies = self.resolver.txt(domain).await?;
        policies.retain(|text| is_spf(text));
        let policy = match &policies[..] {
            [] => return Ok(SpfVerdict::None),
            [policy] => policy.to_ascii_lowercase(),
            _ => return Err(SpfVerdict::PermError),
        };
        let mut redirect = None;
        for term in policy.split_ascii_whitespace().skip(1) {
            match term.split_once('=') {
                Some(("redirect", target)) => redirect = Some(target),
                Some(_) => {}
                None => {
                    let (verdict, mechanism) = qualified(term);
                    if self.matches(mechanism, domain).await? {
                        let fails = matches!(verdict, SpfVerdict::Fail | SpfVerdict::SoftFail);
                        let is_certain = !(fails && self.passed_over);
                        return Ok(if is_certain {
                            verdict
                        } else {
                            SpfVerdict::Neutral
                        });
                    }
                }
            }
        }

        match redirect.filter(|target| !target.contains('%')) {
            Some(target) => self.policy_of(target).await,
            None => Ok(SpfVerdict::Neutral),
        }
    }

    /// Evaluates another domain, which must have a policy.
    async fn policy_of(&mut self, domain: &str) -> Result<SpfVerdict, SpfVerdict> {
        self.count_lookup()?;
        match Box::pin(self.check_host(domain)).await? {
            SpfVerdict::None => Err(SpfVerdict::PermError),
            verdict => Ok(verdict),
        }
    }

    fn count_lookup(&mut self) -> Result<(), SpfVerdict> {
        self.lookups = self.lookups.checked_sub(1).ok_or(SpfVerdict::PermError)?;
        Ok(())
    }

    /// Whether a mechanism, such as `mx:shop.test/24`, matches the client.
    async fn matches(&mut self, mechanism: &str, domain: &str) -> Result<bool, SpfVerdict> {
        let (name, value) = mechanism.split_once(':').unwrap_or((mechanism, ""));
        let (name, prefixes) = name.split_once('/').unwrap_or((name, ""));
        if value.contains('%') || matches!(name, "exists" | "ptr") {
            self.passed_over = true;
            return Ok(false);
        }

        match name {
            "all" => return Ok(true),
            "ip4" | "ip6" => return contains(value, self.client).ok_or(SpfVerdict::PermError),
            "include" if !value.is_empty() => {
                return Ok(self.policy_of(value).await? == SpfVerdict::Pass);
            }
            "a" | "mx" => self.count_lookup()?,
            _ => return Err(SpfVerdict::PermError),
        }

        let (host, prefixes) = value.split_once('/').unwrap_or((value, prefixes));
        let host = if host.is_empty() { domain } else { host };
        // `/24` is for IPv4, and `//64` for IPv6.
        let (v4, v6) = prefixes.split_once('/').unwrap_or((prefixes, ""));
        let v6 = v6.trim_start_matches('/');
        let prefix = if self.client.is_ipv4() { v4 } else { v6 };
        let prefix = if prefix.is_empty() { "128" } else { prefix };
        let hosts = match name {
            "a" => vec![host.to_owned()],
            _ => self
                .resolver
                .mx(host)
                .await?
                .into_iter()
                .map(|(_, host)| host)
                .collect(),
        };
        for host in hosts.iter().take(MAX_LOOKUPS) {
            for address in self.resolver.addresses(host, self.client).await? {
                let network = format!("{address}/{prefix}");
                if contains(&network, self.client).ok_or(SpfVerdict::PermError)? {
                    return Ok(true);
                }
            }
        }

        Ok(false)
    }
}

/// The result if the term matches, and the term without its sign.
fn qualified(term: &str) -> (SpfVerdict, &str) {
    let verdict = match term.as_bytes().first() {
        Some(b'-') => SpfVerdict::Fail,
        Some(b'~') => SpfVerdict::SoftFail,
        Some(b'?') => SpfVerdict::Neutral,
        _ => SpfVerdict::Pass,
    };
    (
        verdict,
        term.strip_prefix(['-', '~', '?', '+']).unwrap_or(term),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::model::dns::RecordKind;

    fn resolver(policies: &[(&str, &str)]) -> Resolver {
        let policies = policies
            .iter()
            .map(|(name, policy)| (RecordKind::Spf, *name, *policy));
        let mx = (RecordKind::Mx, "a.test", "mail.localhost");
        Resolver::new(
            testing::zone(&policies.chain([mx]).collect::<Vec<_>>()),
            None,
        )
    }

    async fn evaluate_policies(policies: &[(&str, &str)], client: &str) -> SpfVerdict {
        let client = client.parse().expect("an address");
        evaluate(&resolver(policies), client, "a.test").await
    }

    #[tokio::test]
    async fn evaluates_mechanisms_and_qualifiers() {
        use SpfVerdict::*;
        for (policy, client, verdict) in [
            ("v=spf1 ip4:192.0.2.0/24 -all", "192.0.2.9", Pass),
            ("v=spf1 ip4:192.0.2.0/24 -all", "192.0.3.9", Fail),
            ("v=spf1 ip4:192.0.2.1 ~all", "192.0.2.2", SoftFail),
            ("v=spf1 -ip4:192.0.2.1 +all", "192.0.2.1", Fail),
            ("v=spf1 ip6:2001:db8::/32 -all", "2001:db8::1", Pass),
            ("v=spf1 ip4:127.0.0.1 -all", "::ffff:127.0.0.1", Pass),
            ("v=spf1 a:host.localhost -all", "127.0.0.1", Pass),
            ("v=spf1 a:host.localhost/8 -all", "127.9.9.9", Pass),
            ("v=spf1 a:host.localhost -all", "::1", Pass),
            ("v=spf1 a -all", "127.0.0.1", Fail),
            ("v=spf1 mx -all", "127.0.0.1", Pass),
            ("v=spf1 a:host.localhost/33//128 -all", "::1", Pass),
            (
                "v=spf1 exists:%{l}.%{d2}.localhost -all",
                "192.0.2.1",
                Neutral,
            ),
            ("v=spf1 a:%{d}.test ~all", "192.0.2.1", Neutral),
            ("v=spf1 include:c.test -all", "192.0.2.1", Neutral),
            (
                "v=spf1 include:%{d}.test redirect=%{d}",
                "192.0.2.1",
                Neutral,
            ),
            ("v=spf1 include: -all", "192.0.2.1", PermError),
            ("v=spf1 include:b.test -all", "192.0.2.1", Pass),
            ("v=spf1 include:b.test -all", "192.0.2.2", Fail),
            ("v=spf1 redirect=b.test", "192.0.2.1", Pass),
            ("v=spf1 redirect=b.test", "192.0.2.2", SoftFail),
            ("v=spf1", "192.0.2.2", Neutral),
            ("v=spf1 ptr ?all", "192.0.2.2", Neutral),
            ("v=spf1 unknown -all", "192.0.2.2", PermError),
            ("v=spf1 ip4:nonsense -all", "192.0.2.2", PermError),
            ("v=spf1 include:nobody.test -all", "192.0.2.2", PermError),
            ("v=spf1 include:a.test -all", "192.0.2.2", PermError),
            ("v=spf1 foo=bar exp=why.test -all", "192.0.2.2", Fail),
            ("no policy", "192.0.2.2", None),
        ] {
            let policies = [
                ("a.test", policy),
                ("b.test", "v=spf1 ip4:192.0.2.1 ~all"),
                ("c.test", "v=spf1 ptr -all"),
            ];
            assert_eq!(
                evaluate_policies(&policies, client).await,
                verdict,
                "{policy} {client}"
            );
        }
    }

    #[tokio::test]
    async fn at_most_ten_lookups_are_made() {
        for (names, verdict) in [(10, SpfVerdict::Pass), (11, SpfVerdict::PermError)] {
            for term in ["include:", "redirect="] {
                let mut policies = vec![("a.test".to_owned(), format!("v=spf1 {term}n1.test"))];
                for number in 1..names {
                    let next = format!("v=spf1 {term}n{}.test", number + 1);
                    policies.push((format!("n{number}.test"), next));
                }
                policies.push((
                    format!("n{names}.test"),
                    "v=spf1 ip4:192.0.2.1 -all".to_owned(),
                ));
                let policies: Vec<(&str, &str)> = policies
                    .iter()
                    .map(|(name, policy)| (&**name, &**policy))
                    .collect();
                assert_eq!(
                    evaluate_policies(&policies, "192.0.2.1").await,
                    verdict,
                    "{names} of {term}"
                );
            }
        }
    }

    #[tokio::test]
    async fn at_most_ten_exchangers_are_looked_up() {
        for (count, verdict) in [(10, SpfVerdict::Pass), (11, SpfVerdict::Fail)] {
            let hosts: Vec<_> = (1..count).map(|n| format!("nobody{n}.test")).collect();
            let mut records = vec![(RecordKind::Spf, "a.test", "v=spf1 mx:many.test -all")];
            let hosts = hosts.iter().map(String::as_str).chain(["mail.localhost"]);
            records.extend(hosts.map(|host| (RecordKind::Mx, "many.test", host)));
            let resolver = Resolver::new(testing::zone(&records), None);
            let client = "127.0.0.1".parse().expect("an address");
            let verdict_found = evaluate(&resolver, client, "a.test").await;
            assert_eq!(verdict_found, verdict, "{count}");
        }
    }

    #[tokio::test]
    async fn two_policies_are_an_error() {
        let two = [("a.test", "v=spf1 +all"), ("a.test", "v=spf1 -all")];
        assert_eq!(
            evaluate_policies(&two, "192.0.2.1").await,
            SpfVerdict::PermError
        );
    }
}
