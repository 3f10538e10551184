//! Escapes untrusted text for the terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes, as `\u{…}`, the characters that a terminal interprets instead of showing: control
/// characters and marks that change the direction of writing. Line feeds are kept.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character == '\n')
}

/// As [`printable`], but also keeps tabs.
pub(crate) fn printable_document(text: &str) -> Cow<'_, str> {
    escaped(text, |character| matches!(character, '\n' | '\t'))
}

/// As [`printable`], but also escapes line feeds.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// Escapes the characters in JSON that a terminal interprets but JSON leaves unescaped.
pub(crate) fn json_safe(json: &str) -> Cow<'_, str> {
    // Below the space there is only JSON's own layout: strings escape those characters.
    let unsafe_here = |character: char| character >= ' ' && is_unsafe(character);
    if !json.chars().any(unsafe_here) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if unsafe_here(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                write!(safe, "\\u{unit:04x}").expect("writing to a string cannot fail");
            }
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|character| is_unsafe(character) && !keep(character)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            _ if keep(character) || !is_unsafe(character) => safe.push(character),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            _ => write!(safe, "\\u{{{:x}}}", u32::from(character))
                .expect("writing to a string cannot fail"),
        }
    }
    Cow::Owned(safe)
}

fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{200e}' | '\u{200f}' | '\u{61c}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_escaped() {
        assert_eq!(one_line("\u{1b}[2Jgone\u{9b}31m\r\n"), "\\u{1b}[2Jgone\\u{9b}31m\\r\\n");
        assert_eq!(printable("two\nlines\u{7f}"), "two\nlines\\u{7f}");
        assert_eq!(one_line("\u{202e}evil"), "\\u{202e}evil");
    }

    #[test]
    fn plain_text_is_unchanged() {
        assert!(matches!(one_line("Zoë 日本 🎉"), Cow::Borrowed(_)));
    }

    #[test]
    fn escaped_json_is_equivalent() {
        let text = "a\u{85}b\u{202e}c\u{7f}";
        let json = serde_json::to_string(text).expect("text is JSON");
        let safe = json_safe(&json);
        assert_eq!(safe, "\"a\\u0085b\\u202ec\\u007f\"");
        assert_eq!(serde_json::from_str::<String>(&safe).expect("still JSON"), text);
    }
}
