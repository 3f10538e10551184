//! Parses the rows of a file into contacts.

pub(crate) mod columns;
mod json;

use std::collections::HashMap;

use serde_json::{Map, Value};

use self::columns::{Field, described, fields};
use crate::failure::Failure;
use crate::input::csv_records::{CsvRecords, start_of_text};
use crate::input::opt_outs::{MISSING_SUBSCRIBED, subscribed};
use crate::input::{email, exact_json};

/// One contact of the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Row number as a spreadsheet shows it: the header is row 1.
    pub(super) number: usize,
    pub(super) email: String,
    pub(super) name: Option<String>,
    pub(super) topics: Vec<String>,
    pub(super) subscribed: Option<bool>,
    /// The row with the same address that unsubscribes the contact, although this one says yes.
    pub(super) unsubscribed_by: Option<usize>,
    pub(super) metadata: Map<String, Value>,
}

/// A row that is not imported.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InvalidRow {
    pub(super) number: usize,
    /// The address as it is in the file, if the row has one.
    pub(super) email: Option<String>,
    pub(super) why: String,
    /// The row with the same address that is imported.
    pub(super) duplicate_of: Option<usize>,
    /// Whether the row says that the person is subscribed.
    subscribed: Option<bool>,
}

/// A file of contacts.
#[derive(Debug)]
pub(super) struct File {
    /// Every row, or the reason why it is invalid.
    pub(super) rows: Vec<Result<Row, InvalidRow>>,
    /// How the columns are mapped, such as `E-Mail → email, plan → metadata.plan`.
    pub(super) mapping: String,
    /// Columns stored as metadata that may say who has opted out.
    pub(super) doubtful: Vec<String>,
    /// Whether the file contains JSON, which `--map` does not apply to.
    pub(super) is_json: bool,
    /// Whether a column or key says who is subscribed.
    pub(super) has_subscribed: bool,
    /// The numbers of columns that have values, but no name. They are not imported.
    pub(super) unnamed: Vec<usize>,
    /// A quoted value that looks like several rows, described.
    pub(super) joined: Option<String>,
}

/// The rows of a file, each address once.
#[derive(Default)]
struct Rows {
    all: Vec<Result<Row, InvalidRow>>,
    /// The index of the row with each address, as it is compared.
    seen: HashMap<String, usize>,
}

impl Rows {
    fn push(&mut self, row: Result<Row, InvalidRow>) {
        let row = row.and_then(|row| {
            let index = self.all.len();
            let first = *self.seen.entry(comparable(&row.email)).or_insert(index);
            match self.all.get(first) {
                None => Ok(row),
                Some(first) => Err(row.duplicate_of(first.as_ref().map_or(0, |row| row.number))),
            }
        });
        self.all.push(row);
    }

    /// The rows. One that says that a person has opted out wins over the others with the same
    /// address, wherever it is, and even if it is not imported itself. If a row says who is
    /// subscribed, every row has to.
    fn finish(mut self) -> Vec<Result<Row, InvalidRow>> {
        let opted_out = self.all.iter().filter_map(|row| row.as_ref().err());
        let opted_out = opted_out.filter(|row| row.subscribed == Some(false));
        let opted_out = opted_out.filter_map(|row| {
            let index = self.seen.get(&comparable(row.email.as_deref()?))?;
            Some((*index, row.number))
        });
        for (index, number) in opted_out.collect::<Vec<_>>() {
            if let Ok(row) = &mut self.all[index]
                && row.subscribed != Some(false)
            {
                row.unsubscribed_by = (row.subscribed == Some(true)).then_some(number);
                row.subscribed = Some(false);
            }
        }
        let subscribed = |row: &Result<Row, InvalidRow>| match row {
            Ok(row) => row.subscribed,
            Err(row) => row.subscribed,
        };
        if self.all.iter().all(|row| subscribed(row).is_none()) {
            return self.all;
        }
        // A new contact is subscribed, unless its row says otherwise.
        let told = |row: Row| match row.subscribed {
            Some(_) => Ok(row),
            None => Err(row.invalid(MISSING_SUBSCRIBED.to_owned())),
        };
        self.all.into_iter().map(|row| row.and_then(told)).collect()
    }
}

impl Row {
    fn new(number: usize) -> Self {
        Self {
            number,
            email: String::new(),
            name: None,
            topics: Vec::new(),
            subscribed: None,
            unsubscribed_by: None,
            metadata: Map::new(),
        }
    }

    fn invalid(self, why: String) -> InvalidRow {
        InvalidRow {
            number: self.number,
            email: (!self.email.is_empty()).then_some(self.email),
            why,
            duplicate_of: None,
            subscribed: self.subscribed,
        }
    }

    fn duplicate_of(self, first: usize) -> InvalidRow {
        let why = format!("the address is already in row {first}");
        InvalidRow { duplicate_of: Some(first), ..self.invalid(why) }
    }
}

/// The header of `svc contacts export`. Values of such a file are not trimmed, so that they are
/// imported as they were exported.
pub(crate) const EXPORT_HEADER: [&str; 6] =
    ["id", "email", "name", "subscribed", "topics", "metadata"];

/// Reads a file. Only one with an invalid header is refused as a whole.
pub(super) fn read(bytes: &[u8], map: &[(String, String)]) -> Result<File, Failure> {
    let mut start = bytes;
    if json::is_json(start_of_text(&mut start)?) {
        if !map.is_empty() {
            return Err(Failure::usage("--map needs a CSV file, but the file contains JSON"));
        }
        return json::read(start);
    }
    let mut records = CsvRecords::new(bytes)?;
    let header = records.header()?;
    let fields = fields(&header, map)?;
    let (mapping, doubtful) = described(&header, &fields, map);
    if header == EXPORT_HEADER[..] {
        records.keep_white_space();
    }
    let (mut rows, mut number, mut joined) = (Rows::default(), 1, None);
    let unnamed = (0..header.len()).filter(|&column| header[column].trim().is_empty());
    let mut unnamed = unnamed.map(|column| (column, false)).collect::<Vec<_>>();
    while let Some(record) = records.next()? {
        number += 1;
        // Spreadsheets leave empty rows at the end of a file.
        if record.values.iter().all(|cell| cell.trim_ascii().is_empty()) {
            continue;
        }
        if joined.is_none() && record.joined.is_some() {
            joined = Some(format!(
                "lines {} to {} are one value because of their quotes, but look like several rows",
                record.line, record.last_line
            ));
        }
        for (column, has_values) in &mut unnamed {
            *has_values |=
                record.values.get(*column).is_some_and(|cell| !cell.trim_ascii().is_empty());
        }
        // The text of the row, as far as it is text, for the report.
        let shown = csv::StringRecord::from_byte_record_lossy(record.values.clone());
        rows.push(match record.text() {
            Ok(record) => row(number, &record, &fields),
            Err(failure) => {
                let why = format!("{}; {NOT_UTF8}", failure.details().message);
                Err(match row(number, &shown, &fields) {
                    Ok(row) => row.invalid(why),
                    Err(invalid) => InvalidRow { why, ..invalid },
                })
            }
        });
    }
    let has_subscribed = fields.contains(&Field::Subscribed);
    let unnamed = unnamed.into_iter().filter(|(_, has_values)| *has_values);
    let unnamed = unnamed.map(|(column, _)| column + 1).collect();
    let rows = rows.finish();
    Ok(File { rows, mapping, doubtful, is_json: false, has_subscribed, unnamed, joined })
}

/// The next step for a row in another encoding.
const NOT_UTF8: &str = "save it as \"CSV UTF-8\", or convert it: iconv -f latin1 -t utf-8 FILE";

/// The most characters of a plausible value.
const PLAUSIBLE: usize = 2000;

/// The first value that is so long that a misplaced quote may have joined several rows, described.
pub(super) fn implausible(rows: &[Result<Row, InvalidRow>]) -> Option<String> {
    rows.iter().flatten().find_map(|row| {
        let named = [("email", Some(&row.email)), ("name", row.name.as_ref())];
        let named = named.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?)));
        let topics = row.topics.iter().map(|topic| ("topics".to_owned(), topic));
        let metadata = row.metadata.iter().filter_map(|(key, value)| match value {
            Value::String(text) => Some((format!("metadata.{key}"), text)),
            _ => None,
        });
        let lengths = named.chain(topics).chain(metadata);
        let mut lengths = lengths.map(|(field, value)| (field, value.chars().count()));
        let (field, length) = lengths.find(|(_, length)| *length > PLAUSIBLE)?;
        Some(format!("row {}: the value of {field} has {length} characters", row.number))
    })
}

fn row(number: usize, record: &csv::StringRecord, fields: &[Field]) -> Result<Row, InvalidRow> {
    let (mut row, mut parts) = (Row::new(number), Parts::default());
    let mut problem = None;
    let is_short = fields.iter().skip(record.len()).any(|field| *field != Field::Ignore);
    if is_short || record.iter().skip(fields.len()).any(|cell| !cell.is_empty()) {
        let (cells, columns) = (record.len(), fields.len());
        problem = Some(format!("the row has {cells} values, but the header has {columns}"));
    }
    // All values are read, so that the report names the address, and an opt-out is not missed.
    for (cell, field) in record.iter().zip(fields).filter(|(cell, _)| !cell.is_empty()) {
        let read = row.read_cell(cell, field, &mut parts);
        problem = problem.or(read.err());
    }
    row.complete(parts, problem)
}

/// The first and the last name of a row.
#[derive(Default)]
struct Parts {
    first: Option<String>,
    last: Option<String>,
}

impl Row {
    fn read_cell(&mut self, cell: &str, field: &Field, parts: &mut Parts) -> Result<(), String> {
        match field {
            Field::Email => self.email = cell.to_owned(),
            Field::Name => self.name = Some(cell.to_owned()),
            Field::FirstName(key) | Field::LastName(key) => {
                return self.part_of_name(cell.to_owned(), field, key.as_ref(), parts);
            }
            Field::Topics => self.topics = topics(cell)?,
            Field::Subscribed => {
                // The row fails if the word is unknown. Then it opts out in other rows of the
                // address, because nobody may be subscribed by mistake.
                self.subscribed = Some(false);
                self.subscribed = Some(subscribed(cell)?);
            }
            Field::WholeMetadata => match exact_json(cell) {
                Ok(Value::Object(map)) => return self.all_metadata(map),
                Ok(_) => return Err("`metadata` is not a JSON object".to_owned()),
                Err(problem) => return Err(format!("`metadata`: {problem}")),
            },
            Field::Metadata(key) => return self.metadata(key.clone(), cell.into()),
            Field::Ignore => {}
        }
        Ok(())
    }

    /// Takes a first or last name, which is an entry of the metadata too if there is a `key`.
    fn part_of_name(
        &mut self,
        part: String,
        field: &Field,
        key: Option<&String>,
        parts: &mut Parts,
    ) -> Result<(), String> {
        let kept = match field {
            Field::FirstName(_) => &mut parts.first,
            _ => &mut parts.last,
        };
        *kept = Some(part.clone());
        key.map_or(Ok(()), |key| self.metadata(key.clone(), part.into()))
    }

    fn all_metadata(&mut self, entries: Map<String, Value>) -> Result<(), String> {
        entries.into_iter().try_for_each(|(key, value)| self.metadata(key, value))
    }

    /// Adds an entry. Another value of the same key is an error, because one would be lost.
    fn metadata(&mut self, key: String, value: Value) -> Result<(), String> {
        match self.metadata.get(&key) {
            Some(other) if *other != value => {
                Err(format!("`metadata` and a column have different values for `{key}`"))
            }
            _ => {
                self.metadata.insert(key, value);
                Ok(())
            }
        }
    }

    /// Joins the first and the last name, unless the row has a whole one.
    fn complete(mut self, parts: Parts, problem: Option<String>) -> Result<Self, InvalidRow> {
        let parts = parts.first.into_iter().chain(parts.last).collect::<Vec<_>>();
        if self.name.is_none() && !parts.is_empty() {
            self.name = Some(parts.join(" "));
        }
        let no_address =
            || self.email.is_empty().then(|| "the row has no email address".to_owned());
        match problem.or_else(no_address) {
            None => Ok(self),
            Some(why) => Err(self.invalid(why)),
        }
    }
}

/// The address by which contacts are compared, without a display name.
pub(super) fn comparable(email: &str) -> String {
    let email = email.trim();
    let bare = email.strip_suffix('>').and_then(|named| Some(named.rsplit_once('<')?.1));
    email::comparable(bare.unwrap_or(email))
}

/// Topics separated by semicolons or commas, or as a JSON array.
fn topics(cell: &str) -> Result<Vec<String>, String> {
    if cell.trim_start().starts_with('[') {
        let problem = |_| "`topics` is not a JSON array of strings".to_owned();
        return serde_json::from_str(cell).map_err(problem);
    }
    let topics = cell.split([';', ',']).map(str::trim).filter(|topic| !topic.is_empty());
    Ok(topics.map(str::to_owned).collect())
}

/// Topics as one value of a CSV file, so that [`topics`] reads the same again.
pub(crate) fn topics_cell(topics: &[String]) -> String {
    let is_plain = |topic: &String| {
        !topic.is_empty() && topic.trim() == topic && !topic.contains([';', ',', '['])
    };
    match topics.iter().all(is_plain) {
        true => topics.join(";"),
        false => Value::from(topics).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_mapped_by_their_header() {
        let file = "\u{feff}Email Address;Full Name;Plan;topics;subscribed\n\
                    ada@b.test;\"Ada; King\";pro;a,b;no\n";
        let rows = read(file.as_bytes(), &[]).expect("a file").rows;
        let row = rows[0].clone().expect("a row");
        assert_eq!((row.number, row.email.as_str()), (2, "ada@b.test"));
        assert_eq!(row.name.as_deref(), Some("Ada; King"));
        assert_eq!((row.topics, row.subscribed), (vec!["a".into(), "b".into()], Some(false)));
        assert_eq!(Value::Object(row.metadata), json!({"Plan": "pro"}));
    }

    #[test]
    fn first_and_last_names_are_joined_and_the_mapping_is_described() {
        let file = "E-Mail,First Name,Last Name,Status,plan,id\na@b.test,Ada,King,active,pro,1\n\
                    b@b.test,,Jones,,,\n";
        let file = read(file.as_bytes(), &[]).expect("a file");
        let names = file.rows.iter().map(|row| row.clone().expect("a row").name);
        assert_eq!(names.collect::<Vec<_>>(), [Some("Ada King".into()), Some("Jones".into())]);
        assert_eq!(
            file.mapping,
            "E-Mail → email, First Name → first part of name, Last Name → last part of name, \
             Status → metadata.Status, plan → metadata.plan, id → ignored"
        );
        assert_eq!(file.doubtful, ["Status"]);
        let map = vec![("Status".to_owned(), "metadata.Status".to_owned())];
        assert!(read(b"email,Status\na@b.test,x\n", &map).expect("a file").doubtful.is_empty());
    }

    #[test]
    fn values_of_implausible_length_are_found() {
        // Two stray quotes in two rows make one value of all rows between them.
        let rows = "b@b.test,Bob\n".repeat(300);
        let file = format!("email,name\na@b.test,Ada\nc@b.test,\"Eve\n{rows}x@b.test,Y\"\n");
        let rows = read(file.as_bytes(), &[]).expect("a file").rows;
        let why = implausible(&rows).expect("too long");
        assert!(why.starts_with("row 3: the value of name has 39"), "{why}");
        let rows = read(b"email,name\na@b.test,Ada\n", &[]).expect("a file").rows;
        assert_eq!(implausible(&rows), None);
    }

    #[test]
    fn an_invalid_row_does_not_stop_the_others() {
        let file =
            "email,metadata\nada@b.test,{}\n,{}\neve@b.test,nope\nADA@b.test,\nbob@b.test,\n";
        let rows = read(file.as_bytes(), &[]).expect("a file").rows;
        let bad = rows
            .iter()
            .filter_map(|row| row.clone().err())
            .map(|row| row.number)
            .collect::<Vec<_>>();
        assert_eq!(bad, [3, 4, 5]);
        assert!(rows[3].clone().is_err_and(|row| row.duplicate_of == Some(2)));
    }

    #[test]
    fn row_numbers_match_spreadsheets_and_empty_rows_are_skipped() {
        let file = "\u{feff}email,name\r\na@b.test,\"two\r\nlines\"\r\n\r\n,\r\n  \r\n\
                    b@b.test,\r\nno,\"q\"\"x\"";
        let rows = read(file.as_bytes(), &[]).expect("a file").rows;
        let numbers =
            rows.iter().map(|row| row.clone().map_or_else(|row| row.number, |row| row.number));
        assert_eq!(numbers.collect::<Vec<_>>(), [2, 6, 7]);
        let mut latin = b"email,name\nz@b.test,Zo\xeb\n".to_vec();
        let rows = read(&latin, &[]).expect("a file").rows;
        assert!(rows[0].clone().is_err_and(|row| {
            row.number == 2
                && row.email.as_deref() == Some("z@b.test")
                && row.why.contains("column 12: not UTF-8 text; save it as \"CSV UTF-8\"")
        }));
        latin.insert(2, 0xeb);
        let refused = read(&latin, &[]).expect_err("refused");
        assert!(refused.details().hint.as_deref().is_some_and(|hint| hint.contains("iconv")));
    }

    #[test]
    fn a_row_with_more_values_than_the_header_is_invalid() {
        let rows = read(b"email,name,subscribed\na@b.test,,,false\nc@b.test,C,no,\n", &[])
            .expect("a file")
            .rows;
        let row = rows[0].clone().expect_err("invalid");
        let why = "the row has 4 values, but the header has 3";
        assert_eq!((row.number, row.email.as_deref(), &*row.why), (2, Some("a@b.test"), why));
        assert_eq!(rows[1].as_ref().expect("valid").subscribed, Some(false));
    }

    #[test]
    fn rejects_two_columns_for_one_field() {
        for header in
            ["email,plan,plan", "email,name,Full Name", "email,email", "email,topics,topic"]
        {
            assert!(read(format!("{header}\na@b.test,1,2\n").as_bytes(), &[]).is_err(), "{header}");
        }
        let map = vec![("plan".to_owned(), "ignore".to_owned())];
        assert_eq!(read(b"email,plan,plan\na@b.test,1,2\n", &map).expect("a file").rows.len(), 1);
    }

    #[test]
    fn map_rejects_unknown_columns_and_fields() {
        let map = |from: &str, to: &str| vec![(from.to_owned(), to.to_owned())];
        let file = b"Kontakt,Alt\na@b.test,x\n";
        assert!(read(file, &[]).is_err(), "no address");
        let rows = read(file, &map("Kontakt", "email")).expect("a file").rows;
        assert!(rows[0].is_ok());
        assert!(read(file, &map("Nope", "email")).is_err());
        assert!(read(file, &map("Alt", "emial")).is_err());
        let twice = [map("Kontakt", "email"), map("Kontakt", "name")].concat();
        assert!(read(file, &twice).is_err());
    }
}
