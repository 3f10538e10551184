//! Splits a CSV file into records, one at a time, so that a file of any size takes little memory.
//! Stray quotes are errors: the `csv` crate accepts them, and one then swallows the rows up to the
//! next quote.

use std::io::{BufRead, Read as _};

use crate::failure::Failure;

/// The most bytes of a record.
const MAX_RECORD: u64 = 1 << 20;
/// The most values of a record.
const MAX_VALUES: usize = 1000;

/// The records of a file.
pub struct CsvRecords<R> {
    reader: R,
    delimiter: u8,
    /// The number of the last line that was read.
    line: u64,
    buffer: Vec<u8>,
}

/// A record in the buffer of its reader.
pub struct Record {
    /// The values.
    pub values: csv::StringRecord,
    /// The number of its first line.
    pub line: u64,
    /// Whether one of its quoted values looks like several rows.
    pub is_doubtful: bool,
}

/// Where the splitter is in a record.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    StartOfValue,
    InValue,
    InQuotes,
    /// After a quote in quotes: the end of the value, or the first of two quotes.
    AfterQuote,
    /// After a carriage return that follows a closing quote.
    AfterReturn,
}

impl<R: BufRead> CsvRecords<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, delimiter: b',', line: 0, buffer: Vec::new() }
    }

    /// Reads the header and takes its most frequent delimiter. Many spreadsheets write semicolons.
    pub fn header(&mut self) -> Result<Option<csv::StringRecord>, Failure> {
        let start = self.reader.fill_buf()?;
        let header = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let count = |wanted: u8| header.iter().filter(|byte| **byte == wanted).count();
        let frequent = [b',', b';', b'\t'].into_iter().rev().max_by_key(|d| count(*d));
        self.delimiter = frequent.unwrap_or(b',');
        Ok(self.next()?.map(|record| record.values))
    }

    /// The next record; `None` at the end of the file.
    pub fn next(&mut self) -> Result<Option<Record>, Failure> {
        let first = self.line + 1;
        self.buffer.clear();
        let mut place = Place::StartOfValue;
        let (mut opened, mut delimiters) = ((first, 1), 0);
        loop {
            let start = self.buffer.len();
            let left = MAX_RECORD.saturating_sub(start as u64);
            let read = (&mut self.reader).take(left + 1).read_until(b'\n', &mut self.buffer)?;
            if self.buffer.len() as u64 > MAX_RECORD {
                return Err(too_long(first, place == Place::InQuotes, opened));
            }
            if read == 0 {
                match place {
                    Place::InQuotes => return Err(never_closed(opened)),
                    _ if self.buffer.is_empty() => return Ok(None),
                    _ => break,
                }
            }
            self.line += 1;
            for (index, byte) in self.buffer[start..].iter().enumerate() {
                let here = (self.line, index + 1);
                delimiters += usize::from(*byte == self.delimiter && place != Place::InQuotes);
                let is_delimiter = *byte == self.delimiter;
                place = match (place, *byte) {
                    (Place::InQuotes, b'"') => Place::AfterQuote,
                    (Place::InQuotes, _) | (Place::AfterQuote, b'"') => Place::InQuotes,
                    (_, b'\n') => Place::StartOfValue,
                    (Place::AfterQuote, b'\r') => Place::AfterReturn,
                    (Place::StartOfValue, b'"') => {
                        opened = here;
                        Place::InQuotes
                    }
                    (place, _) if is_delimiter && place != Place::AfterReturn => {
                        Place::StartOfValue
                    }
                    (Place::AfterQuote | Place::AfterReturn, _) => {
                        return Err(after_quote(here, opened));
                    }
                    _ => Place::InValue,
                };
            }
            if delimiters >= MAX_VALUES {
                return Err(Failure::input(format!(
                    "line {}: more than {MAX_VALUES} values in a row",
                    self.line
                )));
            }
            if self.buffer.ends_with(b"\n") && place == Place::StartOfValue {
                break;
            }
        }
        self.parsed(first).map(Some)
    }

    fn parsed(&self, line: u64) -> Result<Record, Failure> {
        if let Err(error) = std::str::from_utf8(&self.buffer) {
            return Err(not_utf8(line, &self.buffer, error.valid_up_to()));
        }
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(self.delimiter)
            .trim(csv::Trim::All)
            .buffer_capacity(self.buffer.len().max(1))
            .from_reader(self.buffer.as_slice());
        let mut values = csv::StringRecord::new();
        let failed = |error: csv::Error| Failure::input(format!("line {line}: {error}"));
        reader.read_record(&mut values).map_err(failed)?;
        let is_doubtful = values.iter().any(|value| contains_rows(value, self.delimiter));
        if reader.read_record(&mut csv::StringRecord::new()).map_err(failed)? {
            return Err(Failure::input(format!(
                "line {line}: a carriage return without a line feed ends a row"
            ))
            .hint("convert the line ends: tr '\\r' '\\n' < FILE"));
        }
        Ok(Record { values, line, is_doubtful })
    }
}

/// Whether a line of a value after the first one looks like a row.
fn contains_rows(value: &str, delimiter: u8) -> bool {
    let delimiter = char::from(delimiter);
    value.lines().skip(1).any(|line| line.contains('@') && line.contains(delimiter))
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

fn too_long(line: u64, in_quotes: bool, opened: (u64, usize)) -> Failure {
    let failure = Failure::input(format!("line {line}: the row is longer than 1 MiB"));
    match in_quotes {
        true => failure.hint(format!(
            "probably a quote is not closed: the last one was opened in line {}, column {}",
            opened.0, opened.1
        )),
        false => failure,
    }
}

/// The failure for bytes that are not UTF-8, with their line and column.
pub fn not_utf8(line: u64, bytes: &[u8], at: usize) -> Failure {
    let before = &bytes[..at];
    let lines = before.iter().filter(|byte| **byte == b'\n').count() as u64;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    Failure::input(format!("line {}, column {column}: not UTF-8 text", line + lines))
        .hint("save it as \"CSV UTF-8\", or convert it: iconv -f latin1 -t utf-8 FILE")
}
