//! The undocumented fields of a response.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Serialize as _, Serializer};
use serde_json::{Map, Value};

use super::cursor::{JsonCursor, parse_value};
use super::record::{Change, DecodeError};

/// The fields of a response that its type does not model, unmodified.
///
/// The JSON text is kept and only parsed when a field is requested. It contains no signing
/// secret: that is only in the field for it.
///
/// ```
/// let email: svc_sdk::email::EmailRecord =
///     serde_json::from_str(r#"{"id":"eml_1","status":"sent","createdAt":"2026-01-01"}"#)?;
/// assert_eq!(email.extra.get("createdAt").and_then(|at| at.as_str()), Some("2026-01-01"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Extra {
    raw: Bytes,
    typed: &'static [&'static str],
    parsed: OnceLock<Arc<Map<String, Value>>>,
}

impl Extra {
    pub(crate) fn new(raw: Bytes, typed: &'static [&'static str]) -> Self {
        Self { raw, typed, parsed: OnceLock::new() }
    }

    /// Returns the field `name`, as the service sent it. Also works for fields that the
    /// type models. A number beyond the range of `f64` is returned as a string; values
    /// nested more than 100 levels deep may be null.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.all().get(name)
    }

    /// Iterates over the fields that the type does not model, in the response's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.all()
            .iter()
            .map(|(name, value)| (name.as_str(), value))
            .filter(|(name, _)| !self.typed.contains(name))
    }

    /// True if the type models all fields of the response.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// All fields of the response, including those that the type models, in the response's
    /// order.
    pub fn all(&self) -> &Map<String, Value> {
        self.parsed.get_or_init(|| match parse_value(&self.raw) {
            Ok(Value::Object(all)) => Arc::new(all),
            _ => Arc::default(),
        })
    }

    /// Serializes the response as it was received, even if it is not an object, with these
    /// changes.
    pub(crate) fn serialize_with<S: Serializer>(
        &self,
        changes: Vec<Change>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let all = self.all();
        if !changes.is_empty() {
            let mut all = all.clone();
            for (names, value) in changes {
                let present = names.iter().copied().find(|name| all.contains_key(*name));
                let name = present.or(names.first().copied()).unwrap_or_default();
                match value {
                    Some(value) => drop(all.insert(name.to_owned(), value)),
                    None => all.retain(|known, _| known != name),
                }
            }
            return all.serialize(serializer);
        }
        if all.is_empty()
            && let Ok(value) = parse_value(&self.raw)
        {
            return value.serialize(serializer);
        }
        all.serialize(serializer)
    }

    /// The JSON text of the resource, as the service sent it.
    pub fn raw(&self) -> &str {
        std::str::from_utf8(&self.raw).unwrap_or_default()
    }
}

/// Creates the fields of a response for a test.
///
/// ```
/// use svc_sdk::Extra;
/// use svc_sdk::email::EmailRecord;
///
/// let mut email = EmailRecord::default();
/// email.extra = [("ip", "192.0.2.1")].into_iter().collect();
/// assert_eq!(email.extra.get("ip"), Some(&"192.0.2.1".into()));
/// # let _: &Extra = &email.extra;
/// ```
impl<N: Into<String>, V: Into<Value>> FromIterator<(N, V)> for Extra {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Self {
        let fields = fields.into_iter().map(|(name, value)| (name.into(), value.into()));
        Map::from_iter(fields).into()
    }
}

impl From<Map<String, Value>> for Extra {
    fn from(fields: Map<String, Value>) -> Self {
        Self::new(Value::Object(fields).to_string().into(), &[])
    }
}

impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw || self.all() == other.all()
    }
}

/// Shows the names of the first fields, never their values, and does not cache the parsed
/// JSON.
impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 32;
        let mut names = f.debug_set();
        let mut left = SHOWN;
        let shown = |name: String, cursor: &mut JsonCursor<'_>| {
            cursor.skip()?;
            if self.typed.contains(&name.as_str()) {
                return Ok(());
            }
            left = left.checked_sub(1).ok_or_else(|| DecodeError(String::new()))?;
            names.entry(&name);
            Ok(())
        };
        // Fields that cannot be decoded are omitted here.
        let _ = JsonCursor::new(&self.raw).and_then(|mut cursor| cursor.object(shown));
        if left == 0 { names.finish_non_exhaustive() } else { names.finish() }
    }
}
