//! The JSON of emails. Attachments in memory are encoded straight into it; those from a path are
//! read while it is sent.

use super::attachment::{Attachment, Source};
use super::message::Email;
use crate::client::{BatchShape, Payload, Piece, write_json};
use crate::error::{Error, InvalidInput};

pub(super) fn single(email: &Email) -> Result<Payload, Error> {
    let mut writer = Writer::default();
    writer.email(0, email)?;
    Ok(Payload::pieces(writer.pieces, writer.text))
}

/// Each email comes with its index, for errors about its attachments.
pub(super) fn batch<'a>(
    emails: impl Iterator<Item = (usize, &'a Email)>,
    shape: &BatchShape,
) -> Result<Payload, Error> {
    let mut writer = Writer::default();
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

#[derive(Default)]
struct Writer {
    text: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Writer {
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
                write_json(&mut self.text, &base64_simd::STANDARD.encode_to_string(content))?;
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
