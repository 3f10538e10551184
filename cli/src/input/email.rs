//! Checks and compares email addresses, for bulk sending and imports. `check` takes the text of a
//! row and returns the address as it is compared. It refuses every text that two programs may read
//! as different addresses, and characters that look like others. Two forms of one mailbox must
//! compare equal: one of them may have opted out. Errors never contain the address.

use sha2::{Digest as _, Sha256};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;
use url::Host;

/// The address `a@b` in the form in which addresses are compared: in lower case, and with the
/// ASCII form of its domain. A mailbox must not count twice: one of the two may have opted out.
pub fn comparable(address: &str) -> String {
    let lower = address.to_lowercase();
    // Only domains in other letters have two forms.
    let Some((local, domain)) = lower
        .rsplit_once('@')
        .filter(|(_, domain)| !domain.is_ascii())
    else {
        return lower;
    };
    match Host::parse(domain) {
        Ok(Host::Domain(ascii)) => format!("{local}@{ascii}"),
        _ => lower,
    }
}

/// A number for each address as it is compared, in place of a million addresses.
pub fn hash(address: &str) -> u64 {
    let digest = Sha256::digest(address);
    digest[..8]
        .iter()
        .fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// Like [`hash`], for text that may be no valid address.
pub fn hash_of(text: &str) -> Option<u64> {
    check(text).ok().map(|address| hash(&address))
}

/// Checks `a@b` or `Name <a@b>` and returns the address as it is compared. Text that two programs may
/// read as different addresses is refused. The error says what is wrong, without the text.
pub fn check(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("the row has no email address");
    }
    if text.chars().any(char::is_control) {
        return Err("the address contains a line end or another control character");
    }

    let address = match text.split_once('<') {
        None => text,
        Some((name, rest)) => {
            let address = rest.strip_suffix('>').ok_or(AMBIGUOUS)?;
            // Another `@` or a list separator in the name: it may be an address too.
            if name.contains(['@', ',', ';', '>']) || name.matches('"').count() % 2 == 1 {
                return Err(AMBIGUOUS);
            }
            address
        }
    };
    if !address.is_ascii() && address.chars().any(is_deceptive) {
        return Err("the address contains an invisible character, or one that looks like another");
    }
    let Some((local, domain)) = address.split_once('@') else {
        return Err("not an email address");
    };

    let odd = |c: char| {
        let is_special = matches!(
            c,
            '@' | ',' | ';' | ':' | '"' | '(' | ')' | '<' | '>' | '[' | ']' | '\\'
        );
        is_special || c.is_whitespace()
    };

    if local.contains(odd) || domain.contains(odd) {
        return Err(AMBIGUOUS);
    }
    // An address that a program has quoted is another one, without them.
    if local.starts_with(is_quote) || domain.ends_with(is_quote) {
        return Err("the address begins or ends with a quotation mark");
    }
    // The same text in other characters, such as a letter and its accent, would be another address.
    if !local.is_ascii() && !local.nfkc().eq(local.chars()) {
        return Err(
            "the address has characters that stand for others, such as a letter and its accent",
        );
    }

    let is_letter = |c: char| c.is_alphanumeric() || is_combining_mark(c);
    if address.contains(|c: char| !c.is_ascii() && !is_letter(c)) {
        return Err("the address has a character that is neither letter nor digit");
    }

    let is_dotted = |part: &str| part.split('.').all(|label| !label.is_empty());
    let comparable = comparable(address);
    let is_named = comparable.rsplit('@').next().is_some_and(is_domain);
    if !is_dotted(local) || !is_dotted(domain) || !is_named || local.len() > 64 {
        return Err("not an email address");
    }

    Ok(comparable)
}

/// Whether a text may be a domain, in its ASCII form: names of letters and digits with `-` and `_`.
fn is_domain(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 253 && text.chars().all(is_letter)
}

/// A text in the characters that it stands for: `ﬁ` as `fi`, full-width letters, letters and accents as
/// one character, and the quotation marks and dashes of word processors as those of a keyboard.
/// Invisible characters are left out.
pub fn plain(text: &str) -> String {
    let visible = text.chars().filter(|c| !is_invisible(*c));
    visible
        .nfkc()
        .map(|c| match c {
            '\u{2018}' | '\u{2019}' | '\u{2bc}' => '\'',
            '\u{2010}'..='\u{2015}' => '-',
            '\u{3002}' => '.',
            c => c,
        })
        .collect()
}

/// The invisible character of an address, or its space that is not seen: which, and
/// its place in the text. A display name may have some, as in emoji.
pub fn invisible_character(text: &str) -> Option<String> {
    let start = text.rfind('<').unwrap_or(0);
    let end = text.rfind('>').unwrap_or(text.len());
    let is_at_end = |at: usize| text[..at].trim().is_empty() || text[at..].trim().is_empty();
    let is_unseen = |at: usize, c: char| {
        is_invisible(c) || c.is_whitespace() && (!c.is_ascii() || is_at_end(at))
    };
    let (at, c) = text
        .char_indices()
        .find(|(at, c)| (start..end).contains(at) && is_unseen(*at, *c))?;
    let position = text[..at].chars().count() + 1;
    let code = u32::from(c);
    Some(format!(
        "the address has an invisible character, U+{code:04X}, at position {position}"
    ))
}

/// An address with a display name, which is quoted if it has characters that separate addresses.
/// `None`: the name cannot be told from another address.
pub fn mailbox(name: &str, address: &str) -> Option<String> {
    if name.contains(['<', '>', '"', '\\']) {
        return None;
    }
    Some(if name.contains([',', ';', ':', '(', ')', '[', ']']) {
        format!("\"{name}\" <{address}>")
    } else {
        format!("{name} <{address}>")
    })
}

/// Quotes the name of `Name <a@b>`, see [`mailbox`].
pub fn with_quoted_name(text: &str) -> Option<String> {
    let unchanged = || Some(text.to_owned());
    let Some((name, address)) = text.rsplit_once('<') else {
        return unchanged();
    };

    let name = name.trim();
    let is_quoted = name.len() > 1 && name.starts_with('"') && name.ends_with('"');
    match address.strip_suffix('>') {
        Some(address) if !is_quoted && !name.is_empty() => mailbox(name, address),
        _ => unchanged(),
    }
}

/// Whether a character is a quotation mark, of any language.
pub fn is_quote(c: char) -> bool {
    matches!(
        c,
        '"' | '\'' | '`' | '´' | '«' | '»' | '‹' | '›' | '\u{2018}'..='\u{201f}' | '\u{ff07}'
    )
}

/// Whether a character is invisible, or a variant of an ASCII character that some programs take for
/// it. Two addresses that look alike would be two recipients.
fn is_deceptive(c: char) -> bool {
    // Full-width and small forms, such as the `@`, and other full stops of domains.
    is_invisible(c)
        || matches!(c, '\u{2024}' | '\u{3002}' | '\u{fe50}'..='\u{fe6b}' | '\u{ff01}'..='\u{ff61}')
}

/// Whether a character cannot be seen, or changes the direction of others: soft hyphen, zero-width
/// characters, marks of direction, byte order mark, variation selectors, tags.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{20e3}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffd}'
        | '\u{e0000}'..='\u{e0fff}')
}

const AMBIGUOUS: &str = "not one valid email address; use `a@b` or `Name <a@b>`";

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

    #[test]
    fn accepts_one_address_with_an_optional_name() {
        for (text, address) in [
            ("a@b", "a@b"),
            ("Ada.King+x@B.example", "ada.king+x@b.example"),
            ("Ada <a@b.test>", "a@b.test"),
            ("\"Ada K.\" <a@b.test>", "a@b.test"),
            ("ä@ö.example", "ä@xn--nda.example"),
            ("Ada \u{2764}\u{fe0f} <a@b.test>", "a@b.test"),
        ] {
            assert_eq!(check(text), Ok(address.to_owned()), "{text}");
        }
    }

    #[test]
    fn an_invisible_character_of_an_address_is_named_with_its_place() {
        let problem = |text| invisible_character(text).unwrap_or_default();
        assert!(problem("ad\u{200b}a@b.test").ends_with("U+200B, at position 3"));
        assert!(problem("\u{feff}ada@b.test").ends_with("U+FEFF, at position 1"));
        assert!(problem("Ad\u{e1} <a@b\u{ad}.test>").ends_with("U+00AD, at position 9"));
        assert!(problem("ada@b.test ").ends_with("U+0020, at position 11"));
        assert!(problem("ada\u{a0}@b.test").ends_with("U+00A0, at position 4"));
        assert_eq!(problem("no address"), "");
        assert_eq!(problem("Ada \u{2764}\u{fe0f} <a@b.test>"), "");
    }

    #[test]
    fn a_name_with_separators_is_quoted() {
        for (text, expected) in [
            ("a@b.test", "a@b.test"),
            ("<a@b.test>", "<a@b.test>"),
            ("Dr. Ada <a@b.test>", "Dr. Ada <a@b.test>"),
            ("Smith, John <a@b.test>", "\"Smith, John\" <a@b.test>"),
            ("\"Smith, John\" <a@b.test>", "\"Smith, John\" <a@b.test>"),
        ] {
            assert_eq!(with_quoted_name(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "O\"Neil <a@b.test>",
            "<c@d.test> <a@b.test>",
            "A\\ <a@b.test>",
        ] {
            assert_eq!(with_quoted_name(text), None, "{text}");
        }
    }

    #[test]
    fn refuses_text_that_can_be_read_in_two_ways() {
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
            "a@b>",
            "<a@b",
            "<a@b> <c@d>",
            "c@d <a@b>",
            "\"x <a@b>",
            "\"a@x\"@b",
            "a@b\r\nBcc: c@d",
            "a@[::1]",
            ".a@b",
            "a..b@c",
            "a@b.",
            "a@b(c)",
            "a@b\\",
            "a\u{ff20}b.test",
            "\u{ff41}@b.test",
            "a@b\u{3002}test",
            "a\u{200b}@b.test",
            "\u{feff}a@b.test",
            "\u{202e}a@b.test",
            "a\u{ad}@b.test",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
