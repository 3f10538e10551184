//! SPF (RFC 7208): evaluates the policy of a sender's domain. Section numbers refer to
//! the RFC. It is our own, because `mail-auth` costs minutes of a build; `tests/peers` compares
//! the two.

mod term;

use std::net::{IpAddr, Ipv4Addr};

use super::resolver::{LookupError, Resolver};
use crate::control::messages::SpfVerdict;
use term::{Term, terms};

/// Whether a TXT record is an SPF policy.
pub(super) fn is_spf(text: &str) -> bool {
    let version = text.split(' ').next().unwrap_or_default();
    version.eq_ignore_ascii_case("v=spf1")
}

/// Evaluates the policy of the envelope sender's domain for a client address. If the
/// sender is empty, uses the domain given in `HELO`.
pub(crate) async fn evaluate(
    resolver: &Resolver,
    client: IpAddr,
    helo: &str,
    local: &str,
    domain: &str,
) -> SpfVerdict {
    let (local, domain) = if domain.is_empty() { ("postmaster", helo) } else { (local, domain) };
    let session = Session { resolver, client: client.to_canonical(), helo, local, sender: domain };
    let mut budget = Budget { lookups: MAX_LOOKUPS, voids: MAX_VOIDS };
    session.check_host(domain.to_owned(), &mut budget).await.unwrap_or_else(|error| match error {
        SpfError::Permanent => SpfVerdict::PermError,
        SpfError::Temporary => SpfVerdict::TempError,
    })
}

/// §4.6.4: maximum number of terms that need a lookup, and of exchangers of an `mx`.
const MAX_LOOKUPS: u32 = 10;
/// §4.6.4: maximum number of lookups that find no record.
const MAX_VOIDS: u32 = 2;

/// Lookups that an evaluation may still make.
struct Budget {
    lookups: u32,
    voids: u32,
}

impl Budget {
    /// Counts a term that needs a lookup.
    fn count_lookup(&mut self) -> Result<(), SpfError> {
        self.lookups = self.lookups.checked_sub(1).ok_or(SpfError::Permanent)?;
        Ok(())
    }

    /// Counts a lookup that found nothing.
    fn found<T>(&mut self, found: Vec<T>) -> Result<Vec<T>, SpfError> {
        if found.is_empty() {
            self.voids = self.voids.checked_sub(1).ok_or(SpfError::Permanent)?;
        }
        Ok(found)
    }
}

struct Session<'a> {
    resolver: &'a Resolver,
    client: IpAddr,
    helo: &'a str,
    local: &'a str,
    sender: &'a str,
}

enum SpfError {
    Permanent,
    Temporary,
}

impl From<LookupError> for SpfError {
    fn from(_: LookupError) -> Self {
        Self::Temporary
    }
}

impl Session<'_> {
    /// `check_host()` of §4.
    async fn check_host(
        &self,
        domain: String,
        budget: &mut Budget,
    ) -> Result<SpfVerdict, SpfError> {
        let mut policies = self.resolver.txt(&domain).await?;
        policies.retain(|text| is_spf(text));
        let policy = match &policies[..] {
            [] => return Ok(SpfVerdict::None),
            [policy] => policy,
            _ => return Err(SpfError::Permanent),
        };
        let mut redirect = None;
        for term in terms(policy) {
            if term.modifier {
                if term.name == "redirect" {
                    redirect = term.value;
                }
                continue;
            }
            if self.matches(&term, &domain, budget).await? {
                return Ok(term.verdict);
            }
        }
        let Some(target) = redirect else { return Ok(SpfVerdict::Neutral) };
        budget.count_lookup()?;
        let target = self.expand(target, &domain)?;
        match Box::pin(self.check_host(target, budget)).await? {
            SpfVerdict::None => Err(SpfError::Permanent),
            verdict => Ok(verdict),
        }
    }

    async fn matches(
        &self,
        term: &Term<'_>,
        domain: &str,
        budget: &mut Budget,
    ) -> Result<bool, SpfError> {
        let needs_lookup = matches!(term.name, "include" | "a" | "mx" | "ptr" | "exists");
        if needs_lookup {
            budget.count_lookup()?;
        }
        match term.name {
            "all" => Ok(true),
            "ip4" | "ip6" => {
                let (network, prefix) = term.network().ok_or(SpfError::Permanent)?;
                Ok(is_within(self.client, network, prefix))
            }
            "include" => {
                let target = self.expand(term.value.ok_or(SpfError::Permanent)?, domain)?;
                match Box::pin(self.check_host(target, budget)).await? {
                    SpfVerdict::Pass => Ok(true),
                    SpfVerdict::None => Err(SpfError::Permanent),
                    _ => Ok(false),
                }
            }
            "a" => {
                let (target, prefix) = self.target(term, domain)?;
                let found = budget.found(self.addresses(&target).await?)?;
                Ok(self.matches_any(&found, prefix))
            }
            "mx" => {
                let (target, prefix) = self.target(term, domain)?;
                let exchangers = budget.found(self.resolver.mx(&target).await?)?;
                if exchangers.len() > MAX_LOOKUPS as usize {
                    return Err(SpfError::Permanent);
                }
                for (_, host) in exchangers {
                    if self.matches_any(&self.addresses(&host).await?, prefix) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            "exists" => {
                let target = self.expand(term.value.ok_or(SpfError::Permanent)?, domain)?;
                let ipv4 = Ipv4Addr::UNSPECIFIED.into();
                let found = budget.found(self.resolver.addresses(&target, ipv4).await?)?;
                Ok(!found.is_empty())
            }
            // §5.5: `ptr` is deprecated and never matches here.
            "ptr" => Ok(false),
            _ => Err(SpfError::Permanent),
        }
    }

    /// Addresses of the client's IP version.
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, LookupError> {
        self.resolver.addresses(host, self.client).await
    }

    /// Whether the client matches one of these addresses or networks.
    fn matches_any(&self, addresses: &[IpAddr], prefix: Option<u32>) -> bool {
        addresses.iter().any(|address| is_within(self.client, *address, prefix))
    }

    /// The domain of `a` and `mx`, and the prefix length for the client's IP version.
    fn target(&self, term: &Term<'_>, domain: &str) -> Result<(String, Option<u32>), SpfError> {
        let prefix = if self.client.is_ipv4() { term.prefix_v4 } else { term.prefix_v6 };
        let prefix = prefix.map(str::parse).transpose().map_err(|_| SpfError::Permanent)?;
        let target = match term.value {
            Some(value) => self.expand(value, domain)?,
            None => domain.to_owned(),
        };
        Ok((target, prefix))
    }

    /// Expands the macros of §7.
    fn expand(&self, text: &str, domain: &str) -> Result<String, SpfError> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            expanded.push_str(before);
            let mut chars = after.chars();
            match chars.next() {
                Some('%') => expanded.push('%'),
                Some('_') => expanded.push(' '),
                Some('-') => expanded.push_str("%20"),
                Some('{') => {
                    let (name, after) =
                        chars.as_str().split_once('}').ok_or(SpfError::Permanent)?;
                    expanded.push_str(&self.macro_value(name, domain)?);
                    rest = after;
                    continue;
                }
                _ => return Err(SpfError::Permanent),
            }
            rest = chars.as_str();
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    fn macro_value(&self, name: &str, domain: &str) -> Result<String, SpfError> {
        let mut chars = name.chars();
        let value = match chars.next().map(|c| c.to_ascii_lowercase()) {
            Some('s') => format!("{}@{}", self.local, self.sender),
            Some('l') => self.local.to_owned(),
            Some('o') => self.sender.to_owned(),
            Some('d') => domain.to_owned(),
            Some('h') => self.helo.to_owned(),
            Some('p') => "unknown".to_owned(),
            Some('v') if self.client.is_ipv4() => "in-addr".to_owned(),
            Some('v') => "ip6".to_owned(),
            Some('i') => match self.client {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => {
                    let nibbles = format!("{:032x}", address.to_bits());
                    nibbles.chars().map(String::from).collect::<Vec<_>>().join(".")
                }
            },
            _ => return Err(SpfError::Permanent),
        };
        let transformers = chars.as_str();
        let digits: String = transformers.chars().take_while(char::is_ascii_digit).collect();
        let transformers = &transformers[digits.len()..];
        let (reverse, delimiters) = match transformers.strip_prefix(['r', 'R']) {
            Some(rest) => (true, rest),
            None => (false, transformers),
        };
        let delimiters = if delimiters.is_empty() { "." } else { delimiters };
        let mut parts: Vec<&str> = value.split(|c| delimiters.contains(c)).collect();
        if reverse {
            parts.reverse();
        }
        let keep =
            if digits.is_empty() { parts.len() } else { digits.parse().unwrap_or(usize::MAX) };
        Ok(parts[parts.len().saturating_sub(keep)..].join("."))
    }
}

fn is_within(address: IpAddr, network: IpAddr, prefix: Option<u32>) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (a.to_bits() ^ b.to_bits()).leading_zeros() >= prefix.unwrap_or(32)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits()).leading_zeros() >= prefix.unwrap_or(128)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::model::dns::RecordKind;

    fn resolver(policies: &[(&str, &str)]) -> Resolver {
        let policies = policies.iter().map(|(name, policy)| (RecordKind::Spf, *name, *policy));
        let mx = (RecordKind::Mx, "a.test", "mail.localhost");
        Resolver::new(testing::zone(&policies.chain([mx]).collect::<Vec<_>>()), None)
    }

    async fn evaluate_policies(policies: &[(&str, &str)], client: &str) -> SpfVerdict {
        let client = client.parse().expect("an address");
        evaluate(&resolver(policies), client, "helo.test", "ada", "a.test").await
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
            ("v=spf1 exists:%{l}.%{d2}.localhost -all", "192.0.2.1", Pass),
            ("v=spf1 exists:%{ir}.nobody.test -all", "192.0.2.1", Fail),
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
            let policies = [("a.test", policy), ("b.test", "v=spf1 ip4:192.0.2.1 ~all")];
            assert_eq!(evaluate_policies(&policies, client).await, verdict, "{policy} {client}");
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
                policies.push((format!("n{names}.test"), "v=spf1 ip4:192.0.2.1 -all".to_owned()));
                let policies: Vec<(&str, &str)> =
                    policies.iter().map(|(name, policy)| (&**name, &**policy)).collect();
                assert_eq!(
                    evaluate_policies(&policies, "192.0.2.1").await,
                    verdict,
                    "{names} of {term}"
                );
            }
        }
    }

    #[tokio::test]
    async fn at_most_two_lookups_may_find_nothing() {
        for (policy, verdict) in [
            ("v=spf1 a:n1.test mx:n2.test ip4:192.0.2.1 -all", SpfVerdict::Pass),
            (
                "v=spf1 a:n1.test mx:n2.test exists:n3.test ip4:192.0.2.1 -all",
                SpfVerdict::PermError,
            ),
            ("v=spf1 a:n1.test include:b.test ip4:192.0.2.1 -all", SpfVerdict::PermError),
        ] {
            let policies = [("a.test", policy), ("b.test", "v=spf1 a:n2.test mx:n3.test ?all")];
            assert_eq!(evaluate_policies(&policies, "192.0.2.1").await, verdict, "{policy}");
        }
    }

    #[tokio::test]
    async fn at_most_ten_exchangers_are_looked_up() {
        for (count, verdict) in [(10, SpfVerdict::Pass), (11, SpfVerdict::PermError)] {
            let hosts: Vec<_> = (1..count).map(|n| format!("nobody{n}.test")).collect();
            let mut records = vec![(RecordKind::Spf, "a.test", "v=spf1 mx:many.test -all")];
            let hosts = hosts.iter().map(String::as_str).chain(["mail.localhost"]);
            records.extend(hosts.map(|host| (RecordKind::Mx, "many.test", host)));
            let resolver = Resolver::new(testing::zone(&records), None);
            let client = "127.0.0.1".parse().expect("an address");
            let verdict_found = evaluate(&resolver, client, "helo.test", "ada", "a.test").await;
            assert_eq!(verdict_found, verdict, "{count}");
        }
    }

    #[tokio::test]
    async fn two_policies_are_an_error_and_an_empty_sender_uses_helo() {
        let two = [("a.test", "v=spf1 +all"), ("a.test", "v=spf1 -all")];
        assert_eq!(evaluate_policies(&two, "192.0.2.1").await, SpfVerdict::PermError);
        let resolver = resolver(&[("helo.test", "v=spf1 ip4:192.0.2.1 -all")]);
        let client = "192.0.2.1".parse().expect("an address");
        assert_eq!(evaluate(&resolver, client, "helo.test", "", "").await, SpfVerdict::Pass);
    }

    #[test]
    fn expands_macros() {
        let resolver = resolver(&[]);
        let client = "192.0.2.3".parse().expect("an address");
        let session = Session {
            resolver: &resolver,
            client,
            helo: "h.test",
            local: "a-b",
            sender: "x.y.test",
        };
        for (text, expanded) in [
            ("%{i}._spf.%{d}", "192.0.2.3._spf.d.e.test"),
            ("%{ir}.%{v}.%{d2}", "3.2.0.192.in-addr.e.test"),
            ("%{s}", "a-b@x.y.test"),
            ("%{lr-}", "b.a"),
            ("%{o1}%%%_%-", "test% %20"),
        ] {
            let result = session.expand(text, "d.e.test").ok();
            assert_eq!(result.as_deref(), Some(expanded), "{text}");
        }
        for text in ["%", "%x", "%{", "%{q}"] {
            assert!(session.expand(text, "d.test").is_err(), "{text}");
        }
    }
}
