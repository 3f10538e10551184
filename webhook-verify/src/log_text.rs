//! Escapes and truncates untrusted text for log messages.

use std::fmt;

/// Prints untrusted text in quotes, truncated to [`MAX_CHARS`] characters.
/// Characters that could break a log line or move a terminal's cursor are escaped.
pub(crate) struct LogText<T>(pub(crate) T);

const MAX_CHARS: usize = 128;

impl<T: fmt::Display> fmt::Debug for LogText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        match text.char_indices().nth(MAX_CHARS) {
            None => write!(f, "{text:?}"),
            Some((end, _)) => write!(f, "{:?}…", &text[..end]),
        }
    }
}

/// Implements `Debug` with these fields only, because the others may be secrets or what users wrote.
macro_rules! debug_fields {
    ($name:ident: $($field:ident),*) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use debug_fields;

/// Defines methods that set the field of their name and return the value, so that they chain.
macro_rules! setters {
    ($name:ident: $( $(#[$meta:meta])* $field:ident($value:ident: $type:ty) = $set:expr; )+) => {
        impl $name {
            $(
                $(#[$meta])*
                #[must_use]
                pub fn $field(mut self, $value: $type) -> Self {
                    self.$field = $set;
                    self
                }
            )+
        }
    };
}
pub(crate) use setters;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_control_characters_and_truncates() {
        let printed = |text: &str| format!("{:?}", LogText(text));
        for (text, expected) in [
            ("extraction.completed", r#""extraction.completed""#),
            ("", r#""""#),
            ("it's ü 🎉", r#""it's ü 🎉""#),
            ("a\r\nb\u{1b}[2J\0", r#""a\r\nb\u{1b}[2J\0""#),
            ("\" status=200", r#""\" status=200""#),
            ("\u{202e}\u{2028}\u{85}", r#""\u{202e}\u{2028}\u{85}""#),
        ] {
            assert_eq!(printed(text), expected);
        }

        assert_eq!(
            printed(&"ü".repeat(128)),
            format!("\"{}\"", "ü".repeat(128))
        );
        assert_eq!(
            printed(&"\n".repeat(1 << 20)),
            format!("\"{}\"…", "\\n".repeat(128))
        );
        // The limit applies to the whole text, even if it is written in several chunks.
        let chunks = format!("{:?}", LogText(format_args!("{}{}", "a".repeat(128), "b")));
        assert_eq!(chunks, format!("\"{}\"…", "a".repeat(128)));
    }
}
