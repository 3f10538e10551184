//! Request bodies: serialised once, shared by all attempts; attachments stay
//! where they are until they are sent.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::email::{Attachment, BatchShape, Email, Source};
use crate::{Error, InvalidInput};

#[derive(Clone)]
pub(crate) enum Payload {
    Empty,
    /// A body in memory, and its content type.
    Bytes(Bytes, http::HeaderValue),
    /// JSON around attachments that are read while it is sent.
    Streamed(Arc<Streamed>),
}

pub(crate) struct Streamed {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) length: u64,
}

#[derive(Clone)]
pub(crate) enum Piece {
    Text(Bytes),
    /// An attachment's content, to be encoded.
    Content {
        source: Source,
        email: usize,
        attachment: usize,
    },
}

/// Up to here an attachment in memory is encoded in place.
const SMALL: u64 = 16 * 1024;

pub(crate) const JSON: http::HeaderValue = http::HeaderValue::from_static("application/json");

impl Payload {
    pub(crate) fn json<T: Serialize>(value: &T) -> Result<Self, Error> {
        let text = serde_json::to_vec(value).map_err(unwritable)?;
        Ok(Self::Bytes(text.into(), JSON))
    }

    pub(crate) fn email(email: &Email) -> Result<Self, Error> {
        let mut writer = Writer::with_capacity(room(email));
        writer.email(0, email)?;
        Ok(writer.finish())
    }

    pub(crate) fn batch(emails: &[Email], shape: &BatchShape) -> Result<Self, Error> {
        let mut writer = Writer::with_capacity(emails.iter().map(room).sum());
        if let BatchShape::Object(key) = shape {
            writer.text.push(b'{');
            writer.string(key)?;
            writer.text.push(b':');
        }
        writer.text.push(b'[');
        for (index, email) in emails.iter().enumerate() {
            if index > 0 {
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

    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes, _) => bytes.len() as u64,
            Self::Streamed(streamed) => streamed.length,
        }
    }
}

/// About how long an email's text is, so that it is mostly written without
/// growing.
fn room(email: &Email) -> usize {
    let body = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    192 + email.subject.len() + body(&email.html) + body(&email.text)
}

struct Writer {
    text: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Writer {
    fn with_capacity(room: usize) -> Self {
        Self { text: Vec::with_capacity(room), pieces: Vec::new() }
    }

    fn email(&mut self, index: usize, email: &Email) -> Result<(), Error> {
        let mut serializer = serde_json::Serializer::new(&mut self.text);
        let mut map = serializer.serialize_map(None).map_err(unwritable)?;
        email.write_fields(&mut map).map_err(unwritable)?;
        map.end().map_err(unwritable)?;
        if email.attachments.is_empty() {
            return Ok(());
        }
        // An email always has fields, so the list goes in before its brace.
        self.text.pop();
        self.text.extend_from_slice(b",\"attachments\":[");
        for (place, attachment) in email.attachments.iter().enumerate() {
            if place > 0 {
                self.text.push(b',');
            }
            self.attachment(index, place, attachment)?;
        }
        self.text.extend_from_slice(b"]}");
        Ok(())
    }

    fn attachment(
        &mut self,
        email: usize,
        place: usize,
        attachment: &Attachment,
    ) -> Result<(), Error> {
        self.text.extend_from_slice(b"{\"filename\":");
        self.string(&attachment.filename)?;
        if let Some(content_type) = &attachment.content_type {
            self.text.extend_from_slice(b",\"contentType\":");
            self.string(content_type)?;
        }
        self.text.extend_from_slice(b",\"content\":");
        match attachment.source() {
            Source::Encoded(content) if content.iter().all(|byte| is_base64(*byte)) => {
                self.text.push(b'"');
                self.piece(Piece::Text(content.clone()));
                self.text.push(b'"');
            }
            // Not Base64: the service is the one to say so.
            Source::Encoded(content) => self.string(&String::from_utf8_lossy(content))?,
            Source::Bytes(content) if content.len() as u64 <= SMALL => {
                self.text.push(b'"');
                let start = self.text.len();
                self.text.resize(start + base64_simd::STANDARD.encoded_length(content.len()), 0);
                let out = base64_simd::Out::from_slice(&mut self.text[start..]);
                let _ = base64_simd::STANDARD.encode(content, out);
                self.text.push(b'"');
            }
            source => {
                self.text.push(b'"');
                self.piece(Piece::Content { source: source.clone(), email, attachment: place });
                self.text.push(b'"');
            }
        }
        self.text.push(b'}');
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), Error> {
        serde_json::to_writer(&mut self.text, text).map_err(unwritable)
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
        let length = self.pieces.iter().map(Piece::length).sum();
        Payload::Streamed(Arc::new(Streamed { pieces: self.pieces, length }))
    }
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Content { source, .. } => source.length().div_ceil(3) * 4,
        }
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::from(InvalidInput::new("body", "cannot be written as json")).with_source(error)
}
