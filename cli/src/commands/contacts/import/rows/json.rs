//! Reads contacts in JSON, as `svc contacts export` writes them: NDJSON, or one array.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Field, File, InvalidRow, Row, Rows, complete, described, guessed};
use crate::failure::Failure;
use crate::input::json_problem;

/// Whether a file holds JSON: no CSV header begins like this.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Reads the contacts. The number of one is its line, or its position in the array.
pub(super) fn read(bytes: &[u8]) -> Result<File, Failure> {
    let mut rows = Rows::default();
    let mut keys = BTreeSet::new();
    if bytes.trim_ascii_start().starts_with(b"[") {
        let contacts = serde_json::from_slice::<Vec<Value>>(bytes).map_err(|error| {
            Failure::input(format!("not a JSON array: {}", json_problem(&error)))
        })?;
        for (index, contact) in contacts.into_iter().enumerate() {
            rows.push(row(index + 1, contact, &mut keys));
        }
    } else {
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let contact = serde_json::from_slice(line);
            let contact = contact.map_err(|error| (index + 1, json_problem(&error)));
            rows.push(contact.and_then(|contact| row(index + 1, contact, &mut keys)));
        }
    }
    let guesses = keys.iter().map(|key| guessed(key)).collect::<Vec<_>>();
    let keys = csv::StringRecord::from_iter(&keys);
    let (mapping, doubtful) = described(&keys, &guesses, &[]);
    Ok(File { rows: rows.all, mapping, doubtful, is_json: true, joined: None })
}

/// Reads one contact, and adds its keys to those of the file.
fn row(number: usize, contact: Value, keys: &mut BTreeSet<String>) -> Result<Row, InvalidRow> {
    let Value::Object(contact) = contact else {
        return Err((number, "not a JSON object".to_owned()));
    };
    for key in contact.keys() {
        if !keys.contains(key) {
            keys.insert(key.clone());
        }
    }
    fields(number, contact).map_err(|why| (number, why))
}

/// Maps the keys of an object as the columns of a CSV file.
fn fields(number: usize, contact: Map<String, Value>) -> Result<Row, String> {
    let mut row = Row {
        number,
        email: String::new(),
        name: None,
        topics: Vec::new(),
        subscribed: None,
        metadata: Map::new(),
    };
    let (mut first, mut last, mut filled) = (None, None, Vec::new());
    for (key, value) in contact.into_iter().filter(|(_, value)| !value.is_null()) {
        let field = guessed(&key);
        if field != Field::Ignore && filled.contains(&field) {
            return Err(format!("several keys map to the field of `{key}`"));
        }
        match &field {
            Field::Email => row.email = text(&key, value)?,
            Field::Name => row.name = Some(text(&key, value)?),
            Field::FirstName => first = Some(text(&key, value)?),
            Field::LastName => last = Some(text(&key, value)?),
            Field::Topics => {
                row.topics = serde_json::from_value(value)
                    .map_err(|_| format!("`{key}` is not a list of strings"))?;
            }
            Field::Subscribed => match value {
                Value::Bool(subscribed) => row.subscribed = Some(subscribed),
                _ => return Err(format!("`{key}` must be true or false")),
            },
            Field::WholeMetadata => match value {
                Value::Object(metadata) => row.metadata.extend(metadata),
                _ => return Err(format!("`{key}` is not a JSON object")),
            },
            Field::Metadata(name) => {
                row.metadata.insert(name.clone(), value);
            }
            Field::Ignore => {}
        }
        filled.push(field);
    }
    complete(row, first.as_deref(), last.as_deref())
}

fn text(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(format!("`{key}` is not a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_read_and_invalid_rows_do_not_stop_the_others() {
        let one = r#"{"id":"con_1","email":"a@b.test","name":" A ","topics":["x;y"],"subscribed":false,"metadata":{"n":1}}"#;
        let lines = format!("{one}\n\n{{\"email\":7}}\n{{\"email\":\"A@b.test\"}}\nno\n");
        let file = read(lines.as_bytes()).expect("a file");
        let row = file.rows[0].as_ref().expect("valid");
        assert_eq!((row.name.as_deref(), row.subscribed), (Some(" A "), Some(false)));
        assert_eq!(
            (row.topics.as_slice(), &row.metadata["n"]),
            (&["x;y".to_owned()][..], &1.into())
        );
        let invalid = file.rows[1..].iter().map(|row| row.as_ref().expect_err("invalid").0);
        assert_eq!(invalid.collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(read(format!("[{one}]").as_bytes()).expect("a file").rows.len(), 1);
    }
}
