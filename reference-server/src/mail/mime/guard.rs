//! Keeps the message parser within bounds, whatever a message contains
//! (`reference-server/LIMITS.md`).
//!
//! Some of the parser's work is recursive (attached messages, which it also decodes and
//! reads) or quadratic (pieces of a parameter, multiparts without their boundary). In the copy that
//! the parser reads, the last letter of such words is an `x`, so that it sees an attached message as
//! a file. What the parser returns gets its letters back.
//!
//! A line of white space in the header of a part would continue its last field, and hide the text
//! after it. For a relaxed DKIM signature it is the empty line that ends the header, so it is one here.
//!
//! A quoted-printable part that ends with a soft line break loses its last letters, or overflows. The
//! copy has spaces in place of the break, which the parser leaves out.

use std::borrow::Cow;
use std::ops::Range;

use crate::mail::header::field_length;

/// Maximum number of multiparts that are taken apart. Further ones are read as text.
const MAX_MULTIPARTS: usize = 100;
/// Maximum number of lines that may separate parts. A message with more is one text.
const MAX_SEPARATORS: usize = 10_000;
/// Maximum number of `*` in one field: the pieces and encoded values of RFC 2231. In a field with
/// more they become `_`.
const MAX_PIECES: usize = 32;

/// The subtypes that make the parser read a part as a message, and their last letters.
const MESSAGES: [(&[u8], u8); 3] = [(b"rfc822", b'2'), (b"global", b'l'), (b"digest", b't')];
const MULTIPART: (&[u8], u8) = (b"multipart", b't');

/// The copy of a message that the parser may read.
pub(super) fn guarded(source: &[u8]) -> Cow<'_, [u8]> {
    let separators = source
        .split(|&byte| byte == b'\n')
        .filter(|line| line.starts_with(b"--"));
    let is_crowded = separators.take(MAX_SEPARATORS + 1).count() > MAX_SEPARATORS;
    let mut multiparts_left = if is_crowded { 0 } else { MAX_MULTIPARTS };
    let mut copy = Cow::Borrowed(source);
    let mut start = 0;
    let (mut boundaries, mut is_header, mut is_quoted) = (Vec::new(), true, false);
    while start < source.len() {
        let mut field = start..start + field_length(&source[start..]);
        start = field.end;
        let white_line =
            white_line(&source[field.clone()]).filter(|_| is_header && field.start > 0);
        if let Some(line) = &white_line {
            start = field.start + line.end;
            field.end = field.start + line.start;
            copy.to_mut()[field.end] = b'\n';
        }
        let text = &source[field.clone()];
        let is_multipart = find(text, MULTIPART.0).is_some();
        if text.contains(&b'/') && (is_multipart || find(text, b"message").is_some()) {
            for (word, _) in MESSAGES {
                if find(text, word).is_some() {
                    replace(&mut copy.to_mut()[field.clone()], word, b'x');
                }
            }
            if is_multipart && multiparts_left == 0 {
                replace(&mut copy.to_mut()[field.clone()], MULTIPART.0, b'x');
            } else if is_multipart {
                boundaries.push(boundary(text));
            }
            multiparts_left = multiparts_left.saturating_sub(usize::from(is_multipart));
        }
        if text.starts_with(b"\n") || text.starts_with(b"\r\n") {
            is_header = false;
        } else if is_header && find(text, b"transfer-encoding").is_some() {
            is_quoted |= find(text, b"quoted").is_some();
        } else if let Some(rest) = text.strip_prefix(b"--")
            && boundaries.iter().any(|boundary| rest.starts_with(boundary))
        {
            if is_quoted && source[..field.start].trim_ascii_end().ends_with(b"=") {
                let before = copy.to_mut()[..field.start].iter_mut().rev();
                let end = before.take_while(|byte| byte.is_ascii_whitespace() || **byte == b'=');
                end.filter(|byte| **byte == b'=')
                    .for_each(|byte| *byte = b' ');
            }
            (is_header, is_quoted) = (true, false);
        }
        is_header &= white_line.is_none();
        let stars = text.iter().filter(|byte| **byte == b'*').count();
        if stars > MAX_PIECES && find(text, b"content").is_some() {
            let stars = copy.to_mut()[field]
                .iter_mut()
                .filter(|byte| **byte == b'*');
            stars.for_each(|byte| *byte = b'_');
        }
    }
    copy
}

/// The first line of white space in a field, with its line end.
fn white_line(field: &[u8]) -> Option<Range<usize>> {
    let mut start = 0;
    for line in field.split_inclusive(|&byte| byte == b'\n') {
        let end = start + line.len();
        if matches!(line[0], b' ' | b'\t') && line.trim_ascii().is_empty() {
            return Some(start..end);
        }
        start = end;
    }
    None
}

/// Gives the words in what the parser returned their letters back.
pub(super) fn restored(mut bytes: Vec<u8>) -> Vec<u8> {
    for (word, last) in MESSAGES.into_iter().chain([MULTIPART]) {
        replace(&mut bytes, &[&word[..word.len() - 1], b"x"].concat(), last);
    }
    bytes
}

/// The boundary of a multipart; empty if it is written in another form than `boundary=…`.
fn boundary(field: &[u8]) -> &[u8] {
    let after = find(field, b"boundary").map_or(field, |at| &field[at + b"boundary".len()..]);
    let Some(value) = after.trim_ascii_start().strip_prefix(b"=") else {
        return b"";
    };
    let value = value.trim_ascii_start();
    let end = |byte: &u8| b"\";\\".contains(byte) || byte.is_ascii_whitespace();
    value
        .strip_prefix(b"\"")
        .unwrap_or(value)
        .split(end)
        .next()
        .unwrap_or_default()
}

/// Replaces the last letter of a word everywhere, in the same case.
fn replace(bytes: &mut [u8], word: &[u8], last: u8) {
    let mut from = 0;
    while let Some(at) = find(&bytes[from..], word) {
        from += at + word.len();
        let letter = &mut bytes[from - 1];
        *letter = if letter.is_ascii_uppercase() {
            last.to_ascii_uppercase()
        } else {
            last
        };
    }
}

/// Finds a word in lower case, in any case.
fn find(bytes: &[u8], word: &[u8]) -> Option<usize> {
    let is_word = |window: &[u8]| window[0] | 0x20 == word[0] && window.eq_ignore_ascii_case(word);
    bytes.windows(word.len()).position(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_only_the_types_of_attached_messages_and_restores_them() {
        let source = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type:\r\n MESSAGE (x/y)\r\n /Digest\r\n\r\nmessage and global\r\n--b--\r\n";
        let copy = guarded(source);
        assert!(find(&copy, b"digest").is_none());
        assert!(find(&copy, b"message and global").is_some());
        assert_eq!(restored(copy.into_owned()), source);
        assert!(matches!(
            guarded(b"Subject: a message\r\n\r\nx/y"),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn a_line_of_white_space_ends_the_header_of_a_part() {
        let source = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\
            Content-Type: text/plain\r\n \t\r\nshown: yes\r\n--b--\r\n";
        let copy = guarded(source).into_owned();
        let expected = String::from_utf8_lossy(source).replace("\r\n \t", "\r\n\n\t");
        assert_eq!(String::from_utf8_lossy(&copy), expected);
    }

    #[test]
    fn limits_the_pieces_of_a_parameter_and_the_multiparts() {
        let pieces: String = (0..100).map(|n| format!(";\r\n a*{n}=x")).collect();
        let source = format!("From: a@b\r\nContent - Type: text/plain{pieces}\r\n\r\n*bold*");
        let stars = guarded(source.as_bytes())
            .iter()
            .filter(|byte| **byte == b'*')
            .count();
        assert_eq!(stars, 2);
        let parts = "Content-Type: multipart/mixed; boundary=nope\r\n\r\n--a\r\n".repeat(300);
        let copy = guarded(parts.as_bytes()).into_owned();
        let left = String::from_utf8(copy.clone())
            .expect("text")
            .matches("multipart")
            .count();
        assert_eq!(left, MAX_MULTIPARTS);
        assert_eq!(restored(copy), parts.as_bytes());
    }
}
