//! Names of domains.

/// Whether a name is in a reserved top-level domain (RFC 2606), which the sandbox's DNS server
/// serves.
pub fn is_reserved(name: &str) -> bool {
    let last = name
        .trim_end_matches('.')
        .rsplit('.')
        .next()
        .unwrap_or_default();
    ["test", "example", "invalid", "localhost"]
        .iter()
        .any(|own| own.eq_ignore_ascii_case(last))
}

/// Whether two names of domains are the same: DNS ignores case, and a dot at the end.
pub fn is_same_domain(one: &str, other: &str) -> bool {
    let without_dot = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    without_dot(one) == without_dot(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_belong_to_the_sandbox() {
        for name in [
            "shop.test",
            "a.Example.",
            "x.invalid",
            "mail.localhost",
            "test",
        ] {
            assert!(is_reserved(name), "{name}");
        }
        assert!(!is_reserved("example.com") && !is_reserved("mytest") && !is_reserved(""));
    }
}
