//! Requests to the sandbox's control interface, for the `svc sandbox` commands.

use serde_json::{Map, Value, json};
use svc_sdk::{Call, EmailClient, RawResponse};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Format, View};

/// A request to the control interface.
pub struct Request {
    method: &'static str,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<Value>,
    message: Option<Vec<u8>>,
    long_running: bool,
}

impl Request {
    pub fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    pub fn post(path: &str) -> Self {
        Self::new("POST", path)
    }

    pub fn put(path: &str) -> Self {
        Self::new("PUT", path)
    }

    pub fn delete(path: &str) -> Self {
        Self::new("DELETE", path)
    }

    fn new(method: &'static str, path: &str) -> Self {
        let path = path.to_owned();
        Self { method, path, query: Vec::new(), body: None, message: None, long_running: false }
    }

    /// Adds a query parameter if it has a value.
    #[must_use]
    pub fn query(mut self, name: &'static str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.query.push((name, value.to_owned()));
        }
        self
    }

    #[must_use]
    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Sends a raw RFC 5322 message as the body.
    #[must_use]
    pub fn message(mut self, message: Vec<u8>) -> Self {
        self.message = Some(message);
        self
    }

    /// Allows for a request that waits on the server: its deadline exceeds `--timeout`.
    #[must_use]
    pub fn long_running(mut self) -> Self {
        self.long_running = true;
        self
    }

    fn call(&self, client: &EmailClient, cursor: Option<&str>) -> Call<RawResponse> {
        let mut call = client.raw(self.method, &self.path);
        for (name, value) in &self.query {
            call = call.query(name, value);
        }
        if let Some(cursor) = cursor {
            call = call.query("cursor", cursor);
        }
        if let Some(message) = &self.message {
            call = call.body(message.clone(), "message/rfc822");
        } else if let Some(body) = &self.body {
            call = call.json(body);
        }
        call
    }
}

/// Prints the response as one object.
pub async fn show(context: &Context, request: Request, view: View) -> Result<(), Failure> {
    match send(context, &request, None).await? {
        Some(response) => context.out.one(&value(&response)?, view),
        None => Ok(()),
    }
}

/// Prints the response as a list; `none` is the note for an empty one.
pub async fn list(
    context: &Context,
    request: Request,
    view: View,
    none: &str,
) -> Result<(), Failure> {
    let Some(response) = send(context, &request, None).await? else { return Ok(()) };
    let (items, _) = page(value(&response)?);
    context.out.list(&items, view, none)
}

/// Prints one page of a list, or all of them.
pub async fn pages(
    context: &Context,
    request: Request,
    all: bool,
    view: View,
    none: &str,
) -> Result<(), Failure> {
    let Some(response) = send(context, &request, None).await? else { return Ok(()) };
    let (mut items, mut next) = page(value(&response)?);
    let streams = context.out.format() == Format::Ndjson;
    while all && let Some(cursor) = next.take() {
        if streams {
            context.out.list(&items, view, none)?;
            items.clear();
        }
        let Some(response) = send(context, &request, Some(&cursor)).await? else { return Ok(()) };
        let (more, after) = page(value(&response)?);
        next = after.filter(|after| *after != cursor);
        items.extend(more);
    }
    context.out.list(&items, view, none)?;
    if next.is_some() {
        context.out.note("there are more pages; use --all to list every page");
    }
    Ok(())
}

/// Prints `sentence` for people, and the response as JSON for programs.
pub async fn done(context: &Context, request: Request, sentence: &str) -> Result<(), Failure> {
    let Some(response) = send(context, &request, None).await? else { return Ok(()) };
    let value = value(&response)?;
    let value = if value.is_null() { json!({"ok": true}) } else { value };
    context.out.done(sentence, &value)
}

/// Reports a deletion.
pub async fn deleted(
    context: &Context,
    request: Request,
    noun: &str,
    id: &str,
) -> Result<(), Failure> {
    match send(context, &request, None).await? {
        Some(_) => context.deleted(noun, id, id),
        None => Ok(()),
    }
}

/// Prints the response body as text.
pub async fn document(context: &Context, request: Request) -> Result<(), Failure> {
    let Some(response) = send(context, &request, None).await? else { return Ok(()) };
    let text = response.text();
    context.out.document(&text, || json!({"text": text}))
}

/// Fetches the items of a list without printing them.
pub async fn fetch_items(context: &Context, request: Request) -> Result<Vec<Value>, Failure> {
    Ok(page(fetch_value(context, request).await?).0)
}

/// Fetches a response without printing it.
pub async fn fetch_value(context: &Context, request: Request) -> Result<Value, Failure> {
    match send(context, &request, None).await? {
        Some(response) => value(&response),
        None => Ok(Value::Null),
    }
}

/// Removes the `null` members of an object: the options that were not given.
pub fn without_nulls(body: Value) -> Value {
    match body {
        Value::Object(map) => {
            Value::Object(map.into_iter().filter(|(_, v)| !v.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// Percent-encodes an id or name as one path segment.
pub fn segment(id: &str) -> Result<String, Failure> {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    if matches!(id, "" | "." | "..") {
        return Err(Failure::input(format!("`{id}` is not a valid id")));
    }
    Ok(utf8_percent_encode(id, KEPT).to_string())
}

async fn send(
    context: &Context,
    request: &Request,
    cursor: Option<&str>,
) -> Result<Option<RawResponse>, Failure> {
    let client = context.control_client().await?;
    let call = request.call(&client, cursor);
    if request.long_running {
        // The server ends its wait at `--timeout`; its response should arrive before we give up.
        let deadline = context.settings.timeout.value + std::time::Duration::from_secs(300);
        return context.call_within(call, deadline, "waiting").await;
    }
    context.call_raw(call, request.method != "POST", "contacting the sandbox").await
}

fn value(response: &RawResponse) -> Result<Value, Failure> {
    if response.body.is_empty() {
        return Ok(Value::Null);
    }
    response.json().map_err(|_| Failure::other("the sandbox's response is not JSON"))
}

/// The items of a response, either a bare array or under `data`, and the next page's cursor.
fn page(value: Value) -> (Vec<Value>, Option<String>) {
    match value {
        Value::Array(items) => (items, None),
        Value::Object(mut map) => {
            let next = map.get("next").and_then(Value::as_str).map(str::to_owned);
            match map.remove("data") {
                Some(Value::Array(items)) => (items, next),
                _ => (vec![Value::Object(map)], None),
            }
        }
        _ => (Vec::new(), None),
    }
}
