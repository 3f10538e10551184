//! Escapes untrusted text for the terminal.

use std::borrow::Cow;

/// Escapes, as `\u{…}`, the characters that a terminal interprets instead of showing: control
/// characters and marks that change the direction of writing. Line feeds are kept.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |it| it == '\n' || !is_unsafe(it), readable)
}

/// Like [`printable`], but also keeps tabs.
pub(crate) fn printable_document(text: &str) -> Cow<'_, str> {
    escaped(
        text,
        |it| matches!(it, '\n' | '\t') || !is_unsafe(it),
        readable,
    )
}

/// Like [`printable`], but also escapes line feeds.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |it| !is_unsafe(it), readable)
}

/// Escapes the characters in JSON that a terminal interprets but JSON leaves unescaped.
pub(crate) fn json_safe(json: &str) -> Cow<'_, str> {
    // Below the space there is only JSON's own layout: strings escape those characters.
    escaped(
        json,
        |it| it < ' ' || !is_unsafe(it),
        |it| {
            it.encode_utf16(&mut [0; 2])
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect()
        },
    )
}

fn escaped(
    text: &str,
    is_safe: impl Fn(char) -> bool,
    escape: impl Fn(char) -> String,
) -> Cow<'_, str> {
    if text.chars().all(&is_safe) {
        return Cow::Borrowed(text);
    }
    let one = |it| if is_safe(it) { it.into() } else { escape(it) };
    Cow::Owned(text.chars().map(one).collect())
}

fn readable(character: char) -> String {
    character.escape_default().collect()
}

fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{200e}' | '\u{200f}' | '\u{61c}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{2028}' | '\u{2029}'
            // A byte order mark, and tags: text that nobody sees, but a program may read.
            | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_escaped() {
        assert_eq!(
            one_line("\u{1b}[2Jgone\u{9b}31m\r\n"),
            "\\u{1b}[2Jgone\\u{9b}31m\\r\\n"
        );
        assert_eq!(printable("two\nlines\u{7f}"), "two\nlines\\u{7f}");
        assert_eq!(one_line("\u{202e}evil"), "\\u{202e}evil");
        assert_eq!(one_line("\u{feff}a\u{e0041}"), "\\u{feff}a\\u{e0041}");
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
        assert_eq!(
            serde_json::from_str::<String>(&safe).expect("still JSON"),
            text
        );
    }
}
