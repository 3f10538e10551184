//! `--dry-run`: prints the exact request with the key masked, and sends nothing.

use serde_json::{Map, Value, json};
use svc_sdk::RequestPreview;

use crate::failure::Failure;
use crate::output::Printer;

/// Prints a request instead of sending it.
pub fn show(out: &Printer, request: &RequestPreview) -> Result<(), Failure> {
    let bytes = request.body().map_err(|error| Failure::input(error.to_string()))?;
    let body = (!bytes.is_empty()).then(|| {
        serde_json::from_slice::<Value>(&bytes)
            .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into())
    });
    let mut headers = Map::new();
    let mut text = format!("{} {}\n", request.method, request.url);
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {value}\n"));
        headers.insert(name.clone(), value.as_str().into());
    }
    match &body {
        Some(Value::String(body)) => text.push_str(&format!("\n{body}\n")),
        Some(body) => text.push_str(&format!("\n{body:#}\n")),
        None => {}
    }
    let value = json!({
        "method": request.method,
        "url": request.url,
        "headers": headers,
        "body": body,
    });
    out.done(text.trim_end(), &value)?;
    out.hint("dry run: nothing was sent");
    Ok(())
}
