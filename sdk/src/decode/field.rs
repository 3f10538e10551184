//! Lenient decoding of typed fields. Decoding never fails: a value of an unexpected type
//! leaves the field empty, and stays available through `extra`.

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::record::{Record, from_map};
use crate::Secret;

/// A type that a field of a record can have.
pub(crate) trait Field: Default {
    /// The field as JSON. `None` if it is empty, or must not be shown.
    fn to_json(&self) -> Option<Value>;

    fn text(_: &str) -> Option<Self> {
        None
    }

    fn number(_: &Number) -> Option<Self> {
        None
    }

    fn boolean(_: bool) -> Option<Self> {
        None
    }

    fn item(&mut self, _: Value) {}

    fn object(_: Map<String, Value>) -> Option<Self> {
        None
    }

    /// Whether `item` and `object` are implemented. If not, arrays and objects are skipped
    /// without allocating.
    const HOLDS_VALUES: bool = false;

    /// Whether a number is kept as text, such as an id, so that no digit may be lost.
    const IS_TEXT: bool = false;
}

/// Decodes any JSON value into a field.
pub(crate) struct Lenient<T>(pub(crate) std::marker::PhantomData<T>);

impl<'de, T: Field> DeserializeSeed<'de> for Lenient<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Field> Visitor<'de> for Lenient<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::text(text).unwrap_or_default())
    }

    fn visit_bool<E>(self, value: bool) -> Result<T, E> {
        Ok(T::boolean(value).unwrap_or_default())
    }

    fn visit_i64<E>(self, value: i64) -> Result<T, E> {
        Ok(T::number(&value.into()).unwrap_or_default())
    }

    fn visit_u64<E>(self, value: u64) -> Result<T, E> {
        Ok(T::number(&value.into()).unwrap_or_default())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<T, E> {
        if T::IS_TEXT && exceeds_integers(value) {
            // The text of the response is decoded again with such numbers as strings.
            return Err(E::custom("a number with too many digits"));
        }
        Ok(Number::from_f64(value).and_then(|number| T::number(&number)).unwrap_or_default())
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<T, A::Error> {
        let mut field = T::default();
        if T::HOLDS_VALUES {
            while let Some(item) = seq.next_element()? {
                field.item(item);
            }
        } else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(field)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        if T::HOLDS_VALUES {
            let mut object = Map::new();
            while let Some((name, value)) = map.next_entry()? {
                object.insert(name, value);
            }
            return Ok(T::object(object).unwrap_or_default());
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(T::default())
    }
}

impl Field for String {
    const IS_TEXT: bool = true;

    fn to_json(&self) -> Option<Value> {
        (!self.is_empty()).then(|| self.as_str().into())
    }

    fn text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn number(number: &Number) -> Option<Self> {
        Some(number.to_string())
    }
}

impl Field for Option<String> {
    const IS_TEXT: bool = true;

    fn to_json(&self) -> Option<Value> {
        self.as_deref().map(Value::from)
    }

    fn text(text: &str) -> Option<Self> {
        Some(Some(text.to_owned()))
    }

    fn number(number: &Number) -> Option<Self> {
        Some(Some(number.to_string()))
    }
}

impl Field for Option<Secret> {
    const IS_TEXT: bool = true;

    /// Never serialized: it would be in clear.
    fn to_json(&self) -> Option<Value> {
        None
    }

    fn text(text: &str) -> Option<Self> {
        Some(Some(Secret::new(text)))
    }

    fn number(number: &Number) -> Option<Self> {
        Some(Some(Secret::new(number.to_string())))
    }
}

impl Field for Option<DateTime<Utc>> {
    fn to_json(&self) -> Option<Value> {
        let text = self.as_ref()?.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        Some(text.into())
    }

    fn text(text: &str) -> Option<Self> {
        Some(DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc()))
    }
}

impl Field for Option<bool> {
    fn to_json(&self) -> Option<Value> {
        self.map(Value::from)
    }

    fn boolean(value: bool) -> Option<Self> {
        Some(Some(value))
    }
}

impl Field for Option<i64> {
    fn to_json(&self) -> Option<Value> {
        self.map(Value::from)
    }

    fn number(number: &Number) -> Option<Self> {
        Some(number.as_i64())
    }
}

impl Field for Option<u64> {
    fn to_json(&self) -> Option<Value> {
        self.map(Value::from)
    }

    fn number(number: &Number) -> Option<Self> {
        Some(number.as_u64())
    }

    fn text(text: &str) -> Option<Self> {
        Some(text.parse().ok())
    }
}

impl Field for Vec<String> {
    const HOLDS_VALUES: bool = true;

    fn to_json(&self) -> Option<Value> {
        Some(self.as_slice().into())
    }

    fn text(text: &str) -> Option<Self> {
        Some(vec![text.to_owned()])
    }

    fn item(&mut self, value: Value) {
        if let Value::String(text) = value {
            self.push(text);
        }
    }
}

impl Field for Map<String, Value> {
    const HOLDS_VALUES: bool = true;

    fn to_json(&self) -> Option<Value> {
        Some(self.clone().into())
    }

    fn object(object: Self) -> Option<Self> {
        Some(object)
    }
}

/// Whether a number is beyond what `i64` and `u64` hold, so that `f64` may have lost digits.
pub(super) fn exceeds_integers(value: f64) -> bool {
    // 2^64 and -2^63, which are exact.
    value >= 18_446_744_073_709_551_616.0 || value <= -9_223_372_036_854_775_808.0
}

/// A nested resource.
impl<T: Record> Field for T {
    const HOLDS_VALUES: bool = true;

    fn to_json(&self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }

    fn object(object: Map<String, Value>) -> Option<Self> {
        from_map(&object).ok()
    }
}

/// Defines an enum of documented strings that preserves unknown strings.
macro_rules! text_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $text:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )+
            /// An undocumented value, unmodified.
            Other(String),
        }

        impl $name {
            /// All documented values.
            pub const DOCUMENTED: &[Self] = &[$(Self::$variant),+];

            /// The value as it appears in JSON.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $text, )+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( $text => Self::$variant, )+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::from(text.as_str())
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.as_str().to_owned()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }

        impl crate::decode::Field for Option<$name> {
            fn to_json(&self) -> Option<serde_json::Value> {
                self.as_ref().map(|value| value.as_str().into())
            }

            fn text(text: &str) -> Option<Self> {
                Some(Some($name::from(text)))
            }
        }
    };
}
pub(crate) use text_enum;
