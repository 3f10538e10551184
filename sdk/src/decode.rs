//! Reads the services' responses leniently: additional, missing, mistyped or differently wrapped
//! fields are never an error. A body is parsed once into a [`Value`]; what it wraps is unwrapped,
//! and serde reads the rest.

use std::fmt;
use std::ops::Deref;

use chrono::{DateTime, Utc};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::bounds::{Reading, check_bounds};
use crate::dialect::{Dialect, Point};
use crate::fields::{self, Fields, at, find, is_no_time, is_nothing, plain, whole_number};
use crate::secret::Secret;
use crate::words::WORDS;

/// The fields of a response that its type does not model, or that have an unexpected type,
/// unmodified; and additional fields of a request. Dereferences to a map. In a response, it
/// contains no signing secret.
///
/// ```
/// let email: svc_sdk::email::EmailRecord =
///     serde_json::from_str(r#"{"id":"eml_1","status":"sent","ip":"192.0.2.1"}"#)?;
/// assert_eq!(email.extra.get("ip").and_then(|ip| ip.as_str()), Some("192.0.2.1"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Extra(pub Map<String, Value>);

impl Deref for Extra {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys()).finish()
    }
}

/// A type with a field `extra`. Implemented by [`has_extra!`].
pub(crate) trait HasExtra {
    fn extra_mut(&mut self) -> &mut Extra;
}

macro_rules! has_extra {
    ($($name:ty),+) => {$(
        impl crate::decode::HasExtra for $name {
            fn extra_mut(&mut self) -> &mut crate::decode::Extra {
                &mut self.extra
            }
        }
    )+};
}
pub(crate) use has_extra;

/// Defines a resource: an object with an id that operations return. Each field has the name that the
/// reference gives it, unless another follows in brackets, and the function that reads it, unless its
/// type says how. An absent field is not serialized.
macro_rules! resource {
    (
        $(#[$meta:meta])*
        $name:ident, $noun:literal, $kind:literal $(, $prepare:ident)?;
        $(
            $(#[$field_meta:meta])*
            $field:ident $([$documented:literal])?: $type:ty $(= $read:literal)?;
        )+
    ) => {
        $(#[$meta])*
        #[derive(Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            #[doc = concat!("The ", $kind, "'s id; empty if the response has none.")]
            #[serde(
                deserialize_with = "crate::decode::id",
                skip_serializing_if = "String::is_empty"
            )]
            pub id: String,
            $(
                $(#[$field_meta])*
                $(#[serde(rename = $documented)])?
                $(#[serde(deserialize_with = $read)])?
                #[serde(skip_serializing_if = "crate::decode::Absent::is_absent")]
                pub $field: $type,
            )+
            /// The other fields of the response.
            #[serde(flatten)]
            pub extra: crate::decode::Extra,
        }

        crate::decode::has_extra!($name);

        impl crate::decode::Resource for $name {
            const NOUN: &'static str = $noun;
            const KIND: &'static str = $kind;
            const FIELDS: &'static [&'static str] =
                &["id", $([$($documented,)? stringify!($field)][0]),+];

            fn is_identified(&self) -> bool {
                !self.id.is_empty()
            }

            $(fn prepare(fields: &mut crate::fields::Fields, dialect: &crate::dialect::Dialect) {
                $prepare(fields, dialect);
            })?
        }
    };
}
pub(crate) use resource;

/// A field that may have no value.
pub(crate) trait Absent {
    fn is_absent(&self) -> bool;
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Absent for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl Absent for Fields {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// A resource: an object that operations return.
pub(crate) trait Resource:
    HasExtra + DeserializeOwned + Default + Clone + PartialEq
{
    /// The name of the resource in errors, with its article.
    const NOUN: &'static str;
    /// The name in names of fields, such as `email` in `emailId`.
    const KIND: &'static str;
    /// The fields that it models, as the reference spells them.
    const FIELDS: &'static [&'static str];

    /// Whether the response certainly contains the resource: usually, it has an id.
    fn is_identified(&self) -> bool;

    /// Whether these fields certainly are those of the resource.
    fn is_identified_by(fields: &Fields) -> bool {
        fields.contains_key("id")
    }

    /// Gives fields that the service names in its own way their documented names.
    fn prepare(_fields: &mut Fields, _dialect: &Dialect) {}

    /// Whether no documented field has a value.
    fn is_blank(&self) -> bool {
        let mut typed = self.clone();
        typed.extra_mut().0.clear();
        typed == Self::default()
    }
}

/// Why a response cannot be read. Contains none of its content.
#[derive(Debug)]
pub(crate) struct DecodeError(pub(crate) String);

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        let problem = match error.classify() {
            serde_json::error::Category::Eof => "truncated JSON",
            _ => "not JSON",
        };
        Self(format!(
            "{problem} at line {} column {}",
            error.line(),
            error.column()
        ))
    }
}

/// Parses a body with a resource. An empty one is `null`.
pub(crate) fn parse_value(body: &[u8]) -> Result<Value, DecodeError> {
    parse(body, Reading::Resource)
}

/// Like [`parse_value`], of a body whose items are read one by one.
pub(crate) fn parse_list(body: &[u8]) -> Result<Value, DecodeError> {
    parse(body, Reading::Once)
}

fn parse(body: &[u8], reading: Reading) -> Result<Value, DecodeError> {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    if body.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }

    check_bounds(body, reading).map_err(DecodeError)?;
    let text = String::from_utf8_lossy(body);
    Ok(serde_json::from_str(&text).or_else(|error| {
        // One string that was cut inside a character must not hide the id of a sent email.
        serde_json::from_slice(&without_unpaired_surrogates(&text)).map_err(|_| error)
    })?)
}

/// Replaces escapes like `\ud83d` without their other half, which JavaScript produces when it
/// cuts a string, by U+FFFD.
fn without_unpaired_surrogates(text: &str) -> Vec<u8> {
    let mut text = text.as_bytes().to_vec();
    let mut at = 0;
    while at < text.len() {
        let unit = |at: usize| {
            let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
            u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        };
        let length = match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                text[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            _ if text[at] == b'\\' => 2,
            _ => 1,
        };
        at += length;
    }
    text
}

/// Reads a resource. A value that is neither an object nor an array with one gives a resource without
/// fields.
pub(crate) fn read_object<T: Resource>(value: Value, dialect: &Dialect) -> T {
    read_fields(into_object(value), dialect)
}

/// The object, or the only one of a list; else one without fields.
pub(crate) fn into_object(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        Value::Array(items) => match <[Value; 1]>::try_from(items) {
            Ok([Value::Object(only)]) => only,
            _ => Fields::new(),
        },
        _ => Fields::new(),
    }
}

/// Reads a resource: the object itself, or an object inside it. What is beside that one stays.
pub(crate) fn read_fields<T: Resource>(fields: Fields, dialect: &Dialect) -> T {
    let mut fields = unwrapped::<T>(fields, dialect, MAX_LEVELS);
    for documented in T::FIELDS {
        if let Some(names) = WORDS.aliases.get(documented) {
            take_name(&mut fields, documented, names);
        }
    }
    T::prepare(&mut fields, dialect);
    read_typed(&fields)
}

/// How deep a resource may be inside other objects.
const MAX_LEVELS: u32 = 5;

fn unwrapped<T: Resource>(mut fields: Fields, dialect: &Dialect, levels: u32) -> Fields {
    rename::<T>(&mut fields, dialect);
    if levels == 0 {
        return fields;
    }
    let Some(name) = wrapper::<T>(&fields) else {
        return fields;
    };
    let Some(inside) = fields.get(&name).and_then(only_object) else {
        return fields;
    };

    let mut inside = unwrapped::<T>(inside.clone(), dialect, levels - 1);
    let is_blank = |fields: &Fields| T::FIELDS.iter().all(|name| !fields.contains_key(*name));
    let is_inside = if T::is_identified_by(&inside) {
        !T::is_identified_by(&fields) || is_envelope::<T>(&fields)
    } else {
        !is_blank(&inside) && is_envelope::<T>(&fields)
    };
    if !is_inside {
        return fields;
    }

    fields.remove(&name);
    let has_own_id = find(&fields, &["success", "ok", "code", "status"]).is_some();
    for (name, value) in fields {
        // The id of an envelope is that of the request, and its status that of the response.
        let is_of_envelope =
            (name == "id" && has_own_id) || (name == "status" && T::FIELDS.contains(&"status"));
        if !is_of_envelope && !inside.contains_key(&name) {
            inside.insert(name, value);
        }
    }

    inside
}

/// The object, or the only one of a list: `{"Count": 1, "Data": [{…}]}`.
pub(crate) fn only_object(value: &Value) -> Option<&Fields> {
    match value {
        Value::Object(fields) => Some(fields),
        Value::Array(items) => match &items[..] {
            [Value::Object(only)] => Some(only),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an object has nothing of the resource but perhaps an id and a status, which may as well
/// be those of the request.
fn is_envelope<T: Resource>(fields: &Fields) -> bool {
    T::FIELDS
        .iter()
        .filter(|name| !matches!(**name, "id" | "status"))
        .all(|name| !fields.contains_key(*name))
}

/// The field that may hold the resource: one with a usual name, or the only object of a response
/// without an id. What the resource models itself, such as `metadata`, is no wrapper.
fn wrapper<T: Resource>(fields: &Fields) -> Option<String> {
    let mut found: Vec<(String, &String)> = Vec::new();
    for (name, value) in fields {
        let plain = plain(name);
        let one = plain.strip_suffix('s').unwrap_or_default();
        let may_be_list = matches!(plain.as_str(), "data" | "items" | "results")
            || one == T::KIND
            || one == "message";
        let is_object = value.is_object() || (may_be_list && only_object(value).is_some());
        let is_own = T::FIELDS.contains(&name.as_str()) && name != "email";
        if is_object && !is_own && !WORDS.no_wrappers.contains(&plain.as_str()) {
            found.push((plain, name));
        }
    }

    let kinds = format!("{}s", T::KIND);
    let others = [T::KIND, &kinds, "messages", "items", "results"];
    let mut usual = WORDS.wrappers.iter().chain(&others);
    let usual = usual.find_map(|usual| found.iter().find(|(plain, _)| plain == usual));
    let only = match &found[..] {
        [only] if !T::is_identified_by(fields) => Some(only),
        _ => None,
    };
    usual.or(only).map(|(_, name)| (*name).clone())
}

/// Gives the documented names to fields in another case, and to the id.
fn rename<T: Resource>(fields: &mut Fields, dialect: &Dialect) {
    // JSON:API has the fields of a resource beside its type and id.
    if fields.get("type").is_some_and(Value::is_string)
        && let Some(Value::Object(attributes)) = fields.get("attributes").cloned()
    {
        fields.remove("attributes");
        for (name, value) in attributes {
            fields.entry(name).or_insert(value);
        }
    }

    // JSON-LD has the path of a resource.
    if !fields.contains_key("id")
        && let Some(path) = fields.get("@id").and_then(Value::as_str)
        && let Some((_, id)) = path.rsplit_once('/')
    {
        let id = id.to_owned();
        fields.insert("id".to_owned(), id.into());
    }

    for documented in T::FIELDS {
        take_name(fields, documented, &[&plain(documented)]);
    }

    if T::KIND == "email" {
        take_pinned(fields, dialect, Point::IdField, "id");
    }
    let kind = plain(T::KIND);
    let own = ["id", "identifier", "uuid", "uid"].map(|end| format!("{kind}{end}"));
    let mut names: Vec<&str> = own.iter().map(String::as_str).collect();
    names.extend(
        WORDS
            .ids
            .iter()
            .filter(|name| **name != "messageid" || kind == "email"),
    );
    take_name(fields, "id", &names);
    // A Google resource name. Where `name` is documented, services call it `resourceName`.
    let named = fields.get("name").and_then(Value::as_str);
    let beside = find(fields, &["resourcename"]).and_then(|(_, value)| value.as_str());
    let is_beside = beside.is_some();
    if !fields.contains_key("id")
        && let Some((collection, id)) = beside.or(named).and_then(|name| name.rsplit_once('/'))
        && plain(collection.rsplit('/').next().unwrap_or_default()) == format!("{kind}s")
    {
        fields.insert("id".to_owned(), id.into());
        if !is_beside {
            fields.remove("name");
            take_name(fields, "name", &["displayname", "domainname"]);
        }
    }

    // Zero stands for none.
    let is_none = |value: &Value| is_nothing(value) || whole_number(value) == Some(0);
    fields.retain(|name, value| name != "id" || !is_none(value));
}

/// Moves the first field with one of these plain names, unless there is one with the documented name.
pub(crate) fn take_name(fields: &mut Fields, documented: &str, names: &[&str]) {
    if !fields.get(documented).is_none_or(is_nothing) {
        return;
    }
    let name = find(fields, names).map(|(name, _)| name.clone());
    if let Some(value) = name.and_then(|name| fields.remove(&name)) {
        fields.insert(documented.to_owned(), value);
    }
}

/// Gives the documented name to the field that the dialect names. A field inside another one is copied.
pub(crate) fn take_pinned(fields: &mut Fields, dialect: &Dialect, point: Point, documented: &str) {
    let Some(path) = dialect.pinned(point) else {
        return;
    };
    if let Some(value) = at(fields, path).cloned() {
        fields.retain(|name, _| plain(name) != plain(path));
        fields.insert(documented.to_owned(), value);
    }
}

/// Reads the fields that have the documented types. The others are kept in `extra`, without signing
/// secrets: these are in the field for them, or nowhere.
fn read_typed<T: HasExtra + DeserializeOwned + Default>(fields: &Map<String, Value>) -> T {
    let mut record = T::deserialize(fields).unwrap_or_else(|_| read_fitting(fields));
    record
        .extra_mut()
        .0
        .retain(|name, _| !WORDS.secrets.contains(&plain(name).as_str()));
    record
}

fn read_fitting<T: HasExtra + DeserializeOwned + Default>(fields: &Map<String, Value>) -> T {
    let fits = |name: &str, value: &Value| {
        T::deserialize(&Map::from_iter([(name.to_owned(), value.clone())])).is_ok()
    };
    let (fitting, others): (Map<_, _>, Map<_, _>) = fields
        .clone()
        .into_iter()
        .partition(|(name, value)| fits(name, value));
    let mut record = T::deserialize(&fitting).unwrap_or_default();
    record.extra_mut().0.extend(others);
    record
}

/// For an object inside a resource: reads it like the resource.
pub(crate) fn nested<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: HasExtra + DeserializeOwned + Default,
    D: Deserializer<'de>,
{
    Ok(read_typed(&Map::deserialize(deserializer)?))
}

/// An id is a text. Some services use integers.
pub(crate) fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(text),
        Value::Number(number) if !number.is_f64() => Ok(number.to_string()),
        _ => Err(D::Error::custom("neither a text nor an integer")),
    }
}

/// One text, a list of texts, or `null`.
pub(crate) fn one_or_many<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    Ok(texts(d)?.unwrap_or_default())
}

/// One text, a list of texts, or `null`, which is kept apart from an empty list.
pub(crate) fn texts<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<String>>, D::Error> {
    match Value::deserialize(d)? {
        Value::Null => Ok(None),
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) => Ok(Some(texts_in(&text))),
        many => serde_json::from_value(many)
            .map(Some)
            .map_err(D::Error::custom),
    }
}

/// The texts in a text: a list in JSON, words between commas, or the text itself.
fn texts_in(text: &str) -> Vec<String> {
    if let Ok(texts) = serde_json::from_str(text) {
        return texts;
    }

    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_of_word = |letter: char| letter.is_alphanumeric() || "_.:*/-".contains(letter);
    let is_word = |part: &&str| !part.is_empty() && part.chars().all(is_of_word);
    if parts.iter().all(is_word) {
        return parts.into_iter().map(str::to_owned).collect();
    }

    vec![text.to_owned()]
}

/// An object or `null`. Some languages write an empty object as an empty list, some services write one as
/// a list of names and values, and some databases have it as a text.
pub(crate) fn object<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Fields>, D::Error> {
    match Value::deserialize(d)? {
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) => serde_json::from_str(&text).map_err(D::Error::custom),
        Value::Null => Ok(None),
        Value::Object(fields) => Ok(Some(fields)),
        Value::Array(items) => {
            let fields = items.iter().map(named_value).collect::<Option<_>>();
            fields
                .map(Some)
                .ok_or_else(|| D::Error::custom("not an object"))
        }
        _ => Err(D::Error::custom("not an object")),
    }
}

/// The field that `{"key": "plan", "value": "pro"}` stands for.
fn named_value(item: &Value) -> Option<(String, Value)> {
    let item = item.as_object()?;
    let name = find(item, &["key", "name", "field"])?.1.as_str()?;
    let value = item.iter().find(|(field, _)| plain(field) == "value")?.1;
    Some((name.to_owned(), value.clone()))
}

/// An object, which may be missing.
pub(crate) fn object_or_empty<'de, D: Deserializer<'de>>(d: D) -> Result<Fields, D::Error> {
    Ok(object(d)?.unwrap_or_default())
}

/// True, false or `null`, also as a word or a number.
pub(crate) fn flag<'de, D: Deserializer<'de>>(d: D) -> Result<Option<bool>, D::Error> {
    optional(d, is_nothing, fields::flag)
}

/// An integer or `null`; the integer may be in a text.
pub(crate) fn integer<'de, D: Deserializer<'de>>(d: D) -> Result<Option<i64>, D::Error> {
    optional(d, is_nothing, fields::integer)
}

/// A time in any common form, or none.
pub(crate) fn time<'de, D: Deserializer<'de>>(d: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    optional(d, is_no_time, fields::time)
}

fn optional<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    is_none: fn(&Value) -> bool,
    read: fn(&Value) -> Option<T>,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    if is_none(&value) {
        return Ok(None);
    }
    let read = read(&value).ok_or_else(|| D::Error::custom("a value of another type"))?;
    Ok(Some(read))
}

/// A secret is read from any value, so that it never gets into `extra`.
pub(crate) fn secret<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Secret>, D::Error> {
    Ok(match Value::deserialize(d)? {
        Value::String(text) => Some(Secret::new(text)),
        Value::Number(number) => Some(Secret::new(number.to_string())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read<T: Resource>(value: &Value) -> T {
        read_object(value.clone(), &Dialect::default())
    }

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Thing {
        #[serde(deserialize_with = "id")]
        id: String,
        #[serde(deserialize_with = "one_or_many")]
        topics: Vec<String>,
        at: Option<DateTime<Utc>>,
        metadata: Map<String, Value>,
        #[serde(deserialize_with = "nested")]
        owner: Owner,
        #[serde(flatten)]
        extra: Extra,
    }

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Owner {
        age: Option<u8>,
        #[serde(flatten)]
        extra: Extra,
    }

    has_extra!(Thing, Owner);

    impl Resource for Thing {
        const NOUN: &'static str = "a thing";
        const KIND: &'static str = "thing";
        const FIELDS: &'static [&'static str] = &["id", "topics", "at", "metadata", "owner"];

        fn is_identified(&self) -> bool {
            !self.id.is_empty()
        }
    }

    #[test]
    fn a_mistyped_field_is_kept_and_spoils_no_other() {
        let value = json!({"id": 7, "topics": [1], "at": "yesterday", "metadata": null, "x": [],
            "owner": {"age": "old", "name": "n"}});
        let thing: Thing = read(&value);
        assert_eq!(
            (thing.id.as_str(), thing.topics.len(), thing.at),
            ("7", 0, None)
        );
        let kept = json!({"topics": [1], "at": "yesterday", "metadata": null, "x": []});
        assert_eq!(Value::Object(thing.extra.0), kept);
        assert_eq!(
            Value::Object(thing.owner.extra.0),
            json!({"age": "old", "name": "n"})
        );
    }

    #[test]
    fn a_number_that_lost_digits_is_no_id() {
        let value = parse_value(br#"{"id":18446744073709551616}"#).expect("JSON");
        assert_eq!(read::<Thing>(&value).id, "");
        let value = parse_value(br#"{"id":18446744073709551615}"#).expect("JSON");
        assert_eq!(read::<Thing>(&value).id, "18446744073709551615");
    }

    #[test]
    fn unpaired_surrogates_are_replaced() {
        for (text, expected) in [
            (r#"["x\ud83d","\\ud83d"]"#, json!(["x\u{fffd}", "\\ud83d"])),
            (
                r#"["\uDE00","\ud83d\ud83d\ude00"]"#,
                json!(["\u{fffd}", "\u{fffd}😀"]),
            ),
        ] {
            assert_eq!(
                parse_value(text.as_bytes()).expect("JSON"),
                expected,
                "{text}"
            );
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let names = [
            "id", "status", "data", "error", "items", "metadata", "topics", "owner", "age", "at",
        ];
        let name = prop::sample::select(names.to_vec());
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
                    fields
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect()
                }),
            ]
        })
    }

    proptest! {
        /// Whatever a response holds, its fields are in the resource or in `extra`.
        #[test]
        fn no_field_is_lost(value in json()) {
            let Value::Object(fields) = &value else { return Ok(()) };
            let thing: Thing = read_typed(fields);
            let Value::Object(kept) = serde_json::to_value(&thing).expect("JSON") else { panic!() };
            prop_assert!(fields.keys().all(|name| kept.contains_key(name)), "{kept:?}");
            let _ = read::<Thing>(&value);
        }

        #[test]
        fn arbitrary_text_never_panics(text in "[\\[\\]{}\",:\\\\udD8cC0e9. -]{0,60}") {
            let _ = parse_value(text.as_bytes());
        }
    }
}
