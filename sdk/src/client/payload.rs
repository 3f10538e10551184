//! Request bodies. They are serialized once and shared by all attempts; attachments are
//! read when they are sent.

use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use crate::email::{Attachment, BatchShape, Email, Fields, Source};
use crate::{Error, InvalidInput};

#[derive(Clone)]
pub(crate) enum Payload {
    Empty,
    /// A body in memory with its content type.
    Bytes(Bytes, http::HeaderValue),
    /// JSON with attachments that are read while it is sent.
    Streamed(Arc<Streamed>),
}

pub(crate) struct Streamed {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) length: u64,
}

#[derive(Clone)]
pub(crate) enum Piece {
    Text(Bytes),
    /// The content of an attachment, still to be encoded.
    Content {
        source: Source,
        email: usize,
        attachment: usize,
    },
}

/// Attachments in memory up to this size are encoded right away.
const MAX_INLINE: u64 = 16 * 1024;

pub(crate) const JSON: http::HeaderValue = http::HeaderValue::from_static("application/json");

impl Payload {
    pub(crate) fn json<T: Serialize>(value: &T) -> Result<Self, Error> {
        let text = serde_json::to_vec(value).map_err(serialize_error)?;
        Ok(Self::Bytes(text.into(), JSON))
    }

    pub(crate) fn email(email: &Email) -> Result<Self, Error> {
        let mut writer = Writer::with_capacity(estimated_size(email));
        writer.email(0, email)?;
        Ok(writer.finish())
    }

    /// Each email comes with its index, for errors about its attachments.
    pub(crate) fn batch<'a>(
        emails: impl Iterator<Item = (usize, &'a Email)> + Clone,
        shape: &BatchShape,
    ) -> Result<Self, Error> {
        let size = emails.clone().map(|(_, email)| estimated_size(email)).sum();
        let mut writer = Writer::with_capacity(size);
        if let BatchShape::Object(key) = shape {
            writer.text.push(b'{');
            writer.name(key);
        }
        writer.text.push(b'[');
        for (position, (index, email)) in emails.enumerate() {
            if position > 0 {
                writer.text.push(b',');
            }
            writer.email(index, email)?;
        }
        writer.text.push(b']');
        if let BatchShape::Object(_) = shape {
            writer.text.push(b'}');
        }
        Ok(writer.finish())
    }

    pub(crate) fn content_type(&self) -> Option<http::HeaderValue> {
        match self {
            Self::Empty => None,
            Self::Bytes(_, content_type) => Some(content_type.clone()),
            Self::Streamed(_) => Some(JSON),
        }
    }

    /// Writes the body piece by piece, with attachments encoded.
    pub(crate) fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Empty => Ok(()),
            Self::Bytes(bytes, _) => out.write_all(bytes),
            Self::Streamed(streamed) => streamed.pieces.iter().try_for_each(|piece| match piece {
                Piece::Text(text) => out.write_all(text),
                Piece::Content { source, .. } => write_content(source, out),
            }),
        }
    }

    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes, _) => bytes.len() as u64,
            Self::Streamed(streamed) => streamed.length,
        }
    }
}

pub(crate) fn write_content(source: &Source, out: &mut dyn Write) -> io::Result<()> {
    const PART: u64 = 96 * 1024;
    let mut reader = source.open()?;
    loop {
        let mut part = Vec::new();
        reader.by_ref().take(PART).read_to_end(&mut part)?;
        if part.is_empty() {
            return Ok(());
        }
        out.write_all(base64_simd::STANDARD.encode_to_string(&part).as_bytes())?;
    }
}

/// Estimates the length of an email's JSON, to avoid reallocations.
fn estimated_size(email: &Email) -> usize {
    let body = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    192 + email.subject.len() + body(&email.html) + body(&email.text)
}

struct Writer {
    text: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Writer {
    fn with_capacity(capacity: usize) -> Self {
        Self { text: Vec::with_capacity(capacity), pieces: Vec::new() }
    }

    fn email(&mut self, index: usize, email: &Email) -> Result<(), Error> {
        self.text.push(b'{');
        email.write_fields(self).map_err(serialize_error)?;
        if email.attachments.is_empty() {
            self.text.push(b'}');
            return Ok(());
        }
        self.name("attachments");
        self.text.push(b'[');
        for (position, attachment) in email.attachments.iter().enumerate() {
            if position > 0 {
                self.text.push(b',');
            }
            self.attachment(index, position, attachment);
        }
        self.text.extend_from_slice(b"]}");
        Ok(())
    }

    fn attachment(&mut self, email: usize, position: usize, attachment: &Attachment) {
        self.text.extend_from_slice(b"{\"filename\":");
        push_json_string(&mut self.text, &attachment.filename);
        if let Some(content_type) = &attachment.content_type {
            self.text.extend_from_slice(b",\"contentType\":");
            push_json_string(&mut self.text, content_type);
        }
        self.text.extend_from_slice(b",\"content\":");
        match attachment.source() {
            Source::Encoded(content) if content.iter().all(|byte| is_base64(*byte)) => {
                self.text.push(b'"');
                self.piece(Piece::Text(content.clone()));
                self.text.push(b'"');
            }
            // Not Base64. Leave it to the service to reject it.
            Source::Encoded(content) => {
                push_json_string(&mut self.text, &String::from_utf8_lossy(content));
            }
            Source::Bytes(content) if content.len() as u64 <= MAX_INLINE => {
                self.text.push(b'"');
                let start = self.text.len();
                self.text.resize(start + base64_simd::STANDARD.encoded_length(content.len()), 0);
                let out = base64_simd::Out::from_slice(&mut self.text[start..]);
                let _ = base64_simd::STANDARD.encode(content, out);
                self.text.push(b'"');
            }
            source => {
                self.text.push(b'"');
                self.piece(Piece::Content { source: source.clone(), email, attachment: position });
                self.text.push(b'"');
            }
        }
        self.text.push(b'}');
    }

    /// Writes a field's name, preceded by a comma if needed.
    fn name(&mut self, name: &str) {
        if self.text.last() != Some(&b'{') {
            self.text.push(b',');
        }
        push_json_string(&mut self.text, name);
        self.text.push(b':');
    }

    fn piece(&mut self, piece: Piece) {
        let text = std::mem::take(&mut self.text);
        self.pieces.push(Piece::Text(text.into()));
        self.pieces.push(piece);
    }

    fn finish(mut self) -> Payload {
        if self.pieces.is_empty() {
            return Payload::Bytes(self.text.into(), JSON);
        }
        self.pieces.push(Piece::Text(self.text.into()));
        let length = self.pieces.iter().map(Piece::length).fold(0, u64::saturating_add);
        Payload::Streamed(Arc::new(Streamed { pieces: self.pieces, length }))
    }
}

impl Fields for Writer {
    type Error = serde_json::Error;

    fn text(&mut self, name: &str, text: &str) -> Result<(), serde_json::Error> {
        self.name(name);
        push_json_string(&mut self.text, text);
        Ok(())
    }

    fn value<T: Serialize>(&mut self, name: &str, value: &T) -> Result<(), serde_json::Error> {
        self.name(name);
        serde_json::to_writer(&mut self.text, value)
    }
}

impl Piece {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Content { source, .. } => source.length().div_ceil(3).saturating_mul(4),
        }
    }
}

/// Appends a JSON string.
pub(super) fn push_json_string(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing to memory cannot fail");
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
}

fn serialize_error(error: serde_json::Error) -> Error {
    Error::from(InvalidInput::new("body", "cannot be serialized as JSON")).with_source(error)
}
