//! The batch: its body's shape and its result per email (`docs/email-service/emails.md`, `docs/undocumented/email-service.md#batch-body`, `docs/undocumented/email-service.md#batch-result`).

use bytes::Bytes;
use serde_json::{Map, Value};

use super::EmailRecord;
#[cfg(feature = "client")]
use super::EmailStatus;
use crate::decode::parse_value;
#[cfg(feature = "client")]
use crate::decode::{
    Candidate, DecodeError, Extra, Field, JsonCursor, Record, find_array, parse_lenient,
    read_object, record,
};
#[cfg(feature = "client")]
use crate::email::limits::MAX_BATCH;
#[cfg(feature = "client")]
use crate::error::ErrorReport;

/// The shape of a batch request's body, which the documents do not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchShape {
    /// A bare array of emails.
    #[default]
    Array,
    /// An object that holds the array under this key, such as `emails`.
    Object(String),
}

/// What became of each email of a batch.
#[must_use = "some of its emails may have been refused"]
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct BatchResponse {
    /// What the service said, in its order. Mostly one item per email; see
    /// [`is_complete`](Self::is_complete).
    pub items: Vec<BatchItem>,
    /// How many emails were sent along.
    pub requested: usize,
    raw: Bytes,
}

/// What became of one email.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchItem {
    /// The email's place in the request, from 0: as the response names it, else
    /// by order when there are as many items as emails, else not known.
    pub index: Option<usize>,
    /// Accepted or refused.
    pub outcome: BatchOutcome,
}

/// Whether an email of a batch was accepted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BatchOutcome {
    /// The service took it.
    Accepted(EmailRecord),
    /// The service refused it; the others are not touched by that.
    Refused(Refusal),
    /// The item says neither; here it is as it came.
    Unrecognized(EmailRecord),
}

/// Why an email of a batch was refused.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The service's error code.
    pub code: Option<String>,
    /// The service's words; they may repeat what was sent.
    pub message: Option<String>,
    /// The item as it came.
    pub raw: Map<String, Value>,
}

impl BatchResponse {
    /// Whether there is one item for every email. Where there is not, the
    /// service's response does not say what became of each.
    pub fn is_complete(&self) -> bool {
        self.items.len() == self.requested && self.items.iter().all(|item| item.index.is_some())
    }

    /// Whether every email was accepted.
    pub fn all_accepted(&self) -> bool {
        self.is_complete()
            && self.items.iter().all(|item| matches!(item.outcome, BatchOutcome::Accepted(_)))
    }

    /// The accepted emails.
    pub fn accepted(&self) -> impl Iterator<Item = (Option<usize>, &EmailRecord)> {
        self.items.iter().filter_map(|item| match &item.outcome {
            BatchOutcome::Accepted(email) => Some((item.index, email)),
            _ => None,
        })
    }

    /// The refused emails.
    pub fn refused(&self) -> impl Iterator<Item = (Option<usize>, &Refusal)> {
        self.items.iter().filter_map(|item| match &item.outcome {
            BatchOutcome::Refused(refusal) => Some((item.index, refusal)),
            _ => None,
        })
    }

    /// The response's JSON text as it came.
    pub fn raw(&self) -> &str {
        std::str::from_utf8(&self.raw).unwrap_or_default()
    }
}

/// Shows what became of each, not the response's text.
impl std::fmt::Debug for BatchResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchResponse")
            .field("items", &self.items)
            .field("requested", &self.requested)
            .finish_non_exhaustive()
    }
}

/// Writes the response as it came.
impl serde::Serialize for BatchResponse {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        parse_value(&self.raw).unwrap_or_default().serialize(serializer)
    }
}

#[cfg(feature = "client")]
impl BatchResponse {
    pub(crate) fn read(body: &Bytes, requested: usize) -> Result<Self, DecodeError> {
        parse_lenient(body, |text| {
            let buffer = Vec::with_capacity(requested.min(MAX_BATCH));
            let mut items = find_array(text, buffer, &read_item)?.items;
            if items.len() == requested {
                for (place, item) in items.iter_mut().enumerate() {
                    item.index.get_or_insert(place);
                }
            }
            Ok(Self { items, requested, raw: text.clone() })
        })
    }
}

#[cfg(feature = "client")]
record! {
    /// What tells an item's kind.
    struct ItemFields {
        id: String = "id";
        status: Option<EmailStatus> = "status";
        index: Option<u64> = "index";
        error: NonEmpty = "error";
        errors: NonEmpty = "errors";
    }
}

/// Whether a field says something: `"error": ""` and `"errors": []` do not, and
/// an email that was accepted must not be sent again because of them.
#[cfg(feature = "client")]
#[derive(Clone, Debug, Default, PartialEq)]
struct NonEmpty(bool);

#[cfg(feature = "client")]
impl Field for NonEmpty {
    const HOLDS_VALUES: bool = true;

    fn text(text: &str) -> Option<Self> {
        Some(Self(!text.is_empty()))
    }

    fn item(&mut self, _: Value) {
        self.0 = true;
    }

    fn object(object: Map<String, Value>) -> Option<Self> {
        Some(Self(!object.is_empty()))
    }
}

#[cfg(feature = "client")]
fn read_item(cursor: &mut JsonCursor<'_>) -> Result<BatchItem, DecodeError> {
    match cursor.peek() {
        Some(b'{') => {}
        // A bare id.
        Some(b'"') => {
            let email = EmailRecord { id: cursor.value()?.0, ..EmailRecord::default() };
            return Ok(BatchItem { index: None, outcome: BatchOutcome::Accepted(email) });
        }
        _ => {
            let email = read_object(&cursor.skip()?)?;
            return Ok(BatchItem { index: None, outcome: BatchOutcome::Unrecognized(email) });
        }
    }
    let (Candidate { record: item, .. }, raw) = cursor.value::<Candidate<ItemFields>>()?;
    let index = item.index.and_then(|index| usize::try_from(index).ok());
    let refused = item.error.0 || item.errors.0;
    if !item.id.is_empty() && !refused {
        let mut email = EmailRecord { id: item.id, status: item.status, ..EmailRecord::default() };
        email.set_extra(Extra::new(raw, EmailRecord::TYPED));
        return Ok(BatchItem { index, outcome: BatchOutcome::Accepted(email) });
    }
    // The email in a wrapper, beside its place.
    let email: EmailRecord = read_object(&raw)?;
    if !email.id.is_empty() && !refused {
        return Ok(BatchItem { index, outcome: BatchOutcome::Accepted(email) });
    }
    let all = match parse_value(&raw) {
        Ok(Value::Object(all)) => all,
        _ => Map::new(),
    };
    let report = ErrorReport::from_object(&all);
    let outcome = if refused || report.code.is_some() || report.message.is_some() {
        BatchOutcome::Refused(Refusal { code: report.code, message: report.message, raw: all })
    } else {
        BatchOutcome::Unrecognized(email)
    };
    Ok(BatchItem { index, outcome })
}

/// Shows the code and no content.
impl std::fmt::Debug for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusal").field("code", &self.code).finish_non_exhaustive()
    }
}
