//! Writes results as CSV: `to_csv` for a whole result, `Items` for a long one, item by item.
//! `ListWriter` does that for the other formats, and keeps the items that a format needs all at
//! once. `push` reports a closed pipe, so that the rest is not read. With `--safe-cells`, no cell
//! is a formula for a spreadsheet.

use serde::Serialize;
use serde_json::{Value, json};

use super::text::json_safe;
use super::{Format, Printer, to_value, unless_closed};
use crate::failure::Failure;

/// A long result that is written item by item: as CSV, unless an option selects another format.
pub struct Items<'a> {
    out: &'a Printer,
    columns: &'a [&'a str],
    /// Whether the items are lines of CSV.
    pub are_lines: bool,
    has_header: bool,
    list: ListWriter,
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
            list: ListWriter::default(),
        }
    }

    /// Writes an item. A closed pipe is reported, so that the rest is not read.
    pub fn push(&mut self, item: &impl Serialize) -> Result<(), Failure> {
        let item = to_value(item)?;
        if self.are_lines {
            self.header()?;
            let line = row(&item, self.columns, self.out.look.safe_cells);
            return self.out.raw_data(&line);
        }
        self.list.push(self.out, item)
    }

    /// Writes JSON item by item, too.
    pub fn streamed(mut self) -> Self {
        self.list = ListWriter::streamed();
        self
    }

    /// The items of a format that needs all of them.
    pub fn document(&self) -> &[Value] {
        &self.list.document
    }

    /// Ends the result.
    pub fn finish(mut self) -> Result<(), Failure> {
        if self.are_lines {
            return self.header();
        }
        self.list.finish(self.out)
    }

    fn header(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        self.out.raw(&line(self.columns))
    }
}

/// A list that is written item by item: lines at once, other formats at the end.
#[derive(Default)]
pub struct ListWriter {
    /// Whether JSON is written at once, too. If the list fails halfway, so does its JSON.
    is_streamed: bool,
    count: u64,
    /// The items of a format that needs all of them.
    document: Vec<Value>,
}

impl ListWriter {
    /// One that writes JSON at once, too.
    pub fn streamed() -> Self {
        Self {
            is_streamed: true,
            ..Self::default()
        }
    }

    /// Writes an item. A closed pipe is reported, so that the rest is not read.
    pub fn push(&mut self, out: &Printer, item: Value) -> Result<(), Failure> {
        self.count += 1;
        match out.format() {
            Format::Ndjson => out.part(&item),
            Format::Json if self.is_streamed && !out.has_filter() => {
                let start = if self.count == 1 { "[" } else { "," };
                let item = format!("{item:#}").replace('\n', "\n  ");
                out.raw(&json_safe(&format!("{start}\n  {item}")))
            }
            _ => {
                self.document.push(item);
                Ok(())
            }
        }
    }

    /// Ends the list.
    pub fn finish(self, out: &Printer) -> Result<(), Failure> {
        match out.format() {
            Format::Ndjson => Ok(()),
            Format::Json if self.is_streamed && !out.has_filter() => {
                let end = if self.count == 0 { "[]\n" } else { "\n]\n" };
                unless_closed(out.raw(end))
            }
            _ => out.value(&self.document),
        }
    }
}

/// The objects of a list, or one object. A value that is not an object is in the column `value`.
///
/// With `safe_cells`, no cell is a formula for a spreadsheet.
pub(super) fn to_csv(value: &Value, safe_cells: bool) -> String {
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
        .chain(items.iter().map(|item| row(item, &columns, safe_cells)))
        .collect()
}

fn row(item: &Value, columns: &[&str], safe_cells: bool) -> String {
    let cells = columns.iter().map(|name| {
        let cell = cell(item.get(*name));
        if safe_cells && is_formula(&cell) {
            format!("'{cell}")
        } else {
            cell
        }
    });
    line(&cells.collect::<Vec<_>>())
}

/// Whether a spreadsheet calculates the cell. A number is no formula, also a negative one.
fn is_formula(cell: &str) -> bool {
    let start = cell.trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}', '"', '\'']);
    start.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) && cell.parse::<f64>().is_err()
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
    fn only_safe_cells_have_no_formulas() {
        let row = json!({"a": "=1+1", "b": "\t@SUM(1)", "c": -5, "d": "-1+cmd", "e": "x=1"});
        assert_eq!(
            to_csv(&row, false),
            "a,b,c,d,e\n=1+1,\t@SUM(1),-5,-1+cmd,x=1\n"
        );
        assert_eq!(
            to_csv(&row, true),
            "a,b,c,d,e\n'=1+1,'\t@SUM(1),-5,'-1+cmd,x=1\n"
        );
    }

    #[test]
    fn a_list_has_a_header_and_a_line_for_each_object() {
        let list = json!([{"id": 1, "name": "A, B"}, {"id": 2, "tags": ["x"], "none": null}]);
        assert_eq!(
            to_csv(&list, false),
            "id,name,tags,none\n1,\"A, B\",,\n2,,\"[\"\"x\"\"]\",\n"
        );
        assert_eq!(
            to_csv(&json!({"a": "say \"hi\""}), false),
            "a\n\"say \"\"hi\"\"\"\n"
        );
        assert_eq!(
            (to_csv(&json!([]), false), to_csv(&json!(["x"]), false)),
            (String::new(), "value\nx\n".into())
        );
    }
}
