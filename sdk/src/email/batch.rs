//! A batch: which of its emails are sent, and the result, email by email.

use http::HeaderMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::accepted::{self, AcceptedEmail};
use super::email_record::EmailRecord;
use super::message::{Email, at_most};
use crate::decode::{DecodeError, parse_list};
use crate::dialect::{Dialect, Point};
use crate::engine::Received;
use crate::error::{Error, ErrorReport, FieldProblem, InvalidInput};
use crate::fields::{find, plain, whole_number};
use crate::list::find_array;
use crate::names::debug_fields;
use crate::verdict::{Verdict, judge, reports_failure};

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
    /// let email = EmailRecord { id: "eml_1".to_owned(), ..EmailRecord::default() };
    /// let code = Some("domain_not_verified".to_owned());
    /// let refusal = Refusal { code, ..Refusal::default() };
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
        let sent = plan.sent.len();
        let mut items = match accepted_items(response, sent) {
            Some(items) => items,
            None => read_items(response, sent)?,
        };
        // If an index is repeated or too high, none can be trusted.
        let mut is_free = vec![true; sent];
        let mut is_own = |index| is_free.get_mut(index).is_some_and(std::mem::take);
        let is_plausible = items.iter().all(|item| item.index.is_none_or(&mut is_own));
        for item in &mut items {
            // The service counts only what it received.
            let index = item.index.filter(|_| is_plausible);
            item.index = index.map(|index| plan.sent[index]);
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
    fn read(value: Value, dialect: &Dialect) -> Self {
        let mut fields = match value {
            Value::Object(fields) => fields,
            Value::String(id) if !id.is_empty() => {
                let email = EmailRecord {
                    id,
                    ..EmailRecord::default()
                };
                return Self::new(None, BatchOutcome::Accepted(email));
            }
            other => Map::from_iter([("result".to_owned(), other)]),
        };
        let index = take_index(&mut fields);
        let outcome = match judge(&fields, &HeaderMap::new(), dialect) {
            Verdict::Accepted(email) => BatchOutcome::Accepted(email),
            Verdict::Unknown(email) => BatchOutcome::Unrecognized(email),
            Verdict::Refused => BatchOutcome::Refused(Refusal::read(fields)),
        };
        Self::new(index, outcome)
    }

    /// An item of a list of errors.
    fn of_error(error: &Value) -> Self {
        let mut fields = match error {
            Value::Object(fields) => fields.clone(),
            other => Map::from_iter([("message".to_owned(), other.clone())]),
        };
        let index = take_index(&mut fields);
        Self::new(index, BatchOutcome::Refused(Refusal::read(fields)))
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

/// The items of a response: a list, and perhaps a list of errors beside it, of which each carries
/// its index. The others are in the order of the emails if there are as many as were sent.
fn read_items(response: &Received, sent: usize) -> Result<Vec<BatchItem>, Error> {
    let body = parse_list(&response.body).map_err(|bad| response.decode_error(bad))?;
    if body.is_null() {
        return Err(response.decode_error(DecodeError("no list of results".to_owned())));
    }
    let fails = body.as_object().is_some_and(reports_failure);
    // In a list, messages are beside the items.
    let messages = body.as_object().and_then(|fields| {
        let mut names = fields.keys();
        names.find(|name| plain(name) == "messages").cloned()
    });
    // The results may be in another field than the items of lists.
    let pinned = response.dialect.pinned(Point::ListItems);
    let found = find_array(body.clone(), pinned)
        .or_else(|_| find_array(body.clone(), None))
        .or_else(|_| find_array(body, messages.as_deref()));
    let (values, beside) = match found {
        Ok(found) => found,
        Err(_) if fails => return Err(response.reported_failure()),
        Err(bad) => return Err(response.decode_error(bad)),
    };
    let read = |value| BatchItem::read(value, &response.dialect);
    let mut items: Vec<BatchItem> = values.into_iter().map(read).collect();

    let errors = find(&beside, &["errors", "failed"]).and_then(|(_, errors)| errors.as_array());
    let before = items.len();
    let mut is_ordered = true;
    for error in errors.into_iter().flatten() {
        let error = BatchItem::of_error(error);
        is_ordered &= error.index.is_some();
        let is_same = |item: &BatchItem| {
            item.index == error.index && matches!(item.outcome, BatchOutcome::Refused(_))
        };
        if error.index.is_none() || !items.iter().any(is_same) {
            items.push(error);
        }
    }

    if !is_ordered || items.len() != sent {
        return Ok(items);
    }
    // Beside items with an index, the others are in the order of what is left.
    let has_errors_beside = items.len() > before;
    let taken: Vec<usize> = items.iter().filter_map(|item| item.index).collect();
    let mut free = (0..sent).filter(|index| !taken.contains(index));
    for (position, item) in items.iter_mut().enumerate() {
        if item.index.is_none() {
            item.index = match has_errors_beside {
                true => free.next(),
                false => Some(position),
            };
        }
    }
    Ok(items)
}

/// The items of a response that says of each email only that it was accepted.
fn accepted_items(response: &Received, sent: usize) -> Option<Vec<BatchItem>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Accepted<'a> {
        #[serde(borrow, alias = "data")]
        results: Vec<AcceptedEmail<'a>>,
    }

    let Accepted { results } = accepted::read(&response.body, 1, &response.dialect)?;
    if results.len() != sent {
        return None;
    }
    let mut items = Vec::with_capacity(sent);
    for (position, email) in results.into_iter().enumerate() {
        let outcome = BatchOutcome::Accepted(email.record()?);
        items.push(BatchItem::new(email.index.unwrap_or(position), outcome));
    }
    Some(items)
}

/// The index of the email that an item is about.
fn take_index(fields: &mut Map<String, Value>) -> Option<usize> {
    let (name, index) = find(fields, &["index", "position"])?;
    let (name, index) = (name.clone(), usize::try_from(whole_number(index)?).ok()?);
    fields.remove(&name);
    Some(index)
}

impl Refusal {
    fn read(fields: Map<String, Value>) -> Self {
        let report = ErrorReport::from_object(&fields);
        Self {
            code: report.code,
            message: report.message,
            fields: report.fields,
            raw: fields,
        }
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
