//! Reads the envelope fields of a verified body: `event`, `id`, `created`, `data`.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use serde_json::value::RawValue;

/// The envelope fields as raw JSON, so that an unexpected type in one field
/// does not make the others unreadable.
#[derive(Default, Deserialize)]
pub(crate) struct Envelope<'a> {
    #[serde(borrow, default)]
    event: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    created: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, EnvelopeError> {
        // Checked first because serde also deserializes a struct from an array.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(match serde_json::from_slice::<IgnoredAny>(body) {
                Ok(_) => EnvelopeError::NotAnObject,
                Err(error) => EnvelopeError::not_json(&error),
            });
        }
        serde_json::from_slice(body).map_err(|error| match error.classify() {
            Category::Data => EnvelopeError::DuplicateField,
            _ => EnvelopeError::not_json(&error),
        })
    }

    /// The event name: `event`, or `type` if there is no `event`.
    pub(crate) fn event(&self) -> Option<String> {
        string(self.event).or_else(|| string(self.kind))
    }

    /// The `id`: a string, or a number as it is written.
    pub(crate) fn id(&self) -> Option<String> {
        string(self.id).or_else(|| number(self.id))
    }

    pub(crate) fn created(&self) -> Option<String> {
        string(self.created)
    }

    /// The JSON text of `data`, a slice of the parsed body.
    pub(crate) fn data(&self) -> Option<&'a str> {
        self.data.map(RawValue::get)
    }
}

fn string(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

fn number(value: Option<&RawValue>) -> Option<String> {
    let raw = value?.get();
    raw.starts_with(|c: char| c == '-' || c.is_ascii_digit()).then(|| raw.to_owned())
}

/// A verified body is not a valid delivery envelope: respond 400.
///
/// The error contains nothing of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// The body is not JSON.
    #[error("the body is not JSON (line {line}, column {column})")]
    NotJson {
        /// Line of the first syntax error, starting at 1.
        line: usize,
        /// Column of the first syntax error, starting at 1.
        column: usize,
    },
    /// The body is JSON but not an object, and no header configured with
    /// `Receiver::event_header` names the event.
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// An envelope field occurs more than once. Two parsers could pick
    /// different values, so the delivery is ambiguous.
    #[error("an envelope field occurs more than once")]
    DuplicateField,
    /// Neither `event`, nor `type`, nor a header configured with
    /// `Receiver::event_header` names the event.
    #[error("the delivery has no event name")]
    MissingEvent,
}

impl EnvelopeError {
    fn not_json(error: &serde_json::Error) -> Self {
        Self::NotJson { line: error.line(), column: error.column() }
    }
}

/// A verified body, or its `data`, does not deserialize into the requested type.
///
/// `Display` and `Debug` give the position of the error and nothing of the
/// content. [`detail`](Self::detail) may quote the content.
#[derive(thiserror::Error)]
#[error("the JSON does not fit the type (line {}, column {})", .0.line(), .0.column())]
pub struct JsonError(serde_json::Error);

impl JsonError {
    pub(crate) fn new(error: serde_json::Error) -> Self {
        Self(error)
    }

    /// The `serde_json` error. It **may quote the content**, so do not log it.
    pub fn detail(&self) -> &serde_json::Error {
        &self.0
    }
}

impl fmt::Debug for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonError")
            .field("line", &self.0.line())
            .field("column", &self.0.column())
            .finish_non_exhaustive()
    }
}
