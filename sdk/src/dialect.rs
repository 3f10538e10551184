//! How a service behaves where its reference is silent: one declaration for every open point,
//! and one type with the choices.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use http::HeaderName;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The choices of a service for the [points](Point) that its reference leaves open.
///
/// A point without a choice is *auto*: the client finds it from each response, or does what most
/// services do. A choice pins it. The sandbox speaks the same type; `svc conform` finds it.
///
/// It serializes as a table with one entry for each pinned point:
///
/// ```
/// use svc_sdk::{Dialect, Point};
///
/// let dialect: Dialect = serde_json::from_str(r#"{"key-scheme": "token", "first-page": 0}"#)?;
/// assert_eq!(dialect.pinned(Point::KeyScheme), Some("token"));
/// assert_eq!(dialect.choice(Point::FirstPage), "0");
/// assert_eq!(dialect.pinned(Point::BatchBody), None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    choices: BTreeMap<Point, String>,
}

/// One of the answers to the question of a [`Point`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The name, as in `list-items=array`.
    pub name: &'static str,
    /// What the service does.
    pub meaning: &'static str,
}

/// An unknown point, or a choice that a point does not have. The message lists the valid ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidDialect(String);

impl Dialect {
    /// A dialect without a choice.
    pub fn new() -> Self {
        Self::default()
    }

    /// A dialect with these choices, each `POINT=CHOICE`.
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set).
    pub fn with<'a>(choices: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidDialect> {
        let mut dialect = Self::default();
        for choice in choices {
            dialect.set(choice)?;
        }
        Ok(dialect)
    }

    /// All points.
    pub const fn points() -> &'static [Point] {
        Point::ALL
    }

    /// Applies `POINT=CHOICE`, such as `list-items=data`. The choice `auto` takes a choice back.
    ///
    /// # Errors
    ///
    /// If there is no such point, or the point has no such choice.
    pub fn set(&mut self, setting: &str) -> Result<(), InvalidDialect> {
        let Some((point, choice)) = setting.split_once('=') else {
            return Err(InvalidDialect(format!(
                "`{setting}` is not POINT=CHOICE, such as list-items=data"
            )));
        };
        self.pin(point.trim().parse()?, choice)
    }

    /// Sets the choice of a point. The choice `auto` takes it back.
    ///
    /// # Errors
    ///
    /// If the point has no such choice.
    pub fn pin(&mut self, point: Point, choice: &str) -> Result<(), InvalidDialect> {
        if choice.eq_ignore_ascii_case(AUTO) {
            self.choices.remove(&point);
            return Ok(());
        }
        let choice = point.parse_choice(choice)?;
        self.choices.insert(point, choice);
        Ok(())
    }

    /// The choice of a point, if it is pinned.
    pub fn pinned(&self, point: Point) -> Option<&str> {
        self.choices.get(&point).map(String::as_str)
    }

    /// The choice of a point: the pinned one, else the point's
    /// [default](Point::default_choice).
    pub fn choice(&self, point: Point) -> &str {
        self.pinned(point).unwrap_or(point.default_choice())
    }

    /// Whether this is the choice of a point.
    pub fn is(&self, point: Point, choice: &str) -> bool {
        self.choice(point) == choice
    }

    /// The pinned points with their choices, in the order of the points.
    pub fn iter(&self) -> impl Iterator<Item = (Point, &str)> {
        self.choices
            .iter()
            .map(|(point, choice)| (*point, choice.as_str()))
    }

    /// Whether no point is pinned.
    pub fn is_empty(&self) -> bool {
        self.choices.is_empty()
    }
}

impl Serialize for Dialect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(point, choice)| (point.as_str(), choice)))
    }
}

impl<'de> Deserialize<'de> for Dialect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let mut dialect = Self::default();
        for (name, value) in entries {
            let point: Point = name.parse().map_err(D::Error::custom)?;
            let choice = match value {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                _ => {
                    return Err(D::Error::custom(format!("`{name}` must be a text")));
                }
            };
            dialect.pin(point, &choice).map_err(D::Error::custom)?;
        }
        Ok(dialect)
    }
}

impl Point {
    /// Checks a choice, and returns it as the point spells it.
    fn parse_choice(self, text: &str) -> Result<String, InvalidDialect> {
        let named = self
            .choices()
            .iter()
            .find(|choice| choice.name.eq_ignore_ascii_case(text));
        if let Some(named) = named {
            return Ok(named.name.to_owned());
        }
        let is_free = match self.free_text() {
            None => false,
            Some("the name of a header") => HeaderName::try_from(text).is_ok(),
            Some(_) => !text.is_empty() && text.chars().all(is_part_of_a_name),
        };
        if is_free {
            return Ok(text.to_owned());
        }
        let mut valid: Vec<&str> = self.choices().iter().map(|choice| choice.name).collect();
        valid.push(AUTO);
        valid.extend(self.free_text());
        let valid = valid.join(", ");
        Err(InvalidDialect(format!(
            "invalid choice `{text}` for {self}; valid choices: {valid}"
        )))
    }
}

/// Whether a name of a field or a header, or a word of a service, may have this character.
fn is_part_of_a_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '!' | '$' | '@')
}

impl FromStr for Point {
    type Err = InvalidDialect;

    fn from_str(name: &str) -> Result<Self, InvalidDialect> {
        let wanted = name.to_ascii_lowercase().replace('_', "-");
        let found = Self::ALL.iter().find(|point| point.as_str() == wanted);
        found.copied().ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|point| point.as_str()).collect();
            let known = known.join(", ");
            InvalidDialect(format!("unknown point `{name}`; known points: {known}"))
        })
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The choice of a point that is not pinned.
const AUTO: &str = "auto";

/// Declares the points: name, question, default, choices with their meaning, and what free text
/// stands for, if it is one of the choices.
macro_rules! points {
    ($(
        $point:ident = $name:literal, $question:literal, default $default:literal,
            [$($choice:literal: $meaning:literal),*] $(, free $free:literal)?;
    )+) => {
        /// A detail that the reference of the services leaves open.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Point {
            $( #[doc = $question] $point, )+
        }

        impl Point {
            /// All points.
            pub const ALL: &'static [Self] = &[$(Self::$point),+];

            /// The name, such as `key-header`.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$point => $name, )+ }
            }

            /// What the reference does not say, in one sentence.
            pub const fn question(self) -> &'static str {
                match self { $( Self::$point => $question, )+ }
            }

            /// What the sandbox does if the point is not pinned, and what the client assumes where
            /// no response tells it.
            pub const fn default_choice(self) -> &'static str {
                match self { $( Self::$point => $default, )+ }
            }

            /// The choices that have a name.
            pub const fn choices(self) -> &'static [Choice] {
                match self {
                    $( Self::$point => &[$( Choice { name: $choice, meaning: $meaning } ),*], )+
                }
            }

            /// What any other text stands for, such as the name of a header. `None` if only the
            /// named choices are valid.
            pub const fn free_text(self) -> Option<&'static str> {
                match self { $( Self::$point => points!(@free $($free)?), )+ }
            }
        }
    };
    (@free) => { None };
    (@free $free:literal) => { Some($free) };
}

points! {
    KeyHeader = "key-header", "Which header carries the key of the email service?",
        default "authorization", [], free "the name of a header";
    KeyScheme = "key-scheme", "How is the key written in that header?", default "bearer",
        ["bearer": "`Bearer KEY`; in a header other than `Authorization`, the default is `bare`",
         "token": "`Token KEY`",
         "basic": "Basic authentication with the user name of `key-user`; the key is the password",
         "basic-user": "Basic authentication with the key as the user name, without a password",
         "bare": "the key alone"],
        free "another word before the key";
    KeyUser = "key-user", "Which user name goes with the key in Basic authentication?",
        default "api", [], free "the user name";
    IdField = "id-field", "Which field holds the id of an accepted email?", default "id", [],
        free "the name of a field";
    IdPlace = "id-place", "Where is the id of an accepted email?", default "field",
        ["field": "in a field of the body", "header": "in the header of `id-header`",
         "location": "at the end of the `Location` header"];
    IdHeader = "id-header", "Which header holds the id, if it is in a header?",
        default "x-message-id", [], free "the name of a header";
    StatusField = "status-field", "Which field holds the status of an email?", default "status",
        [], free "the name of a field";
    StatusCase = "status-case", "How are the statuses of an email spelled?", default "lower",
        ["lower": "`queued`", "upper": "`QUEUED`", "capitalized": "`Queued`"];
    CancelledWord = "cancelled-word", "What is the status of a cancelled email?",
        default "cancelled", [], free "a word";
    ScheduledWord = "scheduled-word", "What is the status of an email that waits for its date?",
        default "queued", [], free "a word";
    BatchBody = "batch-body", "What is the body of a batch?", default "array",
        ["array": "an array of emails"], free "the field of an object that holds the array";
    BatchMode = "batch-mode", "What becomes of a batch with an email that is refused?",
        default "each", ["each": "the others are accepted", "all-or-nothing": "all are refused"];
    BatchItem = "batch-item", "How does the result of a batch say that an email was refused?",
        default "error",
        ["error": "`{\"error\": {\"code\", \"message\"}}`",
         "success": "`{\"success\": false, \"message\"}`",
         "status": "`{\"status\": 422, \"message\"}`",
         "word": "`{\"status\": \"rejected\", \"reason\"}`",
         "error-code": "`{\"ErrorCode\": 300, \"Message\"}`, and `\"ErrorCode\": 0` for the accepted",
         "split": "`{\"data\": […], \"errors\": [{\"index\", \"message\"}]}`"];
    ListItems = "list-items", "Where are the items of a list?", default "array",
        ["array": "the body is the array"], free "the field that holds the array";
    ListPages = "list-pages", "How does a list say that there is more, and how does one go on?",
        default "whole",
        ["whole": "only contacts have pages", "page": "`page` and `totalPages`; `?page=2`",
         "has-more": "`has_more`; `?page=2`",
         "cursor": "`next_cursor`; the query parameter of `cursor-param`",
         "link": "`links.next`, a URL", "link-header": "the header `Link` with `rel=\"next\"`"];
    CursorParam = "cursor-param", "Which query parameter takes a cursor?", default "cursor", [],
        free "the name of a parameter";
    FirstPage = "first-page", "What is the number of the first page?", default "1",
        ["1": "one", "0": "zero"];
    PageTotals = "page-totals", "How does a page of contacts say how many there are?",
        default "beside",
        ["beside": "`page`, `pageSize`, `total`, `totalPages` beside the items",
         "meta": "`meta` with `current_page`, `per_page`, `total`, `last_page`",
         "header": "a bare array and the header `X-Total-Count`", "none": "a bare array, no total"];
    PastEnd = "past-end", "What answers a page after the last one?", default "empty",
        ["empty": "a page without items", "not-found": "404"];
    ResourceShape = "resource-shape", "What is around a single resource?", default "bare",
        ["bare": "nothing", "data": "`{\"data\": {…}}`", "kind": "its kind: `{\"domain\": {…}}`",
         "envelope": "`{\"success\": true, \"id\": ID_OF_THE_REQUEST, \"data\": {…}}`"];
    FieldCase = "field-case", "How are the names of fields in responses spelled?",
        default "documented",
        ["documented": "as in the reference", "snake": "`signing_secret`",
         "pascal": "`SigningSecret`"];
    Numbers = "numbers", "How are numbers in responses written?", default "number",
        ["number": "as numbers", "text": "as texts"];
    Times = "times", "How are times in responses written?", default "rfc3339",
        ["rfc3339": "`2030-01-01T09:00:00.000Z`", "seconds": "seconds since 1970",
         "sql": "`2030-01-01 09:00:00`, in UTC"];
    Absent = "absent", "How is a field without a value written?", default "null",
        ["null": "`null`", "omitted": "not at all",
         "zero": "an empty text, or `0001-01-01T00:00:00Z` for a time"];
    ErrorFormat = "error-format", "What is the body of an error?", default "nested",
        ["nested": "`{\"error\": {\"code\", \"message\", \"details\"}}`",
         "flat": "`{\"code\", \"message\", \"details\"}`", "problem": "problem details (RFC 9457)",
         "named": "`{\"statusCode\", \"name\", \"message\"}`", "text": "plain text"];
    FieldProblems = "field-problems", "How does an error name the invalid fields?",
        default "details",
        ["details": "`details.fields`, a list of `{field, message}`",
         "map": "`errors`, an object: `{\"to\": [\"…\"]}`",
         "list": "`errors`, a list of `{path, message}`"];
    ScopeStatus = "scope-status", "Which status means that the key lacks a scope?", default "403",
        ["403": "403", "401": "401 whose code or message speaks of a scope or a restricted key"];
    DomainRecords = "domain-records", "Where are the DNS records of a new domain?",
        default "records",
        ["records": "`records`, a list", "beside": "`dns_records`, beside the domain",
         "kinds": "one object for each kind: `mx`, `spf`, `dkim`, `dmarc`"],
        free "the field that holds the list";
    RecordNames = "record-names", "How are the parts of a DNS record called?",
        default "name-value",
        ["name-value": "`type`, `name`, `value`",
         "host-data": "`record_type`, `hostname`, `content`",
         "record-name": "`recordType`, `recordName`, `recordValue`"];
    DomainFlags = "domain-flags", "Where are the results of a domain's checks?", default "flat",
        ["flat": "in the domain", "nested": "in an object of their own"];
    TestStatusField = "test-status-field", "Which field of a webhook test holds the status?",
        default "statusCode", [], free "the name of a field";
    OptOut = "opt-out", "How does a contact say that it does not want emails?",
        default "subscribed",
        ["subscribed": "`subscribed` is false", "unsubscribed": "`unsubscribed` is true",
         "status": "`status` is `unsubscribed`"],
        free "a field that is true for who wants emails; with `!` before it, for who does not";
    MetadataField = "metadata-field", "Which field holds the custom data of a contact?",
        default "metadata", [], free "the name of a field";
    CancelAnswer = "cancel-answer", "What answers the cancellation of an email?", default "email",
        ["email": "the email", "id": "its id", "text": "`ok`", "empty": "nothing"];
    DeliveryBody = "delivery-body", "What is the body of a delivery?", default "object",
        ["object": "an object", "array": "an array with the object"];
    DeliveryEvent = "delivery-event", "Which field of a delivery names the event?",
        default "event", [], free "the name of a field";
    DeliveryId = "delivery-id", "Which field of a delivery holds its id?", default "id", [],
        free "the name of a field";
    DeliveryData = "delivery-data", "Which field of a delivery holds the data?", default "data", [],
        free "the name of a field";
    DeliveryTime = "delivery-time", "Which field of a delivery holds its time?", default "created",
        [], free "the name of a field";
    EventHeader = "event-header", "Which header of a delivery names the event?",
        default "mail-event", [], free "the name of a header";
    LimitHeaders = "limit-headers", "How does a 429 say when to come back?", default "retry-after",
        ["retry-after": "`Retry-After: 1`", "unit": "`Retry-After: 1s`",
         "reset": "`X-RateLimit-Reset`, in seconds since 1970",
         "ratelimit": "`RateLimit: \"default\";r=0;t=1`", "none": "not at all"];
    Idempotency = "idempotency", "What does `Idempotency-Key` do?", default "honored",
        ["honored": "the same key gets the first response again; the client relies on it only if this is pinned",
         "ignored": "nothing"];
    UnknownFields = "unknown-fields", "What happens to fields that the reference does not have?",
        default "ignored",
        ["ignored": "they are ignored", "refused": "422, which names them"];
    Limits = "limits", "Do the documented limits apply?", default "documented",
        ["documented": "the client checks them before it sends",
         "other": "only the service checks them"];
    WebhookUrls = "webhook-urls", "Which URLs may a webhook of the email service have?",
        default "https",
        ["https": "`https`; a local service may use `http`", "any": "`http`, too"];
    CreateStatus = "create-status", "Which status answers a creation?", default "201",
        ["201": "201; 202 for an email", "200": "200"];
    ExtractionError = "extraction-error", "What is `data.error` of `extraction.failed`?",
        default "object", ["object": "an object", "string": "a text"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_valid_choice() {
        for point in Dialect::points() {
            let mut dialect = Dialect::new();
            dialect
                .pin(*point, point.default_choice())
                .unwrap_or_else(|_| panic!("{}", point.as_str()));
            let text = serde_json::to_string(&dialect).expect("JSON");
            assert_eq!(serde_json::from_str::<Dialect>(&text).ok(), Some(dialect));
        }
    }

    #[test]
    fn unknown_points_and_choices_are_refused_with_the_valid_ones() {
        let mut dialect = Dialect::new();
        let error = |dialect: &mut Dialect, setting: &str| {
            dialect.set(setting).expect_err(setting).to_string()
        };
        assert_eq!(
            error(&mut dialect, "past-end=later"),
            "invalid choice `later` for past-end; valid choices: empty, not-found, auto"
        );
        assert!(error(&mut dialect, "colour=1").contains("key-header, key-scheme"));
        assert!(error(&mut dialect, "key-header=a b").contains("the name of a header"));
        assert!(error(&mut dialect, "past-end").contains("is not POINT=CHOICE"));
        assert!(serde_json::from_str::<Dialect>(r#"{"colour": "1"}"#).is_err());
        dialect.set("Past_End=NOT-FOUND").expect("a valid choice");
        assert!(dialect.is(Point::PastEnd, "not-found"));
        dialect.set("past-end=auto").expect("a valid choice");
        assert!(dialect.is_empty());
    }
}
