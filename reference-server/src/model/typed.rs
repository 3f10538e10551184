//! Reads JSON into the types of requests and of seed files. Its errors say which field is wrong and
//! what it has to be, and never what the client sent.

use std::fmt::Display;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::Value;

use crate::model::error::Failure;

/// Reads a value. An unknown field is not `what`, which has the `known` fields besides those of the type.
pub(crate) fn read<'de, T: Deserialize<'de>>(
    value: Value,
    what: &str,
    known: &[&str],
) -> Result<T, Failure> {
    serde_path_to_error::deserialize(Typed(value)).map_err(|error| {
        let path = error.path().to_string();
        let path = if path == "." { "" } else { &path };
        match error.into_inner() {
            Invalid::Missing(name) if path.is_empty() => Failure::field(name, "is required"),
            Invalid::Missing(name) => Failure::field(format!("{path}.{name}"), "is required"),
            Invalid::Unknown { name, others } => {
                // The name is the client's; repeat it only if it can be a field's name.
                let path = if is_name(&name) {
                    path
                } else {
                    path.trim_end_matches(&name).trim_end_matches('.')
                };
                let known = [known, others].concat().join(", ");
                Failure::field(path, format!("is not {what}; it has {known}"))
            }
            Invalid::Value(message) => Failure::field(path, message),
        }
    })
}

/// Whether a text can be the name of a field or of a query parameter.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= 40
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[derive(Debug, thiserror::Error)]
enum Invalid {
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("a field is unknown")]
    Unknown {
        name: String,
        others: &'static [&'static str],
    },
    #[error("{0}")]
    Value(String),
}

impl Error for Invalid {
    fn custom<M: Display>(message: M) -> Self {
        Self::Value(message.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = match expected.to_string().as_str() {
            "a map" => "an object".to_owned(),
            "a sequence" => "a list".to_owned(),
            "i64" => "an integer".to_owned(),
            text if text.starts_with("struct ") => "an object".to_owned(),
            text => text.to_owned(),
        };
        Self::Value(format!("must be {expected}"))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::Value(format!("must be one of {}", known.join(", ")))
    }

    fn unknown_field(name: &str, others: &'static [&'static str]) -> Self {
        let name = name.to_owned();
        Self::Unknown { name, others }
    }

    fn missing_field(name: &'static str) -> Self {
        Self::Missing(name)
    }
}

/// A value whose errors are [`Invalid`].
struct Typed(Value);

impl IntoDeserializer<'_, Invalid> for Typed {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Typed {
    type Error = Invalid;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => {
                visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Typed)))
            }
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, Typed(value)));
                visitor.visit_map(MapDeserializer::new(fields))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        visitor.visit_newtype_struct(self)
    }

    /// An enumeration is one of names.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(name.into_deserializer()),
            _ => Err(Invalid::custom("must be a string")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Order {
        items: Vec<Item>,
        state: Option<State>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Item {
        count: i64,
        name: Option<String>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum State {
        Open,
        Paid,
    }

    #[test]
    fn an_error_names_the_field_and_never_what_it_has() {
        for (value, field, message) in [
            (json!({"items": "secret"}), "items", "must be a list"),
            (json!({"items": [7]}), "items[0]", "must be an object"),
            (json!({}), "items", "is required"),
            (json!({"items": [{}]}), "items[0].count", "is required"),
            (
                json!({"items": [{"count": "secret"}]}),
                "items[0].count",
                "must be an integer",
            ),
            (
                json!({"items": [{"count": 1.5}]}),
                "items[0].count",
                "must be an integer",
            ),
            (
                json!({"items": [{"count": 1, "name": []}]}),
                "items[0].name",
                "must be a string",
            ),
            (
                json!({"items": [], "state": "secret"}),
                "state",
                "must be one of open, paid",
            ),
            (
                json!({"items": [], "state": 1}),
                "state",
                "must be a string",
            ),
            (
                json!({"items": [{"count": 1, "colour": "secret"}]}),
                "items[0].colour",
                "is not a field; it has id, count, name",
            ),
            (
                json!({"items": [{"count": 1, "a secret": 1}]}),
                "items[0]",
                "is not a field; it has id, count, name",
            ),
        ] {
            let error = read::<Order>(value.clone(), "a field", &["id"]).expect_err("refused");
            assert_eq!(error.first_problem(), Some((field, message)), "{value}");
        }
        let order = json!({"items": [{"count": 2, "name": null}], "state": "paid"});
        assert!(read::<Order>(order, "a field", &[]).is_ok());
    }
}
