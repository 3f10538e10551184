//! CSV of results: a line for each object, under the names of all fields, or under given columns.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Format, Printer, to_value};
use crate::failure::Failure;

/// A long result that is written item by item: as CSV, unless an option selects another format.
pub struct Items<'a> {
    out: &'a Printer,
    columns: &'a [&'a str],
    /// Whether the items are lines of CSV.
    pub are_lines: bool,
    has_header: bool,
    /// The items of a format that is one document.
    pub document: Vec<Value>,
}

impl<'a> Items<'a> {
    pub fn new(out: &'a Printer, columns: &'a [&'a str]) -> Self {
        let are_lines = match out.format() {
            Format::Csv => !out.has_filter(),
            _ => out.look.format.is_none() && !out.has_filter(),
        };
        Self {
            out,
            columns,
            are_lines,
            has_header: false,
            document: Vec::new(),
        }
    }

    /// Writes an item. A closed pipe is reported, so that the rest is not read.
    pub fn push(&mut self, item: &impl Serialize) -> Result<(), Failure> {
        let item = to_value(item);
        if self.are_lines {
            self.header()?;
            return self.out.raw_data(&row(&item, self.columns));
        }
        match self.out.format() {
            Format::Ndjson => self.out.part(&item)?,
            _ => self.document.push(item),
        }
        Ok(())
    }

    /// Ends the result.
    pub fn finish(mut self) -> Result<(), Failure> {
        match self.out.format() {
            _ if self.are_lines => self.header(),
            Format::Ndjson => Ok(()),
            _ => self.out.value(&self.document),
        }
    }

    fn header(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        self.out.raw(&line(self.columns))
    }
}

/// The objects of a list, or one object. A value that is not an object is in the column `value`.
pub(super) fn to_csv(value: &Value) -> String {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        item => std::slice::from_ref(item),
    };
    let object = |item: &Value| match item {
        Value::Object(_) => item.clone(),
        other => json!({"value": other}),
    };
    let items = items.iter().map(object).collect::<Vec<_>>();
    let mut columns = Vec::new();
    for name in items
        .iter()
        .filter_map(Value::as_object)
        .flat_map(|item| item.keys())
    {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let header = (!columns.is_empty()).then(|| line(&columns));
    header
        .into_iter()
        .chain(items.iter().map(|item| row(item, &columns)))
        .collect()
}

fn row(item: &Value, columns: &[&str]) -> String {
    line(
        &columns
            .iter()
            .map(|name| cell(item.get(*name)))
            .collect::<Vec<_>>(),
    )
}

/// A line of CSV.
fn line<T: AsRef<[u8]>>(cells: &[T]) -> String {
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
        assert_eq!(
            to_csv(&list),
            "id,name,tags,none\n1,\"A, B\",,\n2,,\"[\"\"x\"\"]\",\n"
        );
        assert_eq!(
            to_csv(&json!({"a": "say \"hi\""})),
            "a\n\"say \"\"hi\"\"\"\n"
        );
        assert_eq!(
            (to_csv(&json!([])), to_csv(&json!(["x"]))),
            (String::new(), "value\nx\n".into())
        );
    }
}
