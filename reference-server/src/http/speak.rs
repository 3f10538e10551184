//! Gives responses the form of the server's dialect. Handlers answer in one form, the default of
//! every point; what another choice changes is changed here, at the edge.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::body::{Body, to_bytes};
use axum::response::IntoResponse as _;
use chrono::{DateTime, Utc};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LINK, LOCATION, RETRY_AFTER};
use http::response::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode, Uri};
use serde_json::{Map, Value, json};
use svc_sdk::{Dialect, Operation, Point, Service};

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::response::write_error;
use crate::model::error::{Code, Failure};

type Fields = Map<String, Value>;

/// Items of a page of a list whose reference names no pages.
const DEFAULT_PAGE_SIZE: usize = 20;

/// Reads a query, and translates a cursor of the dialect into the documented number of a page.
pub(crate) fn read_query(dialect: &Dialect, uri: &Uri) -> HashMap<String, String> {
    let query = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let mut query: HashMap<_, _> = query.into_owned().collect();
    if !dialect.is(Point::ListPages, "cursor") {
        return query;
    }

    let cursor = query.remove(dialect.choice(Point::CursorParam));
    if let Some(page) = cursor.and_then(|cursor| Some(cursor.strip_prefix("cur_")?.to_owned())) {
        query.insert("page".to_owned(), page);
    }
    query
}

/// Gives the response to a request of an operation the form of the dialect.
pub(crate) async fn speak(
    app: &App,
    operation: Operation,
    uri: &Uri,
    response: Response<Body>,
) -> Response<Body> {
    let dialect = &app.settings.dialect;
    let error = response.extensions().get::<ApiError>();
    let lacks_scope = error.is_some_and(|error| error.0.code() == Code::InsufficientScope);
    let mut response = write_error(app, uri.path(), response);
    if lacks_scope && dialect.is(Point::ScopeStatus, "401") {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
    }
    if dialect.is_empty() {
        return response;
    }

    let (mut parts, body) = response.into_parts();
    // The bodies of handlers are in memory.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    if !parts.status.is_success() {
        let body = failure(dialect, &mut parts, &bytes);
        return with_body(parts, body.unwrap_or_else(|| bytes.to_vec()));
    }
    let Ok(value) = serde_json::from_slice::<Value>(&bytes) else {
        return Response::from_parts(parts, bytes.into());
    };
    if operation == Operation::EmailsCancel {
        match dialect.choice(Point::CancelAnswer) {
            "empty" => return with_body(parts, Vec::new()),
            "text" => {
                parts
                    .headers
                    .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
                return with_body(parts, b"ok".to_vec());
            }
            _ => {}
        }
    }

    let mut speaker = Speaker {
        dialect,
        operation,
        uri,
        parts,
    };
    let Some(mut value) = speaker.shape(value) else {
        let error = ApiError(Failure::not_found("page")).into_response();
        return Box::pin(speak(app, operation, uri, error)).await;
    };

    if operation.service() == Service::Email {
        respell(dialect, &mut value);
    }
    let body = serde_json::to_vec(&value).unwrap_or_default();
    with_body(speaker.parts, body)
}

fn with_body(mut parts: Parts, body: Vec<u8>) -> Response<Body> {
    parts.headers.remove(CONTENT_LENGTH);
    if body.is_empty() {
        parts.headers.remove(CONTENT_TYPE);
    }
    Response::from_parts(parts, body.into())
}

/// Changes an error. Returns another body, if it has one.
fn failure(dialect: &Dialect, parts: &mut Parts, body: &[u8]) -> Option<Vec<u8>> {
    if parts.status == StatusCode::TOO_MANY_REQUESTS {
        announce_limit(dialect, parts);
    }
    let mut value = serde_json::from_slice::<Value>(body).ok()?;
    for name in ["statusCode", "status"] {
        if value.get(name).is_some_and(Value::is_number) {
            value[name] = parts.status.as_u16().into();
        }
    }

    let holder = match value.get("error") {
        Some(_) => value.get_mut("error")?,
        None => &mut value,
    };
    let form = dialect.choice(Point::FieldProblems);
    let fields = holder.get_mut("details").and_then(Value::as_object_mut);
    if form != "details"
        && let Some(Value::Array(fields)) = fields.and_then(|details| details.remove("fields"))
    {
        let named = |problem: &Value, name: &str| problem[name].as_str().map(str::to_owned);
        let mut by_name = Fields::new();
        let mut list = Vec::new();
        for problem in &fields {
            let (Some(field), Some(message)) = (named(problem, "field"), named(problem, "message"))
            else {
                continue;
            };
            list.push(json!({"path": field, "message": message}));
            by_name.insert(field, json!([message]));
        }
        holder["errors"] = match form {
            "map" => Value::Object(by_name),
            _ => list.into(),
        };
    }

    serde_json::to_vec(&value).ok()
}

/// Says when to come back, in the way of the dialect.
fn announce_limit(dialect: &Dialect, parts: &mut Parts) {
    let Some(after) = parts.headers.get(RETRY_AFTER) else {
        return;
    };

    let seconds = after.to_str().ok().and_then(|text| text.parse().ok());
    let seconds: i64 = seconds.unwrap_or(1);
    let values = json!({
        "with_unit": format!("{seconds}s"),
        "time": (Utc::now().timestamp() + seconds).to_string(),
        "policy": format!("\"default\";r=0;t={seconds}"),
    });
    let Some(headers) = spoken(dialect, Point::LimitHeaders, &values) else {
        return;
    };

    parts.headers.remove(RETRY_AFTER);
    for (name, value) in &headers {
        let value = value.as_str().unwrap_or_default();
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            parts.headers.insert(name, value);
        }
    }
}

/// How each choice is spoken, if it needs more than another name: by point and choice, with `$NAME` in
/// place of values.
static FORMS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("speak.json")).expect("a test speaks every choice")
});

/// The form of the dialect's choice, with these values. `None`: it has no form of its own.
fn spoken(dialect: &Dialect, point: Point, values: &Value) -> Option<Fields> {
    form(point.as_str(), dialect.choice(point), values)
}

fn form(point: &str, choice: &str, values: &Value) -> Option<Fields> {
    match filled(FORMS.get(point)?.get(choice)?, values) {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

fn filled(form: &Value, values: &Value) -> Value {
    match form {
        Value::String(text) => match text.strip_prefix('$') {
            Some(name) => values[name].clone(),
            None => form.clone(),
        },
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, form)| {
                let name = filled(&name.as_str().into(), values);
                let name = name.as_str().unwrap_or_default().to_owned();
                (name, filled(form, values))
            });
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// A success that is brought into form.
struct Speaker<'a> {
    dialect: &'a Dialect,
    operation: Operation,
    uri: &'a Uri,
    parts: Parts,
}

impl Speaker<'_> {
    /// `None` if there is no such page.
    fn shape(&mut self, value: Value) -> Option<Value> {
        use Operation as O;
        Some(match (self.operation, value) {
            (
                O::AudiencesList | O::DomainsList | O::WebhooksList | O::ExtractionWebhooksList,
                Value::Array(items),
            ) => self.list(items),
            (O::ContactsList, Value::Object(page)) => return self.contacts(page),
            (O::EmailsSendBatch, Value::Object(results)) => self.batch(results),
            (O::WebhooksTest, Value::Object(mut test)) => {
                rename(
                    &mut test,
                    "statusCode",
                    self.dialect.choice(Point::TestStatusField),
                );
                test.into()
            }
            (O::Me | O::DomainsDelete, value) => value,
            (_, Value::Object(resource)) => self.resource(resource),
            (_, value) => value,
        })
    }

    /// One resource, in what the dialect puts around it.
    fn resource(&mut self, mut fields: Fields) -> Value {
        use Operation as O;

        let operation = self.operation;
        let kind = operation.name().rsplit('.').nth(1).unwrap_or_default();
        let kind = kind.trim_end_matches('s');
        if operation == O::EmailsCancel && self.dialect.is(Point::CancelAnswer, "id") {
            fields.retain(|name, _| name == "id");
        }
        if operation == O::EmailsSend {
            self.move_id(&mut fields);
        }
        let mut beside = Fields::new();
        match kind {
            "email" => self.email(&mut fields),
            "domain" => beside = self.domain(&mut fields),
            "contact" => self.contact(&mut fields),
            _ => {}
        }

        let values = json!({"resource": fields, "kind": kind});
        let shaped = spoken(self.dialect, Point::ResourceShape, &values);
        let mut whole = shaped.unwrap_or(fields);
        whole.extend(beside);
        whole.into()
    }

    /// Moves the id of an accepted email into a header.
    fn move_id(&mut self, fields: &mut Fields) {
        let place = self.dialect.choice(Point::IdPlace);
        if place == "field" {
            return;
        }
        let Some(Value::String(id)) = fields.remove("id") else {
            return;
        };

        let header = match place {
            "location" => (Ok(LOCATION), format!("/api/v1/emails/{id}")),
            _ => (
                HeaderName::try_from(self.dialect.choice(Point::IdHeader)),
                id,
            ),
        };
        if let (Ok(name), Ok(value)) = (header.0, HeaderValue::try_from(header.1)) {
            self.parts.headers.insert(name, value);
        }
    }

    fn email(&self, fields: &mut Fields) {
        self.email_status(fields);
        rename(fields, "id", self.dialect.choice(Point::IdField));
    }

    fn email_status(&self, fields: &mut Fields) {
        let is_later = fields.get("scheduledAt").is_some_and(|at| !at.is_null());
        if let Some(Value::String(status)) = fields.get_mut("status") {
            let word = match status.as_str() {
                "cancelled" => self.dialect.choice(Point::CancelledWord).to_owned(),
                "queued" if is_later => self.dialect.choice(Point::ScheduledWord).to_owned(),
                other => other.to_owned(),
            };
            *status = match self.dialect.choice(Point::StatusCase) {
                "upper" => word.to_ascii_uppercase(),
                "capitalized" => word[..1].to_ascii_uppercase() + &word[1..],
                _ => word,
            };
        }
        rename(fields, "status", self.dialect.choice(Point::StatusField));
    }

    /// Returns what is beside the domain.
    fn domain(&self, fields: &mut Fields) -> Fields {
        if let Some(Value::Array(records)) = fields.get_mut("records") {
            for record in records {
                let renamed = spoken(self.dialect, Point::RecordNames, record);
                if let (Some(renamed), Some(record)) = (renamed, record.as_object_mut()) {
                    record.retain(|name, _| !["type", "name", "value"].contains(&name.as_str()));
                    record.extend(renamed);
                }
            }
        }

        if self.dialect.is(Point::DomainFlags, "nested") {
            let all = std::mem::take(fields).into_iter();
            let (flags, others): (Fields, Fields) =
                all.partition(|(name, _)| name.ends_with("verified"));
            *fields = others;
            if !flags.is_empty() {
                fields.insert("verification".to_owned(), flags.into());
            }
        }

        let mut beside = Fields::new();
        match (
            self.dialect.choice(Point::DomainRecords),
            fields.remove("records"),
        ) {
            (_, None) => {}
            ("beside", Some(records)) => drop(beside.insert("dns_records".to_owned(), records)),
            ("kinds", Some(Value::Array(records))) => {
                for record in records {
                    let kind = record["kind"].as_str().unwrap_or("txt").to_owned();
                    beside.insert(kind, record);
                }
            }
            (field, Some(records)) => drop(fields.insert(field.to_owned(), records)),
        }
        beside
    }

    fn contact(&self, fields: &mut Fields) {
        rename(
            fields,
            "metadata",
            self.dialect.choice(Point::MetadataField),
        );
        let Some(Value::Bool(subscribed)) = fields.remove("subscribed") else {
            return;
        };

        let status = if subscribed {
            "subscribed"
        } else {
            "unsubscribed"
        };
        let values = json!({"unsubscribed": !subscribed, "status": status});
        if let Some(spoken) = spoken(self.dialect, Point::OptOut, &values) {
            fields.extend(spoken);
            return;
        }

        let field = self.dialect.choice(Point::OptOut);
        let name = field.trim_start_matches('!');
        fields.insert(
            name.to_owned(),
            (subscribed != field.starts_with('!')).into(),
        );
    }

    fn batch(&self, mut results: Fields) -> Value {
        let Some(Value::Array(items)) = results.remove("results") else {
            return results.into();
        };

        let choice = self.dialect.choice(Point::BatchItem);
        let is_split = choice == "split";
        let mut told = Vec::new();
        let mut errors = Vec::new();
        for mut item in items {
            if let Some(error) = item.get("error") {
                let values = json!({
                    "index": item["index"],
                    "error": error,
                    "code": error["code"],
                    "message": error["message"],
                });
                let list = if is_split { &mut errors } else { &mut told };
                list.extend(spoken(self.dialect, Point::BatchItem, &values));
            } else if let Some(fields) = item.as_object_mut() {
                let accepted = form("batch-item accepted", choice, &Value::Null);
                fields.extend(accepted.unwrap_or_default());
                if is_split {
                    fields.remove("index");
                }
                self.email(fields);
                told.push(std::mem::take(fields));
            }
        }

        if is_split {
            json!({"data": told, "errors": errors})
        } else {
            json!({"results": told})
        }
    }

    /// A list whose reference names no pages.
    fn list(&mut self, mut items: Vec<Value>) -> Value {
        if self.operation == Operation::DomainsList {
            for fields in items.iter_mut().filter_map(Value::as_object_mut) {
                let beside = self.domain(fields);
                fields.extend(beside);
            }
        }
        if self.dialect.is(Point::ListPages, "whole") {
            return self.wrapped(items, Fields::new());
        }

        let query = read_query(self.dialect, self.uri);
        let number = |name: &str| query.get(name)?.parse::<usize>().ok();
        let first = self.first_page();
        let size = number("pageSize")
            .unwrap_or(DEFAULT_PAGE_SIZE)
            .clamp(1, 100);
        let page = number("page").unwrap_or(first).max(first);
        let total = items.len();
        let start = (page - first).saturating_mul(size);
        let shown: Vec<Value> = items.into_iter().skip(start).take(size).collect();
        let has_more = start.saturating_add(size) < total;
        let totals = Totals { page, size, total };
        let beside = self.paging(&totals, has_more);
        self.wrapped(shown, beside)
    }

    fn contacts(&mut self, mut page: Fields) -> Option<Value> {
        let Some(Value::Array(mut items)) = page.remove("data") else {
            return Some(page.into());
        };

        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            self.contact(item);
        }

        let number = |name: &str| {
            let number = page.get(name).and_then(Value::as_u64);
            usize::try_from(number.unwrap_or_default()).unwrap_or_default()
        };

        let totals = Totals {
            page: number("page"),
            size: number("pageSize"),
            total: number("total"),
        };
        let first = self.first_page();
        if items.is_empty() && totals.page > first && self.dialect.is(Point::PastEnd, "not-found") {
            return None;
        }

        let has_more = (totals.page - first + 1) * totals.size < totals.total;
        if !self.dialect.is(Point::ListPages, "whole") {
            let beside = self.paging(&totals, has_more);
            return Some(self.wrapped(items, beside));
        }

        if self.dialect.is(Point::PageTotals, "header") {
            self.parts
                .headers
                .insert("x-total-count", totals.total.into());
        }

        let beside = spoken(self.dialect, Point::PageTotals, &totals.values());
        let beside = beside.unwrap_or_default();
        Some(
            match (beside.is_empty(), self.dialect.pinned(Point::ListItems)) {
                (true, None | Some("array")) => items.into(),
                _ => self.wrapped(items, beside),
            },
        )
    }

    fn first_page(&self) -> usize {
        usize::from(self.dialect.is(Point::FirstPage, "1"))
    }

    /// The fields that say that there is more, and how to go on.
    fn paging(&mut self, totals: &Totals, has_more: bool) -> Fields {
        let next = totals.page + 1;
        let path = self.uri.path();
        let mut values = totals.values();
        values["has_more"] = has_more.into();
        if has_more {
            let link = format!("{path}?page={next}&pageSize={}", totals.size);
            if self.dialect.is(Point::ListPages, "link-header")
                && let Ok(value) = HeaderValue::try_from(format!("<{link}>; rel=\"next\""))
            {
                self.parts.headers.insert(LINK, value);
            }
            values["link"] = link.into();
            values["cursor"] = format!("cur_{next}").into();
        }

        spoken(self.dialect, Point::ListPages, &values).unwrap_or_default()
    }

    /// The items, in the dialect's field; without one, bare, if nothing has to be beside them.
    fn wrapped(&self, items: Vec<Value>, mut beside: Fields) -> Value {
        let field = match self.dialect.choice(Point::ListItems) {
            "array" if beside.is_empty() => return items.into(),
            "array" => "data",
            field => field,
        };
        beside.insert(field.to_owned(), items.into());
        beside.into()
    }
}

struct Totals {
    page: usize,
    size: usize,
    total: usize,
}

impl Totals {
    /// The number of pages is what `totalPages` and `last_page` mean, whatever the first one is.
    fn values(&self) -> Value {
        let pages = self.total.div_ceil(self.size.max(1));
        json!({"page": self.page, "size": self.size, "total": self.total, "pages": pages})
    }
}

fn rename(fields: &mut Fields, from: &str, to: &str) {
    if from != to
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}

/// Spells names, numbers, times and what is absent in the way of the dialect.
fn respell(dialect: &Dialect, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| respell(dialect, item)),
        Value::Object(fields) => {
            let metadata = dialect.choice(Point::MetadataField);
            for (name, mut value) in std::mem::take(fields) {
                let is_content =
                    name == metadata || matches!(name.as_str(), "tags" | "headers" | "variables");
                if !is_content {
                    respell_value(dialect, &name, &mut value);
                }
                let is_telling = is_next(&name) || name == dialect.choice(Point::TestStatusField);
                if value.is_null() && dialect.is(Point::Absent, "omitted") && !is_telling {
                    continue;
                }
                fields.insert(spelled(dialect, &name), value);
            }
        }
        _ => {}
    }
}

/// `null` there ends a list.
fn is_next(name: &str) -> bool {
    matches!(name, "next" | "next_cursor")
}

fn respell_value(dialect: &Dialect, name: &str, value: &mut Value) {
    let is_time = name.ends_with("At");
    if value.is_null() && is_time && dialect.is(Point::Absent, "zero") {
        *value = "0001-01-01T00:00:00Z".into();
        return;
    }

    let time = value.as_str().filter(|_| is_time);
    if let Some(time) = time.and_then(|text| text.parse::<DateTime<Utc>>().ok()) {
        match dialect.choice(Point::Times) {
            "seconds" => *value = time.timestamp().into(),
            "sql" => *value = time.format("%Y-%m-%d %H:%M:%S").to_string().into(),
            _ => {}
        }
    }

    if value.is_number() && dialect.is(Point::Numbers, "text") {
        *value = value.to_string().into();
    }
    respell(dialect, value);
}

/// A name in the case of the dialect. A name that a point gives stays as it is.
fn spelled(dialect: &Dialect, name: &str) -> String {
    let is_given = dialect
        .iter()
        .any(|(_, choice)| choice.trim_start_matches('!') == name);
    match dialect.choice(Point::FieldCase) {
        _ if is_given => name.to_owned(),
        "snake" => {
            let mut snake = String::new();
            for letter in name.chars() {
                if letter.is_ascii_uppercase() && !snake.is_empty() {
                    snake.push('_');
                }
                snake.push(letter.to_ascii_lowercase());
            }
            snake
        }
        "pascal" => {
            let mut pascal = String::new();
            for word in name.split('_').filter(|word| !word.is_empty()) {
                pascal.push_str(&word[..1].to_ascii_uppercase());
                pascal.push_str(&word[1..]);
            }
            pascal
        }
        _ => name.to_owned(),
    }
}
