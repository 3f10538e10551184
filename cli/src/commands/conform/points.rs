//! What a run finds out about each point that the reference leaves open: one table, and the questions
//! that need more than a mark in a response.

use serde_json::{Map, Value};
use svc_sdk::Point;

use self::Answer::{Any, Error, Success};
use self::How::{Ask, Marks};
use self::Mark::*;
use super::Level::{self, Read, Send, Write};
use super::examiner::Seen;
use super::exchange::{Exchange, at, each, field, flag, items, objects, own, plain, with};
use super::receiver::TEST_STATUS;

/// What a run found out about a point.
pub(super) enum Choice {
    Found(&'static str, String),
    /// More than one choice explains what was seen, or none of them.
    Ambiguous(&'static str, String),
    /// Nothing that the run did shows it.
    NotTried,
}

/// How a point is found out.
pub(super) struct Look {
    point: Point,
    /// The level that tries it. `None`: none does, because it would need a limited key, a rate limit
    /// or an extraction.
    pub(super) level: Option<Level>,
    /// Whether it is tried only with `--listen`.
    pub(super) needs_listener: bool,
    how: How,
}

enum How {
    Ask(fn(&Seen) -> Option<Choice>),
    /// The first choice whose marks the response to the step has.
    Marks(&'static str, Answer, &'static [Case]),
    Never,
}

/// Which responses count.
enum Answer {
    Success,
    Error,
    Any,
}

struct Case {
    choice: &'static str,
    marks: &'static [Mark],
}

/// What a response may have.
enum Mark {
    /// Something at this path.
    Has(&'static str),
    /// One of these fields, anywhere, the first of which is so.
    Like(&'static [&'static str], fn(&Value) -> bool),
    /// All of these fields, anywhere.
    Names(&'static [&'static str]),
    /// None of these.
    Lacks(&'static [&'static str]),
    /// This text in the body.
    Text(&'static str),
    /// A header, with this text in it.
    Header(&'static str, &'static str),
    Status(&'static [u16]),
    NotJson,
}

const fn tried(point: Point, level: Level, how: How) -> Look {
    Look {
        point,
        level: Some(level),
        needs_listener: false,
        how,
    }
}

const fn heard(point: Point, level: Level, how: How) -> Look {
    Look {
        needs_listener: true,
        ..tried(point, level, how)
    }
}

const fn never(point: Point) -> Look {
    Look {
        level: None,
        ..tried(point, Read, How::Never)
    }
}

const fn case(choice: &'static str, marks: &'static [Mark]) -> Case {
    Case { choice, marks }
}

const DATES: &[&str] = &["scheduledAt", "templateId"];
const TOTALS: &[&str] = &["total", "totalSize", "totalRecords", "count"];
const REFUSED: Mark = Status(&[400, 409, 413, 422]);
const ACCEPTED: Mark = Status(&[200, 201, 202]);

const LOOKS: &[Look] = &[
    tried(
        Point::KeyHeader,
        Read,
        Ask(|seen| key(Point::KeyHeader, seen)),
    ),
    tried(
        Point::KeyScheme,
        Read,
        Ask(|seen| key(Point::KeyScheme, seen)),
    ),
    tried(Point::KeyUser, Read, Ask(|seen| key(Point::KeyUser, seen))),
    tried(Point::IdField, Send, Ask(|seen| id(Point::IdField, seen))),
    tried(Point::IdPlace, Send, Ask(|seen| id(Point::IdPlace, seen))),
    tried(Point::IdHeader, Send, Ask(|seen| id(Point::IdHeader, seen))),
    tried(
        Point::StatusField,
        Send,
        Ask(|seen| status(seen, "emails.get", |name, _| name.to_owned())),
    ),
    tried(
        Point::StatusCase,
        Send,
        Ask(|seen| status(seen, "emails.get", |_, word| case_of(word).to_owned())),
    ),
    tried(
        Point::CancelledWord,
        Send,
        Ask(|seen| status(seen, "emails.cancelled", |_, word| word.to_lowercase())),
    ),
    tried(
        Point::ScheduledWord,
        Send,
        Ask(|seen| status(seen, "emails.scheduled", |_, word| word.to_lowercase())),
    ),
    tried(
        Point::BatchBody,
        Send,
        Ask(|seen| Some(found("emails.batch", seen.id("batch-body")?))),
    ),
    tried(Point::BatchMode, Send, Ask(batch_mode)),
    tried(Point::BatchItem, Send, Ask(batch_item)),
    tried(Point::ListItems, Read, Ask(list_items)),
    tried(Point::ListPages, Write, Ask(list_pages)),
    tried(
        Point::CursorParam,
        Write,
        Ask(|seen| Some(found("contacts.cursor", seen.id("cursor")?))),
    ),
    tried(Point::FirstPage, Write, Ask(first_page)),
    tried(
        Point::PageTotals,
        Write,
        Marks(
            "contacts.page",
            Success,
            &[
                case("header", &[Header("x-total-count", "")]),
                case("meta", &[Has("meta.total")]),
                case("beside", &[Has("total")]),
                case("none", &[Lacks(TOTALS)]),
            ],
        ),
    ),
    tried(
        Point::PastEnd,
        Write,
        Marks(
            "contacts.page.9",
            Any,
            &[
                case("not-found", &[Status(&[404])]),
                case("empty", &[ACCEPTED, Lacks(&["email"])]),
            ],
        ),
    ),
    tried(
        Point::ResourceShape,
        Write,
        Marks(
            "audiences.created",
            Success,
            &[
                case("bare", &[Has("name")]),
                case("envelope", &[Has("data.name"), Has("success")]),
                case("data", &[Has("data.name")]),
                case("kind", &[Has("audience.name")]),
            ],
        ),
    ),
    tried(
        Point::FieldCase,
        Write,
        Marks(
            "webhooks.create",
            Success,
            &[
                case("documented", &[Text("\"signingSecret\"")]),
                case("snake", &[Text("\"signing_secret\"")]),
                case("pascal", &[Text("\"SigningSecret\"")]),
            ],
        ),
    ),
    tried(
        Point::Numbers,
        Write,
        Marks(
            "contacts.page",
            Success,
            &[
                case("number", &[Like(TOTALS, Value::is_number)]),
                case("text", &[Like(TOTALS, Value::is_string)]),
            ],
        ),
    ),
    tried(Point::Times, Send, Ask(times)),
    tried(
        Point::Absent,
        Send,
        Marks(
            "emails.get",
            Success,
            &[
                case("omitted", &[Lacks(DATES)]),
                case("null", &[Like(DATES, Value::is_null)]),
                case("zero", &[Like(DATES, is_zero)]),
            ],
        ),
    ),
    tried(
        Point::ErrorFormat,
        Read,
        Marks(
            "audiences.missing",
            Error,
            &[
                case("problem", &[Header("content-type", "problem+json")]),
                case("nested", &[Has("error.message")]),
                case("named", &[Has("statusCode"), Has("name")]),
                case("flat", &[Has("code"), Has("message")]),
                case("text", &[NotJson]),
            ],
        ),
    ),
    tried(
        Point::FieldProblems,
        Write,
        Marks(
            "contacts.invalid",
            Error,
            &[
                case("map", &[Like(&["errors"], Value::is_object)]),
                case(
                    "list",
                    &[Like(&["errors"], |errors| errors[0].get("path").is_some())],
                ),
                case(
                    "details",
                    &[Like(&["details"], |details| details["fields"].is_array())],
                ),
            ],
        ),
    ),
    never(Point::ScopeStatus),
    tried(Point::DomainRecords, Write, Ask(domain_records)),
    tried(
        Point::RecordNames,
        Write,
        Marks(
            "domains.create",
            Success,
            &[
                case("host-data", &[Names(&["hostname", "content"])]),
                case("record-name", &[Names(&["recordName", "recordValue"])]),
                case("name-value", &[Names(&["type", "name", "value"])]),
            ],
        ),
    ),
    tried(Point::DomainFlags, Write, Ask(domain_flags)),
    heard(Point::TestStatusField, Write, Ask(test_status)),
    tried(Point::OptOut, Write, Ask(opt_out)),
    tried(Point::MetadataField, Write, Ask(metadata)),
    tried(Point::CancelAnswer, Send, Ask(cancel_answer)),
    heard(
        Point::DeliveryBody,
        Send,
        Ask(|seen| {
            let is_array = seen.at(DELIVERY)?.sent().is_array();
            Some(found(DELIVERY, if is_array { "array" } else { "object" }))
        }),
    ),
    heard(
        Point::DeliveryEvent,
        Send,
        Ask(|seen| in_delivery(seen, |it| it.as_str().is_some_and(is_event))),
    ),
    heard(
        Point::DeliveryId,
        Send,
        Ask(|seen| {
            in_delivery(seen, |it| {
                it.as_str()
                    .is_some_and(|text| uuid::Uuid::parse_str(text).is_ok())
            })
        }),
    ),
    heard(
        Point::DeliveryData,
        Send,
        Ask(|seen| in_delivery(seen, Value::is_object)),
    ),
    heard(
        Point::DeliveryTime,
        Send,
        Ask(|seen| in_delivery(seen, is_time)),
    ),
    heard(Point::EventHeader, Send, Ask(event_header)),
    never(Point::LimitHeaders),
    tried(Point::Idempotency, Send, Ask(idempotency)),
    tried(
        Point::UnknownFields,
        Write,
        Marks(
            "contacts.unknown-field",
            Any,
            &[case("ignored", &[ACCEPTED]), case("refused", &[REFUSED])],
        ),
    ),
    tried(
        Point::Limits,
        Send,
        Marks(
            "emails.long-subject",
            Any,
            &[case("other", &[ACCEPTED]), case("documented", &[REFUSED])],
        ),
    ),
    tried(
        Point::WebhookUrls,
        Write,
        Marks(
            "webhooks.insecure",
            Any,
            &[case("any", &[ACCEPTED]), case("https", &[REFUSED])],
        ),
    ),
    tried(
        Point::CreateStatus,
        Write,
        Marks(
            "audiences.create",
            Success,
            &[
                case("201", &[Status(&[201])]),
                case("200", &[Status(&[200])]),
            ],
        ),
    ),
    never(Point::ExtractionError),
];

/// How a point is found out. A point that is not in the table is not tried.
pub(super) fn look(point: Point) -> &'static Look {
    const UNKNOWN: &Look = &never(Point::ExtractionError);
    let mut looks = LOOKS.iter();
    looks.find(|look| look.point == point).unwrap_or(UNKNOWN)
}

impl Look {
    pub(super) fn find(&self, seen: &Seen) -> Choice {
        let choice = match self.how {
            Ask(ask) => ask(seen),
            Marks(step, ref of, cases) => marked(seen, step, of, cases),
            How::Never => None,
        };
        match choice {
            // The documented name in another case is the documented one.
            Some(Choice::Found(step, choice))
                if plain(&choice) == plain(self.point.default_choice()) =>
            {
                found(step, self.point.default_choice())
            }
            choice => choice.unwrap_or(Choice::NotTried),
        }
    }
}

fn marked(seen: &Seen, step: &'static str, of: &Answer, cases: &[Case]) -> Option<Choice> {
    let exchange = seen.at(step).filter(|exchange| match of {
        Success => exchange.is_success(),
        Error => !exchange.is_success(),
        Any => true,
    })?;
    let body = exchange.json();
    let has = |mark: &Mark| mark.is_in(exchange, &body);
    let case = cases.iter().find(|case| case.marks.iter().all(has));
    Some(match case {
        Some(case) => found(step, case.choice),
        None => unclear(
            step,
            format!("the answer ({}) is none of the known ones", exchange.status),
        ),
    })
}

impl Mark {
    fn is_in(&self, exchange: &Exchange, body: &Value) -> bool {
        match self {
            Has(path) => at(body, path).is_some(),
            Like(names, is_right) => {
                let mut found = names.iter().filter_map(|name| field(body, name));
                found.next().is_some_and(|(_, value)| is_right(value))
            }
            Names(names) => names.iter().all(|name| field(body, name).is_some()),
            Lacks(names) => names.iter().all(|name| field(body, name).is_none()),
            Text(text) => exchange.text().contains(text),
            Header(name, text) => exchange
                .header(name)
                .is_some_and(|value| value.contains(text)),
            Status(statuses) => statuses.contains(&exchange.status),
            NotJson => body.is_null() && !exchange.body.starts_with(b"<"),
        }
    }
}

fn found(step: &'static str, choice: impl Into<String>) -> Choice {
    Choice::Found(step, choice.into())
}

fn unclear(step: &'static str, why: impl Into<String>) -> Choice {
    Choice::Ambiguous(step, why.into())
}

/// What the values of a step tell, if there is exactly one.
fn only<'a>(
    step: &'static str,
    mut names: impl Iterator<Item = &'a String>,
    why: &'static str,
) -> Choice {
    match (names.next(), names.next()) {
        (Some(name), None) => found(step, name),
        _ => unclear(step, why),
    }
}

/// A successful response to a step.
fn done<'a>(seen: &'a Seen, step: &str) -> Option<&'a Exchange> {
    seen.at(step).filter(|exchange| exchange.is_success())
}

fn key(point: Point, seen: &Seen) -> Option<Choice> {
    let dialect = seen.key.as_ref()?;
    let is_asked = point != Point::KeyUser || dialect.is(Point::KeyScheme, "basic");
    is_asked.then(|| found("key", dialect.choice(point)))
}

fn id(point: Point, seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.send";
    let sent = done(seen, STEP)?;
    let id = seen.id(STEP)?;
    let body = sent.json();
    let is_id = |(_, value): &(&String, &Value)| {
        value
            .as_str()
            .map_or_else(|| **value == id, |text| text == id)
    };
    let in_field = objects(&body).into_iter().flatten().find(is_id);
    let mut headers = sent.headers.iter();
    let in_header = headers.find(|(_, value)| value.as_bytes() == id.as_bytes());
    let url = sent.header("location").unwrap_or_default();
    match (point, in_field, in_header) {
        (Point::IdField, Some((name, _)), _) => Some(found(STEP, name)),
        (Point::IdPlace, Some(_), _) => Some(found(STEP, "field")),
        (Point::IdPlace, None, Some(_)) => Some(found(STEP, "header")),
        (Point::IdPlace, ..) if url.trim_end_matches('/').ends_with(id) => {
            Some(found(STEP, "location"))
        }
        (Point::IdPlace, ..) => Some(unclear(STEP, "the id is part of another value")),
        (Point::IdHeader, None, Some((name, _))) => Some(found(STEP, name.as_str())),
        _ => None,
    }
}

/// The field with the status of an email, and the status.
pub(super) fn status_word(body: &Value) -> Option<(&str, &str)> {
    const NAMES: [&str; 7] = [
        "status",
        "lastevent",
        "state",
        "deliverystatus",
        "emailstatus",
        "messagestatus",
        "currentstatus",
    ];
    let is_part = |letter: char| letter.is_ascii_alphabetic() || matches!(letter, '_' | '-');
    let is_word = |text: &str| !text.is_empty() && text.chars().all(is_part);
    objects(body).into_iter().find_map(|fields| {
        let named = NAMES.iter().filter_map(|name| own(fields, name));
        let mut words = named.filter_map(|(name, value)| Some((name, value.as_str()?)));
        words.find(|(_, word)| is_word(word))
    })
}

fn status(seen: &Seen, step: &'static str, tell: fn(&str, &str) -> String) -> Option<Choice> {
    let body = done(seen, step)?.json();
    let (name, word) = status_word(&body)?;
    Some(found(step, tell(name, word)))
}

fn case_of(word: &str) -> &'static str {
    let is_upper = |letter: char| !letter.is_lowercase();
    match word {
        _ if word.chars().all(is_upper) => "upper",
        _ if word.starts_with(char::is_uppercase) => "capitalized",
        _ => "lower",
    }
}

fn batch_mode(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.batch";
    seen.id("batch-body")?;
    let is_refused = !seen.at(STEP)?.is_success();
    Some(match seen.id("batch-accepted")? {
        _ if is_refused => found(STEP, "all-or-nothing"),
        "1" => found(STEP, "each"),
        _ => unclear(STEP, "the client cannot tell which email was accepted"),
    })
}

fn batch_item(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.batch";
    let body = done(seen, STEP)?.json();
    let beside = body.as_object().and_then(|fields| own(fields, "errors"));
    if let Some(errors) = beside.and_then(|(_, errors)| errors.as_array()) {
        return errors.first().map(|_| found(STEP, "split"));
    }
    type Refused = (&'static str, &'static str, fn(&Value) -> bool);
    const FORMS: [Refused; 5] = [
        ("error", "error", Value::is_object),
        ("success", "success", |it| flag(it) == Some(false)),
        ("error-code", "errorcode", |it| it.is_number() && *it != 0),
        ("status", "status", |it| {
            it.as_u64().is_some_and(|code| code >= 400)
        }),
        ("word", "status", |it| it == "rejected"),
    ];
    let form = objects(&body).into_iter().rev().find_map(|fields| {
        FORMS.iter().find(|(_, name, is_refused)| {
            own(fields, name).is_some_and(|(_, value)| is_refused(value))
        })
    });
    Some(match form {
        Some((choice, ..)) => found(STEP, *choice),
        None => unclear(STEP, "the refused email is told in none of these ways"),
    })
}

/// Where all lists of the email service have their items.
fn list_items(seen: &Seen) -> Option<Choice> {
    const STEPS: [&str; 5] = [
        "domains.list",
        "audiences.list",
        "webhooks.list",
        "audiences.list.created",
        "webhooks.list.created",
    ];
    let mut paths = Vec::new();
    let mut step = None;
    for each in STEPS {
        let body = done(seen, each).map(Exchange::json).unwrap_or_default();
        if let Some(list) = items(&body) {
            paths.push(list.path.join("."));
            step = Some(each);
        }
    }
    let step = step?;
    if paths.len() == 1 {
        return Some(unclear(step, "only one list has items"));
    }
    paths.sort();
    paths.dedup();
    Some(match &paths[..] {
        [only] if only.is_empty() => found(step, "array"),
        [only] if !only.contains('.') => found(step, only),
        several => unclear(step, format!("they are in {}", several.join(", "))),
    })
}

/// The value that leads to the next part of a list.
pub(super) fn cursor(body: &Value) -> Option<String> {
    const NAMES: [&str; 6] = [
        "nextcursor",
        "nextpagetoken",
        "nexttoken",
        "cursor",
        "endcursor",
        "next",
    ];
    let is_cursor = |text: &&str| !text.is_empty() && !text.contains('/');
    objects(body).into_iter().find_map(|fields| {
        let mut named = NAMES
            .iter()
            .filter_map(|name| own(fields, name)?.1.as_str());
        named.find(is_cursor).map(str::to_owned)
    })
}

fn next_link(body: &Value) -> bool {
    field(body, "next").is_some_and(|(_, next)| {
        let url = next.as_str().or_else(|| next.get("href")?.as_str());
        url.is_some_and(|url| url.contains('/'))
    })
}

/// Whether a list says that there is more.
pub(super) fn has_more(exchange: &Exchange) -> bool {
    let body = exchange.json();
    let number = |names: [&str; 2]| {
        let value = names.iter().find_map(|name| field(&body, name))?.1;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    let says = |name: &&str| field(&body, name).is_some_and(|(_, more)| flag(more) == Some(true));
    let page = number(["page", "currentpage"]).zip(number(["totalpages", "lastpage"]));
    let listed = items(&body).map(|list| list.items.len() as u64);
    let total = number(["total", "count"]).zip(listed);
    next_link(&body)
        || cursor(&body).is_some()
        || ["hasmore", "moredataindicator"].iter().any(says)
        || page.is_some_and(|(page, last)| page < last)
        || total.is_some_and(|(total, listed)| total > listed)
        || Header("link", "next").is_in(exchange, &body)
}

fn list_pages(seen: &Seen) -> Option<Choice> {
    const CONTACTS: &str = "contacts.page";
    const LIST: &str = "audiences.list.created";
    let (page, list) = (done(seen, CONTACTS)?, done(seen, LIST)?);
    let (body, whole) = (page.json(), list.json());
    let has = |name: &str| field(&whole, name).is_some();
    let has_link = |exchange: &Exchange| exchange.header("link").is_some();
    // A cursor is often absent where there is no more.
    Some(match () {
        () if cursor(&body).is_some() => found(CONTACTS, "cursor"),
        () if has_link(list) || has_link(page) => found(CONTACTS, "link-header"),
        () if has("next") && next_link(&body) => found(LIST, "link"),
        () if has("hasmore") => found(LIST, "has-more"),
        () if has("totalpages") || has("lastpage") => found(LIST, "page"),
        () => found(LIST, "whole"),
    })
}

fn first_page(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "contacts.page.0";
    let email = |step: &str| {
        let body = done(seen, step)?.json();
        let first = each(&body, "email").into_iter().next()?;
        Some(own(first, "email")?.1.clone())
    };
    let one = email("contacts.page.1")?;
    seen.at(STEP)?;
    let starts_at_zero = email(STEP).is_some_and(|zero| zero != one);
    Some(found(STEP, if starts_at_zero { "0" } else { "1" }))
}

fn times(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.get";
    let body = done(seen, STEP)?.json();
    let mut fields = objects(&body).into_iter().flatten();
    let (_, created) = fields.find(|(name, _)| plain(name).starts_with("creat"))?;
    let text = created.as_str().unwrap_or_default();
    Some(match () {
        () if created.is_number() || text.parse::<f64>().is_ok() => found(STEP, "seconds"),
        () if text.starts_with("20") && text.get(10..11) == Some(" ") => found(STEP, "sql"),
        () if is_time(created) => found(STEP, "rfc3339"),
        () => unclear(STEP, "times have another form"),
    })
}

fn is_time(value: &Value) -> bool {
    let is_date = |text: &str| chrono::DateTime::parse_from_rfc3339(text).is_ok();
    value.as_str().is_some_and(is_date) || value.as_f64().is_some_and(|seconds| seconds > 1e9)
}

fn is_zero(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|text| text.is_empty() || text.starts_with("0001"))
}

fn domain_records(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "domains.create";
    const KINDS: [&str; 4] = ["mx", "spf", "dkim", "dmarc"];
    let body = done(seen, STEP)?.json();
    let is_records = |value: &Value| {
        let items = value.as_array();
        items.is_some_and(|items| items.len() > 1 && items.iter().all(Value::is_object))
    };
    let has_kinds = |fields: &Map<String, Value>| {
        let is_there = |kind: &&str| own(fields, kind).is_some_and(|(_, value)| value.is_object());
        KINDS.iter().all(is_there)
    };
    let mut fields = objects(&body).into_iter().flatten();
    let list = fields.find(|(_, value)| is_records(value));
    Some(match list.map(|(name, _)| name.as_str()) {
        _ if objects(&body).into_iter().any(has_kinds) => found(STEP, "kinds"),
        Some("dns_records") => found(STEP, "beside"),
        Some(name) => found(STEP, name),
        None => unclear(STEP, "the records are in no list"),
    })
}

fn domain_flags(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "domains.list.created";
    let body = done(seen, STEP)?.json();
    let domain = with(&body, "name", &seen.domain())?;
    let is_flat = own(domain, "mx_verified").is_some();
    Some(found(STEP, if is_flat { "flat" } else { "nested" }))
}

fn test_status(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "webhooks.test";
    seen.at("delivery.test")?;
    let body = done(seen, STEP)?.json();
    Some(match test_status_field(&body) {
        Some(name) => found(STEP, name),
        None => unclear(STEP, "no field has the status"),
    })
}

/// The field with the status that our endpoint gave.
pub(super) fn test_status_field(body: &Value) -> Option<&str> {
    let status = TEST_STATUS.to_string();
    let is_status = |value: &Value| *value == TEST_STATUS || value.as_str() == Some(&status);
    let mut fields = objects(body).into_iter().flatten();
    let (name, _) = fields.find(|(_, value)| is_status(value))?;
    Some(name)
}

/// The fields of a contact that say that it was unsubscribed: they changed, as `subscribed` does, or
/// the other way round, as `!unsubscribed`.
pub(super) fn opt_outs(seen: &Seen) -> Vec<String> {
    let before = seen.contact_at("contacts.list.updated");
    let after = seen.contact_at(OPTED_OUT);
    let (Some(Value::Object(before)), Some(Value::Object(after))) = (before, after) else {
        return Vec::new();
    };
    let mut changed = Vec::new();
    for (name, old) in &before {
        let new = after.get(name);
        match (wish(old), new.and_then(wish)) {
            _ if new == Some(old) => {}
            (Some(true), Some(false) | None) => changed.push(name.clone()),
            (Some(false), Some(true)) if name == "unsubscribed" => changed.push(name.clone()),
            (Some(false), Some(true)) => changed.push(format!("!{name}")),
            _ if plain(name) == "status" => changed.push("status".to_owned()),
            _ => {}
        }
    }
    changed
}

/// A flag, or a word that says the same.
fn wish(value: &Value) -> Option<bool> {
    let word = plain(value.as_str().unwrap_or_default());
    match word.as_str() {
        "optedin" | "optin" | "granted" | "given" => Some(true),
        "optedout" | "optout" | "denied" | "revoked" | "withdrawn" => Some(false),
        _ => flag(value),
    }
}

const OPTED_OUT: &str = "contacts.list.opted-out";

fn opt_out(seen: &Seen) -> Option<Choice> {
    seen.contact_at(OPTED_OUT)?;
    let changed = opt_outs(seen);
    if changed.iter().any(|name| name == "subscribed") {
        return Some(found(OPTED_OUT, "subscribed"));
    }
    Some(only(
        OPTED_OUT,
        changed.iter(),
        "no field of a contact shows it",
    ))
}

fn metadata(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "contacts.list.created";
    let contact = seen.contact_at(STEP)?;
    let fields = contact.as_object()?.iter();
    let ours = fields.filter(|(_, value)| value.get("kept").is_some());
    Some(only(
        STEP,
        ours.map(|(name, _)| name),
        "no field of a contact has it",
    ))
}

fn cancel_answer(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.cancel";
    let exchange = done(seen, STEP)?;
    let body = exchange.json();
    let id = seen.id("emails.schedule").unwrap_or_default();
    Some(match &body {
        _ if exchange.text().is_empty() => found(STEP, "empty"),
        Value::Null => found(STEP, "text"),
        _ if status_word(&body).is_some() && field(&body, "from").is_some() => found(STEP, "email"),
        _ if exchange.text().contains(id) => found(STEP, "id"),
        _ => unclear(STEP, "it is neither the email nor its id"),
    })
}

pub(super) const DELIVERY: &str = "delivery.event";

fn in_delivery(seen: &Seen, is_it: fn(&Value) -> bool) -> Option<Choice> {
    let body = seen.at(DELIVERY)?.sent();
    let object = body.get(0).unwrap_or(&body).as_object()?;
    let names = object.iter().filter(|(_, value)| is_it(value));
    let why = "no field of the body, or more than one, looks like it";
    Some(only(DELIVERY, names.map(|(name, _)| name), why))
}

fn is_event(text: &str) -> bool {
    text.starts_with("email.")
}

fn event_header(seen: &Seen) -> Option<Choice> {
    let headers = seen.at(DELIVERY)?.request_headers.iter();
    let names = headers.filter(|(_, value)| is_event(value));
    let why = "no header, or more than one, has the event";
    Some(only(DELIVERY, names.map(|(name, _)| name), why))
}

fn idempotency(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.key.second";
    let is_same = seen.id("emails.key.first")? == seen.id(STEP)?;
    Some(found(STEP, if is_same { "honored" } else { "ignored" }))
}
