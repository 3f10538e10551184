//! Reads the records of a file, one at a time: CSV, NDJSON, or a JSON array of objects.
//!
//! What concerns the whole file is a failure: another encoding, a quote that is never closed, a line
//! that is not JSON. What concerns one record is its `problem`, and the other records are read.

use std::collections::HashSet;
use std::io::{BufRead, Read as _};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::file::{in_file, read_all};
use super::{LOSES_DIGITS, loses_digits, on_line, read_json};
use crate::failure::Failure;

/// The most bytes of a CSV record or a line of NDJSON.
const MAX_RECORD: u64 = 1 << 20;

/// One record of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The row as a spreadsheet shows it, the line in NDJSON, or the position in a JSON array.
    pub number: u64,
    /// The columns or keys, with their values. An empty cell is an empty text.
    pub fields: Vec<(Arc<str>, Value)>,
    /// Why the record cannot be used.
    pub problem: Option<String>,
    /// If values may be in the fields of others, as in a row with a comma too many: what is in no
    /// field at all.
    pub misplaced: Option<Vec<String>>,
}

/// The records of a file.
pub struct Records {
    /// The file, for messages.
    name: PathBuf,
    format: Format,
}

enum Format {
    Csv(Csv),
    Ndjson {
        reader: Box<dyn BufRead + Send>,
        line: u64,
        buffer: Vec<u8>,
    },
    Array {
        values: std::vec::IntoIter<Item>,
        number: u64,
    },
}

impl Records {
    /// Starts to read. `name` is the file's name in messages, or `-` for standard input.
    pub fn new(reader: Box<dyn BufRead + Send>, name: &Path) -> Result<Self, Failure> {
        let format = Format::of(reader).map_err(|failure| in_file(name, failure))?;
        Ok(Self {
            name: name.to_owned(),
            format,
        })
    }

    /// Names the file in the message of invalid input.
    pub fn in_file(&self, failure: Failure) -> Failure {
        in_file(&self.name, failure)
    }

    /// The columns of a CSV file.
    pub fn columns(&self) -> Option<&[Arc<str>]> {
        match &self.format {
            Format::Csv(csv) => Some(&csv.columns),
            _ => None,
        }
    }

    /// Keeps white space around values of CSV.
    pub fn keep_white_space(&mut self) {
        if let Format::Csv(csv) = &mut self.format {
            csv.trims = false;
        }
    }

    /// The next record; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Record>, Failure> {
        let next = self.format.next();
        let mut next = next.map_err(|failure| in_file(&self.name, failure))?;
        if let Some(record) = &mut next {
            let wrong = record.fields.iter().find(|(_, value)| is_misread(value));
            let wrong = wrong.map(|(name, _)| format!("`{name}`: {MISREAD}"));
            record.problem = record.problem.take().or(wrong);
        }
        Ok(next)
    }
}

impl Format {
    fn of(mut reader: Box<dyn BufRead + Send>) -> Result<Self, Failure> {
        let start = reader.fill_buf()?;
        if start.starts_with(b"PK\x03\x04") {
            return Err(Failure::input(WORKBOOK).hint(FROM_WORKBOOK));
        }

        let is_utf16 = start.starts_with(b"\xFF\xFE") || start.starts_with(b"\xFE\xFF");
        if is_utf16 || start.iter().take(100).any(|byte| *byte == 0) {
            return Err(Failure::input(BINARY).hint(FROM_UTF_16));
        }

        if start.starts_with(b"\xEF\xBB\xBF") {
            reader.consume(3);
        }
        match reader
            .fill_buf()?
            .iter()
            .find(|byte| !byte.is_ascii_whitespace())
        {
            None => Err(Failure::input("the file is empty")),
            Some(b'{') => Ok(Self::Ndjson {
                reader,
                line: 0,
                buffer: Vec::new(),
            }),
            Some(b'[') => {
                let values = array(reader)?.into_iter();
                Ok(Self::Array { values, number: 0 })
            }
            Some(_) => {
                let csv = Csv::new(reader)?;
                let mut seen = HashSet::new();
                if let Some(twice) = csv
                    .columns
                    .iter()
                    .find(|it| !it.is_empty() && !seen.insert(*it))
                {
                    let problem = format!("line 1: two columns are named `{twice}`");
                    return Err(Failure::input(problem).hint("rename or remove one"));
                }
                Ok(Self::Csv(csv))
            }
        }
    }

    fn next(&mut self) -> Result<Option<Record>, Failure> {
        match self {
            Self::Csv(csv) => loop {
                let Some((line, values)) = csv.next()? else {
                    return Ok(None);
                };
                // Spreadsheets leave empty rows at the end of a file.
                if values.iter().all(|value| value.trim().is_empty()) {
                    continue;
                }
                let count = values.len();
                let expected = csv.columns.len();
                let has_more = values.iter().skip(expected).any(|value| !value.is_empty());
                let problem = (count < expected || has_more).then(|| {
                    format!(
                        "line {line}: the row has {count} values, but the header has {expected}"
                    )
                });
                let mut values = values.into_iter();
                let of_columns = values.by_ref().take(expected).map(Value::String);
                let fields = csv.columns.iter().cloned().zip(of_columns).collect();
                return Ok(Some(Record {
                    number: csv.rows,
                    fields,
                    misplaced: problem.is_some().then(|| values.collect()),
                    problem,
                }));
            },
            Self::Ndjson {
                reader,
                line,
                buffer,
            } => loop {
                buffer.clear();
                if reader.take(MAX_RECORD + 1).read_until(b'\n', buffer)? == 0 {
                    return Ok(None);
                }
                *line += 1;
                if buffer.len() as u64 > MAX_RECORD {
                    return Err(Failure::input(format!("line {line}: longer than 1 MiB")));
                }
                let text = std::str::from_utf8(buffer).map_err(|_| {
                    Failure::input(format!("line {line}: {NOT_UTF8}")).hint(FROM_LATIN_1)
                })?;
                if text.trim().is_empty() {
                    continue;
                }
                // serde counts lines from the start of this one.
                let value =
                    read_json(text).map_err(|problem| Failure::input(on_line(&problem, *line)))?;
                return Ok(Some(record(*line, value)));
            },
            Self::Array { values, number } => {
                *number += 1;
                Ok(values.next().map(|value| record(*number, value)))
            }
        }
    }
}

/// Whether a text has control characters that only a wrong conversion makes: those of windows-1252, such
/// as the euro, read as Latin-1.
fn is_misread(value: &Value) -> bool {
    let is_control = |c: char| matches!(c, '\u{80}'..='\u{9f}');
    value.as_str().is_some_and(|text| text.contains(is_control))
}

const MISREAD: &str = "a control character, as if the file had been converted from latin1; it is rather \
    windows-1252";

/// A value in JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum Item {
    #[serde(deserialize_with = "all_fields")]
    Object(Vec<(Arc<str>, Value)>),
    Other(Value),
}

/// The fields of an object. Of a key that is given twice, both values are kept.
fn all_fields<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(Arc<str>, Value)>, D::Error> {
    struct Fields;

    impl<'de> Visitor<'de> for Fields {
        type Value = Vec<(Arc<str>, Value)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Vec::new();
            while let Some((key, value)) = map.next_entry::<String, _>()? {
                fields.push((Arc::from(key), value));
            }
            Ok(fields)
        }
    }

    deserializer.deserialize_map(Fields)
}

fn record(number: u64, item: Item) -> Record {
    let fields = match item {
        Item::Object(fields) => fields,
        Item::Other(value) => {
            return Record {
                number,
                fields: Vec::new(),
                problem: Some("not a JSON object".to_owned()),
                misplaced: Some(vec![value.to_string()]),
            };
        }
    };
    let mut seen = HashSet::new();
    let twice = fields.iter().find(|(key, _)| !seen.insert(key));
    let twice = twice.map(|(key, _)| format!("the key `{key}` is given twice"));
    let misplaced = twice.is_some().then(Vec::new);
    let inexact = || fields.iter().find(|(_, value)| loses_digits(value));
    let problem = twice.or_else(|| Some(format!("`{}`: {LOSES_DIGITS}", inexact()?.0)));
    Record {
        number,
        fields,
        problem,
        misplaced,
    }
}

fn array(reader: Box<dyn BufRead + Send>) -> Result<Vec<Item>, Failure> {
    let bytes = read_all(reader).map_err(|error| {
        Failure::input(format!("the JSON array: {error}"))
            .hint("write one object per line: jq -c '.[]' FILE")
    })?;
    let text =
        std::str::from_utf8(&bytes).map_err(|_| Failure::input(NOT_UTF8).hint(FROM_LATIN_1))?;
    read_json(text).map_err(|problem| Failure::input(format!("not a JSON array: {problem}")))
}

/// The rows of a CSV file. What other readers accept, such as text after a closing quote, would become
/// part of a value, such as an address.
struct Csv {
    reader: Box<dyn BufRead + Send>,
    delimiter: u8,
    line_end: u8,
    columns: Vec<Arc<str>>,
    /// Whether white space around values is removed.
    trims: bool,
    /// The lines so far.
    lines: u64,
    /// The rows so far, as a spreadsheet counts them: a value may have several lines.
    rows: u64,
}

/// The delimiter that a first line such as `sep=;` names, and the length of that line.
fn named_delimiter(start: &[u8]) -> Option<(u8, usize)> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let end = start.iter().position(is_end).unwrap_or(start.len());
    let line = &start[..end];
    let bare = line
        .strip_prefix(b"\"")
        .and_then(|it| it.strip_suffix(b"\""));
    let [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] = bare.unwrap_or(line) else {
        return None;
    };

    let is_pair = start[end..].starts_with(b"\r\n");
    let length = end + if is_pair { 2 } else { 1 };
    Some((*delimiter, length.min(start.len())))
}

/// The beginning of a file, which describes its rows.
struct Header {
    line_end: u8,
    /// How often each possible delimiter is in the first row, outside of quotes.
    counts: [(u8, usize); 3],
}

impl Header {
    fn of(start: &[u8]) -> Self {
        let mut header = Self {
            line_end: b'\n',
            counts: [(b'\t', 0), (b';', 0), (b',', 0)],
        };
        let mut is_quoted = false;
        for (at, byte) in start.iter().enumerate() {
            match byte {
                b'"' => is_quoted = !is_quoted,
                _ if is_quoted => {}
                b'\n' => break,
                b'\r' if start.get(at + 1).is_some_and(|next| *next != b'\n') => {
                    header.line_end = b'\r';
                    break;
                }
                byte => {
                    let mut counts = header.counts.iter_mut();
                    if let Some((_, count)) = counts.find(|(delimiter, _)| delimiter == byte) {
                        *count += 1;
                    }
                }
            }
        }

        // A single CR in a file with LF is more likely a mistake, which is told.
        if start.contains(&b'\n') {
            header.line_end = b'\n';
        }
        header
    }

    fn delimiter(&self) -> u8 {
        let most = self.counts.iter().max_by_key(|(_, count)| *count);
        most.map_or(b',', |(delimiter, _)| *delimiter)
    }
}

/// Where in a row a byte is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Start,
    Value,
    Quoted,
    AfterQuote,
}

impl Csv {
    /// Reads the header. Its delimiter is the most frequent one outside of quotes, as many
    /// spreadsheets write semicolons, or that of a first line such as `sep=;`. Lines end with LF, or
    /// with CR in files without LF.
    fn new(mut reader: Box<dyn BufRead + Send>) -> Result<Self, Failure> {
        let start = reader.fill_buf()?;
        let named = named_delimiter(start);
        let header = Header::of(start);
        let (delimiter, length) = named.unwrap_or((header.delimiter(), 0));
        reader.consume(length);
        let mut csv = Self {
            reader,
            delimiter,
            line_end: header.line_end,
            columns: Vec::new(),
            trims: true,
            lines: u64::from(length > 0),
            rows: 0,
        };
        let (_, header) = csv.next()?.unwrap_or_default();
        csv.columns = header.into_iter().map(Arc::from).collect();
        Ok(csv)
    }

    /// The line and the values of the next row; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<(u64, Vec<String>)>, Failure> {
        let line = self.lines + 1;
        let refused = |line: u64, problem: &str, hint: &str| {
            Err(Failure::input(format!("line {line}: {problem}")).hint(hint))
        };
        let mut values = Vec::new();
        let mut value = Vec::new();
        let mut place = Place::Start;
        let mut rest = self.reader.by_ref().take(MAX_RECORD);
        loop {
            let mut text = Vec::new();
            if rest.read_until(self.line_end, &mut text)? == 0 && rest.limit() > 0 {
                if place == Place::Start {
                    return Ok(None);
                }
                let hint =
                    "close it, or remove it: all rows after it would become part of one value";
                return refused(line, "a quote is never closed", hint);
            }
            if rest.limit() == 0 {
                let hint = "probably a quote is not closed";
                return refused(line, "the row is longer than 1 MiB", hint);
            }
            self.lines += 1;
            for byte in text {
                place = match (place, byte) {
                    (Place::Quoted, b'"') => Place::AfterQuote,
                    (Place::Start, b'"') => Place::Quoted,
                    (Place::AfterQuote, b'"') | (Place::Quoted, _) => {
                        value.push(byte);
                        Place::Quoted
                    }
                    (_, byte) if byte == self.line_end => break,
                    (_, byte) if byte == self.delimiter => {
                        values.push(mem::take(&mut value));
                        Place::Start
                    }
                    (Place::AfterQuote, b'\r') => Place::AfterQuote,
                    (Place::AfterQuote, _) => {
                        let hint =
                            "end the value with the quote, or write a quote within it as \"\"";
                        return refused(self.lines, "text follows a closing quote", hint);
                    }
                    _ => {
                        value.push(byte);
                        Place::Value
                    }
                };
            }
            if place != Place::Quoted {
                break;
            }
        }

        if value.ends_with(b"\r") {
            value.pop();
        }
        values.push(value);
        self.rows += 1;
        let Ok(values) = values
            .into_iter()
            .map(String::from_utf8)
            .collect::<Result<Vec<_>, _>>()
        else {
            return refused(line, NOT_UTF8, FROM_LATIN_1);
        };
        if values.iter().any(|value| value.contains('\0')) {
            return refused(line, BINARY, FROM_UTF_16);
        }
        if values.iter().any(|value| self.looks_like_rows(value)) {
            return refused(
                line,
                "a value looks like several rows; check its quotes and line ends",
                "a stray quote joins rows; remove it, or keep such a value in one line",
            );
        }

        let value = |value: String| {
            if self.trims {
                value.trim().to_owned()
            } else {
                value
            }
        };

        let values = values.into_iter().map(value).collect();
        Ok(Some((line, values)))
    }

    /// Whether a line of a value after the first one looks like a row.
    fn looks_like_rows(&self, value: &str) -> bool {
        let delimiter = char::from(self.delimiter);
        let is_row =
            |line: &str| line.contains('@') && (self.columns.len() < 2 || line.contains(delimiter));
        let has_lone_return = self.line_end == b'\n'
            && value
                .trim_end_matches('\r')
                .replace("\r\n", "")
                .contains('\r');
        has_lone_return || value.split('\n').skip(1).any(is_row)
    }
}

const NOT_UTF8: &str = "not UTF-8 text";
const FROM_LATIN_1: &str =
    "save it as \"CSV UTF-8\", or convert it: iconv -f windows-1252 -t utf-8 FILE";
const WORKBOOK: &str = "a workbook or an archive, not text";
const FROM_WORKBOOK: &str = "open it in the spreadsheet, and save it as \"CSV UTF-8\"";
const BINARY: &str = "UTF-16 or binary, not UTF-8 text";
const FROM_UTF_16: &str = "save it as \"CSV UTF-8\", or convert it: iconv -f utf-16 -t utf-8 FILE";

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
            Value::Object(
                fields
                    .into_iter()
                    .map(|(key, value)| (key.to_string(), value))
                    .collect(),
            )
        };
        records
            .into_iter()
            .map(|record| (record.number, object(record.fields)))
            .collect()
    }

    #[test]
    fn csv_has_any_delimiter_and_is_numbered_as_in_a_spreadsheet() {
        let expected = [
            (
                2,
                json!({"E-Mail": "ada@b.test", "First Name": "Ada\nK;\"x\""}),
            ),
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
    fn the_delimiter_is_outside_of_quotes_and_lines_may_end_with_cr_alone() {
        for (file, column, value) in [
            ("email;\"a,b\"\na@b.test;x\n", "a,b", "x"),
            ("email;\"a\n,,b\"\na@b.test;x\n", "a\n,,b", "x"),
            ("sep=\t\r\nemail\tn\r\na@b.test\tx;y\r\n", "n", "x;y"),
            ("email,n\ra@b.test,x\r", "n", "x"),
            ("sep=;\remail;n\ra@b.test;\"x\ry\"\r", "n", "x\ry"),
        ] {
            let records = read(file.as_bytes()).expect("a file");
            let expected = [
                (Arc::from("email"), json!("a@b.test")),
                (Arc::from(column), json!(value)),
            ];
            assert_eq!(records.len(), 1, "{file:?}");
            assert_eq!(records[0].fields, expected, "{file:?}");
        }
    }

    #[test]
    fn json_keeps_types_in_lines_and_in_an_array() {
        let one = json!({"email": "a@b.test", "n": 3});
        let other = json!({"email": "c@d.test"});
        let lines = format!("{one}\n\n{other}");
        assert_eq!(
            shown(lines.as_bytes()),
            [(1, one.clone()), (3, other.clone())]
        );
        let array = format!("[{one},\n{other}]");
        assert_eq!(shown(array.as_bytes()), [(1, one), (2, other)]);
        let long =
            read(b"{\"order\":[12345678901234567890123]}\n{\"order\":1e3}\n").expect("a file");
        let problem = "`order`: a number would lose digits; write it as a text, in quotes";
        assert_eq!(
            (long[0].problem.as_deref(), &long[1].problem),
            (Some(problem), &None)
        );
        for odd in ["{\"a\":1,\"a\":2}\n7\n", "[{\"a\":1,\"a\":2},7]"] {
            let odd = read(odd.as_bytes()).expect("a file");
            let problems = odd.iter().map(|record| record.problem.as_deref());
            let expected = ["the key `a` is given twice", "not a JSON object"];
            assert!(problems.eq(expected.map(Some)), "{odd:?}");
            assert_eq!(
                odd[0].fields,
                [("a".into(), json!(1)), ("a".into(), json!(2))]
            );
        }
    }

    #[test]
    fn a_file_that_is_not_what_it_seems_is_refused_with_its_place() {
        let many = "b@b.test,Bob\n".repeat(900);
        for (file, place) in [
            (
                format!("email,name\na@b.test,\"Ada\n{many}"),
                "line 2: a quote is never closed",
            ),
            (
                "email,name\na@b.test,\"Ada".to_owned(),
                "line 2: a quote is never closed",
            ),
            (
                format!("email,name\na@b.test,\"Ada\n{many}c@b.test,\"Smith, J\"\n"),
                "line 903: text follows a closing quote",
            ),
            (
                "email,name\n\"a@b.test\"x,\n".to_owned(),
                "line 2: text follows a closing quote",
            ),
            (
                format!("email,n\na@b.test,{}\n", "x".repeat(2 << 20)),
                "line 2: the row is longer",
            ),
            (
                "email,name\na@b.test,A\rc@d.test,C\n".to_owned(),
                "line 2: a value looks like",
            ),
            (
                "email,n\na@b.test,\"A\nc@d.test,B\"\n".to_owned(),
                "line 2: a value looks like",
            ),
            (
                "email\n\"a@b.test\nc@d.test\"\n".to_owned(),
                "line 2: a value looks like",
            ),
            (" \n".to_owned(), "the file is empty"),
            (
                "{\"email\":\"a@b.test\"}\n{\"email\":\n".to_owned(),
                "unexpected end of JSON at line 2",
            ),
        ] {
            let message = read(file.as_bytes()).expect_err("refused").message.clone();
            assert!(
                message.starts_with(&format!("people.csv: {place}")),
                "{message}"
            );
        }

        for (file, place) in [
            (&b"\xFF\xFEe\0m\0"[..], "UTF-16"),
            (b"e\0m\0a\0i\0l\0\n\0", "UTF-16"),
            (b"email,name\na@b.test,Zo\xeb\n", "line 2: not UTF-8"),
            (b"email,name\na@b.test,Z\0\n", "UTF-16 or"),
            (b"{\"email\":\"\xeb\"}\n", "line 1: not UTF-8"),
        ] {
            let message = read(file).expect_err("refused").message.clone();
            assert!(message.contains(place), "{message}");
        }

        let late = format!("email,name\n{many}\0\nc@d.test,C\n");
        let message = read(late.as_bytes()).expect_err("refused").message.clone();
        assert!(message.contains("line 902: UTF-16 or binary"), "{message}");
        let odd = read(b"email,name\na@b.test,Ada,x\nc@d.test,C,\ne@f.test\n").expect("a file");
        assert!(
            odd[0]
                .problem
                .as_deref()
                .is_some_and(|why| why.contains("3 values"))
        );
        assert_eq!(odd[1].problem, None);
        assert!(
            odd[2]
                .problem
                .as_deref()
                .is_some_and(|why| why.contains("1 values"))
        );
    }
}
