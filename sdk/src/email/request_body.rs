//! The JSON of emails. Attachments in memory are encoded straight into it; those from a path are
//! read while it is sent.

use serde::Serialize;
use serde_json::{Map, Value};

use super::attachment::{Attachment, Source};
use super::message::{Email, ScheduledAt};
use crate::dialect::{Dialect, Point};
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
    dialect: &Dialect,
) -> Result<Payload, Error> {
    let length = emails.clone().map(|(_, email)| email.json_length()).sum();
    let mut writer = Writer::with_capacity(length);
    let key = Some(dialect.choice(Point::BatchBody)).filter(|body| *body != "array");
    if let Some(key) = key {
        writer.text.push(b'{');
        write_json(&mut writer.text, &key)?;
        writer.text.push(b':');
    }

    writer.text.push(b'[');
    for (index, email) in emails {
        writer.separate();
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

        self.text.push(b'{');
        self.text_field("from", &email.from);
        self.texts("to", &email.to);
        self.text_field("subject", &email.subject);
        self.optional_text("html", email.html.as_deref());
        self.optional_text("text", email.text.as_deref());
        for (name, list) in [
            ("cc", &email.cc),
            ("bcc", &email.bcc),
            ("replyTo", &email.reply_to),
        ] {
            if !list.is_empty() {
                self.texts(name, list);
            }
        }

        self.map("headers", &email.headers)?;
        self.map("tags", &email.tags)?;
        let scheduled_at = email.scheduled_at.as_ref();
        self.optional_text("scheduledAt", scheduled_at.map(ScheduledAt::as_str));
        self.optional_text("templateId", email.template_id.as_deref());
        self.map("variables", &email.variables)?;
        for (name, value) in &email.extra {
            self.value(name, value)?;
        }

        if !email.attachments.is_empty() {
            self.name("attachments");
            self.text.push(b'[');
            for (position, attachment) in email.attachments.iter().enumerate() {
                self.separate();
                self.attachment(index, position, attachment)?;
            }
            self.text.push(b']');
        }

        self.text.push(b'}');
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

    /// Writes a comma, unless the array or object has just begun.
    fn separate(&mut self) {
        if !matches!(self.text.last(), Some(b'{' | b'[')) {
            self.text.push(b',');
        }
    }

    fn name(&mut self, name: &str) {
        self.separate();
        write_text(&mut self.text, name);
        self.text.push(b':');
    }

    fn text_field(&mut self, name: &str, text: &str) {
        self.name(name);
        write_text(&mut self.text, text);
    }

    fn optional_text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text_field(name, text);
        }
    }

    fn texts(&mut self, name: &str, list: &[String]) {
        self.name(name);
        self.text.push(b'[');
        for text in list {
            self.separate();
            write_text(&mut self.text, text);
        }
        self.text.push(b']');
    }

    fn map(&mut self, name: &str, map: &Map<String, Value>) -> Result<(), Error> {
        if map.is_empty() {
            Ok(())
        } else {
            self.value(name, map)
        }
    }

    fn value(&mut self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        self.name(name);
        write_json(&mut self.text, value)
    }
}

/// Writes a text as JSON. serde_json looks at one byte after the other, which takes nearly half the
/// time of a batch; here, a piece that has nothing to escape is copied.
fn write_text(out: &mut Vec<u8>, text: &str) {
    const PIECE: usize = 64;

    out.push(b'"');
    for piece in text.as_bytes().chunks(PIECE) {
        // Without a branch for each byte, so that the compiler takes many at once.
        let is_plain = |plain, byte: &u8| plain & !is_escaped(*byte);
        if piece.iter().fold(true, is_plain) {
            out.extend_from_slice(piece);
        } else {
            piece.iter().for_each(|byte| write_byte(out, *byte));
        }
    }

    out.push(b'"');
}

/// Whether a byte of a text is written as an escape (RFC 8259 §7).
fn is_escaped(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

fn write_byte(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        b'\x08' => b'b',
        b'\x0c' => b'f',
        b' '.. => return out.push(byte),
        _ => {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\u00");
            return out.extend_from_slice(&digits);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn written(email: &Email) -> Value {
        let mut writer = Writer::with_capacity(0);
        writer.email(0, email).expect("written");
        serde_json::from_slice(&writer.text).expect("JSON")
    }

    #[test]
    fn what_is_sent_is_what_the_type_serializes() {
        let everything = json!({
            "from": "a@b", "to": ["c@d", "e@f"], "subject": "s", "html": "<p>", "text": "t",
            "cc": ["g@h"], "bcc": ["i@j"], "replyTo": ["k@l"], "headers": {"X-A": "b"},
            "tags": {"kind": 1}, "scheduledAt": "2030-01-01T00:00:00Z", "templateId": "tpl_1",
            "variables": {"name": null}, "region \"": {"eu": true},
            "attachments": [{"filename": "a.txt", "content": "YQ==", "contentId": "logo"}],
        });
        let email: Email = serde_json::from_value(everything.clone()).expect("an email");
        assert_eq!(written(&email), everything);
        let least = Email::new("a@b", "c@d", "s");
        assert_eq!(written(&least), serde_json::to_value(&least).expect("JSON"));
    }

    proptest! {
        #[test]
        fn a_text_is_written_as_serde_json_writes_it(text in "(?s).{0,200}") {
            let mut json = Vec::new();
            write_text(&mut json, &text);
            let written = String::from_utf8(json).expect("UTF-8");
            prop_assert_eq!(written, serde_json::to_string(&text).expect("JSON"));
        }
    }
}
