//! The JSON of emails. Attachments in memory are encoded straight into it; those from a path are
//! read while it is sent.

use super::attachment::{Attachment, Source};
use super::message::Email;
use crate::client::{Payload, Piece, write_json};
use crate::dialect::{Dialect, Point};
use crate::error::{Error, InvalidInput};

pub(super) fn single(email: &Email) -> Result<Payload, Error> {
    let mut writer = Writer::default();
    writer.email(0, email)?;
    Ok(Payload::pieces(writer.pieces, writer.text))
}

/// Each email comes with its index, for errors about its attachments.
pub(super) fn batch<'a>(
    emails: impl Iterator<Item = (usize, &'a Email)>,
    dialect: &Dialect,
) -> Result<Payload, Error> {
    let mut writer = Writer::default();
    let key = Some(dialect.choice(Point::BatchBody)).filter(|body| *body != "array");
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
        let Source::File(source) = &attachment.source else {
            // If it is not Base64, it is the service that rejects it.
            return write_json(&mut self.text, attachment);
        };
        write_json(&mut self.text, &attachment.object(String::new()))?;
        // The file goes between the quotes of the content, which is the last field.
        let end = self.text.split_off(self.text.len() - 2);
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
}
