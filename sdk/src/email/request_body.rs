//! The JSON of emails. Attachments in memory are encoded straight into it; those from a path are
//! read while it is sent.

use super::attachment::{Attachment, Source};
use super::message::Email;
use crate::engine::{Payload, Piece, write_json};
use crate::error::{Error, InvalidInput};

pub(super) fn single(email: &Email) -> Result<Payload, Error> {
    let mut writer = Writer::with_capacity(email.json_length());
    writer.email(0, email)?;
    Ok(Payload::pieces(writer.pieces, writer.text))
}

/// Each email comes with its index, for errors about its attachments. With a `key`, the body is an
/// object with the array in that field.
pub(super) fn batch<'a>(
    emails: impl Iterator<Item = (usize, &'a Email)> + Clone,
    key: Option<&str>,
) -> Result<Payload, Error> {
    let length = emails.clone().map(|(_, email)| email.json_length()).sum();
    let mut writer = Writer::with_capacity(length);
    if let Some(key) = key {
        writer.text.push(b'{');
        write_json(&mut writer.text, &key)?;
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
    if key.is_some() {
        writer.text.push(b'}');
    }
    Ok(Payload::pieces(writer.pieces, writer.text))
}

const CONTENT_END: &[u8] = b"\"}";

struct Writer {
    text: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Writer {
    fn with_capacity(length: usize) -> Self {
        Self {
            text: Vec::with_capacity(length),
            pieces: Vec::new(),
        }
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
        if let Some(name) = attachment.given_twice() {
            let field = format!("attachments[{position}].{name}");
            return Err(InvalidInput::given_twice(&field).into());
        }
        let source = match &attachment.source {
            // If it is not Base64, it is the service that rejects it.
            Source::Encoded(_) => return write_json(&mut self.text, attachment),
            Source::Bytes(bytes) => {
                self.start_content(attachment)?;
                base64_simd::STANDARD.encode_append(bytes, &mut self.text);
                self.text.extend_from_slice(CONTENT_END);
                return Ok(());
            }
            Source::File(source) => source,
        };
        self.start_content(attachment)?;
        let end = CONTENT_END.to_vec();
        self.pieces
            .push(Piece::Text(std::mem::replace(&mut self.text, end).into()));
        let source = source.clone();
        self.pieces.push(Piece::File {
            source,
            email,
            attachment: position,
        });
        Ok(())
    }

    /// Writes the object up to the content, which is its last field.
    fn start_content(&mut self, attachment: &Attachment) -> Result<(), Error> {
        write_json(&mut self.text, &attachment.object(String::new()))?;
        self.text.truncate(self.text.len() - CONTENT_END.len());
        Ok(())
    }
}
