//! Replaces JSON values that are valid but cannot be represented: unpaired surrogates,
//! which JavaScript produces when it cuts a string, numbers beyond the range of 64 bits, and
//! extremely deep nesting.
//!
//! One such value must not make the rest of a response unreadable, in particular the id of
//! an email that was sent.

use bytes::Bytes;

use super::field::exceeds_integers;

/// The maximum nesting depth. serde_json supports 128 levels.
const MAX_DEPTH: usize = 100;

/// Returns the text with such values replaced: an unpaired surrogate by U+FFFD, a number by
/// a string, deep nesting by `null`. Returns `None` if there are none.
pub(super) fn sanitize(text: &[u8]) -> Option<Bytes> {
    let mut sanitizer = Sanitizer { out: Vec::with_capacity(text.len()), changed: false };
    let mut at = 0;
    let mut depth: usize = 0;
    while let Some(&byte) = text.get(at) {
        let end = match byte {
            b'"' => string_end(text, at),
            b'-' | b'0'..=b'9' => number_end(text, at),
            b'[' | b'{' if depth == MAX_DEPTH => nested_end(text, at),
            _ => at + 1,
        };
        let token = &text[at..end];
        match byte {
            b'"' => sanitizer.string(token),
            b'-' | b'0'..=b'9' => sanitizer.number(token),
            b'[' | b'{' if depth == MAX_DEPTH => sanitizer.replace(b"null"),
            b'[' | b'{' => {
                depth += 1;
                sanitizer.out.push(byte);
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                sanitizer.out.push(byte);
            }
            _ => sanitizer.out.push(byte),
        }
        at = end;
    }
    sanitizer.changed.then(|| sanitizer.out.into())
}

struct Sanitizer {
    out: Vec<u8>,
    changed: bool,
}

impl Sanitizer {
    fn string(&mut self, token: &[u8]) {
        let mut rest = token;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
            self.out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let length = match (escaped(rest), rest.get(6..).and_then(escaped)) {
                (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
                (Some(0xD800..=0xDFFF), _) => {
                    self.replace(b"\\ufffd");
                    rest = &rest[6..];
                    continue;
                }
                (Some(_), _) => 6,
                (None, _) => rest.len().min(2),
            };
            self.out.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
        }
        self.out.extend_from_slice(rest);
    }

    fn number(&mut self, token: &[u8]) {
        let number = std::str::from_utf8(token).ok().and_then(|text| text.parse::<f64>().ok());
        if number.is_some_and(exceeds_integers) {
            self.replace(&[b"\"", token, b"\""].concat());
        } else {
            self.out.extend_from_slice(token);
        }
    }

    fn replace(&mut self, replacement: &[u8]) {
        self.out.extend_from_slice(replacement);
        self.changed = true;
    }
}

/// The code unit of an escape like `\ud83d`.
fn escaped(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn number_end(text: &[u8], start: usize) -> usize {
    let is_part =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    start + text[start..].iter().take_while(|byte| is_part(byte)).count()
}

/// The end of the array or object that starts at `start`.
fn nested_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut depth: usize = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn sanitized(text: &str) -> Option<String> {
        sanitize(text.as_bytes()).map(|text| String::from_utf8(text.to_vec()).expect("UTF-8"))
    }

    #[test]
    fn replaces_only_unrepresentable_values() {
        for (text, expected) in [
            (r#"{"a":"x\ud83d","b":1}"#, r#"{"a":"x\ufffd","b":1}"#),
            (r#"["\uDE00","\ud83d\ud83d\ude00"]"#, r#"["\ufffd","\ufffd\ud83d\ude00"]"#),
            (r#"{"\ud83d":-1e999,"b":1E+400}"#, r#"{"\ufffd":"-1e999","b":"1E+400"}"#),
        ] {
            assert_eq!(sanitized(text).as_deref(), Some(expected), "{text}");
        }
        for valid in [
            "",
            r#"{"a":"\ud83d\ude00 \\ud83d \u00fc \"","b":[1,-2.5e3,true,null]}"#,
            "\"\\",
            "\"\\u12",
            "[[[",
        ] {
            assert_eq!(sanitized(valid), None, "{valid}");
        }
    }

    #[test]
    fn replaces_deep_nesting_by_null() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(sanitized(&deep(MAX_DEPTH)), None);
        let text = format!(r#"{{"a":{},"b":"]"}}"#, deep(100_000));
        let read: Value =
            serde_json::from_str(&sanitized(&text).expect("sanitized text")).expect("JSON");
        assert_eq!(read["b"], "]");
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[\\[\\]{}\",:\\\\udD8cC0e9. -]{0,60}") {
            sanitize(text.as_bytes());
        }

        /// Text that serde_json accepts is unchanged.
        #[test]
        fn readable_text_is_unchanged(text in "[\\[\\]{}\",:\\\\udD8cC0e9. -]{0,12}") {
            // An exponent can make a number that is too large.
            if !text.contains(['e', 'E']) && serde_json::from_str::<Value>(&text).is_ok() {
                prop_assert_eq!(sanitize(text.as_bytes()), None);
            }
        }
    }
}
