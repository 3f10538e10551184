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
    /// Whether white space around values is removed.
    trims: bool,
    /// The number of the last line that was read.
    line: u64,
    buffer: Vec<u8>,
    splitter: Splitter,
}

/// A record of the file.
pub struct Record {
    /// The values as they are in the file.
    pub values: csv::ByteRecord,
    /// The number of its first line.
    pub line: u64,
    /// The number of its last line.
    pub last_line: u64,
    /// Whether one of its quoted values looks like several rows.
    pub joined: Option<Joined>,
    not_utf8: Option<Failure>,
    trims: bool,
}

/// How much a quoted value looks like several rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Joined {
    /// One of its lines has an address, or several delimiters.
    Perhaps,
    /// One of its lines has an address and a delimiter.
    Probably,
}

impl Record {
    /// The values as text, trimmed unless the reader keeps white space. The failure names the line and the column of the first other byte.
    pub fn text(self) -> Result<csv::StringRecord, Failure> {
        if let Some(failure) = self.not_utf8 {
            return Err(failure);
        }
        let mut text = csv::StringRecord::from_byte_record(self.values)
            .map_err(|error| Failure::input(format!("line {}: {error}", self.line)))?;
        // It copies the record.
        if self.trims && text.iter().any(|value| value.trim().len() < value.len()) {
            text.trim();
        }
        Ok(text)
    }
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
    /// Starts to read. UTF-16, other binary content, and an empty file are refused.
    pub fn new(mut reader: R) -> Result<Self, Failure> {
        let start = start_of_text(&mut reader)?;
        if start.is_empty() {
            return Err(Failure::input("the file is empty"));
        }
        let (delimiter, buffer) = (b',', Vec::new());
        let splitter = Splitter::new(delimiter);
        Ok(Self { reader, delimiter, trims: true, line: 0, buffer, splitter })
    }

    /// Reads the header and takes its most frequent delimiter. Many spreadsheets write semicolons.
    pub fn header(&mut self) -> Result<csv::StringRecord, Failure> {
        let start = self.reader.fill_buf()?;
        let header = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let count = |wanted: u8| header.iter().filter(|byte| **byte == wanted).count();
        let frequent = [b',', b';', b'\t'].into_iter().rev().max_by_key(|d| count(*d));
        self.delimiter = frequent.unwrap_or(b',');
        self.splitter = Splitter::new(self.delimiter);
        self.next()?.map(Record::text).transpose().map(Option::unwrap_or_default)
    }

    /// Keeps white space around the values of the following records.
    pub fn keep_white_space(&mut self) {
        self.trims = false;
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
            let line = &self.buffer[start..];
            if line.contains(&0) {
                let at = line.iter().position(|byte| *byte == 0).unwrap_or_default();
                return Err(not_text(self.line, line, at));
            }
            // Most lines have no quotes.
            if place == Place::StartOfValue && !line.contains(&b'"') {
                delimiters = line.iter().filter(|byte| **byte == self.delimiter).count();
                if delimiters < MAX_VALUES {
                    break;
                }
            }
            for (index, byte) in line.iter().enumerate() {
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

    fn parsed(&mut self, line: u64) -> Result<Record, Failure> {
        let not_utf8 = std::str::from_utf8(&self.buffer).err();
        let not_utf8 = not_utf8.map(|error| not_utf8_at(line, &self.buffer, error.valid_up_to()));
        let (values, rest) = self.splitter.split(&self.buffer);
        if self.splitter.has_more(rest) {
            return Err(Failure::input(format!(
                "line {line}: a carriage return without a line feed ends a row"
            ))
            .hint("convert the line ends: tr '\\r' '\\n' < FILE"));
        }
        let joined = match self.line > line {
            true => values.iter().filter_map(|value| joined(value, self.delimiter)).max(),
            false => None,
        };
        Ok(Record { values, line, last_line: self.line, joined, not_utf8, trims: self.trims })
    }
}

/// Splits the text of a record into its values. `csv::Reader` builds its tables anew for each
/// text, which takes 50 times as long as splitting a short record.
struct Splitter {
    parser: csv_core::Reader,
    values: Vec<u8>,
    ends: Vec<usize>,
}

impl Splitter {
    fn new(delimiter: u8) -> Self {
        let parser = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        // One more than `CsvRecords` lets through.
        Self { parser, values: Vec::new(), ends: vec![0; MAX_VALUES + 1] }
    }

    /// The values, and what of the text is left.
    fn split<'a>(&mut self, text: &'a [u8]) -> (csv::ByteRecord, &'a [u8]) {
        self.parser.reset();
        if self.values.len() < text.len() {
            self.values.resize(text.len(), 0);
        }
        let (count, rest) = self.read(text);
        let mut record = csv::ByteRecord::with_capacity(text.len(), count);
        let mut start = 0;
        for end in &self.ends[..count] {
            record.push_field(&self.values[start..*end]);
            start = *end;
        }
        (record, rest)
    }

    /// Whether the rest of a text, after [`split`](Self::split), has another record.
    fn has_more(&mut self, rest: &[u8]) -> bool {
        self.read(rest).0 > 0
    }

    /// Reads a record. Returns the number of its values, and what of the text is left.
    fn read<'a>(&mut self, mut text: &'a [u8]) -> (usize, &'a [u8]) {
        let (mut written, mut count) = (0, 0);
        loop {
            let (values, ends) = (&mut self.values[written..], &mut self.ends[count..]);
            let (result, read, bytes, more) = self.parser.read_record(text, values, ends);
            (text, written, count) = (&text[read..], written + bytes, count + more);
            match result {
                // The next call, without text, ends the record.
                csv_core::ReadRecordResult::InputEmpty => {}
                _ => return (count, text),
            }
        }
    }
}

/// The start of a text, after a byte order mark. UTF-16 and other binary content is refused.
pub fn start_of_text(reader: &mut impl BufRead) -> Result<&[u8], Failure> {
    let start = reader.fill_buf()?;
    let is_utf16 = start.starts_with(b"\xFF\xFE") || start.starts_with(b"\xFE\xFF");
    let nul = start.iter().take(100).position(|byte| *byte == 0);
    if let Some(at) = if is_utf16 { Some(0) } else { nul } {
        return Err(not_text(1, start, at));
    }
    if start.starts_with(b"\xEF\xBB\xBF") {
        reader.consume(3);
    }
    Ok(reader.fill_buf()?)
}

/// Whether a line of a value after the first one looks like a row.
fn joined(value: &[u8], delimiter: u8) -> Option<Joined> {
    let looks_like_row = |line: &[u8]| {
        let delimiters = line.iter().filter(|byte| **byte == delimiter).count();
        match line.contains(&b'@') {
            true if delimiters > 0 => Some(Joined::Probably),
            has_address => (has_address || delimiters > 1).then_some(Joined::Perhaps),
        }
    };
    value.split(|byte| *byte == b'\n').skip(1).filter_map(looks_like_row).max()
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
pub fn not_utf8_at(line: u64, bytes: &[u8], at: usize) -> Failure {
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
    use super::*;

    fn records(text: &str) -> Result<Vec<Record>, Failure> {
        let mut records = CsvRecords::new(text.as_bytes())?;
        records.header()?;
        std::iter::from_fn(|| records.next().transpose()).collect()
    }

    #[test]
    fn stray_quotes_are_rejected_with_their_line() {
        let rows = "b@b.test,Bob\n".repeat(900);
        let unclosed = format!("email,name\na@b.test,\"Ada\n{rows}");
        let closed_later = format!("email,name\na@b.test,\"Ada\n{rows}c@b.test,\"Smith, J\"\n");
        for (file, line) in [(unclosed, "line 2, "), (closed_later, "opened in line 2")] {
            let failure = records(&file).err().expect("refused");
            assert!(failure.details().message.contains(line), "{}", failure.details().message);
        }
        let valid =
            "email,name\r\na@b.test,\"A \"\"the\"\" B\"\r\nc@b.test,5\" nails\n\"d@b.test\",\"\"";
        let all = records(valid).expect("valid");
        assert!(all.iter().all(|record| record.joined.is_none()));
        assert_eq!(&all[0].values[1], b"A \"the\" B");
    }

    #[test]
    fn a_quoted_value_that_looks_like_rows_is_noticed() {
        use Joined::{Perhaps, Probably};
        for (rows, lines, joined) in [
            ("a@b.test,\"Ada\nc@d.test,Bob\nd@b.test,Carl\"\n", (2, 4), Some(Probably)),
            ("a@b.test,\"x\"\nb@b.test,\"Ada\nc,Bob,1\"\n", (3, 4), Some(Perhaps)),
            ("a@b.test,\"1 Main St\r\nSpringfield, IL\"\n", (2, 3), None),
            ("\"a@b.test\",\"A, B, C\nD\"\n", (2, 3), None),
        ] {
            let all = records(&format!("email,name\n{rows}")).expect("valid");
            let last = all.last().expect("a record");
            assert_eq!(((last.line, last.last_line), last.joined), (lines, joined), "{rows}");
        }
    }
}
