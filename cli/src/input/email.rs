//! Email addresses as they are compared.

use url::Host;

/// The address `a@b` in the form in which addresses are compared: in lower case, and with the
/// ASCII form of its domain. A mailbox must not count twice: one of the two may have opted out.
pub fn comparable(address: &str) -> String {
    let lower = address.to_lowercase();
    // Only domains in other letters have two forms.
    let Some((local, domain)) = lower.rsplit_once('@').filter(|(_, domain)| !domain.is_ascii())
    else {
        return lower;
    };
    match Host::parse(domain) {
        Ok(Host::Domain(ascii)) => format!("{local}@{ascii}"),
        _ => lower,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_domain_are_equal() {
        for (text, expected) in [
            ("\u{fc}@ex\u{e4}mple.com", "\u{fc}@xn--exmple-cua.com"),
            ("\u{dc}@EX\u{c4}MPLE.com", "\u{fc}@xn--exmple-cua.com"),
            // The letter and its accent as two characters.
            ("a@exa\u{308}mple.com", "a@xn--exmple-cua.com"),
            ("A@XN--exmple-cua.com", "a@xn--exmple-cua.com"),
            ("Ada@B.test", "ada@b.test"),
            ("no address", "no address"),
            ("a@\u{e4} b", "a@\u{e4} b"),
        ] {
            assert_eq!(comparable(text), expected);
        }
    }
}
