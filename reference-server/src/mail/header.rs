//! The header of a message: where it ends, and what its fields are. All that reads a message starts
//! here, the verifier of its signatures, too, so that what is shown is what was verified.

/// The header of a message, and its body.
pub(crate) struct Header<'a> {
    pub(crate) fields: Vec<Field<'a>>,
    /// The bytes after the empty line that ends the header.
    pub(crate) body: &'a [u8],
    head: &'a [u8],
}

/// One header field, without its final line break.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub(crate) raw: &'a [u8],
}

/// The fields that decide what is shown as sender, subject and content. A message has each of them
/// at most once.
const SHOWN: [&str; 5] = [
    "From",
    "Subject",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Content-Disposition",
];

impl<'a> Header<'a> {
    /// Reads the header of a message with CRLF line ends.
    pub(crate) fn parse(message: &'a [u8]) -> Self {
        let (head, body) = split(message);
        let mut fields = Vec::new();
        let mut rest = head;
        while !rest.is_empty() {
            let (field, after) = rest.split_at(field_length(rest));
            fields.push(Field::new(field));
            rest = after;
        }
        Self { fields, body, head }
    }

    /// Whether another program may see other fields or another body in this message: it has line
    /// ends other than CRLF, lines that are not fields, control characters, or a field twice of
    /// which only one is shown.
    pub(crate) fn is_ambiguous(&self) -> bool {
        let is_control =
            |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r' | b'\n');
        let is_repeated = |name: &&str| self.all(name).count() > 1;
        has_bare_line_break(self.head)
            || has_bare_line_break(self.body)
            || self.head.iter().any(is_control)
            || !self.fields.iter().all(Field::is_valid)
            || SHOWN.iter().any(is_repeated)
            || self.all("From").next().is_none()
    }

    /// The fields with this name, in any case.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &Field<'a>> {
        self.fields.iter().filter(move |field| field.is(name))
    }
}

/// Splits a message into header and body, without the empty line between them.
fn split(message: &[u8]) -> (&[u8], &[u8]) {
    if let Some(body) = message.strip_prefix(b"\r\n") {
        return (b"", body);
    }
    match message.windows(4).position(|window| window == b"\r\n\r\n") {
        Some(at) => (&message[..at + 2], &message[at + 4..]),
        None => (message, b""),
    }
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

/// Whether a text contains a CR or an LF that is not part of a CRLF. Mail servers disagree about
/// whether it ends a line.
pub(crate) fn has_bare_line_break(text: &[u8]) -> bool {
    let mut before = 0;
    for &byte in text {
        if (before == b'\r') != (byte == b'\n') {
            return true;
        }
        before = byte;
    }
    before == b'\r'
}

impl<'a> Field<'a> {
    pub(crate) fn new(raw: &'a [u8]) -> Self {
        let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
        Self {
            raw: raw.strip_suffix(b"\r").unwrap_or(raw),
        }
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name.as_bytes())
    }

    /// Whether it decides what is shown as sender, subject or content. `Content-Disposition: inline`
    /// does not, unless it names a file: it is the default, and many mail programs do not sign it.
    pub(crate) fn is_shown(&self) -> bool {
        let is_default = self.value().trim_ascii().eq_ignore_ascii_case(b"inline");
        let is_inline = self.is("Content-Disposition") && is_default;
        SHOWN.iter().any(|name| self.is(name)) && !is_inline
    }

    /// Whether its name is printable ASCII, as every field's.
    pub(crate) fn is_valid(&self) -> bool {
        let name = self.name();
        self.raw.contains(&b':') && !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
    }

    /// The name, without the white space that RFC 822 allowed before the colon.
    pub(crate) fn name(&self) -> &'a [u8] {
        let colon = self.raw.iter().position(|&byte| byte == b':');
        let name = &self.raw[..colon.unwrap_or(self.raw.len())];
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
        let end = name.iter().rposition(|byte| !is_space(byte));
        &name[..end.map_or(0, |end| end + 1)]
    }

    pub(crate) fn value(&self) -> &'a [u8] {
        let colon = self.raw.iter().position(|&byte| byte == b':');
        colon.map_or(b"", |colon| &self.raw[colon + 1..])
    }

    /// The value in one line.
    pub(crate) fn unfolded(&self) -> Vec<u8> {
        let lines = self.value().split(|&byte| byte == b'\n');
        let lines = lines.map(<[u8]>::trim_ascii);
        let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
        lines.join(&b' ')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(message: &[u8]) -> (usize, &[u8]) {
        let header = Header::parse(message);
        (header.fields.len(), header.body)
    }

    #[test]
    fn splits_messages_without_body_or_header() {
        assert_eq!(parts(b"A: b\r\n"), (1, &b""[..]));
        assert_eq!(parts(b"\r\nbody"), (0, &b"body"[..]));
        assert_eq!(parts(b"A: b\r\n c\r\nD: e\r\n\r\nbody"), (2, &b"body"[..]));
    }

    #[test]
    fn what_programs_may_read_differently_is_ambiguous() {
        let is_ambiguous = |message: &str| Header::parse(message.as_bytes()).is_ambiguous();
        for clean in [
            "From: a@b.test\r\n\r\nHello\r\n",
            "From : a@b.test\r\nX:\tGr\u{fc}\u{df}e\r\n there\r\n\r\n\r\n\r\n",
        ] {
            assert!(!is_ambiguous(clean), "{clean:?}");
        }
        for ambiguous in [
            "From: a@b.test\r\n\nFrom: c@d.test\r\n\r\nx",
            "From: a@b.test\r\n\r\r\nx\r\n\r\nx",
            "X: y\r\n\rFrom: c@d.test\r\nFrom: a@b.test\r\n\r\nx",
            "X: y\r\n\u{c}From: c@d.test\r\nFrom: a@b.test\r\n\r\nx",
            "From: a@b.test\r\nX: \0\r\n\r\nx",
            "From: a@b.test\r\n\r\nbare \n line",
            "From: a@b.test\r\n\r\nbare \r line",
            "From: a@b.test\r\nFrom: c@d.test\r\n\r\nx",
            "From: a@b.test\r\nsubject: x\r\nSubject : y\r\n\r\nx",
            "From: a@b.test\r\nno field\r\n\r\nx",
            "From: a@b.test\r\n: no name\r\n\r\nx",
            "From: a@b.test\r\nBet\u{fc}: x\r\n\r\nx",
            "From: a@b.test\r\nTwo words: x\r\n\r\nx",
            " folded: x\r\nFrom: a@b.test\r\n\r\nx",
            "Subject: without sender\r\n\r\nx",
        ] {
            assert!(is_ambiguous(ambiguous), "{ambiguous:?}");
        }
    }
}
