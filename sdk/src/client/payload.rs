//! The request of a call, and its body: one `Bytes`, or, with attachments from files, pieces
//! of text with the files between them, which are read while they are sent.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use serde::Serialize;

use crate::email::attachment::{Attachment, PathSource, Source};
use crate::email::batch_plan::{BatchPlan, BatchShape};
use crate::email::message::{Email, WithoutAttachments};
use crate::error::{Error, InvalidInput, Target};

/// The request to send.
pub(crate) struct Request {
    pub(super) target: Target,
    pub(super) method: Method,
    /// Path and query, relative to the base URL.
    pub(super) path: Cow<'static, str>,
    pub(super) payload: Payload,
    /// Whether performing the request twice has the same effect as performing it once.
    pub(super) idempotent: bool,
    /// The number of recipients, for the limit of a recipient guard.
    pub(super) recipients: u64,
    /// The emails of a batch; empty for other requests.
    pub(super) batch: BatchPlan,
    pub(super) organization: Option<String>,
}

/// The options of one call.
#[derive(Default)]
pub(crate) struct Options {
    pub(super) timeout: Option<Duration>,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) retries: Option<u32>,
    pub(super) idempotency_key: Option<HeaderValue>,
    pub(super) headers: HeaderMap,
}

#[derive(Clone)]
pub(crate) enum Payload {
    Empty,
    /// A body in memory with its content type.
    Bytes(Bytes, HeaderValue),
    /// JSON with attachments that are read while it is sent.
    Files(Arc<[Piece]>),
}

#[derive(Clone)]
pub(crate) enum Piece {
    Text(Bytes),
    /// A file, to be encoded as Base64.
    File {
        source: PathSource,
        email: usize,
        attachment: usize,
    },
}

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
            writer.json(key)?;
            writer.text.push(b':');
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

    pub(super) fn content_type(&self) -> Option<HeaderValue> {
        match self {
            Self::Empty => None,
            Self::Bytes(_, content_type) => Some(content_type.clone()),
            Self::Files(_) => Some(JSON),
        }
    }

    /// Writes the body piece by piece, with attachments encoded.
    pub(super) fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Empty => Ok(()),
            Self::Bytes(bytes, _) => out.write_all(bytes),
            Self::Files(pieces) => pieces.iter().try_for_each(|piece| match piece {
                Piece::Text(text) => out.write_all(text),
                Piece::File { source, .. } => {
                    let mut chunks = source.open()?;
                    while let Some(chunk) = chunks.next_chunk()? {
                        out.write_all(&chunk)?;
                    }
                    Ok(())
                }
            }),
        }
    }

    /// The length of the body in bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Bytes(bytes, _) => bytes.len() as u64,
            Self::Files(pieces) => {
                let length = |piece: &Piece| match piece {
                    Piece::Text(text) => text.len() as u64,
                    Piece::File { source, .. } => source.encoded_length(),
                };
                pieces.iter().map(length).fold(0, u64::saturating_add)
            }
        }
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Estimates the length of an email's JSON, to avoid reallocations.
fn estimated_size(email: &Email) -> usize {
    let body = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let attachments = email.attachments.iter().map(|attachment| match attachment.source() {
        Source::Encoded(content) => content.len(),
        Source::Bytes(content) => base64_simd::STANDARD.encoded_length(content.len()),
        Source::Path(_) => 0,
    });
    let attachments: usize = attachments.map(|length| length + 128).sum();
    192 + email.subject.len() + body(&email.html) + body(&email.text) + attachments
}

struct Writer {
    text: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Writer {
    fn with_capacity(capacity: usize) -> Self {
        Self { text: Vec::with_capacity(capacity), pieces: Vec::new() }
    }

    fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        serde_json::to_writer(&mut self.text, value).map_err(serialize_error)
    }

    fn email(&mut self, index: usize, email: &Email) -> Result<(), Error> {
        self.json(&WithoutAttachments(email))?;
        if email.attachments.is_empty() {
            return Ok(());
        }
        // The object goes on: an email always has other fields.
        self.text.pop();
        self.text.extend_from_slice(b",\"attachments\":[");
        for (position, attachment) in email.attachments.iter().enumerate() {
            if position > 0 {
                self.text.push(b',');
            }
            self.attachment(index, position, attachment)?;
        }
        self.text.extend_from_slice(b"]}");
        Ok(())
    }

    fn attachment(
        &mut self,
        email: usize,
        position: usize,
        attachment: &Attachment,
    ) -> Result<(), Error> {
        self.text.extend_from_slice(b"{\"filename\":");
        self.json(&attachment.filename)?;
        if let Some(content_type) = &attachment.content_type {
            self.text.extend_from_slice(b",\"contentType\":");
            self.json(content_type)?;
        }
        self.text.extend_from_slice(b",\"content\":");
        match attachment.source() {
            // If it is not Base64, it is the service that rejects it.
            Source::Encoded(content) => self.json(&**content)?,
            Source::Bytes(content) => {
                self.text.push(b'"');
                let start = self.text.len();
                self.text.resize(start + base64_simd::STANDARD.encoded_length(content.len()), 0);
                let out = base64_simd::Out::from_slice(&mut self.text[start..]);
                let _ = base64_simd::STANDARD.encode(content, out);
                self.text.push(b'"');
            }
            Source::Path(source) => {
                self.text.push(b'"');
                self.pieces.push(Piece::Text(std::mem::take(&mut self.text).into()));
                let source = source.clone();
                self.pieces.push(Piece::File { source, email, attachment: position });
                self.text.push(b'"');
            }
        }
        self.text.push(b'}');
        Ok(())
    }

    fn finish(mut self) -> Payload {
        if self.pieces.is_empty() {
            return Payload::Bytes(self.text.into(), JSON);
        }
        self.pieces.push(Piece::Text(self.text.into()));
        Payload::Files(self.pieces.into())
    }
}

fn serialize_error(error: serde_json::Error) -> Error {
    Error::from(InvalidInput::new("body", "cannot be serialized as JSON")).with_source(error)
}
