//! `--dry-run`: prints the exact requests with the key masked, and sends nothing.

use std::cell::RefCell;

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
    out.lines_or_value(text(&shown).trim_end(), &shown)?;
    out.hint("dry run: nothing was sent");
    Ok(())
}

/// As [`show`], the first request of a job with many emails, and the counts that say what is sent in
/// all.
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
    out.lines_or_value(text.trim_end(), &shown)?;
    out.hint("dry run: nothing was sent");
    Ok(())
}

/// The requests of a dry run.
#[derive(Default)]
pub struct Requests(RefCell<Option<Collected>>);

/// Requests that are printed as one list.
struct Collected {
    list: ListWriter,
    is_table_begun: bool,
}

impl Requests {
    /// Makes one list of the requests of a command that sends any number of them.
    pub fn collect(&self) {
        *self.0.borrow_mut() = Some(Collected {
            list: ListWriter::streamed(),
            is_table_begun: false,
        });
    }

    /// Prints the request, also as an item of the list.
    pub fn show(&self, out: &Printer, request: &RequestPreview) -> Result<(), Failure> {
        match &mut *self.0.borrow_mut() {
            Some(collected) => collected.add(out, to_json(request)?),
            None => show(out, request),
        }
    }

    /// Ends the list.
    pub fn end_list(&self, out: &Printer) -> Result<(), Failure> {
        let Some(collected) = self.0.take() else {
            return Ok(());
        };
        if !out.is_table() {
            collected.list.finish(out)?;
        }
        out.hint("dry run: nothing was sent");
        Ok(())
    }
}

impl Collected {
    fn add(&mut self, out: &Printer, request: Value) -> Result<(), Failure> {
        if !out.is_table() {
            return unless_closed(self.list.push(out, request));
        }
        let between = match std::mem::replace(&mut self.is_table_begun, true) {
            true => "\n",
            false => "",
        };
        out.lines_or_value(&format!("{between}{}", text(&request).trim_end()), &())
    }
}
