//! Reads contacts in JSON, as `svc contacts export` writes them: NDJSON, or one array.

use serde_json::{Map, Value};

use super::{File, InvalidRow, Row, Rows};
use crate::failure::Failure;
use crate::input::json_problem;

/// Whether a file holds JSON: no CSV header begins like this.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Reads the contacts. The number of one is its line, or its position in the array.
pub(super) fn read(bytes: &[u8]) -> Result<File, Failure> {
    let mut rows = Rows::default();
    if bytes.trim_ascii_start().starts_with(b"[") {
        let contacts = serde_json::from_slice::<Vec<Value>>(bytes).map_err(|error| {
            Failure::input(format!("not a JSON array: {}", json_problem(&error)))
        })?;
        for (index, contact) in contacts.into_iter().enumerate() {
            rows.push(row(index + 1, contact));
        }
    } else {
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let contact = serde_json::from_slice(line);
            let contact = contact.map_err(|error| (index + 1, json_problem(&error)));
            rows.push(contact.and_then(|contact| row(index + 1, contact)));
        }
    }
    Ok(File {
        rows: rows.all,
        mapping: "email, name, topics, subscribed and metadata of each object".to_owned(),
        doubtful: Vec::new(),
        joined: None,
    })
}

fn row(number: usize, contact: Value) -> Result<Row, InvalidRow> {
    let Value::Object(contact) = contact else {
        return Err((number, "not a JSON object".to_owned()));
    };
    fields(number, contact).map_err(|why| (number, why))
}

fn fields(number: usize, mut contact: Map<String, Value>) -> Result<Row, String> {
    let mut take = |field: &str| contact.remove(field).filter(|value| !value.is_null());
    let text = |field: &str, value: Option<Value>| match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{field}` is not a string")),
    };
    Ok(Row {
        number,
        email: text("email", take("email"))?
            .filter(|email| !email.is_empty())
            .ok_or("the row has no email address")?,
        name: text("name", take("name"))?,
        topics: match take("topics") {
            None => Vec::new(),
            Some(topics) => serde_json::from_value(topics)
                .map_err(|_| "`topics` is not a list of strings".to_owned())?,
        },
        subscribed: match take("subscribed") {
            None => None,
            Some(Value::Bool(subscribed)) => Some(subscribed),
            Some(_) => return Err("`subscribed` must be true or false".to_owned()),
        },
        metadata: match take("metadata") {
            None => Map::new(),
            Some(Value::Object(metadata)) => metadata,
            Some(_) => return Err("`metadata` is not a JSON object".to_owned()),
        },
    })
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
