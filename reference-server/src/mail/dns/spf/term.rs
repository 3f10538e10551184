//! Parses the terms of an SPF policy (RFC 7208 §4.6, §5, §6).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::control::messages::SpfVerdict;

/// `[qualifier]name[:value][/prefix[//prefix]]`, or a modifier `name=value`.
pub(super) struct Term<'a> {
    /// The result if the term matches.
    pub(super) verdict: SpfVerdict,
    pub(super) modifier: bool,
    pub(super) name: &'static str,
    pub(super) value: Option<&'a str>,
    pub(super) prefix_v4: Option<&'a str>,
    pub(super) prefix_v6: Option<&'a str>,
}

impl Term<'_> {
    /// The address and prefix length of `ip4` and `ip6`.
    pub(super) fn network(&self) -> Option<(IpAddr, Option<u32>)> {
        let prefix = self.prefix_v4.map(str::parse).transpose().ok()?;
        let address: IpAddr = match self.name {
            "ip4" => self.value?.parse::<Ipv4Addr>().ok()?.into(),
            _ => self.value?.parse::<Ipv6Addr>().ok()?.into(),
        };
        Some((address, prefix))
    }
}

const NAMES: [&str; 9] = ["all", "include", "a", "mx", "ptr", "ip4", "ip6", "exists", "redirect"];

/// The terms of a policy, in their order.
pub(super) fn terms(policy: &str) -> impl Iterator<Item = Term<'_>> {
    policy.split(' ').skip(1).filter(|term| !term.is_empty()).map(|term| {
        let (verdict, rest) = match term.as_bytes()[0] {
            b'+' => (SpfVerdict::Pass, &term[1..]),
            b'-' => (SpfVerdict::Fail, &term[1..]),
            b'~' => (SpfVerdict::SoftFail, &term[1..]),
            b'?' => (SpfVerdict::Neutral, &term[1..]),
            _ => (SpfVerdict::Pass, term),
        };
        let end = rest.find([':', '/', '=']).unwrap_or(rest.len());
        let known = NAMES.iter().find(|name| rest[..end].eq_ignore_ascii_case(name));
        let name = known.copied().unwrap_or("unknown");
        let rest = &rest[end..];
        let modifier = rest.starts_with('=');
        // The address of an `ip6` term contains colons but no slash.
        let (value, prefixes) = match rest.strip_prefix([':', '=']) {
            Some(value) if modifier || matches!(name, "include" | "exists") => (Some(value), ""),
            Some(value) => match value.find('/') {
                Some(slash) => (Some(&value[..slash]), &value[slash..]),
                None => (Some(value), ""),
            },
            None => (None, rest),
        };
        let (prefix_v4, prefix_v6) = match prefixes.split_once("//") {
            Some((v4, v6)) => (v4.strip_prefix('/'), Some(v6)),
            None => (prefixes.strip_prefix('/'), None),
        };
        Term { verdict, modifier, name, value, prefix_v4, prefix_v6 }
    })
}
