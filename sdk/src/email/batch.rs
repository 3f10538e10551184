//! A batch: which of its emails are sent, and the result, email by email.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::email_record::EmailRecord;
use super::message::{Email, at_most};
use crate::decode::{Resource, parse_value, read_fields};
use crate::engine::Received;
use crate::error::{Error, ErrorReport, FieldProblem, InvalidInput, has_error};
use crate::list::{find_array, whole_number};
use crate::names::debug_fields;

/// The result of a batch, with one item per email.
#[must_use = "some of its emails may have been refused"]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
#[non_exhaustive]
pub struct BatchResponse {
    /// The results, in the order of the emails if the response tells it. Usually one per
    /// email; see [`is_complete`](Self::is_complete).
    pub items: Vec<BatchItem>,
    /// The number of emails passed to the call, including those that were not sent.
    #[serde(skip)]
    pub requested: usize,
}

/// The result for one email.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BatchItem {
    /// Index of the email in the slice passed to the call, starting at 0. Taken from the
    /// response, or from the order of its items if there are as many items as emails were
    /// sent. `None` if the response does not tell it, or contradicts itself, as with an index
    /// that it gives twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// Whether the email was accepted.
    #[serde(flatten)]
    pub outcome: BatchOutcome,
}

/// Whether an email of a batch was accepted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum BatchOutcome {
    /// The service accepted the email.
    Accepted(EmailRecord),
    /// The service refused the email, or the client did not send it because it exceeds a
    /// documented limit. This does not affect the other emails.
    Refused(Refusal),
    /// The item tells neither success nor failure. What is not an object is in its field
    /// `result`.
    Unrecognized(EmailRecord),
}

/// Why an email of a batch was refused. Serializes as `{"error": {"code", "message"}}`.
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
    /// Creates a response with these items, to a request of `requested` emails, for example for
    /// a test.
    ///
    /// ```
    /// use svc_sdk::email::{BatchItem, BatchOutcome, BatchResponse, EmailRecord, Refusal};
    ///
    /// let mut email = EmailRecord::default();
    /// email.id = "eml_1".to_owned();
    /// let mut refusal = Refusal::default();
    /// refusal.code = Some("domain_not_verified".to_owned());
    /// let items = vec![
    ///     BatchItem::new(0, BatchOutcome::Accepted(email)),
    ///     BatchItem::new(1, BatchOutcome::Refused(refusal)),
    /// ];
    /// let response = BatchResponse::new(items, 2);
    /// assert!(response.is_complete() && !response.all_accepted());
    /// ```
    pub fn new(items: Vec<BatchItem>, requested: usize) -> Self {
        Self { items, requested }
    }

    /// True if there is exactly one item for every email. If not, the response does not
    /// tell the result of each email.
    pub fn is_complete(&self) -> bool {
        let mut indices: Vec<_> = self.items.iter().filter_map(|item| item.index).collect();
        indices.sort_unstable();
        self.items.len() == self.requested && indices.into_iter().eq(0..self.requested)
    }

    /// True if the response is complete and every email was accepted.
    pub fn all_accepted(&self) -> bool {
        self.is_complete() && self.accepted().count() == self.requested
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

    pub(super) fn read(response: &Received, plan: &BatchPlan) -> Result<Self, Error> {
        let list = parse_value(&response.body).and_then(find_array);
        let (values, _) = list.map_err(|bad| response.decode_error(bad))?;
        let mut items: Vec<_> = values.into_iter().map(BatchItem::read).collect();
        let in_order = items.len() == plan.sent.len();
        for (position, item) in items.iter_mut().enumerate() {
            item.index = item.index.or(in_order.then_some(position));
        }
        // If an index is repeated or too high, none can be trusted.
        let mut is_free = vec![true; plan.sent.len()];
        let mut is_own = |index| is_free.get_mut(index).is_some_and(std::mem::take);
        let is_plausible = items.iter().all(|item| item.index.is_none_or(&mut is_own));
        for item in &mut items {
            // The service counts only what it received.
            item.index = item
                .index
                .filter(|_| is_plausible)
                .map(|index| plan.sent[index]);
        }
        items.extend(plan.rejected.iter().map(BatchItem::rejected));
        if items.iter().all(|item| item.index.is_some()) {
            items.sort_by_key(|item| item.index);
        }
        Ok(Self {
            items,
            requested: plan.len(),
        })
    }
}

impl BatchItem {
    /// Creates the result of the email with this index, which starts at 0, for example for a
    /// test.
    pub fn new(index: impl Into<Option<usize>>, outcome: BatchOutcome) -> Self {
        Self {
            index: index.into(),
            outcome,
        }
    }

    /// An item is an object, or just an id.
    fn read(value: Value) -> Self {
        let mut fields = match value {
            Value::Object(fields) => fields,
            Value::String(id) => {
                let email = EmailRecord {
                    id,
                    ..EmailRecord::default()
                };
                return Self::new(None, BatchOutcome::Accepted(email));
            }
            other => Map::from_iter([("result".to_owned(), other)]),
        };
        let index = fields.remove("index");
        let index = index
            .as_ref()
            .and_then(whole_number)
            .and_then(|at| at.try_into().ok());
        let is_refused = has_error(&fields);
        let email: EmailRecord = read_fields(&fields);
        if email.is_identified() && !is_refused {
            return Self::new(index, BatchOutcome::Accepted(email));
        }
        let report = ErrorReport::from_object(&fields);
        let outcome = match is_refused || report.code.is_some() || report.message.is_some() {
            true => BatchOutcome::Refused(Refusal {
                code: report.code,
                message: report.message,
                fields: report.fields,
                raw: fields,
            }),
            false => BatchOutcome::Unrecognized(email),
        };
        Self::new(index, outcome)
    }

    /// The result of an email that was not sent.
    fn rejected((index, invalid): &(usize, InvalidInput)) -> Self {
        let refusal = Refusal {
            code: Some("invalid_input".to_owned()),
            message: Some(invalid.to_string()),
            fields: vec![FieldProblem::from(invalid)],
            raw: Map::new(),
        };
        Self::new(*index, BatchOutcome::Refused(refusal))
    }
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"error": {"code": self.code, "message": self.message}}).serialize(serializer)
    }
}

debug_fields!(Refusal: code, fields);

/// Which emails of a batch are sent.
#[derive(Default)]
pub(crate) struct BatchPlan {
    /// Indices of the emails in the request.
    pub(crate) sent: Vec<usize>,
    /// The emails that are not sent.
    pub(super) rejected: Vec<(usize, InvalidInput)>,
}

impl BatchPlan {
    /// Sends all emails.
    pub(crate) fn all(emails: &[Email]) -> Self {
        Self {
            sent: (0..emails.len()).collect(),
            rejected: Vec::new(),
        }
    }

    /// Sends the emails that keep to the documented limits.
    pub(crate) fn check(emails: &[Email]) -> Result<Self, Error> {
        if emails.is_empty() {
            return Err(InvalidInput::new("emails", "at least one email is required").into());
        }
        at_most("emails", "emails", MAX_BATCH, emails.len())?;
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
        Err(Error::from(first).with(|error| error.report.fields = fields))
    }

    /// The number of emails in the request.
    pub(super) fn len(&self) -> usize {
        self.sent.len() + self.rejected.len()
    }
}

/// The number of emails that a batch may have.
const MAX_BATCH: usize = 100;

/// The JSON shape of a batch request, which the service's reference
/// [does not specify](https://github.com/svc-tools/svc/blob/main/docs/undocumented/services.md#batch-body).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchShape {
    /// A bare array of emails.
    #[default]
    Array,
    /// An object with the array in this field, such as `emails`.
    Object(String),
}
