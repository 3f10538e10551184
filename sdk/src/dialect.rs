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
    /// The behavior of a service that this choice describes.
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
            // What the client writes is one field.
            Some(_) if self == Self::BatchBody && text.contains('.') => false,
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

/// Declares the points: the question, name, default, choices with their meaning, and what free text
/// stands for, if it is one of the choices.
macro_rules! points {
    ($(
        #[doc = $question:literal]
        $point:ident = $name:literal, default $default:literal
            $(, [$( #[doc = $meaning:literal] $choice:literal, )+])? $(, free $free:literal)?;
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

            const fn info(self) -> &'static PointInfo {
                const INFOS: &[PointInfo] = &[$( PointInfo {
                    name: $name,
                    question: $question.trim_ascii(),
                    default: $default,
                    choices: &[$($(
                        Choice { name: $choice, meaning: $meaning.trim_ascii() },
                    )+)?],
                    free_text: [$(Some($free),)? None][0],
                }, )+];
                &INFOS[self as usize]
            }
        }
    };
}

struct PointInfo {
    name: &'static str,
    question: &'static str,
    default: &'static str,
    choices: &'static [Choice],
    free_text: Option<&'static str>,
}

impl Point {
    /// The name, such as `key-header`.
    pub const fn as_str(self) -> &'static str {
        self.info().name
    }

    /// The question that the reference leaves open, in one sentence.
    pub const fn question(self) -> &'static str {
        self.info().question
    }

    /// The choice of the sandbox if the point is not pinned, and of the client where no
    /// response tells it.
    pub const fn default_choice(self) -> &'static str {
        self.info().default
    }

    /// The choices that have a name.
    pub const fn choices(self) -> &'static [Choice] {
        self.info().choices
    }

    /// The meaning of any other text, such as the name of a header. `None` if only the named
    /// choices are valid.
    pub const fn free_text(self) -> Option<&'static str> {
        self.info().free_text
    }
}

points! {
    /// Which header carries the key of the email service?
    KeyHeader = "key-header", default "authorization", free "the name of a header";
    /// How is the key written in that header?
    KeyScheme = "key-scheme", default "bearer", [
        /// `Bearer KEY`; in a header other than `Authorization`, the default is `bare`
        "bearer",
        /// `Token KEY`
        "token",
        /// Basic authentication with the user name of `key-user`; the key is the password
        "basic",
        /// Basic authentication with the key as the user name, without a password
        "basic-user",
        /// the key alone
        "bare",
    ], free "another word before the key";
    /// Which user name goes with the key in Basic authentication?
    KeyUser = "key-user", default "api", free "the user name";
    /// Which field holds the id of an accepted email?
    IdField = "id-field", default "id", free "the name of a field";
    /// Where is the id of an accepted email?
    IdPlace = "id-place", default "field", [
        /// in a field of the body
        "field",
        /// in the header of `id-header`
        "header",
        /// at the end of the `Location` header
        "location",
    ];
    /// Which header holds the id, if it is in a header?
    IdHeader = "id-header", default "x-message-id", free "the name of a header";
    /// Which field holds the status of an email?
    StatusField = "status-field", default "status", free "the name of a field";
    /// How are the statuses of an email spelled?
    StatusCase = "status-case", default "lower", [
        /// `queued`
        "lower",
        /// `QUEUED`
        "upper",
        /// `Queued`
        "capitalized",
    ];
    /// What is the status of a cancelled email?
    CancelledWord = "cancelled-word", default "cancelled", free "a word";
    /// What is the status of an email that waits for its date?
    ScheduledWord = "scheduled-word", default "queued", free "a word";
    /// What is the body of a batch?
    BatchBody = "batch-body", default "array", [
        /// an array of emails
        "array",
    ], free "the field of an object that holds the array";
    /// What becomes of a batch with an email that is refused?
    BatchMode = "batch-mode", default "each", [
        /// the others are accepted
        "each",
        /// all are refused
        "all-or-nothing",
    ];
    /// How does the result of a batch say that an email was refused?
    BatchItem = "batch-item", default "error", [
        /// `{"error": {"code", "message"}}`
        "error",
        /// `{"success": false, "message"}`
        "success",
        /// `{"status": 422, "message"}`
        "status",
        /// `{"status": "rejected", "reason"}`
        "word",
        /// `{"ErrorCode": 300, "Message"}`, and `"ErrorCode": 0` for the accepted
        "error-code",
        /// `{"data": […], "errors": [{"index", "message"}]}`
        "split",
    ];
    /// Where are the items of a list?
    ListItems = "list-items", default "array", [
        /// the body is the array
        "array",
    ], free "the field that holds the array";
    /// How does a list say that there is more, and how does one go on?
    ListPages = "list-pages", default "whole", [
        /// only contacts have pages
        "whole",
        /// `page` and `totalPages`; `?page=2`
        "page",
        /// `has_more`; `?page=2`
        "has-more",
        /// `next_cursor`; the query parameter of `cursor-param`
        "cursor",
        /// `links.next`, a URL
        "link",
        /// the header `Link` with `rel="next"`
        "link-header",
    ];
    /// Which query parameter takes a cursor?
    CursorParam = "cursor-param", default "cursor", free "the name of a parameter";
    /// What is the number of the first page?
    FirstPage = "first-page", default "1", [
        /// one
        "1",
        /// zero
        "0",
    ];
    /// How does a page of contacts say how many there are?
    PageTotals = "page-totals", default "beside", [
        /// `page`, `pageSize`, `total`, `totalPages` beside the items
        "beside",
        /// `meta` with `current_page`, `per_page`, `total`, `last_page`
        "meta",
        /// a bare array and the header `X-Total-Count`
        "header",
        /// a bare array, no total
        "none",
    ];
    /// What answers a page after the last one?
    PastEnd = "past-end", default "empty", [
        /// a page without items
        "empty",
        /// 404
        "not-found",
    ];
    /// What is around a single resource?
    ResourceShape = "resource-shape", default "bare", [
        /// nothing
        "bare",
        /// `{"data": {…}}`
        "data",
        /// its kind: `{"domain": {…}}`
        "kind",
        /// `{"success": true, "id": ID_OF_THE_REQUEST, "data": {…}}`
        "envelope",
    ];
    /// How are the names of fields in responses spelled?
    FieldCase = "field-case", default "documented", [
        /// as in the reference
        "documented",
        /// `signing_secret`
        "snake",
        /// `SigningSecret`
        "pascal",
    ];
    /// How are numbers in responses written?
    Numbers = "numbers", default "number", [
        /// as numbers
        "number",
        /// as texts
        "text",
    ];
    /// How are times in responses written?
    Times = "times", default "rfc3339", [
        /// `2030-01-01T09:00:00.000Z`
        "rfc3339",
        /// seconds since 1970
        "seconds",
        /// `2030-01-01 09:00:00`, in UTC
        "sql",
    ];
    /// How is a field without a value written?
    Absent = "absent", default "null", [
        /// `null`
        "null",
        /// not at all
        "omitted",
        /// an empty text, or `0001-01-01T00:00:00Z` for a time
        "zero",
    ];
    /// What is the body of an error?
    ErrorFormat = "error-format", default "nested", [
        /// `{"error": {"code", "message", "details"}}`
        "nested",
        /// `{"code", "message", "details"}`
        "flat",
        /// problem details (RFC 9457)
        "problem",
        /// `{"statusCode", "name", "message"}`
        "named",
        /// plain text
        "text",
    ];
    /// How does an error name the invalid fields?
    FieldProblems = "field-problems", default "details", [
        /// `details.fields`, a list of `{field, message}`
        "details",
        /// `errors`, an object: `{"to": ["…"]}`
        "map",
        /// `errors`, a list of `{path, message}`
        "list",
    ];
    /// Which status means that the key lacks a scope?
    ScopeStatus = "scope-status", default "403", [
        /// 403
        "403",
        /// 401 whose code or message speaks of a scope or a restricted key
        "401",
    ];
    /// Where are the DNS records of a new domain?
    DomainRecords = "domain-records", default "records", [
        /// `records`, a list
        "records",
        /// `dns_records`, beside the domain
        "beside",
        /// one object for each kind: `mx`, `spf`, `dkim`, `dmarc`
        "kinds",
    ], free "the field that holds the list";
    /// How are the parts of a DNS record called?
    RecordNames = "record-names", default "name-value", [
        /// `type`, `name`, `value`
        "name-value",
        /// `record_type`, `hostname`, `content`
        "host-data",
        /// `recordType`, `recordName`, `recordValue`
        "record-name",
    ];
    /// Where are the results of a domain's checks?
    DomainFlags = "domain-flags", default "flat", [
        /// in the domain
        "flat",
        /// in an object of their own
        "nested",
    ];
    /// Which field of a webhook test holds the status?
    TestStatusField = "test-status-field", default "statusCode", free "the name of a field";
    /// How does a contact say that it does not want emails?
    OptOut = "opt-out", default "subscribed", [
        /// `subscribed` is false
        "subscribed",
        /// `unsubscribed` is true
        "unsubscribed",
        /// `status` is `unsubscribed`
        "status",
    ], free "a field that is true for who wants emails; with `!` before it, for who does not";
    /// Which field holds the custom data of a contact?
    MetadataField = "metadata-field", default "metadata", free "the name of a field";
    /// What answers the cancellation of an email?
    CancelAnswer = "cancel-answer", default "email", [
        /// the email
        "email",
        /// its id
        "id",
        /// `ok`
        "text",
        /// nothing
        "empty",
    ];
    /// What is the body of a delivery?
    DeliveryBody = "delivery-body", default "object", [
        /// an object
        "object",
        /// an array with the object
        "array",
    ];
    /// Which field of a delivery names the event?
    DeliveryEvent = "delivery-event", default "event", free "the name of a field";
    /// Which field of a delivery holds its id?
    DeliveryId = "delivery-id", default "id", free "the name of a field";
    /// Which field of a delivery holds the data?
    DeliveryData = "delivery-data", default "data", free "the name of a field";
    /// Which field of a delivery holds its time?
    DeliveryTime = "delivery-time", default "created", free "the name of a field";
    /// Which header of a delivery names the event?
    EventHeader = "event-header", default "mail-event", free "the name of a header";
    /// How does a 429 say when to come back?
    LimitHeaders = "limit-headers", default "retry-after", [
        /// `Retry-After: 1`
        "retry-after",
        /// `Retry-After: 1s`
        "unit",
        /// `X-RateLimit-Reset`, in seconds since 1970
        "reset",
        /// `RateLimit: "default";r=0;t=1`
        "ratelimit",
        /// not at all
        "none",
    ];
    /// What does `Idempotency-Key` do?
    Idempotency = "idempotency", default "honored", [
        /// the same key gets the first response again; the client relies on it only if this is pinned
        "honored",
        /// nothing
        "ignored",
    ];
    /// What happens to fields that the reference does not have?
    UnknownFields = "unknown-fields", default "ignored", [
        /// they are ignored
        "ignored",
        /// 422, which names them
        "refused",
    ];
    /// Do the documented limits apply?
    Limits = "limits", default "documented", [
        /// the client checks them before it sends
        "documented",
        /// only the service checks them
        "other",
    ];
    /// Which URLs may a webhook of the email service have?
    WebhookUrls = "webhook-urls", default "https", [
        /// `https`; a local service may use `http`
        "https",
        /// `http`, too
        "any",
    ];
    /// Which status answers a creation?
    CreateStatus = "create-status", default "201", [
        /// 201; 202 for an email
        "201",
        /// 200
        "200",
    ];
    /// What is `data.error` of `extraction.failed`?
    ExtractionError = "extraction-error", default "object", [
        /// an object
        "object",
        /// a text
        "string",
    ];
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
        assert!(error(&mut dialect, "batch-body=a.b").contains("invalid choice"));
        assert!(serde_json::from_str::<Dialect>(r#"{"colour": "1"}"#).is_err());
        dialect.set("Past_End=NOT-FOUND").expect("a valid choice");
        assert!(dialect.is(Point::PastEnd, "not-found"));
        dialect.set("past-end=auto").expect("a valid choice");
        assert!(dialect.is_empty());
    }
}
