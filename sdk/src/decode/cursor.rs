//! A cursor over JSON text. It decodes each value once and knows where it starts and ends,
//! so that the original text can be kept.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::record::DecodeError;
use super::sanitize::sanitize;

/// A position in JSON text.
pub(crate) struct JsonCursor<'a> {
    raw: &'a Bytes,
    text: &'a str,
    offset: usize,
}

/// A part of a text up to this size may keep the whole text in memory.
const MAX_SHARED: usize = 64 * 1024;

/// Decodes a response from its text. If that fails, decodes the text again with
/// unrepresentable values replaced.
pub(crate) fn parse_lenient<T>(
    body: &Bytes,
    read: impl Fn(&Bytes) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let text = as_text(body);
    read(&text).or_else(|error| read(&sanitize(&text).ok_or(error)?))
}

/// Decodes any JSON value, in the same way.
pub(crate) fn parse_value(body: &Bytes) -> Result<Value, DecodeError> {
    parse_lenient(body, |text| Ok(serde_json::from_slice(text)?))
}

/// Returns the body as UTF-8 without a byte order mark. Invalid sequences are replaced.
fn as_text(body: &Bytes) -> Bytes {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    let body = if body.starts_with(MARK) { body.slice(MARK.len()..) } else { body.clone() };
    if std::str::from_utf8(&body).is_ok() {
        return body;
    }
    String::from_utf8_lossy(&body).into_owned().into()
}

impl<'a> JsonCursor<'a> {
    /// Starts at the beginning of `raw`.
    pub(crate) fn new(raw: &'a Bytes) -> Result<Self, DecodeError> {
        let text = std::str::from_utf8(raw).map_err(|_| DecodeError("not UTF-8".to_owned()))?;
        Ok(Self { raw, text, offset: 0 })
    }

    /// Skips white space and returns the next byte without consuming it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.offset..];
        let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.offset += spaces.count();
        self.text.as_bytes().get(self.offset).copied()
    }

    /// Decodes the next value and returns its text as well.
    pub(crate) fn value<T: Deserialize<'a>>(&mut self) -> Result<(T, Bytes), DecodeError> {
        self.peek();
        let rest = &self.text[self.offset..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let Some(Ok(value)) = values.next() else { return Err(self.error()) };
        let end = self.offset + values.byte_offset();
        let text = self.raw.slice(self.offset..end);
        self.offset = end;
        Ok((value, text))
    }

    /// Returns `text`, which is part of this cursor's text, in memory of its own if it is a
    /// small part of a large text: a resource that is kept must not keep a whole list.
    pub(crate) fn detach(&self, text: Bytes) -> Bytes {
        let is_small_part = text.len() < self.raw.len() / 2 && self.raw.len() > MAX_SHARED;
        if is_small_part { Bytes::copy_from_slice(&text) } else { text }
    }

    /// Skips the next value and returns its text.
    pub(crate) fn skip(&mut self) -> Result<Bytes, DecodeError> {
        Ok(self.value::<IgnoredAny>()?.1)
    }

    /// The current position, for [`since`](Self::since).
    pub(crate) fn position(&self) -> usize {
        self.offset
    }

    /// The text from a position to the current one.
    pub(crate) fn since(&self, start: usize) -> Bytes {
        self.raw.slice(start..self.offset)
    }

    /// Iterates over the array at the cursor. `item` must consume one value.
    pub(crate) fn array(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.delimited(b'[', b']', |cursor| item(cursor))
    }

    /// Iterates over the object at the cursor. `field` must consume one value.
    pub(crate) fn object(
        &mut self,
        mut field: impl FnMut(String, &mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.delimited(b'{', b'}', |cursor| {
            if cursor.peek() != Some(b'"') {
                return Err(cursor.error());
            }
            let (name, _) = cursor.value()?;
            cursor.take(b':')?;
            field(name, cursor)
        })
    }

    fn delimited(
        &mut self,
        open: u8,
        close: u8,
        mut one: impl FnMut(&mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.take(open)?;
        if self.peek() == Some(close) {
            return self.take(close);
        }
        loop {
            one(self)?;
            if self.peek() == Some(close) {
                return self.take(close);
            }
            self.take(b',')?;
        }
    }

    fn take(&mut self, byte: u8) -> Result<(), DecodeError> {
        if self.peek() != Some(byte) {
            return Err(self.error());
        }
        self.offset += 1;
        Ok(())
    }

    /// Fails unless the cursor is at the end of the text.
    pub(crate) fn end(&mut self) -> Result<(), DecodeError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.error()) }
    }

    /// The error at the cursor, with line and column if the text is not valid JSON.
    fn error(&self) -> DecodeError {
        match serde_json::from_str::<IgnoredAny>(self.text) {
            Err(error) => error.into(),
            Ok(_) => DecodeError(format!("unexpected value at byte {}", self.offset)),
        }
    }
}
