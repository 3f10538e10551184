//! Decodes a single resource.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::Extra;
use super::cursor::{JsonCursor, parse_lenient};

/// A resource type. Implemented by [`record!`].
pub(crate) trait Record: Default + serde::Serialize {
    /// The JSON names of the typed fields. The first one distinguishes the resource from an
    /// object that wraps it.
    const TYPED: &'static [&'static str];

    /// The JSON names of the fields that hold a secret; empty texts for the others. They
    /// are kept nowhere else.
    const SECRET: &'static [&'static str];

    /// Decodes the field `name`, which is one of `TYPED`.
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
    ) -> Result<(), A::Error>;

    fn set_extra(&mut self, extra: Extra);

    /// Whether no typed field has a value.
    fn is_blank(&self) -> bool;
}

/// Why a response cannot be decoded. Contains none of its content.
#[derive(Debug)]
pub(crate) struct DecodeError(pub(crate) String);

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        let problem = match error.classify() {
            serde_json::error::Category::Eof => "truncated JSON",
            _ => "not JSON",
        };
        Self(format!("{problem} at line {} column {}", error.line(), error.column()))
    }
}

/// Decodes a resource: the object itself, or the only object inside it
/// (`docs/undocumented/both-services.md#resource-shape`). An empty body, or any other JSON
/// value, gives a resource without fields.
pub(crate) fn read_object<T: Record>(body: &Bytes) -> Result<T, DecodeError> {
    parse_lenient(body, |text| {
        let mut cursor = JsonCursor::new(text)?;
        if cursor.peek().is_none() {
            let mut record = T::default();
            record.set_extra(Extra::new(Bytes::new(), T::TYPED));
            return Ok(record);
        }
        let record = next_object(&mut cursor)?;
        cursor.end()?;
        Ok(record)
    })
}

/// Decodes the resource at the cursor.
pub(crate) fn next_object<T: Record>(cursor: &mut JsonCursor<'_>) -> Result<T, DecodeError> {
    if cursor.peek() != Some(b'{') {
        let mut record = T::default();
        record.set_extra(Extra::new(cursor.skip()?, T::TYPED));
        return Ok(record);
    }
    let (candidate, text) = cursor.value::<Candidate<T>>()?;
    let text = cursor.detach(text);
    candidate.unwrapped(text)
}

/// The JSON text of the object that a resource is wrapped in: the only field whose value is
/// an object, or one with a well-known name. Another field that the type models, such as
/// `metadata`, is not a wrapper.
fn wrapped_object(raw: &Bytes, typed: &[&str]) -> Option<Bytes> {
    let mut objects = Vec::new();
    let field = |name: String, cursor: &mut JsonCursor<'_>| {
        let is_object = cursor.peek() == Some(b'{');
        let text = cursor.skip()?;
        let name_str = name.as_str();
        if is_object && (!typed.contains(&name_str) || WRAPPERS.contains(&name_str)) {
            objects.push((name, text));
        }
        Ok(())
    };
    JsonCursor::new(raw).ok()?.object(field).ok()?;
    if objects.len() > 1 {
        let known = |wrapper: &&str| objects.iter().position(|(name, _)| name == wrapper);
        let index = WRAPPERS.iter().find_map(known)?;
        return Some(objects.swap_remove(index).1);
    }
    objects.pop().map(|(_, text)| text)
}

/// The usual names of fields that hold a resource, outermost first.
const WRAPPERS: [&str; 9] =
    ["data", "result", "response", "item", "email", "contact", "audience", "domain", "webhook"];

/// How many objects may be around a resource, as in `{"data": {"email": {…}}}`.
const MAX_WRAPPERS: usize = 3;

/// Copies an object without these fields. Returns nothing if it is not an object.
fn without_fields(text: &Bytes, names: &[&str]) -> Bytes {
    let mut out = vec![b'{'];
    let copied = JsonCursor::new(text).and_then(|mut cursor| {
        cursor.object(|name, cursor| {
            let value = cursor.skip()?;
            if !names.contains(&name.as_str()) {
                if out.len() > 1 {
                    out.push(b',');
                }
                serde_json::to_writer(&mut out, &name)?;
                out.push(b':');
                out.extend_from_slice(&value);
            }
            Ok(())
        })
    });
    out.push(b'}');
    if copied.is_ok() { out.into() } else { Bytes::new() }
}

/// An object that may be the resource or may wrap it.
pub(crate) struct Candidate<T> {
    pub(crate) record: T,
    /// The number of typed fields found.
    typed: usize,
    has_first: bool,
}

impl<T: Record> Candidate<T> {
    /// Returns the resource: this object, or the object that it wraps.
    pub(crate) fn unwrapped(self, text: Bytes) -> Result<T, DecodeError> {
        let (mut candidate, mut text) = (self, text);
        let mut level = text.clone();
        for _ in 0..MAX_WRAPPERS {
            if candidate.has_first {
                break;
            }
            let Some(inner) = wrapped_object(&level, T::TYPED) else { break };
            let (inside, _) = JsonCursor::new(&inner)?.value::<Self>()?;
            if inside.has_first || inside.typed > candidate.typed {
                candidate = inside;
                text = inner.clone();
            }
            level = inner;
        }
        if T::SECRET.iter().any(|name| !name.is_empty()) {
            text = without_fields(&text, T::SECRET);
        }
        candidate.record.set_extra(Extra::new(text, T::TYPED));
        Ok(candidate.record)
    }
}

impl<'de, T: Record> Deserialize<'de> for Candidate<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CandidateVisitor(PhantomData))
    }
}

struct CandidateVisitor<T>(PhantomData<T>);

impl<'de, T: Record> Visitor<'de> for CandidateVisitor<T> {
    type Value = Candidate<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Candidate<T>, A::Error> {
        let mut candidate = Candidate { record: T::default(), typed: 0, has_first: false };
        while let Some(position) = map.next_key_seed(Key(T::TYPED))? {
            let Some(position) = position else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            candidate.record.read_field(T::TYPED[position], &mut map)?;
            candidate.typed += 1;
            candidate.has_first |= position == 0;
        }
        Ok(candidate)
    }
}

/// Decodes a key as its index among the known names, without allocating.
struct Key(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|known| *known == name))
    }
}

/// Defines a resource type: the struct, its decoding, and a `Debug` implementation that
/// masks fields marked `hidden`.
///
/// It serializes as the service sent it, including all undocumented fields, with the changes
/// that were made to its public fields since. A field marked `secret` is never serialized.
macro_rules! record {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $( $(#[$field_meta:meta])* $field_vis:vis $field:ident : $type:ty = $text:literal $(| $alias:literal)* $(, $hidden:ident)? ; )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Default, PartialEq)]
        #[non_exhaustive]
        $vis struct $name {
            $( $(#[$field_meta])* $field_vis $field: $type, )*
            /// The response's fields that are not listed above.
            $vis extra: crate::Extra,
        }

        impl crate::decode::Record for $name {
            const TYPED: &'static [&'static str] = &[$($text, $($alias,)*)*];
            const SECRET: &'static [&'static str] =
                &[$(crate::decode::record!(@secret $text $(, $hidden)?)),*];

            fn read_field<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                name: &str,
                map: &mut A,
            ) -> Result<(), A::Error> {
                match name {
                    $( $text $(| $alias)* => {
                        self.$field = map.next_value_seed(
                            crate::decode::Lenient(std::marker::PhantomData),
                        )?;
                    } )*
                    _ => {
                        map.next_value::<serde::de::IgnoredAny>()?;
                    }
                }
                Ok(())
            }

            fn set_extra(&mut self, extra: crate::Extra) {
                self.extra = extra;
            }

            fn is_blank(&self) -> bool {
                let blank = Self::default();
                true $( && self.$field == blank.$field )*
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $( .field(stringify!($field), crate::decode::record!(@shown self.$field $(, $hidden)?)) )*
                    .field("extra", &self.extra)
                    .finish()
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let original: Self = crate::decode::reread(&self.extra);
                let mut changes: Vec<crate::decode::Change> = Vec::new();
                $( if self.$field != original.$field {
                    let value = crate::decode::Field::to_json(&self.$field);
                    changes.push((&[$text, $($alias),*], value));
                } )*
                self.extra.serialize_with(changes, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::decode::deserialize(deserializer)
            }
        }
    };
    (@shown $value:expr) => { &$value };
    (@shown $value:expr, secret) => { &$value };
    (@shown $value:expr, hidden) => { &format_args!("[hidden]") };
    (@secret $text:literal, secret) => { $text };
    (@secret $text:literal $(, hidden)?) => { "" };
}
pub(crate) use record;

/// A change to a resource: the JSON names of a field, the usual one first, and its new
/// value; `None` removes the field.
pub(crate) type Change = (&'static [&'static str], Option<Value>);

/// Decodes the typed fields again, to tell which of them were changed since.
pub(crate) fn reread<T: Record>(extra: &Extra) -> T {
    let text = Bytes::copy_from_slice(extra.raw().as_bytes());
    let read = parse_lenient(&text, |text| {
        let mut cursor = JsonCursor::new(text)?;
        match cursor.peek() {
            Some(b'{') => Ok(cursor.value::<Candidate<T>>()?.0.record),
            _ => Ok(T::default()),
        }
    });
    read.unwrap_or_default()
}

/// The `Deserialize` implementation of all records.
pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Record,
    D: Deserializer<'de>,
{
    let object = Map::deserialize(deserializer)?;
    from_map(&object).map_err(|unreadable| D::Error::custom(unreadable.0))
}

pub(crate) fn from_map<T: Record>(object: &Map<String, Value>) -> Result<T, DecodeError> {
    read_object(&Bytes::from(serde_json::to_vec(object)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::email::{BatchResponse, Contact, EmailRecord, WebhookTest};
    use crate::error::ErrorReport;
    use crate::extraction::Me;

    /// Runs all decoders of responses.
    fn decode_all(body: &[u8]) {
        let body = Bytes::copy_from_slice(body);
        let _ = read_object::<EmailRecord>(&body).map(|email| format!("{email:?}"));
        let _ = read_object::<Contact>(&body).map(|contact| serde_json::to_string(&contact));
        let _ = read_object::<Me>(&body);
        let _ = crate::decode::read_list::<Contact>(&body);
        let _ = BatchResponse::read(&body, &crate::email::BatchPlan::default());
        let _ = WebhookTest::read(&body);
        let _ = ErrorReport::read(&body);
    }

    #[test]
    fn a_response_that_is_not_an_object_is_serialized_unmodified() {
        for (body, expected) in [("[1]", "[1]"), ("\"x\"", "\"x\""), ("", "{}"), ("{}", "{}")] {
            let record: EmailRecord = read_object(&Bytes::from(body)).expect("read");
            assert_eq!(serde_json::to_string(&record).expect("JSON"), expected, "{body}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let name = prop::sample::select(vec![
            "id",
            "status",
            "data",
            "error",
            "errors",
            "code",
            "message",
            "details",
            "fields",
            "items",
            "page",
            "total",
            "metadata",
            "topics",
            "organization",
            "auth",
            "statusCode",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((name.clone(), inner), 0..6).prop_map(|fields| {
                    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            decode_all(&body);
        }

        #[test]
        fn any_json_decodes_as_a_resource(value in json()) {
            let body = value.to_string();
            decode_all(body.as_bytes());
            let body = Bytes::from(body);
            prop_assert!(read_object::<EmailRecord>(&body).is_ok());
            prop_assert!(read_object::<Me>(&body).is_ok());
            prop_assert!(WebhookTest::read(&body).is_ok());
        }

        #[test]
        fn truncated_json_never_panics(value in json(), cut in any::<prop::sample::Index>()) {
            let body = value.to_string();
            decode_all(&body.as_bytes()[..cut.index(body.len())]);
        }
    }

    #[test]
    fn deep_nesting_never_panics() {
        for open in ["[", "{\"data\":", "{\"error\":{\"a\":"] {
            decode_all(open.repeat(5_000).as_bytes());
        }
    }
}
