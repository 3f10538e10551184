//! `Value`, a parameter or a column, and `read`, which makes a tuple of a row. PostgreSQL returns texts for
//! everything, SQLite values: the type of a field decides how its column is read, so that both give the
//! same.

use std::time::Duration;

use serde::de::value::{Error as Unreadable, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use crate::{Error, ErrorKind};

/// A parameter or a column. PostgreSQL returns integers and bytes as text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A null of type text.
    Null,
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The columns of a row.
pub type Row = Vec<Value>;

/// Parameters, such as `params![id, "name"]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::Value::from($value)),*]
    };
}

/// Reads a row, as a tuple or a struct whose fields are in the order of the columns.
///
/// # Errors
///
/// If a column holds something else.
pub fn read<T: DeserializeOwned>(row: Row) -> Result<T, Error> {
    let columns = SeqDeserializer::<_, Unreadable>::new(row.into_iter());
    T::deserialize(columns).map_err(|_| {
        let text = "a row of the table cannot be read";
        Error::new(ErrorKind::Database, text)
    })
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// In milliseconds: at most a thousand years, which can be added to any time.
impl From<Duration> for Value {
    fn from(duration: Duration) -> Self {
        const MAX: u128 = 1000 * 366 * 86_400_000;
        Self::Int(duration.as_millis().min(MAX) as i64)
    }
}

/// PostgreSQL does not store NUL in a text.
impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.replace('\0', "\u{fffd}"))
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Option<&str>> for Value {
    fn from(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::from)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl Value {
    fn int(&self) -> Result<i64, Unreadable> {
        match self {
            Self::Int(value) => Ok(*value),
            Self::Text(text) => text.parse().map_err(Unreadable::custom),
            _ => Err(Unreadable::custom("not a number")),
        }
    }

    /// Bytes, or their hexadecimal digits.
    fn bytes(self) -> Result<Vec<u8>, Unreadable> {
        let digits = match self {
            Self::Bytes(bytes) => return Ok(bytes),
            Self::Text(digits) => digits,
            _ => return Err(Unreadable::custom("not bytes")),
        };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let pairs = digits.as_bytes().chunks(2).map(|pair| match *pair {
            [high, low] => Some((digit(high)? * 16 + digit(low)?) as u8),
            _ => None,
        });
        let bytes = pairs.collect::<Option<_>>();
        bytes.ok_or_else(|| Unreadable::custom("not digits"))
    }
}

impl<'de> IntoDeserializer<'de> for Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// What a field is decides how its column is read.
impl<'de> Deserializer<'de> for Value {
    type Error = Unreadable;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        match self {
            Self::Null => visitor.visit_none(),
            Self::Int(value) => visitor.visit_i64(value),
            Self::Text(text) => visitor.visit_string(text),
            Self::Bytes(bytes) => visitor.visit_byte_buf(bytes),
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_i64(self.int()?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_i64(self.int()?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_i64(self.int()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_bool(self.int()? != 0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        match self {
            Self::Null => visitor.visit_none(),
            value => visitor.visit_some(value),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_seq(SeqDeserializer::new(self.bytes()?.into_iter()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unreadable> {
        match self {
            Self::Text(text) => visitor.visit_enum(text.into_deserializer()),
            _ => Err(Unreadable::custom("not a word")),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Status {
        InFlight,
    }

    type Columns = (i64, u64, bool, String, Option<String>, Vec<u8>, Status);

    #[test]
    fn both_databases_return_the_same_values() {
        let text = |text: &str| Value::Text(text.to_owned());
        let of_sqlite = [
            params![-7_i64, 8_u64, 1_i64, "12"],
            vec![Value::Null, Value::Bytes(vec![0, 255]), text("in_flight")],
        ];
        let of_postgres = [
            vec![text("-7"), text("8"), text("1"), text("12")],
            vec![Value::Null, text("00ff"), text("in_flight")],
        ];
        let expected = (-7, 8, true, "12".to_owned(), None, vec![0, 255]);
        for row in [of_sqlite, of_postgres] {
            let (a, b, c, d, e, f, status): Columns = read(row.concat()).unwrap();
            assert_eq!((a, b, c, d, e, f), expected);
            assert_eq!(status, Status::InFlight);
        }

        assert!(read::<(i64,)>(vec![text("a name")]).is_err());
        assert!(read::<(i64,)>(vec![Value::Null]).is_err());
    }
}
