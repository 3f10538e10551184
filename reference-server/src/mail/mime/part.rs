//! The structure of a message: its parts and their header fields.
//!
//! It is read here, and not by a library: `mail-parser` and `mailparse` split a line that has a
//! boundary in its middle, or lose a part that is not closed, and have no limit of depth.

use std::borrow::Cow;

use super::parameters::Parameterized;
use super::transfer;
use crate::mail::header::{Field, field_length};

/// Multiparts within multiparts. Deeper ones are read as text.
const MAX_DEPTH: usize = 50;
/// Multiparts with the boundary of the one around them, each in the next.
const MAX_REPEATED: usize = 4;
/// Parts of a message. Further ones are left out of what is shown, and not of the source.
const MAX_PARTS: usize = 10_000;

/// A message, or a part of it.
pub(super) struct Part<'x> {
    pub(super) fields: Vec<Field<'x>>,
    /// The type is never empty.
    pub(super) content_type: Parameterized,
    /// Whether its header names a type.
    pub(super) has_type: bool,
    pub(super) disposition: Parameterized,
    /// The parts of a multipart.
    pub(super) parts: Vec<Part<'x>>,
    is_message: bool,
    body: &'x [u8],
}

impl<'x> Part<'x> {
    /// Reads a message.
    pub(super) fn read(source: &'x [u8]) -> Self {
        Self::within(source, "text/plain", 0, &mut MAX_PARTS.clone())
    }

    fn within(source: &'x [u8], default: &str, depth: usize, left: &mut usize) -> Self {
        let (fields, body) = match depth {
            0 => split_header(source),
            _ => split_header_of_part(source),
        };
        let read = |name| first(&fields, name).map(|field| Parameterized::read(&field.unfolded()));
        let mut content_type = read("Content-Type").unwrap_or_default();
        let has_type = content_type
            .value
            .split('/')
            .filter(|word| !word.is_empty())
            .count()
            == 2;
        if content_type.value.is_empty() {
            content_type.value = default.to_owned();
        } else if !has_type {
            content_type.value = "text/plain".to_owned();
        }

        let mut parts = Vec::new();
        if content_type.value.starts_with("multipart/") {
            let boundary = content_type
                .get("boundary", "")
                .filter(|_| depth < MAX_DEPTH);
            let bodies =
                boundary.map(|boundary| split(body, boundary.trim_end(), depth < MAX_REPEATED));
            let default = match &*content_type.value {
                "multipart/digest" => "message/rfc822",
                _ => "text/plain",
            };
            for body in bodies.unwrap_or_default() {
                if *left == 0 {
                    break;
                }
                *left -= 1;
                parts.push(Self::within(body, default, depth + 1, left));
            }
            if parts.is_empty() {
                content_type.value = "text/plain".to_owned();
            }
        }

        let disposition = read("Content-Disposition").unwrap_or_default();
        Self {
            has_type,
            content_type,
            disposition,
            parts,
            is_message: depth == 0,
            body,
            fields,
        }
    }

    /// The first field with this name.
    pub(super) fn field(&self, name: &str) -> Option<&Field<'x>> {
        first(&self.fields, name)
    }

    /// The content without its transfer encoding.
    pub(super) fn content(&self) -> Cow<'x, [u8]> {
        self.decoded(self.body)
    }

    fn decoded(&self, body: &'x [u8]) -> Cow<'x, [u8]> {
        let encoding = self.field("Content-Transfer-Encoding");
        let encoding = encoding.map(|field| Parameterized::read(&field.unfolded()).value);
        transfer::decode(body, &encoding.unwrap_or_default())
    }

    /// The content as a file. A message that is only a file ends with a line break, as every
    /// message does.
    pub(super) fn file(&self) -> Vec<u8> {
        let body = if self.is_message {
            without_line_break(self.body)
        } else {
            self.body
        };
        self.decoded(body).into_owned()
    }

    /// The name of the file. Text without a charset may be in that of what is around it.
    pub(super) fn file_name(&self, around: &str) -> Option<String> {
        let name = self.disposition.get("filename", around);
        name.or_else(|| self.content_type.get("name", around))
    }

    /// The `Content-ID` without its brackets.
    pub(super) fn id(&self) -> Option<String> {
        let id = String::from_utf8_lossy(&self.field("Content-ID")?.unfolded()).into_owned();
        Some(without_brackets(&id).to_owned())
    }

    /// The first charset that a part declares.
    pub(super) fn charset(&self) -> Option<String> {
        let declared = self.content_type.get("charset", "");
        declared.or_else(|| self.parts.iter().find_map(Self::charset))
    }
}

/// The parts of a body. The last one may lack its closing boundary. A boundary may be that of a
/// multipart within, too, if it `repeats`: it is of the outer one after it closed the inner one.
fn split<'x>(body: &'x [u8], boundary: &str, repeats: bool) -> Vec<&'x [u8]> {
    let mut parts = Vec::new();
    let mut start = None;
    let mut at = 0;
    let mut line_before = 0;
    let mut open = 0;
    for line in body.split_inclusive(|&byte| byte == b'\n') {
        let before = at;
        at += line.len();
        let Some(rest) = line
            .strip_prefix(b"--")
            .and_then(|line| line.strip_prefix(boundary.as_bytes()))
        else {
            continue;
        };
        let end = rest.strip_prefix(b"--");
        if !end.unwrap_or(rest).trim_ascii().is_empty() {
            continue;
        }
        if repeats && start.is_some() && is_multipart(&body[line_before..before], boundary) {
            open += 1;
        }
        line_before = at;
        if open > 0 {
            open -= usize::from(end.is_some());
            continue;
        }
        if let Some(start) = start {
            parts.push(without_line_break(&body[start..before]));
        }
        start = end.is_none().then_some(at);
        if end.is_some() {
            break;
        }
    }

    parts.extend(start.map(|start| without_line_break(&body[start..])));
    parts
}

fn is_multipart(part: &[u8], boundary: &str) -> bool {
    let (fields, _) = split_header_of_part(part);
    let content_type = first(&fields, "Content-Type");
    content_type.is_some_and(|field| {
        let content_type = Parameterized::read(&field.unfolded());
        let declared = content_type.get("boundary", "");
        let is_same = declared.is_some_and(|declared| declared.trim_end() == boundary);
        is_same && content_type.value.starts_with("multipart/")
    })
}

fn without_line_break(body: &[u8]) -> &[u8] {
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    body.strip_suffix(b"\r").unwrap_or(body)
}

/// Whether a message begins with a header.
pub(crate) fn has_header(source: &[u8]) -> bool {
    !split_header(source).0.is_empty()
}

/// The header fields, and the body. A line that is no field begins the body, also without an empty
/// line before it.
fn split_header(source: &[u8]) -> (Vec<Field<'_>>, &[u8]) {
    let mut fields = Vec::new();
    let mut rest = source;
    while !rest.is_empty() {
        let start = rest;
        rest = rest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(rest);
        for end in [&b"\r\n"[..], b"\n"] {
            if let Some(body) = rest.strip_prefix(end) {
                return (fields, body);
            }
        }
        let (line, after) = rest.split_at(field_length(rest));
        let field = Field::new(line);
        if is_separator(field, after) {
            rest = after;
            continue;
        }
        if !field.is_valid() {
            let body = if fields.is_empty() { source } else { start };
            return (fields, body);
        }
        fields.push(field);
        rest = after;
    }
    (fields, rest)
}

/// Whether it is the line before each message in an mbox file. A server that takes such a message
/// adds its own fields before it.
fn is_separator(line: Field<'_>, after: &[u8]) -> bool {
    let next = &after[..field_length(after)];
    let is_separator = line.raw.starts_with(b"From ") || line.raw.starts_with(b">From ");
    is_separator && !line.is("From") && Field::new(next).is_valid()
}

/// Like [`split_header`], of a part: a line of white space ends its header, too. Otherwise such a
/// line folds the field before it, and who adds a space to the empty line hides the line after it
/// under a
/// signature that ignores white space at the end of lines (RFC 6376 §3.4.4).
fn split_header_of_part(source: &[u8]) -> (Vec<Field<'_>>, &[u8]) {
    let mut end = 0;
    for line in source.split_inclusive(|&byte| byte == b'\n') {
        if line.trim_ascii().is_empty() {
            let (fields, unread) = split_header(&source[..end]);
            // A line that is no field has begun the body before.
            let body = match unread {
                [] => end + line.len(),
                _ => end - unread.len(),
            };
            return (fields, &source[body..]);
        }
        end += line.len();
    }
    split_header(source)
}

fn first<'f, 'x>(fields: &'f [Field<'x>], name: &str) -> Option<&'f Field<'x>> {
    fields.iter().find(|field| field.is(name))
}

pub(super) fn without_brackets(id: &str) -> &str {
    id.trim().trim_start_matches('<').trim_end_matches('>')
}
