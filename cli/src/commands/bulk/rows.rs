//! Reads the rows of a CSV or NDJSON file, one at a time.

mod columns;
mod opt_outs;

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use columns::{Columns, SameName, is_blank, placeholders, put};
pub use opt_outs::Subscribed;
use opt_outs::{only_subscribed, refuse_unread};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::input::content::in_file;
use crate::input::csv_records::{CsvRecords, Joined, not_utf8_at, start_of_text};
use crate::input::{json_problem, lossy_json, on_line};

/// The most bytes of a line of NDJSON.
const MAX_LINE: u64 = 1 << 20;

/// A row of the file.
#[derive(Clone, Debug)]
pub struct Row {
    /// Row number as a spreadsheet shows it, or the line number in NDJSON.
    pub number: u64,
    /// The recipient as in the file.
    pub address: String,
    /// What the column `subscribed` says.
    pub subscribed: Subscribed,
    /// The column beside `subscribed` that says that the person has opted out.
    pub opted_out_by: Option<String>,
    /// Why the row cannot be read.
    pub problem: Option<String>,
    /// The cells of a CSV file. Most emails need few values or none, so the values are made of
    /// them when they are asked for.
    cells: Option<(Arc<Columns>, csv::StringRecord)>,
    values: OnceLock<Map<String, Value>>,
    /// The keys of an object that share a placeholder.
    same_names: Vec<SameName>,
}

/// The rows of a file.
pub struct Rows {
    /// Whether the rows are contacts of an audience. Then only the key `subscribed`, which the
    /// service sets, says who is subscribed: others are metadata.
    pub are_contacts: bool,
    format: Format,
    column: Option<String>,
    name: std::path::PathBuf,
}

enum Format {
    Csv { records: Box<CsvRecords<BufReader<File>>>, columns: Arc<Columns>, number: u64 },
    Ndjson { reader: BufReader<File>, line: u64, buffer: Vec<u8> },
}

impl Rows {
    /// Opens a file. `column` has the addresses; by default the one that is named `email`. `name`
    /// is the file's name in messages.
    pub fn open(path: &Path, name: &Path, column: Option<&str>) -> Result<Self, Failure> {
        let open = || Format::open(path, column);
        let format = open().map_err(|failure| in_file(name, failure))?;
        let (column, name) = (column.map(str::to_owned), name.to_owned());
        Ok(Self { are_contacts: false, format, column, name })
    }

    /// The next row; `None` at the end of the file. A failure concerns the whole file.
    pub fn next(&mut self) -> Result<Option<Row>, Failure> {
        let row = match &mut self.format {
            Format::Csv { records, columns, number } => next_of_csv(records, columns, number),
            Format::Ndjson { reader, line, buffer } => {
                next_of_ndjson(reader, line, buffer, self.column.as_deref(), self.are_contacts)
            }
        };
        row.map_err(|failure| in_file(&self.name, failure))
    }

    /// Refuses a file with two columns that share a placeholder which the email uses.
    pub fn refuse_same_names(&self, is_used: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let Format::Csv { columns, .. } = &self.format else { return Ok(()) };
        let same = columns.same_names.iter().find(|same| is_used(&same.placeholder));
        same.map_or(Ok(()), |same| {
            let failure = Failure::input(format!("line 1: {}", same.problem()));
            Err(in_file(&self.name, failure.hint(same.way_out())))
        })
    }

    /// Whether a row may have a value of this name.
    pub fn may_have(&self, name: &str) -> bool {
        match &self.format {
            Format::Csv { columns, .. } => columns.has(name),
            Format::Ndjson { .. } => true,
        }
    }

    /// Whether a row may say who is subscribed.
    pub fn may_have_opt_outs(&self) -> bool {
        match &self.format {
            Format::Csv { columns, .. } => columns.subscribed.is_some(),
            Format::Ndjson { .. } => true,
        }
    }
}

impl Format {
    fn open(path: &Path, column: Option<&str>) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| Failure::input(error.to_string()))?;
        let mut reader = BufReader::with_capacity(64 * 1024, file);
        let start = start_of_text(&mut reader)?;
        match start.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => Err(Failure::input("the file is empty")),
            Some(b'{') => Ok(Self::Ndjson { reader, line: 0, buffer: Vec::new() }),
            Some(b'[') => {
                Err(Failure::input("a JSON array, which would have to be read as a whole")
                    .hint("write one object per line: jq -c '.[]' FILE | svc bulk send - …"))
            }
            Some(_) => Self::open_csv(reader, column),
        }
    }

    fn open_csv(reader: BufReader<File>, column: Option<&str>) -> Result<Self, Failure> {
        let mut records = CsvRecords::new(reader)?;
        let header = records.header()?;
        let columns = header.iter().map(str::to_owned).collect::<Vec<_>>();
        if let Some(twice) =
            columns.iter().enumerate().find(|(at, name)| columns[..*at].contains(name))
            && !twice.1.is_empty()
        {
            return Err(Failure::input(format!("line 1: two columns are named `{}`", twice.1)));
        }
        let is_email = |name: &str| match column {
            Some(column) => name == column,
            None => is_email(name),
        };
        let mut emails = columns.iter().enumerate().filter(|(_, name)| is_email(name));
        match (emails.next(), emails.next()) {
            (Some((email, _)), None) => {
                drop(emails);
                refuse_unread(1, columns.iter().map(String::as_str), &columns[email])?;
                let subscribed = only_subscribed(&columns)?;
                let columns = Arc::new(Columns::new(columns, email, subscribed));
                Ok(Self::Csv { records: Box::new(records), columns, number: 1 })
            }
            (Some(_), Some(_)) => {
                Err(Failure::input("line 1: several columns may hold the address")
                    .hint("name it: --column 'E-Mail'"))
            }
            (None, _) => Err(match column {
                Some(column) => {
                    Failure::usage(format!("--column: the file has no column `{column}`"))
                }
                None => Failure::input("line 1: no column is named `email`").hint(
                    "the first line names the columns; name that of the address: --column 'E-Mail'",
                ),
            }),
        }
    }
}

fn is_email(name: &str) -> bool {
    let name = name.to_lowercase().replace(['_', '-', ' '], "");
    matches!(name.as_str(), "email" | "emailaddress" | "mail")
}

fn next_of_csv(
    records: &mut CsvRecords<BufReader<File>>,
    columns: &Arc<Columns>,
    number: &mut u64,
) -> Result<Option<Row>, Failure> {
    loop {
        let Some(record) = records.next()? else { return Ok(None) };
        *number += 1;
        let (line, joined) = (record.line, record.joined);
        let cells = record.text()?;
        if joined == Some(Joined::Probably)
            || cells.get(columns.email).is_some_and(|cell| cell.contains('\n'))
        {
            return Err(Failure::input(format!(
                "line {line}: a value looks like several rows; check its quotes"
            ))
            .hint("a stray quote joins rows; remove it, or keep such a value in one line"));
        }
        // Spreadsheets leave empty rows at the end of a file.
        if cells.iter().all(str::is_empty) {
            continue;
        }
        let mut row = Row::new(*number, cells.get(columns.email).unwrap_or_default());
        let count = columns.names.len();
        if cells.len() < count || cells.iter().skip(count).any(|cell| !cell.is_empty()) {
            let values = cells.len();
            row.problem = Some(format!(
                "line {line}: the row has {values} values, but the header has {count}"
            ));
        }
        row.read_subscribed(columns.subscribed(&cells));
        for (column, cell) in columns.beside_subscribed(&cells) {
            row.read_beside_subscribed(column, cell);
        }
        row.cells = Some((Arc::clone(columns), cells));
        return Ok(Some(row));
    }
}

fn next_of_ndjson(
    reader: &mut BufReader<File>,
    number: &mut u64,
    buffer: &mut Vec<u8>,
    column: Option<&str>,
    are_contacts: bool,
) -> Result<Option<Row>, Failure> {
    loop {
        buffer.clear();
        if reader.take(MAX_LINE + 1).read_until(b'\n', buffer)? == 0 {
            return Ok(None);
        }
        *number += 1;
        let line = *number;
        if buffer.len() as u64 > MAX_LINE {
            return Err(Failure::input(format!("line {line}: longer than 1 MiB")));
        }
        let text = std::str::from_utf8(buffer)
            .map_err(|error| not_utf8_at(line, buffer, error.valid_up_to()))?;
        if text.trim().is_empty() {
            continue;
        }
        let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            // serde counts lines from the start of this one.
            Failure::input(on_line(&json_problem(&error), line))
        })?;
        let problem = lossy_json(text).map(|problem| on_line(&problem, line));
        let mut keys = object.keys().map(String::as_str).filter(|name| is_email(name));
        let (key, is_ambiguous) = match column {
            Some(column) => (Some(column), false),
            None => (keys.next(), keys.next().is_some()),
        };
        let address = key.and_then(|key| object.get(key)?.as_str()).unwrap_or_default();
        let names = object.keys().map(String::as_str);
        refuse_unread(line, names, key.unwrap_or_default())?;
        let mut row = Row::new(line, address.trim());
        row.problem = problem;
        if is_ambiguous {
            let problem = "several keys may hold the address; name it: --column email";
            row.problem = Some(problem.to_owned());
        }
        row.read_subscribed_of(&object, are_contacts);
        let mut values = Map::new();
        let (simple_names, same_names) = placeholders(object.keys().map(String::as_str));
        row.same_names = same_names;
        for ((name, value), simple) in object.into_iter().zip(simple_names) {
            let is_missing = value.is_null() || value.as_str().is_some_and(is_blank);
            if !is_missing && !name.is_empty() {
                put(&mut values, name, simple.as_deref(), value);
            }
        }
        row.values = values.into();
        return Ok(Some(row));
    }
}

impl Row {
    fn new(number: u64, address: &str) -> Self {
        Self {
            number,
            address: address.to_owned(),
            subscribed: Subscribed::Unsaid,
            opted_out_by: None,
            problem: None,
            cells: None,
            values: OnceLock::new(),
            same_names: Vec::new(),
        }
    }

    /// Every value that is not empty, by its column. A column such as `First Name` is also
    /// `first_name`, so that a placeholder can name it.
    pub fn values(&self) -> &Map<String, Value> {
        self.values.get_or_init(|| match &self.cells {
            Some((columns, cells)) => columns.values(cells),
            None => Map::new(),
        })
    }

    /// Whether there is a value of this name.
    pub fn has(&self, name: &str) -> bool {
        match &self.cells {
            Some((columns, cells)) => columns.has_value(cells, name),
            None => self.values().contains_key(name),
        }
    }

    /// Why the row cannot be used if two of its keys share a placeholder which the email uses.
    pub fn same_names(&self, is_used: impl Fn(&str) -> bool) -> Option<String> {
        let same = self.same_names.iter().find(|same| is_used(&same.placeholder))?;
        Some(format!("{}; {}", same.problem(), same.way_out()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8]) -> Result<Vec<Row>, Failure> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("rows");
        std::fs::write(&path, content).expect("written");
        let mut rows = Rows::open(&path, Path::new("people.csv"), None)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push(row);
        }
        Ok(all)
    }

    fn refusal(content: &[u8]) -> String {
        read(content).expect_err("refused").details().message.clone()
    }

    #[test]
    fn reads_csv_with_any_delimiter_and_numbers_rows_as_a_spreadsheet() {
        for file in [
            "\u{feff}E-Mail;First Name;subscribed\r\nada@b.test;\"Ada\r\nK;\";yes\r\n\r\neve@b.test;;no",
            "E-Mail,First Name,subscribed\nada@b.test,\"Ada\nK;\",yes\n\neve@b.test,,no\n",
        ] {
            let rows = read(file.as_bytes()).expect("a file");
            let shown = rows.iter().map(|row| (row.number, row.address.as_str(), row.subscribed));
            let expected = [(2, "ada@b.test", Subscribed::Yes), (4, "eve@b.test", Subscribed::No)];
            assert_eq!(shown.collect::<Vec<_>>(), expected);
            assert_eq!(rows[0].values()["first_name"], rows[0].values()["First Name"]);
            assert!(!rows[1].values().contains_key("first_name"), "empty is missing");
        }
    }

    #[test]
    fn reads_ndjson_and_keeps_types() {
        let rows = read(b"{\"email\":\"a@b.test\",\"n\":3,\"x\":null}\n\n{\"Mail\":\"c@d.test\"}")
            .expect("a file");
        assert_eq!((rows[0].number, rows[0].values()["n"].clone()), (1, Value::from(3)));
        assert!(!rows[0].values().contains_key("x"));
        assert_eq!((rows[1].number, rows[1].address.as_str()), (3, "c@d.test"));
        let rows = read(b"{\"E-Mail\":\"old@b.test\",\"email\":\"a@b.test\"}").expect("a file");
        assert!(rows[0].problem.as_deref().is_some_and(|why| why.starts_with("several keys")));
        assert!(refusal(b"{\"email\":\"a@b\"}\n{\"email\":\n").contains("at line 2 column"));
    }

    #[test]
    fn input_that_lies_is_refused_with_its_place() {
        let many = "b@b.test,Bob\n".repeat(900);
        for (file, place) in [
            (
                format!("email,name\na@b.test,\"Ada\n{many}"),
                "line 2, column 10: the quote is never",
            ),
            (
                format!("email,name\na@b.test,\"Ada\n{many}c@b.test,\"Smith, J\"\n"),
                "line 903, column 11: text follows a closing quote; the quote was opened in line 2",
            ),
            ("email,name\n\"a@b.test\"x,\n".to_owned(), "line 2, column 11: text follows"),
            (
                format!("email,name\na@b.test,{}\n", "x".repeat(2 << 20)),
                "line 2: the row is longer",
            ),
            (format!("email,name\na@b.test{}\n", ",x".repeat(100_000)), "line 2: more than 1000"),
            (format!("email{}\n", ",x".repeat(100_000)), "line 1: more than 1000"),
            ("email,name\na@b.test,A\rc@d.test,C\n".to_owned(), "line 2: a carriage return"),
            ("email,email\na@b.test,c@d.test\n".to_owned(), "line 1: two columns"),
            ("name,plan\nAda,pro\n".to_owned(), "line 1: no column is named `email`"),
            ("[{}]".to_owned(), "a JSON array"),
            (" \n".to_owned(), "the file is empty"),
        ] {
            let message = refusal(file.as_bytes());
            assert!(message.starts_with(&format!("people.csv: {place}")), "{message}");
        }
        assert!(refusal(b"\xFF\xFEe\0m\0a\0").contains("UTF-16"));
        assert!(refusal(b"e\0m\0a\0i\0l\0\n\0").contains("UTF-16"));
        assert!(refusal(b"email,name\na@b.test,Zo\xeb\n").contains("line 2, column 12: not UTF-8"));
        assert!(refusal(b"email,name\na@b.test,Z\0\n").contains("line 2, column 11: UTF-16 or"));
        let later = format!("email,name\n{many}c@d.test,\"x\ny\0\"\n");
        assert!(refusal(later.as_bytes()).contains("line 903, column 2: UTF-16 or binary"));
    }

    #[test]
    fn only_the_column_subscribed_says_who_gets_the_email() {
        for file in [
            "email,unsubscribed\na@b.test,yes\n",
            "email,Status\na@b.test,x\n",
            "{\"email\":\"a@b.test\",\"opt_out\":true}",
        ] {
            assert!(refusal(file.as_bytes()).contains("may say who has opted out"), "{file}");
        }
        for (file, problem) in [
            ("email,subscribed,Status\na@b.test,,x\n", "is empty"),
            ("email,subscribed\na@b.test\n", "has 1 values, but the header has 2"),
            ("{\"email\":\"a@b.test\",\"subscribed\":null}", "is empty"),
        ] {
            let rows = read(file.as_bytes()).expect("a file");
            assert!(rows[0].problem.as_deref().is_some_and(|why| why.contains(problem)));
            assert_eq!(rows[0].subscribed, Subscribed::Unsaid);
        }
    }

    #[test]
    fn quotes_that_join_rows_refuse_the_file() {
        for file in
            ["email,name\na@b.test,\"Ada\nc@d.test,Bob\"\n", "email\n\"a@b.test\nc@d.test\"\n"]
        {
            let message = refusal(file.as_bytes());
            assert!(message.starts_with("people.csv: line 2: a value"), "{message}");
        }
        let rows = read(b"email,name\n\"e@f.test\",\"1 Main St\nX\"\n").expect("a file");
        assert_eq!((rows[0].number, rows[0].problem.as_deref()), (2, None));
        let rows = read(b"email,name\na@b.test,Ada,x\nc@d.test,C,\n").expect("a file");
        assert!(rows[0].problem.as_deref().is_some_and(|why| why.contains("3 values")));
        assert_eq!(rows[1].problem, None);
    }
}
