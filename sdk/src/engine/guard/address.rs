//! Addresses of recipients, and the rules that they match. Text that two programs may read
//! as different addresses is not an address here.

use url::Host;

/// An address in the form in which addresses are compared.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    local: String,
    domain: String,
}

/// Letters that two versions of IDNA encode differently.
const DEVIATIONS: [char; 4] = ['ß', 'ς', '\u{200c}', '\u{200d}'];

impl Address {
    /// Reads `a@b` or `Name <a@b>`, with an address in ASCII.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches(' ');
        let address = match text.split_once('<') {
            None => text,
            Some((name, rest)) => {
                is_name(name.trim_matches(' ')).then_some(())?;
                rest.strip_suffix('>')?
            }
        };
        if !address.is_ascii() {
            return None;
        }

        let (local, domain) = address.split_once('@')?;
        Self::from_parts(local, domain)
    }

    fn from_parts(local: &str, domain: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || LOCAL.contains(&byte);
        let is_plain = local.bytes().all(allowed) && local.len() <= 64;
        if !is_plain || local.split('.').any(str::is_empty) {
            return None;
        }

        Some(Self {
            local: local.to_ascii_lowercase(),
            domain: read_domain(domain)?,
        })
    }
}

/// The characters of a local part beside letters and digits. Those that are left out route the mail
/// elsewhere (`ada%b@c`, `c!a@b`), or are read as encoded words, commands or files.
const LOCAL: &[u8] = b".+-_'&#$*^`{}~";

/// Whether the text before `<` can only be a display name: a quoted text, or words.
fn is_name(name: &str) -> bool {
    let quoted = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    let reads_as_address = |text: &str| {
        text.contains(['@', '<', '>', '"', '\\'])
            || text.contains("=?")
            || text.contains(breaks_line)
            || text.contains(folds_to_ascii)
    };
    match quoted {
        Some(text) => !reads_as_address(text),
        None => !reads_as_address(name) && !name.contains([',', ';', ':', '(', ')']),
    }
}

/// Whether a program may take the character for the end of a line, or of a text.
pub(crate) fn breaks_line(c: char) -> bool {
    c.is_control() && c != '\t' || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Whether a program that normalizes text may take the character for an ASCII one, such as `＠`, or
/// leaves it out.
fn folds_to_ascii(c: char) -> bool {
    let is_form = matches!(c, '\u{fe10}'..='\u{fe6f}' | '\u{ff00}'..='\u{ffef}');
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    );
    is_invisible || is_form && !c.is_alphanumeric()
}

/// The ASCII form of a domain in lower case. `None` if it is not the only form.
fn read_domain(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_dotted = lower.split('.').all(|label| !label.is_empty());
    if !is_dotted || !lower.chars().all(allowed) || lower.contains(DEVIATIONS) {
        return None;
    }
    let Ok(Host::Domain(ascii)) = Host::parse(&lower) else {
        return None;
    };

    let is_same = ascii == lower || url::quirks::domain_to_unicode(&ascii) == lower;
    (is_same && ascii.len() <= 253).then_some(ascii)
}

/// Which recipients are allowed.
#[derive(Debug)]
pub(super) enum Rule {
    Address(Address),
    /// The address with any `+tag`.
    Tagged(Address),
    Domain(String),
    /// With a dot at its start.
    Subdomains(String),
}

impl Rule {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let rule = match text.strip_prefix('@') {
            Some(domain) => match domain.strip_prefix("*.") {
                Some(parent) => read_domain(parent).map(|it| Self::Subdomains(format!(".{it}"))),
                None => read_domain(domain).map(Self::Domain),
            },
            None => match text.split_once("+*@") {
                Some((local, domain)) => Address::from_parts(local, domain).map(Self::Tagged),
                None => text
                    .split_once('@')
                    .and_then(|(local, domain)| Address::from_parts(local, domain))
                    .map(Self::Address),
            },
        };
        let is_plain = |rule: &Self| match rule {
            Self::Address(address) | Self::Tagged(address) => !address.local.contains('*'),
            _ => true,
        };
        rule.filter(is_plain).ok_or_else(|| {
            format!(
                "`{}` is not a rule; write an address (me@x.test, me+*@x.test) or a domain \
                 (@example.com, @*.example.com)",
                shown(text)
            )
        })
    }

    pub(super) fn matches(&self, address: &Address) -> bool {
        match self {
            Self::Address(known) => known == address,
            Self::Tagged(known) => {
                let rest = address.local.strip_prefix(known.local.as_str());
                known.domain == address.domain && rest.is_some_and(|rest| rest.starts_with('+'))
            }
            Self::Domain(domain) => *domain == address.domain,
            Self::Subdomains(parent) => address.domain.ends_with(parent.as_str()),
        }
    }
}

/// Text for a message: short, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    let is_bad = |c: char| c.is_control() || breaks_line(c);
    let text = text.chars().map(|c| if is_bad(c) { '\u{fffd}' } else { c });
    text.take(320).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rule: &str, address: &str) -> bool {
        let address = Address::parse(address).unwrap_or_else(|| panic!("{address}"));
        Rule::parse(rule).unwrap().matches(&address)
    }

    #[test]
    fn rules_match_addresses_domains_subdomains_and_tags() {
        for (rule, address, expected) in [
            ("me@x.test", "me@x.test", true),
            ("me@x.test", "Me Myself <ME@X.Test>", true),
            ("me@x.test", "\"Myself, Me\" <me@x.test>", true),
            ("me@x.test", "me+1@x.test", false),
            ("me@x.test", "notme@x.test", false),
            ("me@x.test", "me@x.test.evil.test", false),
            ("me+*@x.test", "me+a.b@x.test", true),
            ("me+*@x.test", "me@x.test", false),
            ("me+*@x.test", "mean+1@x.test", false),
            ("@example.com", "a@EXAMPLE.com", true),
            ("@example.com", "a@sub.example.com", false),
            ("@example.com", "a@notexample.com", false),
            ("@*.example.com", "a@b.c.example.com", true),
            ("@*.example.com", "a@example.com", false),
            ("@*.example.com", "a@notexample.com", false),
            ("@bücher.test", "a@xn--bcher-kva.test", true),
            ("me@BÜCHER.test", "Me <me@XN--bcher-kva.test>", true),
            ("@bucher.test", "a@xn--bcher-kva.test", false),
            ("me@x.test", "Zoë O’Neil ✉ <me@x.test>", true),
        ] {
            assert_eq!(allows(rule, address), expected, "{rule} {address}");
        }
    }

    #[test]
    fn text_that_reads_as_two_addresses_is_none() {
        for text in [
            "",
            "a",
            "a@",
            "@b",
            "a@b@c",
            "a@b,c@d",
            "a@b;c@d",
            "a@b c@d",
            "a b@c",
            "<a@b",
            "a@b>",
            "<a@b> <c@d>",
            "c@d <a@b>",
            "\"c@d\" <a@b>",
            "\"x\" y\" <a@b>",
            "\"x\\\" <a@b>",
            "x, y <a@b>",
            "group: x <a@b>",
            "a@b (c@d)",
            "a(c@d)@b",
            "\"a@x\"@b",
            "a@b\r\nBcc: c@d",
            "a@b\0",
            "a@[127.0.0.1]",
            "a@127.0.0.1",
            "a@b%2ec",
            "a@example\u{3002}com",
            "a@\u{ff45}xample.com",
            "a@stra\u{df}e.test",
            "a@b.",
            "a@.b",
            "a..b@c",
            // Text that programs decode, route or normalize.
            "=?utf-8?q?c=40d?=@b",
            "=?utf-8?q?c=40d=2C?= <a@b>",
            "ada%b@c",
            "c!a@b",
            "a|b@c",
            "a/b@c",
            "a@bücher.test",
            "\u{212a}@x.test",
            "a@ex\u{430}mple.com",
            "c\u{ff20}d <a@b>",
            "c\u{2028}d <a@b>",
            "c\u{85}d <a@b>",
            "\"c\u{b}d\" <a@b>",
            "c\u{200b}d <a@b>",
        ] {
            assert_eq!(Address::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_invalid_rule_is_refused() {
        for rule in [
            "",
            "example.com",
            "@",
            "*@example.com",
            "a*@b",
            "@*",
            "@*.",
            "Me <a@b>",
            "@a b",
        ] {
            assert!(Rule::parse(rule).is_err(), "{rule:?}");
        }
    }
}
