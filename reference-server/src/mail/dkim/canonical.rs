//! The canonical forms of header fields and bodies, simple and relaxed (RFC 6376 §3.4).

use crate::mail::header::Field;

impl Field<'_> {
    /// Appends the canonical form (§3.4.1 or §3.4.2), without the final line break. The relaxed one
    /// has the name in lower case, and the value unfolded.
    pub(crate) fn write(&self, form: Form, out: &mut Vec<u8>) {
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
pub(crate) enum Form {
    Simple,
    Relaxed,
}

/// The canonical body. It has no empty lines at its end (§3.4.3). The relaxed form also reduces runs
/// of white space to one space and ignores white space at line ends (§3.4.4).
pub(crate) fn canonical_body(body: &[u8], form: Form) -> Vec<u8> {
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
    out
}

/// The text with one space in place of each run of `white` space, and none at its end.
fn squeezed(text: &[u8], white: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if !white.contains(&byte) {
            out.push(byte);
        } else if out.last() != Some(&b' ') {
            out.push(b' ');
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
    use crate::mail::header::Header;

    fn relaxed(header: &Header<'_>) -> String {
        let mut out = Vec::new();
        for field in &header.fields {
            field.write(Form::Relaxed, &mut out);
            out.extend_from_slice(b"\r\n");
        }
        String::from_utf8(out).expect("ASCII")
    }

    // The example of RFC 6376 §3.4.5.
    #[test]
    fn canonicalizes_the_example_of_the_rfc() {
        let message = b"A: X\r\nB : Y\t\r\n\tZ  \r\n\r\n C \r\nD \t E\r\n\r\n\r\n";
        let header = Header::parse(message);
        assert_eq!(relaxed(&header), "a:X\r\nb:Y Z\r\n");
        let relaxed = canonical_body(header.body, Form::Relaxed);
        assert_eq!(relaxed, b" C\r\nD E\r\n");
        let simple = canonical_body(header.body, Form::Simple);
        assert_eq!(simple, b" C \r\nD \t E\r\n");
    }

    #[test]
    fn empty_bodies_and_a_missing_line_end_have_canonical_forms() {
        for body in [&b""[..], b"\r\n", b" \t\r\n\r\n", b"  "] {
            assert_eq!(canonical_body(body, Form::Relaxed), b"", "{body:?}");
        }
        assert_eq!(canonical_body(b"x", Form::Relaxed), b"x\r\n");
        assert_eq!(canonical_body(b"", Form::Simple), b"\r\n");
    }
}
