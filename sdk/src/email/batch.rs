//! A batch of emails. `BatchPlan::check` decides locally which emails are sent, and
//! `BatchResponse::read` turns the response into one `BatchItem` for each email, including those
//! that were not sent. Whether an item was accepted is decided by `verdict.rs`, as for a single
//! email. The index of an item comes from the response, or from the order of the items if there are
//! as many as emails were sent. If the response repeats an index or gives one that is too high,
//! none of its indexes is used.

use std::hash::{DefaultHasher, Hash, Hasher};

use http::{HeaderMap, HeaderName};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::accepted::{self, AcceptedEmail};
use super::email_record::EmailRecord;
use super::message::{Email, at_most};
use crate::decode::{DecodeError, parse_list};
use crate::dialect::{Dialect, Point};
use crate::engine::Received;
use crate::error::{Error, ErrorReport, FieldProblem, InvalidInput};
use crate::fields::{counts_accepted, find, is_of_failures, plain, whole_number};
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
        let BatchItems {
            mut items,
            is_ordered,
            has_errors_beside,
        } = BatchItems::read(response, plan.sent.len())?;
        let names_others = plan.place_by_recipient(&mut items);
        let in_order = is_ordered && !names_others && items.len() == plan.sent.len();
        let taken: Vec<usize> = items.iter().filter_map(|item| item.index).collect();
        let mut free = (0..plan.sent.len()).filter(|index| !taken.contains(index));
        for (position, item) in items.iter_mut().enumerate() {
            if !in_order || item.index.is_some() {
                continue;
            }
            // Beside items with an index, the others are in the order of what is left.
            item.index = if has_errors_beside {
                free.next()
            } else {
                Some(position)
            };
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
        let headers = take_headers(&mut fields);
        let outcome = match judge(&fields, &headers, dialect) {
            Verdict::Accepted(email) => BatchOutcome::Accepted(email),
            Verdict::Unknown(email) => BatchOutcome::Unrecognized(email),
            Verdict::Refused => BatchOutcome::Refused(Refusal::read(fields)),
        };
        Self::new(index, outcome)
    }

    /// The hash of the recipient that the item names.
    fn recipient(&self) -> Option<u64> {
        let fields = match &self.outcome {
            BatchOutcome::Accepted(email) | BatchOutcome::Unrecognized(email) => {
                if let [only] = &email.to[..] {
                    return Some(hash_of(only));
                }
                &email.extra.0
            }
            BatchOutcome::Refused(refusal) => &refusal.raw,
        };
        let (_, address) = find(fields, &["to", "email", "recipient", "address"])?;
        let address = address.as_str().filter(|text| text.contains('@'))?;
        Some(hash_of(address))
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
/// its index.
struct BatchItems {
    items: Vec<BatchItem>,
    /// Whether the items without an index are in the order of the request.
    is_ordered: bool,
    has_errors_beside: bool,
}

impl BatchItems {
    fn read(response: &Received, sent: usize) -> Result<Self, Error> {
        if let Some(items) = accepted_items(response, sent) {
            return Ok(Self {
                items,
                is_ordered: true,
                has_errors_beside: false,
            });
        }

        let mut body = parse_list(&response.body).map_err(|bad| response.decode_error(bad))?;
        let fails = body.as_object().is_some_and(reports_failure);
        let dialect = &*response.dialect;
        if body.is_null() {
            return Err(response.decode_error(DecodeError("no list of results".to_owned())));
        }

        if let Some(values) = take_numbered(&mut body) {
            body = values.into();
        }
        // The results may be in another field than the items of lists.
        let pinned = dialect.pinned(Point::ListItems);
        // In a list, these are beside the items.
        let messages = body.as_object().and_then(|fields| {
            let mut names = fields.keys();
            names.find(|name| plain(name) == "messages").cloned()
        });
        let results = find_array(body.clone(), pinned)
            .or_else(|_| find_array(body.clone(), None))
            .or_else(|_| find_array(body.clone(), messages.as_deref()))
            .or_else(|bad| only_errors(body).ok_or(bad));
        let (mut values, beside) = match results {
            Ok(found) => found,
            Err(_) if fails => return Err(response.reported_failure()),
            Err(bad) => return Err(response.decode_error(bad)),
        };
        if values.is_empty() && fails && errors_beside(&beside).is_empty() {
            return Err(response.reported_failure());
        }

        number_by_id(&mut values);
        let read = |value| BatchItem::read(value, dialect);
        let mut found = Self {
            items: values.into_iter().map(read).collect(),
            is_ordered: true,
            has_errors_beside: false,
        };
        for error in errors_beside(&beside) {
            found.add_error(error);
        }

        Ok(found)
    }

    fn add_error(&mut self, error: &Value) {
        let mut fields = match error {
            Value::Object(fields) => fields.clone(),
            other => Map::from_iter([("message".to_owned(), other.clone())]),
        };
        let index = take_index(&mut fields);
        self.is_ordered &= index.is_some();
        let is_known = self
            .items
            .iter()
            .any(|item| item.index == index && matches!(item.outcome, BatchOutcome::Refused(_)));
        if index.is_none() || !is_known {
            let outcome = BatchOutcome::Refused(Refusal::read(fields));
            self.items.push(BatchItem::new(index, outcome));
            self.has_errors_beside = true;
        }
    }
}

/// The lists of errors beside the items, or inside an object beside them.
fn errors_beside(beside: &Map<String, Value>) -> Vec<&Value> {
    let mut errors = Vec::new();
    for (name, value) in beside {
        match value {
            Value::Array(items) if is_of_failures(name) => errors.extend(items),
            Value::Object(inner) => errors.extend(errors_beside(inner)),
            _ => {}
        }
    }
    errors
}

/// A response that lists only what failed: by index, or beside the number of those that did not.
fn only_errors(body: Value) -> Option<(Vec<Value>, Map<String, Value>)> {
    let Value::Object(fields) = body else {
        return None;
    };
    let errors = errors_beside(&fields);
    let has_index = |error: &&Value| error.as_object().is_some_and(|it| index_of(it).is_some());
    let is_of_some = errors.iter().any(has_index) || counts_accepted(&fields);
    (!errors.is_empty() && is_of_some).then_some((Vec::new(), fields))
}

/// The items of an object that has them by their index: `{"0": {…}, "1": {…}}`.
fn take_numbered(body: &mut Value) -> Option<Vec<Value>> {
    let fields = body.as_object_mut()?;
    let is_number = |name: &String| name.parse::<u64>().is_ok();
    if fields.is_empty() || !fields.keys().all(is_number) {
        return fields.values_mut().find_map(take_numbered);
    }

    let mut items = Vec::new();
    for (name, mut item) in std::mem::take(fields) {
        let index: u64 = name.parse().ok()?;
        item.as_object_mut()?
            .insert("index".to_owned(), index.into());
        items.push(item);
    }

    Some(items)
}

/// Items that hold a response each (`{"id": "2", "status": 202, "headers": {…}, "body": {…}}`) may be in
/// any order: their ids are the positions of the requests.
fn number_by_id(values: &mut [Value]) {
    let holds_response =
        |value: &Value| value.get("status").is_some() && value.get("body").is_some();
    let position = |value: &Value| whole_number(value.get("id")?);
    let mut positions: Vec<u64> = values.iter().filter_map(position).collect();
    positions.sort_unstable();
    let first = positions.first().copied().unwrap_or_default();
    let is_permutation = positions.iter().copied().eq((first..).take(values.len()));
    if first > 1 || !is_permutation || !values.iter().all(holds_response) {
        return;
    }

    for item in values.iter_mut().filter_map(Value::as_object_mut) {
        let position = item.remove("id").as_ref().and_then(whole_number);
        if let Some(position) = position {
            item.insert("index".to_owned(), (position - first).into());
        }
    }
}

/// The headers of an item that holds a response.
fn take_headers(fields: &mut Map<String, Value>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let holds_response = fields.contains_key("body") && fields.contains_key("status");
    let Some(Value::Object(held)) = fields.get("headers").filter(|_| holds_response).cloned()
    else {
        return headers;
    };

    fields.remove("headers");
    for (name, value) in &held {
        let value = value.as_str().and_then(|value| value.parse().ok());
        if let (Ok(name), Some(value)) = (name.parse::<HeaderName>(), value) {
            headers.insert(name, value);
        }
    }

    headers
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
    for email in results {
        let outcome = BatchOutcome::Accepted(email.record()?);
        items.push(BatchItem::new(email.index, outcome));
    }

    Some(items)
}

/// The index of the email that an item is about.
fn take_index(fields: &mut Map<String, Value>) -> Option<usize> {
    let name = index_of(fields)?.clone();
    let index = whole_number(fields.get(&name)?)?;
    fields.remove(&name);
    usize::try_from(index).ok()
}

/// The field with the index of the email: `index`, `request_index`, `position`.
fn index_of(fields: &Map<String, Value>) -> Option<&String> {
    let is_index = |name: &String| {
        let name = plain(name);
        name.ends_with("index") || name == "position"
    };
    let mut named = fields.iter().filter(|(name, _)| is_index(name));
    named.find_map(|(name, value)| whole_number(value).map(|_| name))
}

impl Refusal {
    fn read(fields: Map<String, Value>) -> Self {
        // An item may hold a response, of which the body says why.
        let body = fields.get("body").and_then(Value::as_object);
        let report = ErrorReport::from_object(body.unwrap_or(&fields));
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
    /// The recipients of the emails in the request, each as a hash.
    recipients: Vec<Recipient>,
    /// The emails that are not sent.
    pub(super) rejected: Vec<(usize, InvalidInput)>,
}

impl BatchPlan {
    /// Sends all emails.
    pub(crate) fn all(emails: &[Email]) -> Self {
        let mut plan = Self::default();
        for (index, email) in emails.iter().enumerate() {
            plan.add(index, email);
        }
        plan
    }

    fn add(&mut self, index: usize, email: &Email) {
        let position = self.sent.len();
        for address in &email.to {
            let hash = hash_of(address);
            self.recipients.push(Recipient { position, hash });
        }
        self.sent.push(index);
    }

    /// Gives an index to each item without one that names the recipient of another email than that at
    /// its position. Returns whether there is any: the items are not in the order of the request.
    fn place_by_recipient(&self, items: &mut [BatchItem]) -> bool {
        // With more items than emails, none can be trusted.
        if items.len() > self.sent.len() {
            return false;
        }

        let has = |position: usize, hash: u64| {
            let mut recipients = self.recipients.iter();
            recipients.any(|it| it.position == position && it.hash == hash)
        };

        let hashes: Vec<Option<u64>> = items.iter().map(BatchItem::recipient).collect();
        let mut named = items.iter().zip(&hashes).enumerate();
        let names_others = named.any(|(position, (item, hash))| {
            item.index.is_none() && hash.is_some_and(|hash| !has(position, hash))
        });
        if !names_others {
            return false;
        }

        for (item, hash) in items.iter_mut().zip(hashes) {
            let mut positions = self.recipients.iter().filter(|it| Some(it.hash) == hash);
            if let (None, Some(only), None) = (item.index, positions.next(), positions.next()) {
                item.index = Some(only.position);
            }
        }

        true
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
                Ok(()) => plan.add(index, email),
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

struct Recipient {
    /// The position of the email in the request.
    position: usize,
    hash: u64,
}

/// The hash of an address, without its display name and in lower case.
fn hash_of(address: &str) -> u64 {
    let bare = address.rsplit_once('<').map_or(address, |(_, bare)| bare);
    let bare = bare.trim().trim_end_matches('>');
    let mut hasher = DefaultHasher::new();
    for byte in bare.bytes() {
        byte.to_ascii_lowercase().hash(&mut hasher);
    }
    hasher.finish()
}

/// The number of emails that a batch may have.
const MAX_BATCH: usize = 100;
