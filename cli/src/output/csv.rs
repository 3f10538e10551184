//! CSV of results: a line for each object, under the names of all fields.

use serde_json::{Map, Value};

/// The objects of a list, or one object. A value that is not an object is in the column `value`.
pub(super) fn to_csv(value: &Value) -> String {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        item => std::slice::from_ref(item),
    };
    let object = |item: &Value| match item {
        Value::Object(fields) => fields.clone(),
        other => Map::from_iter([("value".to_owned(), other.clone())]),
    };
    let items = items.iter().map(object).collect::<Vec<_>>();
    let mut columns = Vec::<&str>::new();
    for name in items.iter().flat_map(Map::keys) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let lines = items.iter().map(|item| columns.iter().map(|name| cell(item.get(*name))).collect());
    let header = columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    std::iter::once(header)
        .filter(|header| !header.is_empty())
        .chain(lines)
        .map(|it| line(&it))
        .collect()
}

/// A line of CSV.
pub fn line<T: AsRef<[u8]>>(cells: &[T]) -> String {
    let mut writer = ::csv::WriterBuilder::new().from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_has_a_header_and_a_line_for_each_object() {
        let list = json!([{"id": 1, "name": "A, B"}, {"id": 2, "tags": ["x"], "none": null}]);
        assert_eq!(to_csv(&list), "id,name,tags,none\n1,\"A, B\",,\n2,,\"[\"\"x\"\"]\",\n");
        assert_eq!(to_csv(&json!({"a": "say \"hi\""})), "a\n\"say \"\"hi\"\"\"\n");
        assert_eq!(
            (to_csv(&json!([])), to_csv(&json!(["x"]))),
            (String::new(), "value\nx\n".into())
        );
    }
}
