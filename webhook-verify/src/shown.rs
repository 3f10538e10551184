//! Text that others wrote, on its way into a log.

use std::fmt::{self, Write as _};

/// Shows at most so many characters, in quotes, everything escaped that could
/// end a log's line or move a terminal's cursor.
pub(crate) struct Shown<T>(pub(crate) T);

const LONGEST: usize = 128;

impl<T: fmt::Display> fmt::Debug for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let mut bounded = Bounded { f, left: LONGEST };
        match write!(bounded, "{}", self.0) {
            Err(_) if bounded.left == 0 => f.write_str("\"…"),
            result => result.and_then(|()| f.write_char('"')),
        }
    }
}

struct Bounded<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    left: usize,
}

impl fmt::Write for Bounded<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            match character {
                '\'' => self.f.write_char(character)?,
                _ => write!(self.f, "{}", character.escape_debug())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_lines_nor_escapes_nor_novels() {
        let shown = |text: &str| format!("{:?}", Shown(text));
        for (text, as_shown) in [
            ("extraction.completed", r#""extraction.completed""#),
            ("", r#""""#),
            ("it's ü 🎉", r#""it's ü 🎉""#),
            ("a\r\nb\u{1b}[2J\0", r#""a\r\nb\u{1b}[2J\0""#),
            ("\" status=200", r#""\" status=200""#),
            ("\u{202e}\u{2028}\u{85}", r#""\u{202e}\u{2028}\u{85}""#),
        ] {
            assert_eq!(shown(text), as_shown);
        }
        assert_eq!(shown(&"ü".repeat(128)), format!("\"{}\"", "ü".repeat(128)));
        assert_eq!(shown(&"\n".repeat(1 << 20)), format!("\"{}\"…", "\\n".repeat(128)));
        // What is written in several pieces is one text.
        let pieces = format!("{:?}", Shown(format_args!("{}{}", "a".repeat(128), "b")));
        assert_eq!(pieces, format!("\"{}\"…", "a".repeat(128)));
    }
}
