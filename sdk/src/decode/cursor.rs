//! A cursor over a response's text: every value is read where it stands, once, and
//! where it begins and ends is known, so that it can be kept as it came.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::record::DecodeError;
use super::sanitize::sanitize;

/// A place in a response.
pub(crate) struct JsonCursor<'a> {
    raw: &'a Bytes,
    text: &'a str,
    at: usize,
}

/// Reads a response: its text as it came, and where that cannot be read, the
/// text with what cannot be held replaced.
pub(crate) fn parse_lenient<T>(
    body: &Bytes,
    read: impl Fn(&Bytes) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let text = as_text(body);
    read(&text).or_else(|error| read(&sanitize(&text).ok_or(error)?))
}

/// Reads any JSON value, in the same way.
pub(crate) fn parse_value(body: &Bytes) -> Result<Value, DecodeError> {
    parse_lenient(body, |text| Ok(serde_json::from_slice(text)?))
}

/// A response's body as text: what is not UTF-8 is replaced, a byte order mark
/// left out.
fn as_text(body: &Bytes) -> Bytes {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    let body = if body.starts_with(MARK) { body.slice(MARK.len()..) } else { body.clone() };
    if std::str::from_utf8(&body).is_ok() {
        return body;
    }
    String::from_utf8_lossy(&body).into_owned().into()
}

impl<'a> JsonCursor<'a> {
    /// Begins at the start of a text.
    pub(crate) fn new(raw: &'a Bytes) -> Result<Self, DecodeError> {
        let text = std::str::from_utf8(raw).map_err(|_| DecodeError("not utf-8".to_owned()))?;
        Ok(Self { raw, text, at: 0 })
    }

    /// The first character of what comes next.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.at += spaces.count();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Reads the next value, and gives its text too.
    pub(crate) fn value<T: Deserialize<'a>>(&mut self) -> Result<(T, Bytes), DecodeError> {
        self.peek();
        let rest = &self.text[self.at..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter();
        let Some(Ok(value)) = values.next() else { return Err(self.error()) };
        let end = self.at + values.byte_offset();
        let text = self.raw.slice(self.at..end);
        self.at = end;
        Ok((value, text))
    }

    /// Goes by the next value.
    pub(crate) fn skip(&mut self) -> Result<Bytes, DecodeError> {
        Ok(self.value::<IgnoredAny>()?.1)
    }

    /// Goes through the array that comes next: `item` has to read one value.
    pub(crate) fn array(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.delimited(b'[', b']', |cursor| item(cursor))
    }

    /// Goes through the object that comes next: `field` has to read one value.
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
        self.at += 1;
        Ok(())
    }

    /// Nothing may come any more.
    pub(crate) fn end(&mut self) -> Result<(), DecodeError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.error()) }
    }

    /// What is wrong, and at which line and column of the whole response.
    fn error(&self) -> DecodeError {
        match serde_json::from_str::<IgnoredAny>(self.text) {
            Err(error) => error.into(),
            Ok(_) => DecodeError(format!("not as expected, at byte {}", self.at)),
        }
    }
}
