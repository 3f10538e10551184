//! Batches of emails: the shape of the request and the result per email
//! (`docs/email-service/emails.md#batch`,
//! `docs/undocumented/email-service.md#batch-result`).

use bytes::Bytes;
use serde_json::{Map, Value};

use super::Email;
use super::EmailRecord;
use crate::FieldProblem;

use crate::client::{FromResponse, ResponseParts};

use crate::decode::{
    Candidate, DecodeError, Field, JsonCursor, Record, find_array, parse_lenient, parse_value,
    read_object, record,
};

use crate::email::limits::{self, MAX_BATCH};

use crate::error::ErrorReport;

use crate::{Error, Extra, InvalidInput};

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
#[derive(Default)]
pub(crate) struct BatchPlan {
    /// Indices of the emails in the request.
    pub(crate) sent: Vec<usize>,
    /// The emails that are not sent.
    rejected: Vec<(usize, InvalidInput)>,
}

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
#[derive(Clone, Default, PartialEq)]
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

/// Serializes the items, as an array. The text that was received is in
/// [`raw`](BatchResponse::raw).
impl serde::Serialize for BatchResponse {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}

/// Serializes as the email, or as `{"error": {"code", "message"}}`, with the `index`.
impl serde::Serialize for BatchItem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let outcome = match &self.outcome {
            BatchOutcome::Accepted(email) | BatchOutcome::Unrecognized(email) => {
                serde_json::to_value(email).map_err(serde::ser::Error::custom)?
            }
            BatchOutcome::Refused(refusal) => serde_json::json!({
                "error": {"code": refusal.code, "message": refusal.message},
            }),
        };
        let mut object = Map::new();
        if let Some(index) = self.index {
            object.insert("index".to_owned(), index.into());
        }
        match outcome {
            Value::Object(fields) => object.extend(fields),
            other => drop(object.insert("result".to_owned(), other)),
        }
        object.serialize(serializer)
    }
}

/// Creates responses, for example for a test.
impl BatchResponse {
    /// Creates a response with these items, to a request of `requested` emails.
    ///
    /// ```
    /// use svc_sdk::email::{BatchItem, BatchOutcome, BatchResponse, EmailRecord, Refusal};
    ///
    /// let mut email = EmailRecord::default();
    /// email.id = "eml_1".to_owned();
    /// let refusal = Refusal::new("domain_not_verified", "shop.example");
    /// let items = vec![
    ///     BatchItem::new(0, BatchOutcome::Accepted(email)),
    ///     BatchItem::new(1, BatchOutcome::Refused(refusal)),
    /// ];
    /// let response = BatchResponse::new(items, 2);
    /// assert!(response.is_complete() && !response.all_accepted());
    /// ```
    pub fn new(items: Vec<BatchItem>, requested: usize) -> Self {
        Self { items, requested, raw: Bytes::new() }
    }
}

impl BatchItem {
    /// Creates the result of the email with this index, which starts at 0.
    pub fn new(index: impl Into<Option<usize>>, outcome: BatchOutcome) -> Self {
        Self { index: index.into(), outcome }
    }
}

impl Refusal {
    /// Creates a refusal with a code and a message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: Some(code.into()), message: Some(message.into()), ..Self::default() }
    }
}

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

impl FromResponse for BatchResponse {
    fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error> {
        Self::read(&response.body, response.batch()).map_err(|bad| response.decode_error(bad))
    }
}

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

record! {
    /// The fields that tell whether an item was accepted.
    struct ItemFields {
        index: Option<u64> = "index";
        error: NonEmpty = "error";
        errors: NonEmpty = "errors";
    }
}

/// An item of a response, whose fields are read in one pass.
#[derive(Default, serde::Serialize)]
struct Item {
    email: EmailRecord,
    about: ItemFields,
}

impl Record for Item {
    const TYPED: &'static [&'static str] = &{
        let mut names = [""; EmailRecord::TYPED.len() + ItemFields::TYPED.len()];
        let (emails, items) = names.split_at_mut(EmailRecord::TYPED.len());
        emails.copy_from_slice(EmailRecord::TYPED);
        items.copy_from_slice(ItemFields::TYPED);
        names
    };
    const SECRET: &'static [&'static str] = &[];

    fn read_field<'de, A: serde::de::MapAccess<'de>>(
        &mut self,
        name: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match ItemFields::TYPED.contains(&name) {
            true => self.about.read_field(name, map),
            false => self.email.read_field(name, map),
        }
    }

    fn set_extra(&mut self, extra: Extra) {
        self.email.set_extra(extra);
    }

    fn is_blank(&self) -> bool {
        self.email.is_blank() && self.about.is_blank()
    }
}

/// Whether a field is present and not empty. `"error": ""` and `"errors": []` are not
/// errors: an accepted email must not be sent again because of them.
#[derive(Clone, Debug, Default, PartialEq)]
struct NonEmpty(bool);

impl Field for NonEmpty {
    const HOLDS_VALUES: bool = true;

    fn to_json(&self) -> Option<Value> {
        Some(self.0.into())
    }

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
    let (Candidate { record: mut item, .. }, raw) = cursor.value::<Candidate<Item>>()?;
    let raw = cursor.detach(raw);
    let index = item.about.index.and_then(|index| usize::try_from(index).ok());
    let refused = item.about.error.0 || item.about.errors.0;
    if !item.email.id.is_empty() && !refused {
        item.set_extra(Extra::new(raw, EmailRecord::TYPED));
        return Ok(BatchItem { index, outcome: BatchOutcome::Accepted(item.email) });
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
