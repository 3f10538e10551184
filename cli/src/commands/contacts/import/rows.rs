//! Parses the rows of a file into contacts.

mod json;
mod quotes;

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::failure::Failure;

/// One contact of the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// Row number as a spreadsheet shows it: the header is row 1.
    pub(super) number: usize,
    pub(super) email: String,
    pub(super) name: Option<String>,
    pub(super) topics: Vec<String>,
    pub(super) subscribed: Option<bool>,
    pub(super) metadata: Map<String, Value>,
}

/// The number of an invalid row, and the reason.
pub(super) type InvalidRow = (usize, String);

#[derive(Clone, Debug, PartialEq)]
enum Field {
    Email,
    Name,
    FirstName,
    LastName,
    Topics,
    Subscribed,
    WholeMetadata,
    Metadata(String),
    Ignore,
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
    /// A quoted value that looks like several rows, described.
    pub(super) joined: Option<String>,
}

/// The rows of a file, each address once.
#[derive(Default)]
struct Rows {
    all: Vec<Result<Row, InvalidRow>>,
    /// The row of each address, in lower case.
    seen: HashMap<String, usize>,
}

impl Rows {
    fn push(&mut self, row: Result<Row, InvalidRow>) {
        let row =
            row.and_then(|row| match self.seen.insert(row.email.to_lowercase(), row.number) {
                Some(first) => Err((row.number, format!("the address is already in row {first}"))),
                None => Ok(row),
            });
        self.all.push(row);
    }
}

/// The header of `svc contacts export`. Values of such a file are not trimmed, so that they are
/// imported as they were exported.
pub(crate) const EXPORT_HEADER: [&str; 6] =
    ["id", "email", "name", "subscribed", "topics", "metadata"];

/// Reads a file. Only one with an invalid header is refused as a whole.
pub(super) fn read(bytes: &[u8], map: &[(String, String)]) -> Result<File, Failure> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    if json::is_json(bytes) {
        if !map.is_empty() {
            return Err(Failure::usage("--map needs a CSV file, but the file contains JSON"));
        }
        return json::read(bytes);
    }
    let delimiter = delimiter(bytes);
    let joined = quotes::check(bytes, delimiter)?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .trim(csv::Trim::Headers)
        .from_reader(bytes);
    let header = reader
        .headers()
        .map_err(|_| Failure::input("the header line is not UTF-8 text").hint(NOT_UTF8))?
        .clone();
    let fields = fields(&header, map)?;
    let (mapping, doubtful) = described(&header, &fields, map);
    let is_export = header == EXPORT_HEADER[..];
    let mut rows = Rows::default();
    let mut number = 1;
    let mut record = csv::ByteRecord::new();
    loop {
        let start = reader.position().line();
        let more = reader.read_byte_record(&mut record);
        if !more.map_err(|error| Failure::input(format!("{error}")))? {
            return Ok(File { rows: rows.all, mapping, doubtful, is_json: false, joined });
        }
        // Spreadsheets count empty rows too.
        let within = record.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
        let lines = reader.position().line() - start;
        number += 1 + usize::try_from(lines.saturating_sub(within + 1)).unwrap_or(0);
        // Spreadsheets leave empty rows at the end of a file.
        if record.iter().all(|cell| cell.trim_ascii().is_empty()) {
            continue;
        }
        let row = csv::StringRecord::from_byte_record(record.clone())
            .map_err(|_| format!("the row is not UTF-8 text: {NOT_UTF8}"))
            .and_then(|mut record| {
                if !is_export {
                    record.trim();
                }
                row(number, &record, &fields)
            });
        rows.push(row.map_err(|why| (number, why)));
    }
}

/// The next step for a file in another encoding.
const NOT_UTF8: &str = "save it as \"CSV UTF-8\", or convert it: iconv -f latin1 -t utf-8 FILE";

/// The most frequent delimiter of the header. Many spreadsheets write semicolons.
fn delimiter(bytes: &[u8]) -> u8 {
    let header = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = |wanted: u8| header.iter().filter(|byte| **byte == wanted).count();
    [b',', b';', b'\t'].into_iter().rev().max_by_key(|d| count(*d)).unwrap_or(b',')
}

fn fields(header: &csv::StringRecord, map: &[(String, String)]) -> Result<Vec<Field>, Failure> {
    if let Some((column, _)) = map.iter().find(|(column, _)| !header.iter().any(|h| h == column)) {
        return Err(Failure::usage(format!("--map: the file has no column `{column}`")));
    }
    let fields = header
        .iter()
        .map(|column| match map.iter().find(|(from, _)| from == column) {
            Some((_, to)) => named(to),
            None => Ok(guessed(column)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let twice = fields.iter().enumerate().find(|(index, field)| {
        !matches!(field, Field::Ignore | Field::Email) && fields[..*index].contains(field)
    });
    if let Some((index, _)) = twice {
        let column = header.get(index).unwrap_or_default();
        return Err(Failure::input(format!("several columns map to the field of `{column}`"))
            .hint(format!("rename one, or ignore it: --map '{column}=ignore'")));
    }
    match fields.iter().filter(|field| **field == Field::Email).count() {
        1 => Ok(fields),
        0 => Err(Failure::input("no column is named `email`")
            .hint("name the column: --map 'E-Mail Address=email'")),
        _ => Err(Failure::input("several columns map to `email`")
            .hint("ignore one: --map 'Other Email=ignore'")),
    }
}

fn named(field: &str) -> Result<Field, Failure> {
    Ok(match field {
        "email" => Field::Email,
        "name" => Field::Name,
        "first_name" => Field::FirstName,
        "last_name" => Field::LastName,
        "topics" => Field::Topics,
        "subscribed" => Field::Subscribed,
        "metadata" => Field::WholeMetadata,
        "ignore" => Field::Ignore,
        _ => match field.strip_prefix("metadata.") {
            Some(key) if !key.is_empty() => Field::Metadata(key.to_owned()),
            _ => {
                return Err(Failure::usage(format!(
                    "--map: unknown field `{field}`; use email, name, first_name, last_name, topics, subscribed, metadata, metadata.KEY or ignore"
                )));
            }
        },
    })
}

fn guessed(column: &str) -> Field {
    match compact(column).as_str() {
        "email" | "emailaddress" | "mail" => Field::Email,
        "name" | "fullname" | "displayname" => Field::Name,
        "firstname" | "givenname" | "forename" => Field::FirstName,
        "lastname" | "surname" | "familyname" => Field::LastName,
        "topics" | "topic" => Field::Topics,
        "subscribed" | "issubscribed" => Field::Subscribed,
        "metadata" => Field::WholeMetadata,
        // Columns of an export that only the service can set.
        "id" | "audienceid" | "createdat" | "updatedat" => Field::Ignore,
        _ if column.trim().is_empty() => Field::Ignore,
        _ => Field::Metadata(column.to_owned()),
    }
}

/// How the columns are mapped, and those stored as metadata that may say who has opted out.
fn described(
    header: &csv::StringRecord,
    fields: &[Field],
    map: &[(String, String)],
) -> (String, Vec<String>) {
    let mut doubtful = Vec::new();
    let columns = header.iter().zip(fields).map(|(column, field)| {
        let target = match field {
            Field::Email => "email".to_owned(),
            Field::Name => "name".to_owned(),
            Field::FirstName => "first part of name".to_owned(),
            Field::LastName => "last part of name".to_owned(),
            Field::Topics => "topics".to_owned(),
            Field::Subscribed => "subscribed".to_owned(),
            Field::WholeMetadata => "metadata".to_owned(),
            Field::Metadata(key) => {
                let is_chosen = map.iter().any(|(from, _)| from == column);
                if !is_chosen && says_who_opted_out(column) {
                    doubtful.push(column.to_owned());
                }
                format!("metadata.{key}")
            }
            Field::Ignore => "ignored".to_owned(),
        };
        format!("{column} → {target}")
    });
    (columns.collect::<Vec<_>>().join(", "), doubtful)
}

/// Words of columns of which `true` probably means that the person has opted out.
const OPT_OUT: [&str; 9] = [
    "optout",
    "optedout",
    "unsub",
    "donot",
    "dont",
    "noemail",
    "suppress",
    "blocklist",
    "blacklist",
];

/// Whether this column may say who has opted out, in either direction.
pub(crate) fn says_who_opted_out(column: &str) -> bool {
    const WORDS: [&str; 9] = [
        "status",
        "state",
        "optin",
        "optedin",
        "subscribed",
        "subscription",
        "consent",
        "permission",
        "accept",
    ];
    let column = compact(column);
    WORDS.iter().chain(&OPT_OUT).any(|word| column.contains(word))
}

/// Whether `true` in this column probably means that the person has opted out.
pub(crate) fn lists_opt_outs(column: &str) -> bool {
    let column = compact(column);
    OPT_OUT.iter().any(|word| column.contains(word))
}

/// The letters and digits of a column's name, in lower case.
fn compact(column: &str) -> String {
    column.to_lowercase().chars().filter(|letter| letter.is_alphanumeric()).collect()
}

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

fn row(number: usize, record: &csv::StringRecord, fields: &[Field]) -> Result<Row, String> {
    let mut row = Row {
        number,
        email: String::new(),
        name: None,
        topics: Vec::new(),
        subscribed: None,
        metadata: Map::new(),
    };
    if record.iter().skip(fields.len()).any(|cell| !cell.is_empty()) {
        let (cells, columns) = (record.len(), fields.len());
        return Err(format!("the row has {cells} values, but the header has {columns}"));
    }
    let (mut first, mut last) = (None, None);
    for (cell, field) in record.iter().zip(fields).filter(|(cell, _)| !cell.is_empty()) {
        match field {
            Field::Email => row.email = cell.to_owned(),
            Field::Name => row.name = Some(cell.to_owned()),
            Field::FirstName => first = Some(cell),
            Field::LastName => last = Some(cell),
            Field::Topics => row.topics = topics(cell)?,
            Field::Subscribed => {
                row.subscribed = Some(match cell.trim().to_lowercase().as_str() {
                    "true" | "yes" | "y" | "1" | "subscribed" => true,
                    "false" | "no" | "n" | "0" | "unsubscribed" => false,
                    _ => return Err("`subscribed` must be true or false".to_owned()),
                });
            }
            Field::WholeMetadata => match serde_json::from_str(cell) {
                Ok(Value::Object(map)) => row.metadata.extend(map),
                _ => return Err("`metadata` is not a JSON object".to_owned()),
            },
            Field::Metadata(key) => {
                row.metadata.insert(key.clone(), cell.into());
            }
            Field::Ignore => {}
        }
    }
    complete(row, first, last)
}

/// Joins the first and the last name, unless the row has a whole one.
fn complete(mut row: Row, first: Option<&str>, last: Option<&str>) -> Result<Row, String> {
    let parts = first.into_iter().chain(last).collect::<Vec<_>>();
    if row.name.is_none() && !parts.is_empty() {
        row.name = Some(parts.join(" "));
    }
    if row.email.is_empty() {
        return Err("the row has no email address".to_owned());
    }
    Ok(row)
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
        let bad =
            rows.iter().filter_map(|row| row.clone().err()).map(|(n, _)| n).collect::<Vec<_>>();
        assert_eq!(bad, [3, 4, 5]);
        assert!(rows[3].clone().is_err_and(|(_, why)| why.contains("row 2")));
    }

    #[test]
    fn row_numbers_match_spreadsheets_and_empty_rows_are_skipped() {
        let file = "\u{feff}email,name\r\na@b.test,\"two\r\nlines\"\r\n\r\n,\r\n  \r\n\
                    b@b.test,\r\nno,\"q\"\"x\"";
        let rows = read(file.as_bytes(), &[]).expect("a file").rows;
        let numbers = rows.iter().map(|row| row.clone().map_or_else(|(n, _)| n, |row| row.number));
        assert_eq!(numbers.collect::<Vec<_>>(), [2, 6, 7]);
        let mut latin = b"email,name\nz@b.test,Zo\xeb\n".to_vec();
        let rows = read(&latin, &[]).expect("a file").rows;
        assert!(rows[0].clone().is_err_and(|(n, why)| n == 2 && why.contains("CSV UTF-8")));
        latin.insert(2, 0xeb);
        let refused = read(&latin, &[]).expect_err("refused");
        assert!(refused.details().hint.as_deref().is_some_and(|hint| hint.contains("iconv")));
    }

    #[test]
    fn a_row_with_more_values_than_the_header_is_invalid() {
        let rows = read(b"email,name,subscribed\na@b.test,,,false\nc@b.test,C,no,\n", &[])
            .expect("a file")
            .rows;
        let (number, why) = rows[0].clone().expect_err("invalid");
        assert_eq!((number, why.as_str()), (2, "the row has 4 values, but the header has 3"));
        assert_eq!(rows[1].as_ref().expect("valid").subscribed, Some(false));
    }

    #[test]
    fn columns_of_opt_outs_are_not_mapped_to_subscribed() {
        for column in
            ["Unsubscribed", "Opt out", "opted_out", "Unsub", "do not email", "suppressed"]
        {
            assert!(lists_opt_outs(column) && says_who_opted_out(column), "{column}");
            assert_eq!(guessed(column), Field::Metadata(column.to_owned()));
        }
        for column in ["Opted-In", "email_permission", "Accepts Marketing", "Subscribed on"] {
            assert!(!lists_opt_outs(column) && says_who_opted_out(column), "{column}");
        }
        for column in ["is_subscribed", "Subscribed?"] {
            assert_eq!(guessed(column), Field::Subscribed, "{column}");
        }
        assert_eq!(guessed("#"), Field::Metadata("#".to_owned()));
        assert!(!lists_opt_outs("status") && !lists_opt_outs("Subscription"));
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
    }
}
