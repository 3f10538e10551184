//! The control interface of the local server, for the `svc sandbox` commands.

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
    longer: bool,
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
        Self { method, path, query: Vec::new(), body: None, message: None, longer: false }
    }

    /// A query parameter, where there is a value for it.
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

    /// A whole RFC 5322 message as the body.
    #[must_use]
    pub fn message(mut self, message: Vec<u8>) -> Self {
        self.message = Some(message);
        self
    }

    /// The server takes its time for it: the command's deadline is not the call's.
    #[must_use]
    pub fn longer(mut self) -> Self {
        self.longer = true;
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

/// Shows the answer as one thing.
pub async fn show(context: &Context, request: Request, view: View) -> Result<(), Failure> {
    match send(context, &request, None).await? {
        Some(answer) => context.out.one(&value(&answer)?, view),
        None => Ok(()),
    }
}

/// Shows the answer as a list.
pub async fn list(
    context: &Context,
    request: Request,
    view: View,
    none: &str,
) -> Result<(), Failure> {
    let Some(answer) = send(context, &request, None).await? else { return Ok(()) };
    let (items, _) = page(value(&answer)?);
    context.out.list(&items, view, none)
}

/// Shows one page of a list, or all of them.
pub async fn pages(
    context: &Context,
    request: Request,
    all: bool,
    view: View,
    none: &str,
) -> Result<(), Failure> {
    let Some(answer) = send(context, &request, None).await? else { return Ok(()) };
    let (mut items, mut next) = page(value(&answer)?);
    let streams = context.out.format() == Format::Ndjson;
    while all && let Some(cursor) = next.take() {
        if streams {
            context.out.list(&items, view, none)?;
            items.clear();
        }
        let Some(answer) = send(context, &request, Some(&cursor)).await? else { return Ok(()) };
        let (more, after) = page(value(&answer)?);
        next = after.filter(|after| *after != cursor);
        items.extend(more);
    }
    context.out.list(&items, view, none)?;
    if next.is_some() {
        context.out.hint("there is more; --all shows every page");
    }
    Ok(())
}

/// Reports what was done; what the server answers is the result for programs.
pub async fn done(context: &Context, request: Request, sentence: &str) -> Result<(), Failure> {
    let Some(answer) = send(context, &request, None).await? else { return Ok(()) };
    let value = value(&answer)?;
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
        Some(_) => context.deleted(noun, id),
        None => Ok(()),
    }
}

/// Prints the answer's text as it is.
pub async fn document(context: &Context, request: Request) -> Result<(), Failure> {
    let Some(answer) = send(context, &request, None).await? else { return Ok(()) };
    let text = answer.text();
    context.out.document(&text, || json!({"text": text}))
}

/// The items of a list that is not shown.
pub async fn items(context: &Context, request: Request) -> Result<Vec<Value>, Failure> {
    Ok(page(value_of(context, request).await?).0)
}

/// The answer to a request that is not shown.
pub async fn value_of(context: &Context, request: Request) -> Result<Value, Failure> {
    match send(context, &request, None).await? {
        Some(answer) => value(&answer),
        None => Ok(Value::Null),
    }
}

/// An object without the keys that were not given.
pub fn given(body: Value) -> Value {
    match body {
        Value::Object(map) => {
            Value::Object(map.into_iter().filter(|(_, v)| !v.is_null()).collect::<Map<_, _>>())
        }
        other => other,
    }
}

/// An id or name as one segment of a path.
pub fn segment(id: &str) -> Result<String, Failure> {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    if matches!(id, "" | "." | "..") {
        return Err(Failure::input(format!("`{id}` is no id")));
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
    if request.longer {
        // Beyond the deadline of the server's own wait, so that its answer wins.
        let patience = context.settings.timeout.value + std::time::Duration::from_secs(300);
        return context.call_within(call, patience, "waiting").await;
    }
    context.call_raw(call, request.method != "POST", "asking the sandbox").await
}

fn value(answer: &RawResponse) -> Result<Value, Failure> {
    if answer.body.is_empty() {
        return Ok(Value::Null);
    }
    answer.json().map_err(|_| Failure::other("the sandbox's answer is not JSON"))
}

/// The items of an answer, bare or under `data`, and where the next page begins.
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
