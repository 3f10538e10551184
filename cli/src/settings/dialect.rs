//! The dialect of a service in TOML: in a profile, in a file of its own, and as one text.

use serde_json::Value as Json;
use svc_sdk::Dialect;
use toml_edit::{DocumentMut, Item, TableLike, Value};

/// Reads a file: the table `dialect`, or points at the top.
pub fn from_file(text: &str) -> Result<Dialect, String> {
    let document: DocumentMut = text.parse().map_err(|error| format!("not TOML: {error}"))?;
    match document.get("dialect").and_then(Item::as_table_like) {
        Some(table) => from_table(table),
        None => from_table(document.as_table()),
    }
}

/// Reads a table with an entry for each point.
pub fn from_table(table: &dyn TableLike) -> Result<Dialect, String> {
    let mut dialect = Dialect::new();
    for (name, item) in table.iter() {
        let choice = match item.as_value() {
            Some(Value::String(text)) => text.value().clone(),
            Some(Value::Integer(number)) => number.value().to_string(),
            _ => return Err(format!("`{name}` must be a text")),
        };
        let point = name.parse();
        point
            .and_then(|point| dialect.pin(point, &choice))
            .map_err(|problem| problem.to_string())?;
    }
    Ok(dialect)
}

/// Reads `POINT=CHOICE`, separated by commas.
pub fn from_text(text: &str) -> Result<Dialect, String> {
    let settings = text.split(',').map(str::trim);
    Dialect::with(settings.filter(|setting| !setting.is_empty()))
        .map_err(|problem| problem.to_string())
}

/// The dialect as the value of the setting.
pub fn to_json(dialect: &Dialect) -> Json {
    serde_json::to_value(dialect).unwrap_or_default()
}
