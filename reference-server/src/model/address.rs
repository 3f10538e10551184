//! Email addresses, domain names and custom header fields in requests
//! (`docs/undocumented/services.md#addresses`,
//! `docs/undocumented/services.md#invalid-content`). Error messages never repeat
//! the input.

use std::borrow::Cow;
use std::fmt;

/// A mailbox: `a@b` or `Name <a@b>`. It has no `Debug`: addresses are user data.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Mailbox {
    pub(crate) name: Option<String>,
    pub(crate) address: Address,
}

impl Mailbox {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        reject_line_breaks(text)?;
        if text.chars().any(char::is_control) {
            return Err("must not contain control characters");
        }
        let Some(before) = text.strip_suffix('>') else {
            return Ok(Self {
                name: None,
                address: Address::parse(text)?,
            });
        };

        let (name, address) = before
            .rsplit_once('<')
            .ok_or("is not an address: write a@b or Name <a@b>")?;
        Ok(Self {
            name: display_name(name)?,
            address: Address::parse(address)?,
        })
    }
}

/// An address without display name, such as `a@b`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    text: String,
    at: usize,
    domain: DomainName,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        reject_line_breaks(text)?;
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("is not an address: it contains white space");
        }

        let text = text.strip_suffix('.').unwrap_or(text);
        let at = text.rfind('@').ok_or("is not an address: it has no @")?;
        let local = &text[..at];
        let domain = &text[at + 1..];
        if !is_local_part(local) {
            return Err("is not an address: the part before the @ is not valid");
        }
        if local.len() > 64 || text.len() > 254 {
            return Err(
                "is not an address: it is too long (at most 64 bytes before the @, 254 in total)",
            );
        }

        Ok(Self {
            text: text.to_owned(),
            at,
            domain: DomainName::parse(domain)?,
        })
    }

    /// An address of an SMTP envelope. It need not be one of the Internet: programs also send to
    /// `www-data@app_web_1`, `root` and `"a b"@[127.0.0.1]`. `None` if it is not one word.
    pub(crate) fn of_envelope(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let at = text.rfind('@').unwrap_or(text.len());
        let local = &text[..at];
        let domain = text.get(at + 1..).unwrap_or_default();
        let is_quoted = local.len() > 1 && local.starts_with('"') && local.ends_with('"');
        let is_word = |part: &str| !part.contains(|c: char| c.is_whitespace() || "<>".contains(c));
        let is_printable = !text.chars().any(char::is_control);
        if local.is_empty()
            || at + 1 == text.len()
            || !is_printable
            || !is_word(domain)
            || !(is_quoted || is_word(local))
        {
            return None;
        }

        let domain =
            DomainName::parse(domain).unwrap_or_else(|_| DomainName(domain.to_lowercase()));
        Some(Self {
            text: text.to_owned(),
            at,
            domain,
        })
    }

    /// The address as given in the request, without the final dot of its domain.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The address with the domain in its ASCII form, as used in messages and SMTP
    /// commands, so that an internationalized domain needs no SMTP extension.
    pub(crate) fn to_ascii(&self) -> Cow<'_, str> {
        if self.text[self.at..].is_ascii() {
            return Cow::Borrowed(&self.text);
        }
        Cow::Owned(format!("{}@{}", self.local(), self.domain))
    }

    /// The local part, before the `@`.
    pub(crate) fn local(&self) -> &str {
        &self.text[..self.at]
    }

    pub(crate) fn domain(&self) -> &DomainName {
        &self.domain
    }
}

/// A mailbox without the final dot of its domain: `Name <a@b.>` is `Name <a@b>`.
pub(crate) fn without_final_dot(mailbox: String) -> String {
    match mailbox.strip_suffix(".>") {
        Some(start) => format!("{start}>"),
        None => mailbox
            .strip_suffix('.')
            .map(str::to_owned)
            .unwrap_or(mailbox),
    }
}

/// A normalized domain name: ASCII (internationalized labels as `xn--…`), lower case,
/// without the final dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DomainName(String);

impl DomainName {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let ascii = idna::domain_to_ascii_strict(text).map_err(|_| DOMAIN)?;
        let last = ascii.rsplit('.').next().unwrap_or_default();
        // An all-numeric last label would make it an IP address.
        if ascii.is_empty() || ascii.len() > 253 || last.bytes().all(|b| b.is_ascii_digit()) {
            return Err(DOMAIN);
        }
        Ok(Self(ascii))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const DOMAIN: &str = "has an invalid domain";
const LINE_BREAK: &str = "must not contain a line break";
const NAME: &str = "has a display name with special characters; put the name in quotation marks";

/// Rejects CR and LF, which would start another header field. Also used for subjects
/// and file names.
pub(crate) fn reject_line_breaks(text: &str) -> Result<(), &'static str> {
    if text.contains(['\r', '\n']) {
        Err(LINE_BREAK)
    } else {
        Ok(())
    }
}

/// Validates a custom header. `reply_to` tells whether the email has the field
/// `replyTo`, which excludes a `Reply-To` header.
pub(crate) fn check_header(name: &str, value: &str, reply_to: bool) -> Result<(), &'static str> {
    let printable = name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
    if name.is_empty() || name.len() > MAX_HEADER_NAME || !printable {
        return Err("has an invalid header name: use printable ASCII without spaces and colons");
    }
    if is_reserved_header(name) || (reply_to && name.eq_ignore_ascii_case("Reply-To")) {
        return Err("has a header that is set by the service");
    }
    if value.chars().any(|c| c.is_control() && c != '\t') {
        return Err("has a header value with a control character, such as a line break");
    }
    Ok(())
}

fn is_reserved_header(name: &str) -> bool {
    let content = name
        .get(..8)
        .is_some_and(|start| start.eq_ignore_ascii_case("content-"));
    content
        || RESERVED_HEADERS
            .iter()
            .any(|reserved| name.eq_ignore_ascii_case(reserved))
}

pub(crate) const RESERVED_HEADERS: [&str; 9] = [
    "From",
    "To",
    "Cc",
    "Bcc",
    "Subject",
    "Date",
    "Message-ID",
    "MIME-Version",
    "DKIM-Signature",
];

// A longer name leaves no space for a value on a line of 78 characters.
const MAX_HEADER_NAME: usize = 76;

/// Parses a display name, with or without quotation marks. `None` if it is empty.
fn display_name(text: &str) -> Result<Option<String>, &'static str> {
    let text = text.trim();
    let name = match text.strip_prefix('"') {
        Some(rest) => unquote(rest).ok_or(NAME)?,
        None if text.contains(['<', '>', ',', ';', '"', '\\']) => return Err(NAME),
        None => text.to_owned(),
    };
    Ok(Some(name).filter(|name| !name.is_empty()))
}

fn unquote(rest: &str) -> Option<String> {
    let mut name = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => break,
            '\\' => name.push(chars.next()?),
            other => name.push(other),
        }
    }
    chars.as_str().is_empty().then_some(name)
}

fn is_local_part(local: &str) -> bool {
    if let Some(quoted) = local.strip_prefix('"') {
        return unquote(quoted).is_some_and(|inner| !inner.is_empty());
    }
    local
        .split('.')
        .all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_atom_char(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<(Option<String>, String), &'static str> {
        Mailbox::parse(text).map(|m| (m.name, m.address.as_str().to_owned()))
    }

    #[test]
    fn accepts_plain_and_named_mailboxes() {
        assert_eq!(parse("a@b"), Ok((None, "a@b".into())));
        assert_eq!(
            parse("ada@example.test"),
            Ok((None, "ada@example.test".into()))
        );
        assert_eq!(
            parse("Ada L. <ada+x@b.test>"),
            Ok((Some("Ada L.".into()), "ada+x@b.test".into()))
        );
        assert_eq!(parse("Ada<a@b>"), Ok((Some("Ada".into()), "a@b".into())));
        assert_eq!(parse("<a@b>"), Ok((None, "a@b".into())));
        assert_eq!(
            parse(r#""Love\"lace, Ada" <a@b>"#),
            Ok((Some("Love\"lace, Ada".into()), "a@b".into()))
        );
        assert_eq!(
            parse("Zoë Müller <zoë@müller.test>"),
            Ok((Some("Zoë Müller".into()), "zoë@müller.test".into()))
        );
        assert_eq!(
            parse(r#""a@b"@c.test"#),
            Ok((None, r#""a@b"@c.test"#.into()))
        );
    }

    #[test]
    fn rejects_invalid_addresses_with_the_reason() {
        const SPACE: &str = "is not an address: it contains white space";
        const LOCAL_PART: &str = "is not an address: the part before the @ is not valid";
        const NO_AT: &str = "is not an address: it has no @";

        for (text, error) in [
            ("", NO_AT),
            ("nobody", NO_AT),
            ("a@", DOMAIN),
            ("@b", LOCAL_PART),
            ("a@b@c", LOCAL_PART),
            ("a b@c.test", SPACE),
            (" a@b", SPACE),
            ("a@b, c@d", SPACE),
            ("a@b,c@d", LOCAL_PART),
            ("a..b@c.test", LOCAL_PART),
            (".a@c.test", LOCAL_PART),
            ("a@-b.test", DOMAIN),
            ("a@b..test", DOMAIN),
            ("a@b_c.test", DOMAIN),
            ("a@[127.0.0.1]", DOMAIN),
            ("a@127.0.0.1", DOMAIN),
            ("Ada <a@b", SPACE),
            ("a@b>", "is not an address: write a@b or Name <a@b>"),
            ("Ada <>", NO_AT),
            ("x, y <a@b>", NAME),
            ("\"x <a@b>", NAME),
            ("\"x\" y <a@b>", NAME),
            ("a@b\r\nBcc: c@d", LINE_BREAK),
            ("Ada\nX: y <a@b>", LINE_BREAK),
            ("A\u{0}da <a@b>", "must not contain control characters"),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }

        assert_eq!(
            parse(&format!("{}@b.test", "a".repeat(65))),
            Err("is not an address: it is too long (at most 64 bytes before the @, 254 in total)")
        );
        assert!(parse(&format!("{}@b.test", "a".repeat(64))).is_ok());
        assert_eq!(parse(&format!("a@{}.test", "b".repeat(64))), Err(DOMAIN));
    }

    #[test]
    fn an_envelope_has_what_programs_send() {
        let long = format!("{}@b.test", "a".repeat(65));
        for text in [
            "www-data@app_web_1",
            "ada@[127.0.0.1]",
            "ada@[IPv6:::1]",
            "ada@127.0.0.1",
            "ada@10",
            "ada@ab--cd.test",
            "a..b@c.test",
            ".a@c.test",
            "\"a b\"@c.test",
            "\"a@b\"@c_d",
            "root",
            &long,
        ] {
            let address = Address::of_envelope(text).expect(text);
            assert_eq!(address.as_str(), text);
        }

        for text in [
            "",
            "a@",
            "@b.test",
            "a b@c.test",
            "a@b c",
            "a@b\r\nDATA",
            "<a@b>",
            "\"a\u{0}\"@b",
        ] {
            assert!(Address::of_envelope(text).is_none(), "{text:?}");
        }

        let domain = Address::of_envelope("Ada@Example.TEST")
            .expect("an address")
            .domain;
        assert_eq!(domain.as_str(), "example.test");
    }

    #[test]
    fn domains_compare_in_normalized_form() {
        let domain = |text| DomainName::parse(text).expect("valid");
        assert_eq!(domain("Example.TEST."), domain("example.test"));
        assert_eq!(domain("MÜNCHEN.test"), domain("xn--mnchen-3ya.test"));
        assert_eq!(domain("münchen.test").as_str(), "xn--mnchen-3ya.test");
        assert_ne!(domain("a.example.test"), domain("example.test"));
        let address = Mailbox::parse("A@Example.Test").expect("valid").address;
        assert_eq!(address.as_str(), "A@Example.Test");
        assert_eq!(
            (address.local(), address.domain()),
            ("A", &domain("example.test"))
        );
    }

    #[test]
    fn internationalized_domains_are_converted_to_ascii() {
        let to_ascii = |text| Address::parse(text).expect("valid").to_ascii().into_owned();
        assert_eq!(to_ascii("Ada@Example.test"), "Ada@Example.test");
        assert_eq!(to_ascii("zoë@müller.test"), "zoë@xn--mller-kva.test");
    }

    #[test]
    fn validates_custom_headers() {
        const RESERVED: &str = "has a header that is set by the service";
        const HEADER_NAME: &str =
            "has an invalid header name: use printable ASCII without spaces and colons";
        const HEADER_VALUE: &str =
            "has a header value with a control character, such as a line break";

        assert_eq!(check_header("X-Campaign", "Frühling 2026", false), Ok(()));
        assert_eq!(
            check_header("List-Unsubscribe", "<https://a.test/u>\t", false),
            Ok(())
        );
        assert_eq!(check_header("Reply-To", "a@b", false), Ok(()));
        assert_eq!(check_header("reply-to", "a@b", true), Err(RESERVED));
        for reserved in [
            "from",
            "TO",
            "Cc",
            "bcc",
            "subject",
            "DATE",
            "message-id",
            "mime-version",
        ] {
            assert_eq!(
                check_header(reserved, "x", false),
                Err(RESERVED),
                "{reserved}"
            );
        }

        for reserved in [
            "content-type",
            "Content-Transfer-Encoding",
            "Content-X",
            "dkim-signature",
        ] {
            assert_eq!(
                check_header(reserved, "x", false),
                Err(RESERVED),
                "{reserved}"
            );
        }

        for name in ["", "X Y", "X:Y", "X\r\nY", "Größe", "X\u{7f}"] {
            assert_eq!(check_header(name, "x", false), Err(HEADER_NAME), "{name:?}");
        }

        for value in ["a\r\nBcc: x@y", "a\nb", "a\rb", "a\0b"] {
            assert_eq!(
                check_header("X-A", value, false),
                Err(HEADER_VALUE),
                "{value:?}"
            );
        }
    }
}
