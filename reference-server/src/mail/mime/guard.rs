//! Keeps the message parser within bounds, whatever a message contains
//! (`docs/undocumented/both-services.md#bounds`).
//!
//! Some of the parser's work is recursive (attached messages, which it also decodes and
//! reads) or quadratic (pieces of a parameter, multiparts without their boundary). Such
//! words are replaced in the copy that the parser reads by words of the same length that
//! do not occur in the message, and put back in what the parser returns. The parser then
//! sees an attached message as a file, and everything else as it is.

use std::borrow::Cow;

/// Maximum number of multiparts that are taken apart. Further ones are read as text.
const MAX_MULTIPARTS: usize = 100;
/// Maximum number of lines that may separate parts. A message with more is one text.
const MAX_SEPARATORS: usize = 10_000;
/// Maximum number of `*` in one `Content-Type` or `Content-Disposition`: the pieces and
/// encoded values of RFC 2231. In a field with more they are ordinary characters.
const MAX_PIECES: usize = 32;

/// The copy of a message that the parser may read.
pub(super) struct Guarded<'a> {
    pub(super) source: Cow<'a, [u8]>,
    /// The words that were replaced, each with its replacement.
    replaced: Vec<(&'static [u8], Vec<u8>)>,
    /// Stands for `*`.
    star: Option<u8>,
}

impl<'a> Guarded<'a> {
    pub(super) fn new(source: &'a [u8]) -> Self {
        let lower = source.to_ascii_lowercase();
        let separators = lower.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"--"));
        let crowded = separators.take(MAX_SEPARATORS + 1).count() > MAX_SEPARATORS;
        let mut multiparts_left = if crowded { 0 } else { MAX_MULTIPARTS };
        let (mut words, mut stars): (Vec<(usize, &'static [u8])>, Vec<usize>) = Default::default();
        for (start, line) in fields(&lower) {
            if line.contains(&b'/') {
                attached_messages(start, line, &mut words);
                if subtype_of(line, b"multipart").is_some() {
                    match multiparts_left.checked_sub(1) {
                        Some(left) => multiparts_left = left,
                        None => words.extend(
                            all(line, b"multipart").map(|at| (start + at, &b"multipart"[..])),
                        ),
                    }
                }
            }
            if has_parameters(line) {
                let found = line.iter().enumerate().filter(|(_, byte)| **byte == b'*');
                let found: Vec<_> = found.map(|(at, _)| start + at).collect();
                if found.len() > MAX_PIECES {
                    stars.extend(found);
                }
            }
        }
        if words.is_empty() && stars.is_empty() {
            return Self { source: Cow::Borrowed(source), replaced: Vec::new(), star: None };
        }
        let mut copy = source.to_vec();
        let mut replaced: Vec<(&'static [u8], Vec<u8>)> = Vec::new();
        for (at, word) in words {
            let known = replaced.iter().position(|(known, _)| *known == word);
            let index = known.unwrap_or_else(|| {
                let taken: Vec<_> = replaced.iter().map(|(_, with)| with.clone()).collect();
                replaced.push((word, absent_word(&lower, word.len(), &taken)));
                replaced.len() - 1
            });
            transcribe(&mut copy[at..at + word.len()], &replaced[index].1);
        }
        let star = (!stars.is_empty()).then(|| (1..9).find(|byte| !source.contains(byte)));
        for at in stars {
            copy[at] = star.flatten().unwrap_or(b'_');
        }
        Self { source: Cow::Owned(copy), replaced, star: star.flatten() }
    }

    /// Puts the original words back into a text that the parser returned.
    pub(super) fn restore(&self, text: &str) -> String {
        let bytes = self.restore_bytes(text.as_bytes());
        // ASCII takes the place of ASCII, so this cannot fail.
        String::from_utf8(bytes).unwrap_or_default()
    }

    pub(super) fn restore_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut restored = bytes.to_vec();
        for (word, with) in &self.replaced {
            let mut from = 0;
            while let Some(at) = find(&restored[from..], with, true) {
                transcribe(&mut restored[from + at..from + at + word.len()], word);
                from += at + word.len();
            }
        }
        if let Some(star) = self.star {
            restored.iter_mut().filter(|byte| **byte == star).for_each(|byte| *byte = b'*');
        }
        restored
    }
}

/// The positions of the subtypes that make the parser read a part as a message.
fn attached_messages(start: usize, line: &[u8], words: &mut Vec<(usize, &'static [u8])>) {
    const TYPES: [(&[u8], &[u8]); 3] =
        [(b"message", b"rfc822"), (b"message", b"global"), (b"multipart", b"digest")];
    for (kind, subtype) in TYPES {
        if let Some(from) = subtype_of(line, kind) {
            words.extend(all(&line[from..], subtype).map(|at| (start + from + at, subtype)));
        }
    }
}

/// Where the subtype of this type can begin: after the word and a slash. Comments and line
/// breaks may stand between them.
fn subtype_of(line: &[u8], kind: &[u8]) -> Option<usize> {
    let from = find(line, kind, false)? + kind.len();
    let slash = line[from..].iter().position(|&byte| byte == b'/')?;
    Some(from + slash + 1)
}

/// Whether the line is a field whose parameters the parser reads. It skips white space
/// anywhere in a name, and white space and colons before it.
fn has_parameters(line: &[u8]) -> bool {
    line.split(|&byte| byte == b'\n').any(|line| {
        let blank = |byte: &&u8| byte.is_ascii_whitespace();
        let name = line.iter().skip_while(|byte| blank(byte) || **byte == b':');
        let name = name.take_while(|&&byte| byte != b':').filter(|byte| !blank(byte));
        let name: Vec<u8> = name.take(20).copied().collect();
        name == b"content-type" || name == b"content-disposition"
    })
}

/// The lines, each with the folded lines that follow it, and where they start.
fn fields(source: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let from = start;
        if from == source.len() {
            return None;
        }
        let mut end = from;
        loop {
            match source[end..].iter().position(|&byte| byte == b'\n') {
                Some(at) => end += at + 1,
                None => end = source.len(),
            }
            if !matches!(source.get(end), Some(b' ' | b'\t')) {
                break;
            }
        }
        start = end;
        Some((from, &source[from..end]))
    })
}

fn all<'l>(line: &'l [u8], word: &'l [u8]) -> impl Iterator<Item = usize> + 'l {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + find(&line[from..], word, false)?;
        from = at + word.len();
        Some(at)
    })
}

fn find(bytes: &[u8], word: &[u8], ignore_case: bool) -> Option<usize> {
    let mut windows = bytes.windows(word.len());
    if ignore_case {
        windows.position(|window| window[0] | 0x20 == word[0] && window.eq_ignore_ascii_case(word))
    } else {
        windows.position(|window| window[0] == word[0] && window == word)
    }
}

/// Writes the word over the bytes. Letters keep the case of those that they replace.
fn transcribe(bytes: &mut [u8], word: &[u8]) {
    for (byte, letter) in bytes.iter_mut().zip(word) {
        *byte = if byte.is_ascii_uppercase() { letter.to_ascii_uppercase() } else { *letter };
    }
}

/// A random word of this length, in lower case, that occurs nowhere in the message.
fn absent_word(lower: &[u8], length: usize, taken: &[Vec<u8>]) -> Vec<u8> {
    loop {
        // A sender who could guess the words could make the search for one take long.
        let random = uuid::Uuid::new_v4().into_bytes();
        let word: Vec<u8> = random[7..].iter().take(length).map(|byte| b'a' + byte % 26).collect();
        if !taken.contains(&word) && find(lower, &word, false).is_none() {
            return word;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_only_the_types_of_attached_messages_and_restores_them() {
        let source = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type:\r\n MESSAGE (x/y)\r\n /RFC822\r\n\r\nmessage and global\r\n--b--\r\n";
        let guarded = Guarded::new(source);
        assert_eq!(guarded.source.len(), source.len());
        assert_ne!(&guarded.source[..], &source[..]);
        assert!(find(&guarded.source, b"rfc822", true).is_none());
        assert!(find(&guarded.source, b"message and global", false).is_some());
        assert_eq!(guarded.restore_bytes(&guarded.source), source);
        assert!(matches!(Guarded::new(b"Subject: a message\r\n\r\nx/y").source, Cow::Borrowed(_)));
    }

    #[test]
    fn limits_the_pieces_of_a_parameter_and_the_multiparts() {
        let pieces: String = (0..100).map(|n| format!(";\r\n a*{n}=x")).collect();
        let source = format!("From: a@b\r\nContent - Type: text/plain{pieces}\r\n\r\n*bold*");
        let guarded = Guarded::new(source.as_bytes());
        assert_eq!(guarded.source.iter().filter(|byte| **byte == b'*').count(), 2);
        assert_eq!(guarded.restore_bytes(&guarded.source), source.as_bytes());
        let parts = "Content-Type: multipart/mixed; boundary=nope\r\n\r\n--a\r\n".repeat(300);
        let guarded = Guarded::new(parts.as_bytes());
        let left = all(&guarded.source, b"multipart").count();
        assert_eq!(left, MAX_MULTIPARTS);
    }
}
