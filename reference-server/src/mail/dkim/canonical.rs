//! The canonical forms of header fields and bodies, simple and relaxed (RFC 6376 §3.4).

use ring::digest;

/// Splits a message into header and body, without the empty line between them.
pub(super) fn split(message: &[u8]) -> (&[u8], &[u8]) {
    if let Some(body) = message.strip_prefix(b"\r\n") {
        return (b"", body);
    }
    match message.windows(4).position(|window| window == b"\r\n\r\n") {
        Some(at) => (&message[..at + 2], &message[at + 4..]),
        None => (message, b""),
    }
}

/// One header field, without its final line break.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) raw: &'a [u8],
}

/// Returns the header fields in order, each with its folded lines.
pub(super) fn fields(head: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    let mut rest = head;
    while !rest.is_empty() {
        let (field, after) = rest.split_at(field_length(rest));
        fields.push(Field::new(field));
        rest = after;
    }
    fields
}

/// The length of the first line with the folded lines that follow it.
pub(crate) fn field_length(source: &[u8]) -> usize {
    let mut end = 0;
    loop {
        match source[end..].iter().position(|&byte| byte == b'\n') {
            Some(at) => end += at + 1,
            None => return source.len(),
        }
        if !matches!(source.get(end), Some(b' ' | b'\t')) {
            return end;
        }
    }
}

impl<'a> Field<'a> {
    pub(super) fn new(raw: &'a [u8]) -> Self {
        let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
        Self {
            raw: raw.strip_suffix(b"\r").unwrap_or(raw),
        }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name.as_bytes())
    }

    fn name(&self) -> &'a [u8] {
        let colon = self
            .raw
            .iter()
            .position(|&b| b == b':')
            .unwrap_or(self.raw.len());
        self.raw[..colon].trim_ascii_end()
    }

    fn value(&self) -> &'a [u8] {
        let colon = self.raw.iter().position(|&b| b == b':');
        colon.map_or(b"", |colon| &self.raw[colon + 1..])
    }

    /// Appends the canonical form (§3.4.1 or §3.4.2), without the final line break. The relaxed one
    /// has the name in lower case, and the value unfolded.
    pub(super) fn write(&self, form: Form, out: &mut Vec<u8>) {
        match form {
            Form::Simple => out.extend_from_slice(self.raw),
            Form::Relaxed => {
                out.extend(self.name().to_ascii_lowercase());
                out.push(b':');
                out.extend_from_slice(squeezed(self.value(), b" \t\r\n").trim_ascii_start());
            }
        }
    }
}

/// Canonicalization algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Simple,
    Relaxed,
}

/// SHA-256 of the canonical body, or of its first `length` bytes. Ignores empty lines
/// at the end (§3.4.3). The relaxed form also reduces runs of white space to one space
/// and ignores white space at line ends (§3.4.4).
pub(super) fn body_hash(body: &[u8], form: Form, length: Option<usize>) -> digest::Digest {
    let mut out = Vec::with_capacity(body.len() + 2);
    let mut rest = body;
    while !rest.is_empty() {
        let end = rest
            .windows(2)
            .position(|bytes| bytes == b"\r\n")
            .unwrap_or(rest.len());
        match form {
            Form::Simple => out.extend_from_slice(&rest[..end]),
            Form::Relaxed => out.extend(squeezed(&rest[..end], b" \t")),
        }
        out.extend_from_slice(b"\r\n");
        rest = rest.get(end + 2..).unwrap_or_default();
    }
    while out.ends_with(b"\r\n\r\n") || out == b"\r\n" {
        out.truncate(out.len() - 2);
    }
    if out.is_empty() && form == Form::Simple {
        out.extend_from_slice(b"\r\n");
    }
    out.truncate(length.unwrap_or(usize::MAX));
    digest::digest(&digest::SHA256, &out)
}

/// The text with one space in place of each run of `white` space, and none at its end.
fn squeezed(text: &[u8], white: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        match white.contains(&byte) {
            true if out.last() == Some(&b' ') => {}
            true => out.push(b' '),
            false => out.push(byte),
        }
    }
    if out.last() == Some(&b' ') {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relaxed(head: &[u8]) -> String {
        let mut out = Vec::new();
        for field in fields(head) {
            field.write(Form::Relaxed, &mut out);
            out.extend_from_slice(b"\r\n");
        }
        String::from_utf8(out).expect("ASCII")
    }

    // The example of RFC 6376 §3.4.5.
    #[test]
    fn canonicalizes_the_example_of_the_rfc() {
        let message = b"A: X\r\nB : Y\t\r\n\tZ  \r\n\r\n C \r\nD \t E\r\n\r\n\r\n";
        let (head, body) = split(message);
        assert_eq!(relaxed(head), "a:X\r\nb:Y Z\r\n");
        let hash = |text: &[u8]| digest::digest(&digest::SHA256, text).as_ref().to_vec();
        let relaxed = body_hash(body, Form::Relaxed, None);
        assert_eq!(relaxed.as_ref(), hash(b" C\r\nD E\r\n"));
        let simple = body_hash(body, Form::Simple, None);
        assert_eq!(simple.as_ref(), hash(b" C \r\nD \t E\r\n"));
        assert_eq!(
            body_hash(body, Form::Simple, Some(3)).as_ref(),
            hash(b" C ")
        );
        // Lines end at CRLF only.
        let bare = b"a \r b\n \nc \r\n";
        assert_eq!(body_hash(bare, Form::Simple, None).as_ref(), hash(bare));
        assert_eq!(
            body_hash(bare, Form::Relaxed, None).as_ref(),
            hash(b"a \r b\n \nc\r\n")
        );
    }

    #[test]
    fn hashes_empty_bodies() {
        let nothing = digest::digest(&digest::SHA256, b"");
        for body in [&b""[..], b"\r\n", b" \t\r\n\r\n", b"  "] {
            assert_eq!(
                body_hash(body, Form::Relaxed, None).as_ref(),
                nothing.as_ref(),
                "{body:?}"
            );
        }
        let line = digest::digest(&digest::SHA256, b"x\r\n");
        assert_eq!(body_hash(b"x", Form::Relaxed, None).as_ref(), line.as_ref());
        let line = digest::digest(&digest::SHA256, b"\r\n");
        assert_eq!(body_hash(b"", Form::Simple, None).as_ref(), line.as_ref());
    }

    #[test]
    fn splits_messages_without_body_or_header() {
        assert_eq!(split(b"A: b\r\n"), (&b"A: b\r\n"[..], &b""[..]));
        assert_eq!(split(b"\r\nbody"), (&b""[..], &b"body"[..]));
        assert_eq!(split(b"A: b\r\n\r\nbody"), (&b"A: b\r\n"[..], &b"body"[..]));
    }
}
