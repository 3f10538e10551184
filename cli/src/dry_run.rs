//! `--dry-run`: prints the exact requests with the key masked, and sends nothing.

use serde_json::{Map, Value, json};
use svc_sdk::RequestPreview;

use crate::failure::Failure;
use crate::output::{ListWriter, Printer, unless_closed};

/// A request as it is shown.
fn to_json(request: &RequestPreview) -> Result<Value, Failure> {
    let bytes = request
        .body()
        .map_err(|error| Failure::input(error.to_string()))?;
    let body = (!bytes.is_empty()).then(|| {
        serde_json::from_slice::<Value>(&bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into())
    });
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| (name.clone(), value.as_str().into()));
    let headers = headers.collect::<Map<_, _>>();
    Ok(json!({"method": request.method, "url": request.url, "headers": headers, "body": body}))
}

/// The same for people.
fn text(request: &Value) -> String {
    let part = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut text = format!("{} {}\n", part(&request["method"]), part(&request["url"]));
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        text.push_str(&format!("{name}: {}\n", part(value)));
    }

    match &request["body"] {
        Value::Null => {}
        Value::String(body) => text.push_str(&format!("\n{body}\n")),
        body => text.push_str(&format!("\n{body:#}\n")),
    }
    text
}

/// Prints a request instead of sending it.
pub fn show(out: &Printer, request: &RequestPreview) -> Result<(), Failure> {
    let shown = to_json(request)?;
    out.lines_or_value(text(&shown).trim_end(), &shown)
}

/// Like [`show`], for the first request of a job with many emails, and the counts of what is sent
/// in all.
pub fn show_job(
    out: &Printer,
    first: &RequestPreview,
    counts: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<(), Failure> {
    let mut shown = to_json(first)?;
    let text = text(&shown);
    counts
        .into_iter()
        .for_each(|(name, count)| shown[name] = count);
    out.lines_or_value(text.trim_end(), &shown)
}

/// Like [`show`], for any number of requests, as one list. Few of them are in memory.
pub fn show_all<E: Into<Failure>>(
    out: &Printer,
    requests: impl IntoIterator<Item = Result<RequestPreview, E>>,
) -> Result<(), Failure> {
    let mut list = ListWriter::streamed();
    let mut between = "";
    for request in requests {
        let request = to_json(&request.map_err(Into::into)?)?;
        if !out.is_table() {
            unless_closed(list.push(out, request))?;
            continue;
        }
        out.lines_or_value(&format!("{between}{}", text(&request).trim_end()), &())?;
        between = "\n";
    }

    if out.is_table() {
        Ok(())
    } else {
        unless_closed(list.finish(out))
    }
}
