//! Lenient decoding of typed fields. Decoding never fails: a value of an unexpected type
//! leaves the field empty, and stays available through `extra`.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::record::{Record, from_map};
use crate::Secret;

/// A type that a field of a record can have.
pub(crate) trait Field: Default {
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

    fn visit_f64<E>(self, value: f64) -> Result<T, E> {
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
    fn text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn number(number: &Number) -> Option<Self> {
        Some(number.to_string())
    }
}

impl Field for Option<String> {
    fn text(text: &str) -> Option<Self> {
        Some(Some(text.to_owned()))
    }

    fn number(number: &Number) -> Option<Self> {
        Some(Some(number.to_string()))
    }
}

impl Field for Option<Secret> {
    fn text(text: &str) -> Option<Self> {
        Some(Some(Secret::new(text)))
    }
}

impl Field for Option<bool> {
    fn boolean(value: bool) -> Option<Self> {
        Some(Some(value))
    }
}

impl Field for Option<i64> {
    fn number(number: &Number) -> Option<Self> {
        Some(number.as_i64())
    }
}

impl Field for Option<u64> {
    fn number(number: &Number) -> Option<Self> {
        Some(number.as_u64())
    }

    fn text(text: &str) -> Option<Self> {
        Some(text.parse().ok())
    }
}

impl Field for Vec<String> {
    const HOLDS_VALUES: bool = true;

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

    fn object(object: Self) -> Option<Self> {
        Some(object)
    }
}

/// A nested resource.
impl<T: Record> Field for T {
    const HOLDS_VALUES: bool = true;

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
            fn text(text: &str) -> Option<Self> {
                Some(Some($name::from(text)))
            }
        }
    };
}
pub(crate) use text_enum;
