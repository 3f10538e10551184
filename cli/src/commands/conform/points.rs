//! What a run finds out about each point that the reference leaves open.

use serde_json::{Map, Value};
use svc_sdk::Point;

use super::Level::{self, Read, Send, Write};
use super::examiner::Seen;
use super::exchange::{Exchange, each, field, flag, items, objects, own, plain, with};
use super::receiver::TEST_STATUS;

/// What a run found out about a point.
pub(super) enum Choice {
    Found(&'static str, String),
    /// More than one choice explains what was seen, or none of them.
    Ambiguous(&'static str, String),
    /// Nothing that the run did shows it.
    NotTried,
}

/// The level that tries a point. `None`: none does, because it would need a limited key, a rate limit
/// or an extraction.
pub(super) fn level(point: Point) -> Option<Level> {
    Some(match point {
        Point::KeyHeader
        | Point::KeyScheme
        | Point::KeyUser
        | Point::ListItems
        | Point::ErrorFormat => Read,
        Point::ScopeStatus | Point::LimitHeaders | Point::ExtractionError => return None,
        Point::IdField
        | Point::IdPlace
        | Point::IdHeader
        | Point::StatusField
        | Point::StatusCase
        | Point::CancelledWord
        | Point::ScheduledWord
        | Point::BatchBody
        | Point::BatchMode
        | Point::BatchItem
        | Point::CancelAnswer
        | Point::Idempotency
        | Point::Limits
        | Point::Times
        | Point::Absent => Send,
        _ => Write,
    })
}

/// Whether a point is tried only with `--listen`.
pub(super) fn needs_listener(point: Point) -> bool {
    matches!(
        point,
        Point::TestStatusField
            | Point::DeliveryBody
            | Point::DeliveryEvent
            | Point::DeliveryId
            | Point::DeliveryData
            | Point::DeliveryTime
            | Point::EventHeader
    )
}

/// The steps, in the order in which they are looked at.
pub(super) fn find(point: Point, seen: &Seen) -> Choice {
    let found = match point {
        Point::KeyHeader | Point::KeyScheme | Point::KeyUser => key(point, seen),
        Point::IdField | Point::IdPlace | Point::IdHeader => id(point, seen),
        Point::StatusField => status(seen, "emails.get").map(|(step, name, _)| found(step, name)),
        Point::StatusCase => status(seen, "emails.get").map(|(step, _, word)| case(step, &word)),
        Point::CancelledWord => word(seen, "emails.cancelled"),
        Point::ScheduledWord => word(seen, "emails.scheduled"),
        Point::BatchBody => seen
            .id("batch-body")
            .map(|body| found("emails.batch", body)),
        Point::BatchMode => batch_mode(seen),
        Point::BatchItem => batch_item(seen),
        Point::ListItems => list_items(seen),
        Point::ListPages => list_pages(seen),
        Point::CursorParam => seen.id("cursor").map(|name| found("contacts.cursor", name)),
        Point::FirstPage => first_page(seen),
        Point::PageTotals => page_totals(seen),
        Point::PastEnd => past_end(seen),
        Point::ResourceShape => resource_shape(seen),
        Point::FieldCase => field_case(seen),
        Point::Numbers => numbers(seen),
        Point::Times => times(seen),
        Point::Absent => absent(seen),
        Point::ErrorFormat => error_format(seen),
        Point::FieldProblems => field_problems(seen),
        Point::DomainRecords => domain_records(seen),
        Point::RecordNames => record_names(seen),
        Point::DomainFlags => domain_flags(seen),
        Point::TestStatusField => test_status(seen),
        Point::OptOut => opt_out(seen),
        Point::MetadataField => metadata(seen),
        Point::CancelAnswer => cancel_answer(seen),
        Point::DeliveryBody => delivery(seen).map(|(body, _)| match body {
            Value::Array(_) => found(DELIVERY, "array"),
            _ => found(DELIVERY, "object"),
        }),
        Point::DeliveryEvent | Point::DeliveryId | Point::DeliveryData | Point::DeliveryTime => {
            delivery_field(point, seen)
        }
        Point::EventHeader => event_header(seen),
        Point::Idempotency => idempotency(seen),
        Point::UnknownFields => refusal(seen, "contacts.unknown-field", "ignored", "refused"),
        Point::Limits => refusal(seen, "emails.long-subject", "other", "documented"),
        Point::WebhookUrls => refusal(seen, "webhooks.insecure", "any", "https"),
        Point::CreateStatus => create_status(seen),
        _ => None,
    };
    found.unwrap_or(Choice::NotTried)
}

fn found(step: &'static str, choice: impl Into<String>) -> Choice {
    Choice::Found(step, choice.into())
}

fn unclear(step: &'static str, why: impl Into<String>) -> Choice {
    Choice::Ambiguous(step, why.into())
}

/// A successful response to a step.
fn done<'a>(seen: &'a Seen, step: &str) -> Option<&'a Exchange> {
    seen.at(step).filter(|exchange| exchange.is_success())
}

fn key(point: Point, seen: &Seen) -> Option<Choice> {
    let dialect = seen.key.as_ref()?;
    let is_basic = dialect.is(Point::KeyScheme, "basic");
    let is_asked = point != Point::KeyUser || is_basic;
    is_asked.then(|| found("key", dialect.choice(point)))
}

fn id(point: Point, seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.send";
    let sent = done(seen, STEP)?;
    let id = seen.id(STEP)?;
    let body = sent.json();
    let is_id = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| *value == id, |text| text == id)
    };
    let in_field = objects(&body).into_iter().find_map(|fields| {
        let found = fields.iter().find(|(_, value)| is_id(value))?;
        Some(found.0.clone())
    });
    let in_header = sent
        .headers
        .iter()
        .find(|(_, value)| value.as_bytes() == id.as_bytes());
    let in_location = sent
        .header("location")
        .is_some_and(|url| url.trim_end_matches('/').ends_with(id));
    match (point, in_field, in_header) {
        (Point::IdField, Some(name), _) => Some(found(STEP, name)),
        (Point::IdPlace, Some(_), _) => Some(found(STEP, "field")),
        (Point::IdPlace, None, Some(_)) => Some(found(STEP, "header")),
        (Point::IdPlace, None, None) if in_location => Some(found(STEP, "location")),
        (Point::IdPlace, None, None) => Some(unclear(STEP, "the id is part of another value")),
        (Point::IdHeader, None, Some((name, _))) => Some(found(STEP, name.as_str())),
        _ => None,
    }
}

/// The field with the status of an email, and the status.
pub(super) fn status_word(body: &Value) -> Option<(&str, &str)> {
    const NAMES: [&str; 5] = [
        "status",
        "lastevent",
        "state",
        "deliverystatus",
        "emailstatus",
    ];
    objects(body).into_iter().find_map(|fields| {
        let mut named = NAMES.iter().filter_map(|name| own(fields, name));
        let (name, value) = named.find(|(_, value)| is_word(value))?;
        Some((name, value.as_str()?))
    })
}

fn is_word(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-'))
}

fn status(seen: &Seen, step: &'static str) -> Option<(&'static str, String, String)> {
    let body = done(seen, step)?.json();
    let (name, word) = status_word(&body)?;
    Some((step, name.to_owned(), word.to_owned()))
}

fn case(step: &'static str, word: &str) -> Choice {
    let is_upper = |letter: char| letter.is_ascii_uppercase() || !letter.is_alphabetic();
    match word.chars().next() {
        _ if word.chars().all(is_upper) => found(step, "upper"),
        Some(first) if first.is_uppercase() => found(step, "capitalized"),
        _ => found(step, "lower"),
    }
}

fn word(seen: &Seen, step: &'static str) -> Option<Choice> {
    status(seen, step).map(|(step, _, word)| found(step, word.to_lowercase()))
}

fn batch_mode(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.batch";
    seen.id("batch-body")?;
    let is_whole = !seen.at(STEP)?.is_success();
    match (is_whole, seen.id("batch-accepted")?) {
        (true, _) => Some(found(STEP, "all-or-nothing")),
        (false, "1") => Some(found(STEP, "each")),
        _ => Some(unclear(
            STEP,
            "the client cannot tell which email was accepted",
        )),
    }
}

fn batch_item(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.batch";
    let body = done(seen, STEP)?.json();
    if let Some(errors) = body.get("errors").filter(|errors| errors.is_array()) {
        return errors.get(0).map(|_| found(STEP, "split"));
    }
    let refused = objects(&body).into_iter().rev().find_map(|fields| {
        let has = |name: &str| own(fields, name).map(|(_, value)| value);
        let is_refused = |value: &Value| flag(value) == Some(false);
        Some(match () {
            () if has("error").is_some_and(Value::is_object) => "error",
            () if has("success").is_some_and(is_refused) => "success",
            () if has("errorcode").is_some_and(|code| code != 0) => "error-code",
            () if has("status")
                .and_then(Value::as_u64)
                .is_some_and(|code| code >= 400) =>
            {
                "status"
            }
            () if has("status").is_some_and(|word| word == "rejected") => "word",
            () => return None,
        })
    });
    Some(match refused {
        Some(choice) => found(STEP, choice),
        None => unclear(STEP, "the refused email is told in none of these ways"),
    })
}

/// Where all lists of the email service have their items.
fn list_items(seen: &Seen) -> Option<Choice> {
    let steps = [
        "domains.list",
        "audiences.list",
        "webhooks.list",
        "audiences.list.created",
        "webhooks.list.created",
    ];
    let mut paths = Vec::new();
    let mut shown = None;
    for step in steps {
        let Some(exchange) = done(seen, step) else {
            continue;
        };
        let body = exchange.json();
        if let Some(list) = items(&body) {
            paths.push(list.path.join("."));
            shown = Some(step);
        }
    }
    let step = shown?;
    if paths.len() == 1 {
        return Some(unclear(step, "only one list has items"));
    }
    paths.sort();
    paths.dedup();
    Some(match &paths[..] {
        [only] if only.is_empty() => found(step, "array"),
        [only] if !only.contains('.') => found(step, only.clone()),
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
    objects(body).into_iter().find_map(|fields| {
        let name = NAMES
            .iter()
            .find(|name| own(fields, name).is_some_and(|(_, value)| is_cursor(value)))?;
        own(fields, name)?.1.as_str().map(str::to_owned)
    })
}

fn is_cursor(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|text| !text.is_empty() && !text.contains('/'))
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
    let is_more = |(_, value): (&str, &Value)| flag(value) == Some(true);
    let page = number(["page", "currentpage"]).zip(number(["totalpages", "lastpage"]));
    let listed = items(&body).map(|list| list.items.len() as u64);
    next_link(&body)
        || cursor(&body).is_some()
        || ["hasmore", "moredataindicator"]
            .iter()
            .any(|name| field(&body, name).is_some_and(is_more))
        || page.is_some_and(|(page, last)| page < last)
        || number(["total", "count"])
            .zip(listed)
            .is_some_and(|(total, listed)| total > listed)
        || exchange
            .header("link")
            .is_some_and(|link| link.contains("next"))
}

fn list_pages(seen: &Seen) -> Option<Choice> {
    const CONTACTS: &str = "contacts.page";
    const LIST: &str = "audiences.list.created";
    let page = done(seen, CONTACTS)?;
    let list = done(seen, LIST)?;
    let (body, whole) = (page.json(), list.json());
    let has = |name: &str| field(&whole, name).is_some();
    let link = |exchange: &Exchange| exchange.header("link").is_some();
    // A cursor is often absent where there is no more.
    Some(match () {
        () if cursor(&body).is_some() => found(CONTACTS, "cursor"),
        () if link(list) || link(page) => found(CONTACTS, "link-header"),
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
    Some(match email(STEP) {
        Some(zero) if zero != one => found(STEP, "0"),
        _ => found(STEP, "1"),
    })
}

fn page_totals(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "contacts.page";
    let exchange = done(seen, STEP)?;
    let body = exchange.json();
    Some(match &body {
        Value::Array(_) if exchange.header("x-total-count").is_some() => found(STEP, "header"),
        Value::Array(_) => found(STEP, "none"),
        _ if body
            .get("meta")
            .is_some_and(|meta| meta.get("total").is_some()) =>
        {
            found(STEP, "meta")
        }
        _ if body.get("total").is_some() => found(STEP, "beside"),
        _ => unclear(STEP, "the total is somewhere else, or not told"),
    })
}

fn past_end(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "contacts.page.9";
    let exchange = seen.at(STEP)?;
    let body = exchange.json();
    let is_empty = each(&body, "email").is_empty();
    Some(match exchange.status {
        404 => found(STEP, "not-found"),
        200 if is_empty => found(STEP, "empty"),
        200 => unclear(STEP, "it has contacts"),
        status => unclear(STEP, format!("answered {status}")),
    })
}

fn resource_shape(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "audiences.created";
    let body = done(seen, STEP)?.json();
    let is_in = |name: &str| {
        let inner = body.get(name).and_then(Value::as_object);
        inner.is_some_and(|fields| own(fields, "name").is_some())
    };
    Some(match () {
        () if own(body.as_object()?, "name").is_some() => found(STEP, "bare"),
        () if is_in("data") && body.get("success").is_some() => found(STEP, "envelope"),
        () if is_in("data") => found(STEP, "data"),
        () if is_in("audience") => found(STEP, "kind"),
        () => unclear(STEP, "something else is around it"),
    })
}

fn field_case(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "webhooks.create";
    let body = done(seen, STEP)?.json();
    let (name, _) = field(&body, "signingSecret")?;
    Some(match name {
        "signingSecret" => found(STEP, "documented"),
        "signing_secret" => found(STEP, "snake"),
        "SigningSecret" => found(STEP, "pascal"),
        other => unclear(STEP, format!("signingSecret is {other}")),
    })
}

fn numbers(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "contacts.page";
    let body = done(seen, STEP)?.json();
    let total = ["total", "totalsize", "totalrecords", "count"];
    let (_, total) = total.iter().find_map(|name| field(&body, name))?;
    Some(found(
        STEP,
        if total.is_string() { "text" } else { "number" },
    ))
}

fn times(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.get";
    let body = done(seen, STEP)?.json();
    let is_creation = |name: &str| plain(name).starts_with("creat");
    let mut created = objects(&body).into_iter().flatten();
    let (_, created) = created.find(|(name, _)| is_creation(name))?;
    let text = created.as_str().unwrap_or_default();
    let is_sql = text.as_bytes().get(10) == Some(&b' ') && text.starts_with("20");
    Some(match () {
        () if created.is_number() => found(STEP, "seconds"),
        () if chrono::DateTime::parse_from_rfc3339(text).is_ok() && !is_sql => {
            found(STEP, "rfc3339")
        }
        () if is_sql => found(STEP, "sql"),
        () => unclear(STEP, "times have another form"),
    })
}

/// The email has no date, which the reference gives a name.
fn absent(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.get";
    let body = done(seen, STEP)?.json();
    let at = ["scheduledAt", "templateId"]
        .iter()
        .find_map(|name| field(&body, name));
    Some(match at.map(|(_, value)| value) {
        None => found(STEP, "omitted"),
        Some(Value::Null) => found(STEP, "null"),
        Some(Value::String(text)) if text.is_empty() || text.starts_with("0001") => {
            found(STEP, "zero")
        }
        Some(_) => unclear(STEP, "an email without a date has one"),
    })
}

fn error_format(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "audiences.missing";
    let exchange = seen.at(STEP).filter(|exchange| !exchange.is_success())?;
    let body = exchange.json();
    let has = |name: &str| body.get(name).is_some();
    let is_problem = exchange
        .header("content-type")
        .is_some_and(|kind| kind.contains("problem+json"));
    Some(match () {
        () if is_problem => found(STEP, "problem"),
        () if body["error"].get("message").is_some() => found(STEP, "nested"),
        () if has("statusCode") && has("name") => found(STEP, "named"),
        () if has("code") && has("message") => found(STEP, "flat"),
        () if body.is_null() && !exchange.body.starts_with(b"<") => found(STEP, "text"),
        () => unclear(STEP, "errors have another form"),
    })
}

fn field_problems(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "contacts.invalid";
    let exchange = seen.at(STEP).filter(|exchange| !exchange.is_success())?;
    let body = exchange.json();
    let is_list = |value: Option<&Value>| value.is_some_and(Value::is_array);
    let details = field(&body, "details").map(|(_, details)| details);
    Some(match field(&body, "errors").map(|(_, errors)| errors) {
        Some(Value::Object(_)) => found(STEP, "map"),
        Some(Value::Array(errors)) if errors.iter().any(|it| it.get("path").is_some()) => {
            found(STEP, "list")
        }
        _ if is_list(details.and_then(|details| details.get("fields"))) => found(STEP, "details"),
        _ => unclear(STEP, "they are somewhere else, or not named"),
    })
}

/// The objects of a new domain that describe its DNS records.
fn records(body: &Value) -> Vec<&Map<String, Value>> {
    let mut found = objects(body);
    found.retain(|fields| {
        fields
            .values()
            .any(|value| value.as_str().is_some_and(|text| text.contains("v=spf1")))
    });
    found
}

fn domain_records(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "domains.create";
    let body = done(seen, STEP)?.json();
    let list = objects(&body).into_iter().find_map(|fields| {
        let is_list = |value: &Value| {
            value
                .as_array()
                .is_some_and(|items| items.len() > 1 && items.iter().all(Value::is_object))
        };
        let found = fields.iter().find(|(_, value)| is_list(value))?;
        Some(found.0.as_str())
    });
    let kinds = objects(&body).into_iter().any(|fields| {
        ["mx", "spf", "dkim", "dmarc"]
            .iter()
            .all(|kind| fields.get(*kind).is_some_and(Value::is_object))
    });
    Some(match list {
        _ if kinds => found(STEP, "kinds"),
        Some("dns_records") => found(STEP, "beside"),
        Some(name) => found(STEP, name),
        None => unclear(STEP, "the records are in no list"),
    })
}

fn record_names(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "domains.create";
    let body = done(seen, STEP)?.json();
    let record = records(&body).into_iter().next()?;
    let has = |names: [&str; 3]| names.iter().all(|name| record.contains_key(*name));
    Some(match () {
        () if has(["type", "name", "value"]) => found(STEP, "name-value"),
        () if has(["record_type", "hostname", "content"]) => found(STEP, "host-data"),
        () if has(["recordType", "recordName", "recordValue"]) => found(STEP, "record-name"),
        () => unclear(STEP, "the parts of a record have other names"),
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
        match (flag(old), new.and_then(flag)) {
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

const OPTED_OUT: &str = "contacts.list.opted-out";

fn opt_out(seen: &Seen) -> Option<Choice> {
    seen.contact_at(OPTED_OUT)?;
    let changed = opt_outs(seen);
    let documented = changed.iter().find(|name| *name == "subscribed");
    Some(match (documented, &changed[..]) {
        (Some(name), _) => found(OPTED_OUT, name.clone()),
        (None, [only]) => found(OPTED_OUT, only.clone()),
        _ => unclear(OPTED_OUT, "no field of a contact shows it"),
    })
}

fn metadata(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "contacts.list.created";
    let contact = seen.contact_at(STEP)?;
    let is_ours = |value: &&Value| value.get("kept").is_some();
    let found_at = contact
        .as_object()?
        .iter()
        .find(|(_, value)| is_ours(value));
    Some(match found_at {
        Some((name, _)) => found(STEP, name.clone()),
        None => unclear(STEP, "no field of a contact has it"),
    })
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

/// The body of a delivery, and the object in it.
fn delivery(seen: &Seen) -> Option<(Value, Map<String, Value>)> {
    let body = seen.at(DELIVERY)?.sent();
    let object = match &body {
        Value::Array(items) => items.first()?.as_object()?.clone(),
        object => object.as_object()?.clone(),
    };
    Some((body, object))
}

fn delivery_field(point: Point, seen: &Seen) -> Option<Choice> {
    let (_, object) = delivery(seen)?;
    let is_it = |value: &Value| match point {
        Point::DeliveryEvent => value
            .as_str()
            .is_some_and(|text| text.starts_with("email.")),
        Point::DeliveryId => value
            .as_str()
            .is_some_and(|text| uuid::Uuid::parse_str(text).is_ok()),
        Point::DeliveryData => value.is_object(),
        _ => {
            let is_time = |text: &str| chrono::DateTime::parse_from_rfc3339(text).is_ok();
            value.as_str().is_some_and(is_time)
                || value.as_f64().is_some_and(|seconds| seconds > 1e9)
        }
    };
    let mut names = object.iter().filter(|(_, value)| is_it(value));
    Some(match (names.next(), names.next()) {
        (Some((name, _)), None) => found(DELIVERY, name.clone()),
        _ => unclear(
            DELIVERY,
            "no field of the body, or more than one, looks like it",
        ),
    })
}

fn event_header(seen: &Seen) -> Option<Choice> {
    let delivery = seen.at(DELIVERY)?;
    let is_event = |(_, value): &&(String, String)| value.starts_with("email.");
    let mut names = delivery.request_headers.iter().filter(is_event);
    Some(match (names.next(), names.next()) {
        (Some((name, _)), None) => found(DELIVERY, name.clone()),
        _ => unclear(DELIVERY, "no header, or more than one, has the event"),
    })
}

fn idempotency(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "emails.key.second";
    let first = seen.id("emails.key.first")?;
    let second = seen.id(STEP)?;
    Some(found(
        STEP,
        if first == second {
            "honored"
        } else {
            "ignored"
        },
    ))
}

/// A point that is told by whether a request is accepted.
fn refusal(seen: &Seen, step: &'static str, accepted: &str, refused: &str) -> Option<Choice> {
    let exchange = seen.at(step)?;
    Some(match exchange.status {
        200..300 => found(step, accepted),
        400 | 409 | 413 | 422 => found(step, refused),
        status => unclear(step, format!("answered {status}")),
    })
}

fn create_status(seen: &Seen) -> Option<Choice> {
    const STEP: &str = "audiences.create";
    match done(seen, STEP)?.status {
        status @ (200 | 201) => Some(found(STEP, status.to_string())),
        status => Some(unclear(STEP, format!("answered {status}"))),
    }
}
