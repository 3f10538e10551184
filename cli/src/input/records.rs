//! Reads the records of a file, one at a time: CSV, NDJSON, or a JSON array of objects.
//!
//! What concerns the whole file is a failure: another encoding, a quote that is never closed, a line
//! that is not JSON. What concerns one record is its `problem`, and the other records are read.

use std::collections::HashSet;
use std::io::{BufRead, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::content::in_file;
use super::{json_problem, lossy_json, on_line};
use crate::failure::Failure;

/// The most bytes of a CSV record or a line of NDJSON.
const MAX_RECORD: u64 = 1 << 20;
/// The most values of a CSV record.
const MAX_VALUES: usize = 1000;
/// The most bytes of a JSON array, which is read as a whole.
const MAX_ARRAY: u64 = 256 << 20;

/// One record of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The row as a spreadsheet shows it, the line in NDJSON, or the position in a JSON array.
    pub number: u64,
    /// The columns or keys, with their values. An empty cell is an empty text.
    pub fields: Vec<(Arc<str>, Value)>,
    /// Why the record cannot be used.
    pub problem: Option<String>,
}

/// The records of a file.
pub struct Records {
    /// The file, for messages.
    name: PathBuf,
    format: Format,
}

enum Format {
    Csv { csv: Csv, columns: Vec<Arc<str>>, number: u64 },
    Ndjson { reader: Box<dyn BufRead + Send>, line: u64, buffer: Vec<u8> },
    Array { values: std::vec::IntoIter<Value>, number: u64 },
}

impl Records {
    /// Starts to read. `name` is the file's name in messages, or `-` for standard input.
    pub fn new(reader: Box<dyn BufRead + Send>, name: &Path) -> Result<Self, Failure> {
        let format = Format::of(reader).map_err(|failure| in_file(name, failure))?;
        Ok(Self { name: name.to_owned(), format })
    }

    /// Names the file in the message of invalid input.
    pub fn in_file(&self, failure: Failure) -> Failure {
        in_file(&self.name, failure)
    }

    /// The columns of a CSV file.
    pub fn columns(&self) -> Option<&[Arc<str>]> {
        match &self.format {
            Format::Csv { columns, .. } => Some(columns),
            _ => None,
        }
    }

    /// Keeps white space around values of CSV.
    pub fn keep_white_space(&mut self) {
        if let Format::Csv { csv, .. } = &mut self.format {
            csv.trims = false;
        }
    }

    /// The next record; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Record>, Failure> {
        self.format.next().map_err(|failure| in_file(&self.name, failure))
    }
}

impl Format {
    fn of(mut reader: Box<dyn BufRead + Send>) -> Result<Self, Failure> {
        let start = reader.fill_buf()?;
        let is_utf16 = start.starts_with(b"\xFF\xFE") || start.starts_with(b"\xFE\xFF");
        let nul = start.iter().take(100).position(|byte| *byte == 0);
        if let Some(at) = if is_utf16 { Some(0) } else { nul } {
            return Err(not_text(1, start, at));
        }
        if start.starts_with(b"\xEF\xBB\xBF") {
            reader.consume(3);
        }
        match reader.fill_buf()?.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => Err(Failure::input("the file is empty")),
            Some(b'{') => Ok(Self::Ndjson { reader, line: 0, buffer: Vec::new() }),
            Some(b'[') => {
                let values = array(reader)?.into_iter();
                Ok(Self::Array { values, number: 0 })
            }
            Some(_) => {
                let mut csv = Csv { reader, delimiter: b',', trims: true, line: 0 };
                let columns = csv.header()?.into_iter().map(Arc::from).collect::<Vec<Arc<str>>>();
                let mut seen = HashSet::new();
                if let Some(twice) = columns.iter().find(|it| !it.is_empty() && !seen.insert(*it)) {
                    let problem = format!("line 1: two columns are named `{twice}`");
                    return Err(Failure::input(problem).hint("rename or remove one"));
                }
                Ok(Self::Csv { csv, columns, number: 1 })
            }
        }
    }

    fn next(&mut self) -> Result<Option<Record>, Failure> {
        match self {
            Self::Csv { csv, columns, number } => loop {
                let Some(values) = csv.next(columns.len())? else { return Ok(None) };
                *number += 1;
                // Spreadsheets leave empty rows at the end of a file.
                if values.iter().all(|value| value.trim().is_empty()) {
                    continue;
                }
                let (count, expected) = (values.len(), columns.len());
                let has_more = values.iter().skip(expected).any(|value| !value.is_empty());
                let problem = (count < expected || has_more).then(|| {
                    let line = csv.line;
                    format!(
                        "line {line}: the row has {count} values, but the header has {expected}"
                    )
                });
                let values = values.into_iter().map(Value::String);
                let fields = columns.iter().cloned().zip(values).collect();
                return Ok(Some(Record { number: *number, fields, problem }));
            },
            Self::Ndjson { reader, line, buffer } => loop {
                buffer.clear();
                if reader.take(MAX_RECORD + 1).read_until(b'\n', buffer)? == 0 {
                    return Ok(None);
                }
                *line += 1;
                if buffer.len() as u64 > MAX_RECORD {
                    return Err(Failure::input(format!("line {line}: longer than 1 MiB")));
                }
                let text = std::str::from_utf8(buffer)
                    .map_err(|error| not_utf8(*line, buffer, error.valid_up_to()))?;
                if text.trim().is_empty() {
                    continue;
                }
                // serde counts lines from the start of this one.
                let value = serde_json::from_str(text)
                    .map_err(|error| Failure::input(on_line(&json_problem(&error), *line)))?;
                let problem = lossy_json(text).map(|problem| on_line(&problem, *line));
                return Ok(Some(object(*line, value, problem)));
            },
            Self::Array { values, number } => {
                *number += 1;
                Ok(values.next().map(|value| object(*number, value, None)))
            }
        }
    }
}

fn object(number: u64, value: Value, problem: Option<String>) -> Record {
    let (object, problem) = match value {
        Value::Object(object) => (object, problem),
        _ => (Map::new(), Some("not a JSON object".to_owned())),
    };
    let fields = object.into_iter().map(|(key, value)| (Arc::from(key), value)).collect();
    Record { number, fields, problem }
}

fn array(reader: Box<dyn BufRead + Send>) -> Result<Vec<Value>, Failure> {
    let mut bytes = Vec::new();
    reader.take(MAX_ARRAY + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_ARRAY {
        return Err(Failure::input("the JSON array is larger than 256 MiB")
            .hint("write one object per line: jq -c '.[]' FILE"));
    }
    let text = std::str::from_utf8(&bytes).map_err(|e| not_utf8(1, &bytes, e.valid_up_to()))?;
    let values = serde_json::from_str(text)
        .map_err(|error| Failure::input(format!("not a JSON array: {}", json_problem(&error))))?;
    lossy_json(text).map_or(Ok(values), |problem| Err(Failure::input(problem)))
}

/// Splits CSV into records. The `csv` crate accepts a stray quote, which then swallows the rows up to
/// the next one; here it is an error.
struct Csv {
    reader: Box<dyn BufRead + Send>,
    delimiter: u8,
    /// Whether white space around values is removed.
    trims: bool,
    /// The number of the last line that was read.
    line: u64,
}

/// Where the parser is in a record.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    StartOfValue,
    InValue,
    InQuotes,
    /// After a quote in quotes: the end of the value, or the first of two quotes.
    AfterQuote,
    /// After a carriage return outside of quotes.
    AfterReturn,
}

impl Csv {
    /// Reads the header. Its delimiter is the most frequent one, as many spreadsheets write
    /// semicolons, or that of a first line such as `sep=;`.
    fn header(&mut self) -> Result<Vec<String>, Failure> {
        let start = self.reader.fill_buf()?;
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if let Some([delimiter]) = line.trim_ascii_end().strip_prefix(b"sep=") {
            self.delimiter = *delimiter;
            let length = (line.len() + 1).min(start.len());
            self.reader.consume(length);
            self.line = 1;
        } else {
            let count = |wanted: u8| line.iter().filter(|byte| **byte == wanted).count();
            let frequent = [b',', b';', b'\t'].into_iter().rev().max_by_key(|d| count(*d));
            self.delimiter = frequent.unwrap_or(b',');
        }
        Ok(self.next(0)?.unwrap_or_default())
    }

    /// The values of the next record; `None` at the end of the file.
    fn next(&mut self, columns: usize) -> Result<Option<Vec<String>>, Failure> {
        let first = self.line + 1;
        let (mut raw, mut values, mut value) = (Vec::new(), Vec::new(), Vec::new());
        let (mut place, mut opened) = (Place::StartOfValue, (first, 1));
        loop {
            let start = raw.len();
            let left = MAX_RECORD.saturating_sub(start as u64);
            let read = (&mut self.reader).take(left + 1).read_until(b'\n', &mut raw)?;
            if raw.len() as u64 > MAX_RECORD {
                return Err(too_long(first, (place == Place::InQuotes).then_some(opened)));
            }
            if read == 0 {
                match place {
                    Place::InQuotes => return Err(never_closed(opened)),
                    _ if raw.is_empty() => return Ok(None),
                    _ => break,
                }
            }
            self.line += 1;
            for (at, &byte) in raw[start..].iter().enumerate() {
                if byte == 0 {
                    return Err(not_text(self.line, &raw[start..], at));
                }
                place = match (place, byte) {
                    (Place::InQuotes, b'"') => Place::AfterQuote,
                    (Place::AfterQuote, b'"') | (Place::InQuotes, _) => {
                        value.push(byte);
                        Place::InQuotes
                    }
                    (_, b'\n') => Place::StartOfValue,
                    (Place::AfterReturn, _) => return Err(lone_return(self.line)),
                    (_, b'\r') => Place::AfterReturn,
                    (Place::StartOfValue, b'"') => {
                        opened = (self.line, at + 1);
                        Place::InQuotes
                    }
                    (_, byte) if byte == self.delimiter => {
                        values.push(std::mem::take(&mut value));
                        if values.len() >= MAX_VALUES {
                            return Err(Failure::input(format!(
                                "line {}: more than {MAX_VALUES} values in a row",
                                self.line
                            )));
                        }
                        Place::StartOfValue
                    }
                    (Place::AfterQuote, _) => return Err(after_quote((self.line, at + 1), opened)),
                    _ => {
                        value.push(byte);
                        Place::InValue
                    }
                };
            }
            if place == Place::StartOfValue && raw.ends_with(b"\n") {
                break;
            }
        }
        values.push(value);
        if let Err(error) = std::str::from_utf8(&raw) {
            return Err(not_utf8(first, &raw, error.valid_up_to()));
        }
        // Every part of a valid text between two ASCII characters is valid.
        let values = values.into_iter().map(|value| String::from_utf8_lossy(&value).into_owned());
        let mut values = values.collect::<Vec<_>>();
        if self.line > first && values.iter().any(|value| self.looks_like_rows(value, columns)) {
            return Err(Failure::input(format!(
                "line {first}: a value looks like several rows; check its quotes"
            ))
            .hint("a stray quote joins rows; remove it, or keep such a value in one line"));
        }
        if self.trims {
            values.iter_mut().for_each(|value| *value = value.trim().to_owned());
        }
        Ok(Some(values))
    }

    /// Whether a line of a value after the first one looks like a row.
    fn looks_like_rows(&self, value: &str, columns: usize) -> bool {
        let delimiter = char::from(self.delimiter);
        let is_row = |line: &str| line.contains('@') && (columns < 2 || line.contains(delimiter));
        value.split('\n').skip(1).any(is_row)
    }
}

fn after_quote((line, column): (u64, usize), (first, start): (u64, usize)) -> Failure {
    Failure::input(format!(
        "line {line}, column {column}: text follows a closing quote; the quote was opened in \
         line {first}, column {start}"
    ))
    .hint("close the value with a quote before the separator, or write a quote within a value as \"\"")
}

fn never_closed((line, column): (u64, usize)) -> Failure {
    Failure::input(format!("line {line}, column {column}: the quote is never closed"))
        .hint("close it, or remove it: all rows after it would become part of one value")
}

fn too_long(line: u64, opened: Option<(u64, usize)>) -> Failure {
    let failure = Failure::input(format!("line {line}: the row is longer than 1 MiB"));
    match opened {
        Some((line, column)) => failure.hint(format!(
            "probably a quote is not closed: the last one was opened in line {line}, column {column}"
        )),
        None => failure,
    }
}

fn lone_return(line: u64) -> Failure {
    Failure::input(format!("line {line}: a carriage return without a line feed ends a row"))
        .hint("convert the line ends: tr '\\r' '\\n' < FILE")
}

/// Bytes that are not UTF-8, with their line and column.
fn not_utf8(line: u64, bytes: &[u8], at: usize) -> Failure {
    Failure::input(format!("{}: not UTF-8 text", place(line, bytes, at)))
        .hint("save it as \"CSV UTF-8\", or convert it: iconv -f latin1 -t utf-8 FILE")
}

/// A byte that is zero, or the mark of UTF-16.
fn not_text(line: u64, bytes: &[u8], at: usize) -> Failure {
    Failure::input(format!("{}: UTF-16 or binary, not UTF-8 text", place(line, bytes, at)))
        .hint("save it as \"CSV UTF-8\", or convert it: iconv -f utf-16 -t utf-8 FILE")
}

/// The line and the column of a byte in a text that starts in this line.
fn place(line: u64, bytes: &[u8], at: usize) -> String {
    let before = &bytes[..at];
    let lines = before.iter().filter(|byte| **byte == b'\n').count() as u64;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    format!("line {}, column {column}", line + lines)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(content: &[u8]) -> Result<Vec<Record>, Failure> {
        let reader = Box::new(std::io::Cursor::new(content.to_vec()));
        let mut records = Records::new(reader, Path::new("people.csv"))?;
        std::iter::from_fn(|| records.next().transpose()).collect()
    }

    fn shown(content: &[u8]) -> Vec<(u64, Value)> {
        let records = read(content).expect("a file");
        let object = |fields: Vec<(Arc<str>, Value)>| {
            Value::Object(fields.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
        };
        records.into_iter().map(|record| (record.number, object(record.fields))).collect()
    }

    #[test]
    fn csv_has_any_delimiter_and_is_numbered_as_in_a_spreadsheet() {
        let expected = [
            (2, json!({"E-Mail": "ada@b.test", "First Name": "Ada\nK;\"x\""})),
            (4, json!({"E-Mail": "eve@b.test", "First Name": ""})),
        ];
        for file in [
            "\u{feff}E-Mail;First Name\r\n ada@b.test;\"Ada\nK;\"\"x\"\"\"\r\n\r\neve@b.test;",
            "E-Mail,First Name\nada@b.test,\"Ada\nK;\"\"x\"\"\"\n\n\"eve@b.test\",\n",
            "sep=|\r\nE-Mail|First Name\r\nada@b.test|\"Ada\nK;\"\"x\"\"\"\r\n\r\neve@b.test|\r\n",
        ] {
            assert_eq!(shown(file.as_bytes()), expected, "{file}");
        }
    }

    #[test]
    fn json_keeps_types_in_lines_and_in_an_array() {
        let (one, other) = (json!({"email": "a@b.test", "n": 3}), json!({"email": "c@d.test"}));
        let lines = format!("{one}\n\n{other}");
        assert_eq!(shown(lines.as_bytes()), [(1, one.clone()), (3, other.clone())]);
        let array = format!("[{one},\n{other}]");
        assert_eq!(shown(array.as_bytes()), [(1, one), (2, other)]);
        let odd = read(b"{\"a\":1,\"a\":2}\n7\n").expect("a file");
        let problems = odd.iter().map(|record| record.problem.as_deref().unwrap_or_default());
        let problems = problems.collect::<Vec<_>>();
        assert!(problems[0].starts_with("the key `a` is given twice"), "{problems:?}");
        assert_eq!(problems[1], "not a JSON object");
    }

    #[test]
    fn a_file_that_is_not_what_it_seems_is_refused_with_its_place() {
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
            (format!("email,n\na@b.test,{}\n", "x".repeat(2 << 20)), "line 2: the row is longer"),
            (format!("email,n\na@b.test{}\n", ",x".repeat(100_000)), "line 2: more than 1000"),
            ("email,name\na@b.test,A\rc@d.test,C\n".to_owned(), "line 2: a carriage return"),
            ("email,n\na@b.test,\"A\nc@d.test,B\"\n".to_owned(), "line 2: a value looks like"),
            ("email\n\"a@b.test\nc@d.test\"\n".to_owned(), "line 2: a value looks like"),
            (" \n".to_owned(), "the file is empty"),
            (
                "{\"email\":\"a@b.test\"}\n{\"email\":\n".to_owned(),
                "unexpected end of JSON at line 2",
            ),
            ("[{\"a\":1,\"a\":2}]".to_owned(), "the key `a` is given twice"),
        ] {
            let message = read(file.as_bytes()).expect_err("refused").details().message.clone();
            assert!(message.starts_with(&format!("people.csv: {place}")), "{message}");
        }
        for (file, place) in [
            (&b"\xFF\xFEe\0m\0"[..], "UTF-16"),
            (b"e\0m\0a\0i\0l\0\n\0", "UTF-16"),
            (b"email,name\na@b.test,Zo\xeb\n", "line 2, column 12: not UTF-8"),
            (b"email,name\na@b.test,Z\0\n", "line 2, column 11: UTF-16 or"),
            (b"{\"email\":\"\xeb\"}\n", "line 1, column 11: not UTF-8"),
        ] {
            let message = read(file).expect_err("refused").details().message.clone();
            assert!(message.contains(place), "{message}");
        }
        let odd = read(b"email,name\na@b.test,Ada,x\nc@d.test,C,\ne@f.test\n").expect("a file");
        assert!(odd[0].problem.as_deref().is_some_and(|why| why.contains("3 values")));
        assert_eq!(odd[1].problem, None);
        assert!(odd[2].problem.as_deref().is_some_and(|why| why.contains("1 values")));
    }
}
