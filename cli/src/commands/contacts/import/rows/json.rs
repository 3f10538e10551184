//! Reads contacts in JSON, as `svc contacts export` writes them: NDJSON, or one array.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::columns::{Field, beside_name, described, guessed};
use super::{File, InvalidRow, Parts, Row, Rows, subscribed};
use crate::failure::Failure;
use crate::input::{json_problem, lossy_json, on_line};

/// Whether a file holds JSON: no CSV header begins like this.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Reads the contacts. The number of one is its line, or its position in the array.
pub(super) fn read(bytes: &[u8]) -> Result<File, Failure> {
    let contacts = match bytes.trim_ascii_start().starts_with(b"[") {
        true => array(bytes)?,
        false => lines(bytes),
    };
    let objects = contacts.iter().filter_map(|contact| contact.value.as_object());
    let keys = objects.flat_map(Map::keys).map(String::as_str).collect::<BTreeSet<_>>();
    let keys = keys.into_iter().collect::<Vec<_>>();
    let fields = beside_name(&keys, keys.iter().map(|key| guessed(key)).collect());
    let (mapping, doubtful) = described(&keys.iter().collect(), &fields, &[]);
    let has_subscribed = fields.contains(&Field::Subscribed);
    let fields = keys.iter().map(|key| (*key).to_owned()).zip(fields).collect();
    let mut rows = Rows::default();
    for contact in contacts {
        rows.push(row(contact, &fields));
    }
    let rows = rows.finish();
    let unnamed = Vec::new();
    Ok(File { rows, mapping, doubtful, is_json: true, has_subscribed, unnamed, joined: None })
}

/// A contact of the file, or why it cannot be read.
struct Contact {
    number: usize,
    value: Value,
    problem: Option<String>,
}

fn array(bytes: &[u8]) -> Result<Vec<Contact>, Failure> {
    let contacts = serde_json::from_slice::<Vec<Value>>(bytes)
        .map_err(|error| Failure::input(format!("not a JSON array: {}", json_problem(&error))))?;
    if let Some(problem) = lossy_json(&String::from_utf8_lossy(bytes)) {
        return Err(Failure::input(problem));
    }
    let contacts = contacts.into_iter().zip(1..);
    Ok(contacts.map(|(value, number)| Contact { number, value, problem: None }).collect())
}

fn lines(bytes: &[u8]) -> Vec<Contact> {
    let lines = bytes.split(|byte| *byte == b'\n').zip(1..);
    let lines = lines.filter(|(line, _)| !line.trim_ascii().is_empty());
    let contact = |(line, number): (&[u8], usize)| match serde_json::from_slice::<Value>(line) {
        Ok(value) => {
            let problem = lossy_json(&String::from_utf8_lossy(line));
            Contact { number, value, problem: problem.map(|problem| on_line(&problem, number)) }
        }
        Err(error) => {
            let problem = on_line(&json_problem(&error), number);
            Contact { number, value: Value::Null, problem: Some(problem) }
        }
    };
    lines.map(contact).collect()
}

/// Maps the keys of an object as the columns of a CSV file.
fn row(contact: Contact, fields: &BTreeMap<String, Field>) -> Result<Row, InvalidRow> {
    let Contact { number, value, mut problem } = contact;
    let (mut row, mut parts) = (Row::new(number), Parts::default());
    let Value::Object(contact) = value else {
        let why = problem.unwrap_or_else(|| "not a JSON object".to_owned());
        return Err(row.invalid(why));
    };
    // A key that is given twice, for example: the object has only one of its values.
    let is_damaged = problem.is_some();
    let mut filled = Vec::new();
    // All values are read, so that the report names the address, and an opt-out is not missed.
    for (key, value) in contact.into_iter().filter(|(_, value)| !value.is_null()) {
        let Some(field) = fields.get(&key) else { continue };
        let read = if *field != Field::Ignore && filled.contains(&field) {
            if *field == Field::Subscribed {
                row.subscribed = Some(false);
            }
            Err(format!("several keys map to the field of `{key}`"))
        } else {
            row.read_value(&key, value, field, &mut parts)
        };
        problem = problem.or(read.err());
        filled.push(field);
    }
    if is_damaged && row.subscribed.is_some() {
        row.subscribed = Some(false);
    }
    row.complete(parts, problem)
}

impl Row {
    fn read_value(
        &mut self,
        key: &str,
        value: Value,
        field: &Field,
        parts: &mut Parts,
    ) -> Result<(), String> {
        match field {
            Field::Email => match value {
                Value::String(email) => self.email = email,
                other => {
                    self.email = other.to_string();
                    return Err(format!("`{key}` is not a string"));
                }
            },
            Field::Name => self.name = Some(text(key, value)?),
            Field::FirstName(entry) | Field::LastName(entry) => {
                return self.part_of_name(text(key, value)?, field, entry.as_ref(), parts);
            }
            Field::Topics => {
                self.topics = serde_json::from_value(value)
                    .map_err(|_| format!("`{key}` is not a list of strings"))?;
            }
            Field::Subscribed => {
                // As in CSV.
                self.subscribed = Some(false);
                match value {
                    Value::Bool(subscribed) => self.subscribed = Some(subscribed),
                    Value::String(word) => self.subscribed = Some(subscribed(&word)?),
                    _ => return Err(format!("`{key}` must be true or false")),
                }
            }
            Field::WholeMetadata => match value {
                Value::Object(metadata) => return self.all_metadata(metadata),
                _ => return Err(format!("`{key}` is not a JSON object")),
            },
            Field::Metadata(name) => return self.metadata(name.clone(), value),
            Field::Ignore => {}
        }
        Ok(())
    }
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
        let invalid = file.rows[1..].iter().map(|row| row.as_ref().expect_err("invalid").number);
        assert_eq!(invalid.collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(read(format!("[{one}]").as_bytes()).expect("a file").rows.len(), 1);
    }
}
