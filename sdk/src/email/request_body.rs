//! The JSON of emails. Attachments in memory are encoded straight into it; those from a path are
//! read while it is sent.

use super::attachment::{Attachment, Source};
use super::message::Email;
use crate::client::{BatchShape, Payload, Piece, write_json};
use crate::error::{Error, InvalidInput};

pub(super) fn single(email: &Email) -> Result<Payload, Error> {
    let mut writer = Writer::with_capacity(estimated_size(email));
    writer.email(0, email)?;
    Ok(Payload::pieces(writer.pieces, writer.text))
}

/// Each email comes with its index, for errors about its attachments.
pub(super) fn batch<'a>(
    emails: impl Iterator<Item = (usize, &'a Email)> + Clone,
    shape: &BatchShape,
) -> Result<Payload, Error> {
    let size = emails.clone().map(|(_, email)| estimated_size(email)).sum();
    let mut writer = Writer::with_capacity(size);
    if let BatchShape::Object(key) = shape {
        writer.text.push(b'{');
        write_json(&mut writer.text, key)?;
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
    Ok(Payload::pieces(writer.pieces, writer.text))
}

/// Estimates the length of an email's JSON, to avoid reallocations.
fn estimated_size(email: &Email) -> usize {
    let body = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let attachments = email.attachments.iter().map(|attachment| match &attachment.source {
        Source::Encoded(content) => content.len(),
        Source::Bytes(content) => base64_simd::STANDARD.encoded_length(content.len()),
        Source::File(_) => 0,
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

    fn email(&mut self, index: usize, email: &Email) -> Result<(), Error> {
        if let Some(name) = email.given_twice() {
            return Err(InvalidInput::given_twice(name).into());
        }
        if email.attachments.is_empty() {
            return write_json(&mut self.text, email);
        }
        write_json(&mut self.text, &email.without_attachments())?;
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
        write_json(&mut self.text, &attachment.filename)?;
        if let Some(content_type) = &attachment.content_type {
            self.text.extend_from_slice(b",\"contentType\":");
            write_json(&mut self.text, content_type)?;
        }
        self.text.extend_from_slice(b",\"content\":");
        match &attachment.source {
            // If it is not Base64, it is the service that rejects it.
            Source::Encoded(content) => write_json(&mut self.text, &**content)?,
            Source::Bytes(content) => {
                self.text.push(b'"');
                let start = self.text.len();
                self.text.resize(start + base64_simd::STANDARD.encoded_length(content.len()), 0);
                let out = base64_simd::Out::from_slice(&mut self.text[start..]);
                let _ = base64_simd::STANDARD.encode(content, out);
                self.text.push(b'"');
            }
            Source::File(source) => {
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
}
