//! Batches of emails: the shape of the request and the result per email
//! (`docs/email-service/emails.md#batch`,
//! `docs/undocumented/email-service.md#batch-result`).

use bytes::Bytes;
use serde_json::{Map, Value};

#[cfg(feature = "client")]
use super::Email;
use super::EmailRecord;
#[cfg(feature = "client")]
use super::EmailStatus;
use crate::FieldProblem;
use crate::decode::parse_value;
#[cfg(feature = "client")]
use crate::decode::{
    Candidate, DecodeError, Extra, Field, JsonCursor, Record, find_array, parse_lenient,
    read_object, record,
};
#[cfg(feature = "client")]
use crate::email::limits::{self, MAX_BATCH};
#[cfg(feature = "client")]
use crate::error::ErrorReport;
#[cfg(feature = "client")]
use crate::{Error, InvalidInput};

/// The JSON shape of a batch request, which the service's reference does not specify
/// (`docs/undocumented/email-service.md#batch-body`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchShape {
    /// A bare array of emails.
    #[default]
    Array,
    /// An object with the array in this field, such as `emails`.
    Object(String),
}

/// Which emails of a batch are sent.
#[cfg(feature = "client")]
#[derive(Default)]
pub(crate) struct BatchPlan {
    /// Indices of the emails in the request.
    pub(crate) sent: Vec<usize>,
    /// The emails that are not sent.
    rejected: Vec<(usize, InvalidInput)>,
}

#[cfg(feature = "client")]
impl BatchPlan {
    /// Sends all emails.
    pub(crate) fn all(emails: &[Email]) -> Self {
        Self { sent: (0..emails.len()).collect(), rejected: Vec::new() }
    }

    /// Sends the emails that keep to the documented limits.
    pub(crate) fn check(emails: &[Email]) -> Result<Self, Error> {
        limits::check_batch_size(emails)?;
        let mut plan = Self::default();
        for (index, email) in emails.iter().enumerate() {
            match email.check() {
                Ok(()) => plan.sent.push(index),
                Err(invalid) => plan.rejected.push((index, invalid)),
            }
        }
        if !plan.sent.is_empty() {
            return Ok(plan);
        }
        let invalid = plan
            .rejected
            .into_iter()
            .map(|(index, invalid)| invalid.within(&format!("emails[{index}]")))
            .collect::<Vec<_>>();
        let fields = invalid.iter().map(FieldProblem::from).collect();
        let first = invalid.into_iter().next();
        let first = first.unwrap_or_else(|| InvalidInput::new("emails", "none can be sent"));
        Err(Error::from(first).with_report(ErrorReport { fields, ..ErrorReport::default() }))
    }

    fn len(&self) -> usize {
        self.sent.len() + self.rejected.len()
    }
}

/// The result of a batch, with one item per email.
#[must_use = "some of its emails may have been refused"]
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct BatchResponse {
    /// The results, in the order of the emails if the response tells it. Usually one per
    /// email; see [`is_complete`](Self::is_complete).
    pub items: Vec<BatchItem>,
    /// The number of emails passed to the call, including those that were not sent.
    pub requested: usize,
    raw: Bytes,
}

/// The result for one email.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchItem {
    /// Index of the email in the slice passed to the call, starting at 0. Taken from the
    /// response, or from the order of its items if there are as many items as emails were
    /// sent; `None` otherwise.
    pub index: Option<usize>,
    /// Whether the email was accepted.
    pub outcome: BatchOutcome,
}

/// Whether an email of a batch was accepted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BatchOutcome {
    /// The service accepted the email.
    Accepted(EmailRecord),
    /// The service refused the email, or the client did not send it because it exceeds a
    /// documented limit. This does not affect the other emails.
    Refused(Refusal),
    /// The item indicates neither success nor failure. It is returned unmodified.
    Unrecognized(EmailRecord),
}

/// Why an email of a batch was refused.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The service's error code; `invalid_input` if the client did not send the email.
    pub code: Option<String>,
    /// The service's error message. It may quote the request.
    pub message: Option<String>,
    /// The invalid fields of the email.
    pub fields: Vec<FieldProblem>,
    /// The item, unmodified. Empty if the client did not send the email.
    pub raw: Map<String, Value>,
}

impl BatchResponse {
    /// True if there is exactly one item for every email. If not, the response does not
    /// tell the result of each email.
    pub fn is_complete(&self) -> bool {
        self.items.len() == self.requested && self.items.iter().all(|item| item.index.is_some())
    }

    /// True if the response is complete and every email was accepted.
    pub fn all_accepted(&self) -> bool {
        self.is_complete()
            && self.items.iter().all(|item| matches!(item.outcome, BatchOutcome::Accepted(_)))
    }

    /// Iterates over the accepted emails, with their index in the request.
    pub fn accepted(&self) -> impl Iterator<Item = (Option<usize>, &EmailRecord)> {
        self.items.iter().filter_map(|item| match &item.outcome {
            BatchOutcome::Accepted(email) => Some((item.index, email)),
            _ => None,
        })
    }

    /// Iterates over the refused emails, with their index in the request.
    pub fn refused(&self) -> impl Iterator<Item = (Option<usize>, &Refusal)> {
        self.items.iter().filter_map(|item| match &item.outcome {
            BatchOutcome::Refused(refusal) => Some((item.index, refusal)),
            _ => None,
        })
    }

    /// The JSON text of the response, unmodified.
    pub fn raw(&self) -> &str {
        std::str::from_utf8(&self.raw).unwrap_or_default()
    }
}

/// Omits the response's text.
impl std::fmt::Debug for BatchResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchResponse")
            .field("items", &self.items)
            .field("requested", &self.requested)
            .finish_non_exhaustive()
    }
}

/// Serializes the response as it was received.
impl serde::Serialize for BatchResponse {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        parse_value(&self.raw).unwrap_or_default().serialize(serializer)
    }
}

#[cfg(feature = "client")]
impl BatchResponse {
    pub(crate) fn read(body: &Bytes, plan: &BatchPlan) -> Result<Self, DecodeError> {
        parse_lenient(body, |text| {
            let buffer = Vec::with_capacity(plan.len().min(MAX_BATCH));
            let mut items = find_array(text, buffer, &read_item)?.items;
            let is_complete = items.len() == plan.sent.len();
            for (position, item) in items.iter_mut().enumerate() {
                if is_complete {
                    item.index.get_or_insert(position);
                }
                // The service counts only what it received.
                item.index = item.index.and_then(|index| plan.sent.get(index).copied());
            }
            if !plan.rejected.is_empty() {
                items.extend(plan.rejected.iter().map(BatchItem::rejected));
                if items.iter().all(|item| item.index.is_some()) {
                    items.sort_by_key(|item| item.index);
                }
            }
            Ok(Self { items, requested: plan.len(), raw: text.clone() })
        })
    }
}

#[cfg(feature = "client")]
impl BatchItem {
    /// The result of an email that was not sent.
    fn rejected((index, invalid): &(usize, InvalidInput)) -> Self {
        let refusal = Refusal {
            code: Some("invalid_input".to_owned()),
            message: Some(invalid.to_string()),
            fields: vec![FieldProblem::from(invalid)],
            raw: Map::new(),
        };
        Self { index: Some(*index), outcome: BatchOutcome::Refused(refusal) }
    }
}

#[cfg(feature = "client")]
record! {
    /// The fields that tell whether an item was accepted.
    struct ItemFields {
        id: String = "id";
        status: Option<EmailStatus> = "status";
        index: Option<u64> = "index";
        error: NonEmpty = "error";
        errors: NonEmpty = "errors";
    }
}

/// Whether a field is present and not empty. `"error": ""` and `"errors": []` are not
/// errors: an accepted email must not be sent again because of them.
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
    // The email may be wrapped in an object, next to its index.
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
        BatchOutcome::Refused(Refusal {
            code: report.code,
            message: report.message,
            fields: report.fields,
            raw: all,
        })
    } else {
        BatchOutcome::Unrecognized(email)
    };
    Ok(BatchItem { index, outcome })
}

/// Omits the messages and the item, which may quote the request.
impl std::fmt::Debug for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusal")
            .field("code", &self.code)
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}
