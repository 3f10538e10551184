//! Reads the records of a file as contacts.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::context::Context;
use crate::failure::Failure;
use crate::input::columns::ColumnOptions;
use crate::input::opt_outs::{NOT_SAID, OptOuts, Subscribed, compact};
use crate::input::people::{PeopleFile, Person};
use crate::input::records::{Record, Records};
use crate::input::{LOSES_DIGITS, email, loses_digits, read_json};

/// One contact of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ImportRow {
    /// The number of its record.
    pub(super) number: u64,
    /// The address as it is in the file; empty if the row has none.
    pub(super) email: String,
    pub(super) name: Option<String>,
    pub(super) topics: Vec<String>,
    pub(super) subscribed: Option<bool>,
    pub(super) metadata: Map<String, Value>,
    /// Why the row is not imported.
    pub(super) problem: Option<String>,
    /// Whether that is because another row has the same address.
    pub(super) is_duplicate: bool,
    /// Which row with the same address unsubscribes the contact, although this one does not.
    pub(super) note: Option<String>,
}

/// What a column or key is.
#[derive(Clone, Debug, PartialEq)]
enum Field {
    Name,
    Topics,
    Subscribed,
    WholeMetadata,
    Metadata(String),
    Ignore,
}

/// The header of `svc contacts list --all -o csv`. Values of such a file are not trimmed, so that they are
/// imported as they were exported.
pub(crate) const EXPORT_HEADER: [&str; 6] =
    ["id", "email", "name", "subscribed", "topics", "metadata"];

/// Reads a file. Returns its rows and how its columns are read, such as `plan → metadata.plan`.
pub(super) async fn read(
    context: &Context,
    records: Records,
    options: &ColumnOptions,
) -> Result<(Vec<ImportRow>, String), Failure> {
    let mut file = PeopleFile::new(records, options)?;
    let header = file.columns.take();
    if header.iter().flatten().map(AsRef::as_ref).eq(EXPORT_HEADER) {
        file.records.keep_white_space();
    }
    let mut all = Vec::new();
    while let Some(person) = file.next()? {
        all.push(person);
    }
    let columns = header.clone().unwrap_or_else(|| keys(&all));
    let mut fields = HashMap::new();
    for column in &columns {
        fields.insert(Arc::clone(column), field(column, options)?);
    }
    let names = columns.iter().map(AsRef::as_ref);
    let address = file.address.or_else(|| options.address(&names).ok().flatten());
    if let Some(at) = file.address {
        let repeated = refuse_repeated(&columns, at, &fields);
        repeated.map_err(|failure| file.records.in_file(failure))?;
    }
    let PeopleFile { records, opt_outs, .. } = file;
    let mapping = described(&columns, address, &fields, &opt_outs);
    let rows = all.into_iter().map(|person| row(person, &fields, header.is_some()));
    let mut rows = rows.collect::<Vec<_>>();
    let asked = opt_outs.ask_about_unknown_words(context).await;
    asked
        .and_then(|()| refuse_contradiction(&opt_outs, options))
        .map_err(|failure| records.in_file(failure))?;
    import_each_once(&mut rows, opt_outs.is_told);
    Ok((rows, mapping))
}

/// The keys of all objects, in the order of their appearance.
fn keys(people: &[Person]) -> Vec<Arc<str>> {
    let (mut seen, mut keys) = (std::collections::HashSet::new(), Vec::new());
    for (key, _) in people.iter().flat_map(|person| &person.record.fields) {
        if seen.insert(Arc::clone(key)) {
            keys.push(Arc::clone(key));
        }
    }
    keys
}

fn field(column: &str, options: &ColumnOptions) -> Result<Field, Failure> {
    Ok(match options.field(column) {
        None => guessed(column),
        // The address is found by its position.
        Some("email" | "ignore") => Field::Ignore,
        Some("name") => Field::Name,
        Some("topics") => Field::Topics,
        Some("subscribed") => Field::Subscribed,
        Some("metadata") => Field::WholeMetadata,
        Some(field) => match field.strip_prefix("metadata.") {
            Some(key) if !key.is_empty() => Field::Metadata(key.to_owned()),
            _ => {
                return Err(Failure::usage(format!(
                    "--column: unknown field `{field}`; use email, name, topics, subscribed, \
                     metadata, metadata.KEY or ignore"
                )));
            }
        },
    })
}

fn guessed(column: &str) -> Field {
    match compact(column).as_str() {
        "name" | "fullname" | "displayname" => Field::Name,
        "topics" | "topic" => Field::Topics,
        "metadata" => Field::WholeMetadata,
        "subscribed" | "issubscribed" => Field::Subscribed,
        // Columns of an export that only the service can set.
        "id" | "audienceid" | "createdat" | "updatedat" => Field::Ignore,
        _ if column.trim().is_empty() => Field::Ignore,
        _ => Field::Metadata(column.to_owned()),
    }
}

fn refuse_repeated(
    columns: &[Arc<str>],
    address: usize,
    fields: &HashMap<Arc<str>, Field>,
) -> Result<(), Failure> {
    let mut seen = Vec::new();
    for column in columns.iter().enumerate().filter(|(at, _)| *at != address).map(|(_, name)| name)
    {
        let field = &fields[column];
        // Of several that say who is subscribed, any one that opts out is enough.
        if !matches!(field, Field::Ignore | Field::Subscribed) && seen.contains(&field) {
            let problem = format!("several columns map to the field of `{column}`");
            let hint = format!("rename one, or ignore it: --column '{column}=ignore'");
            return Err(Failure::input(problem).hint(hint));
        }
        seen.push(field);
    }
    Ok(())
}

fn refuse_contradiction(opt_outs: &OptOuts, options: &ColumnOptions) -> Result<(), Failure> {
    let Some((row, yes, no)) = &opt_outs.contradiction else { return Ok(()) };
    if options.opt_out.iter().any(|column| **column == **no) {
        return Ok(());
    }
    Err(Failure::input(format!(
        "row {row}: the person is subscribed according to `{yes}`, but not according to `{no}`"
    ))
    .code("columns_contradict")
    .hint(format!(
        "let `{no}` decide: --column '{yes}=ignore'\nlet `{yes}` decide: --column '{no}=ignore'"
    )))
}

fn described(
    columns: &[Arc<str>],
    address: Option<usize>,
    fields: &HashMap<Arc<str>, Field>,
    opt_outs: &OptOuts,
) -> String {
    let columns = columns.iter().enumerate().map(|(at, column)| {
        let mut target = match &fields[column] {
            _ if Some(at) == address => "email".to_owned(),
            Field::Name => "name".to_owned(),
            Field::Topics => "topics".to_owned(),
            Field::Subscribed => "subscribed".to_owned(),
            Field::WholeMetadata => "metadata".to_owned(),
            Field::Metadata(key) => format!("metadata.{key}"),
            Field::Ignore => "ignored".to_owned(),
        };
        if Some(at) != address && fields[column] != Field::Subscribed && opt_outs.reads(column) {
            target.push_str(" and opt-outs");
        }
        format!("{column} → {target}")
    });
    columns.collect::<Vec<_>>().join(", ")
}

fn row(person: Person, fields: &HashMap<Arc<str>, Field>, is_csv: bool) -> ImportRow {
    let Person { record, address, subscribed } = person;
    let Record { number, fields: values, mut problem } = record;
    let mut row = ImportRow { number, ..ImportRow::default() };
    let mut filled = Vec::new();
    // All values are read, so that the report names the address, and an opt-out is not missed.
    for (at, (key, value)) in values.into_iter().enumerate() {
        if value.is_null() || (is_csv && value == "") {
            continue;
        }
        if Some(at) == address {
            match value {
                Value::String(email) => row.email = email,
                other => {
                    row.email = other.to_string();
                    problem.get_or_insert_with(|| format!("`{key}` is not a text"));
                }
            }
            continue;
        }
        let Some(field) = fields.get(&key) else { continue };
        let read = match filled.contains(&field) {
            true if !matches!(field, Field::Ignore | Field::Subscribed) => {
                Err(format!("several keys map to the field of `{key}`"))
            }
            _ => row.read(&key, value, field),
        };
        filled.push(field);
        if let Err(why) = read {
            problem.get_or_insert(why);
        }
    }
    row.subscribed = match subscribed {
        Subscribed::Unsaid => None,
        Subscribed::Yes => Some(true),
        Subscribed::No(_) => Some(false),
        // Nobody may be subscribed by mistake: it opts out in other rows of the address.
        Subscribed::Unclear(why) => {
            problem.get_or_insert(why);
            Some(false)
        }
    };
    let no_address = row.email.is_empty().then(|| "the row has no email address".to_owned());
    ImportRow { problem: problem.or(no_address), ..row }
}

impl ImportRow {
    fn read(&mut self, key: &str, value: Value, field: &Field) -> Result<(), String> {
        match field {
            Field::Name => self.name = Some(text(key, value)?),
            Field::Topics => self.topics = topics(key, value)?,
            Field::WholeMetadata => {
                let value = match value {
                    Value::String(text) => {
                        read_json(&text).map_err(|problem| format!("`{key}`: {problem}"))?
                    }
                    value => value,
                };
                let Value::Object(entries) = value else {
                    return Err(format!("`{key}` is not a JSON object"));
                };
                return entries.into_iter().try_for_each(|(key, value)| self.metadata(key, value));
            }
            Field::Metadata(key) => return self.metadata(key.clone(), value),
            Field::Subscribed | Field::Ignore => {}
        }
        Ok(())
    }

    /// Adds an entry. Another value of the same key is an error, because one would be lost.
    fn metadata(&mut self, key: String, value: Value) -> Result<(), String> {
        if loses_digits(&value) {
            return Err(format!("`{key}`: {LOSES_DIGITS}"));
        }
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
}

/// Of the rows of an address, only the first valid one is imported. One that says that the person has
/// opted out wins over it, wherever it is, and even if it is not imported itself.
fn import_each_once(rows: &mut [ImportRow], is_told: bool) {
    let mut first = HashMap::new();
    for at in 0..rows.len() {
        if rows[at].problem.is_some() {
            continue;
        }
        let imported = *first.entry(comparable(&rows[at].email)).or_insert(at);
        if imported != at {
            let number = rows[imported].number;
            rows[at].problem = Some(format!("the address is already in row {number}"));
            rows[at].is_duplicate = true;
        }
    }
    for at in 0..rows.len() {
        let (number, opts_out) = (rows[at].number, rows[at].subscribed == Some(false));
        if let Some(imported) = first.get(&comparable(&rows[at].email)).filter(|_| opts_out)
            && let row = &mut rows[*imported]
            && row.subscribed != Some(false)
        {
            row.note = Some(format!("row {number} unsubscribes the contact"));
            row.subscribed = Some(false);
        }
    }
    // A new contact is subscribed, unless its row says otherwise.
    for row in rows.iter_mut().filter(|row| is_told && row.subscribed.is_none()) {
        row.problem.get_or_insert_with(|| NOT_SAID.to_owned());
    }
}

/// The address by which contacts are compared, without a display name.
pub(super) fn comparable(email: &str) -> String {
    let email = email.trim();
    let bare = email.strip_suffix('>').and_then(|named| Some(named.rsplit_once('<')?.1));
    email::comparable(bare.unwrap_or(email))
}

fn text(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(format!("`{key}` is not a text")),
    }
}

/// Topics separated by semicolons or commas, or a JSON array.
fn topics(key: &str, value: Value) -> Result<Vec<String>, String> {
    let problem = |_| format!("`{key}` is not a list of texts");
    match value {
        Value::String(cell) if cell.trim_start().starts_with('[') => {
            serde_json::from_str(&cell).map_err(problem)
        }
        Value::String(cell) => {
            let topics = cell.split([';', ',']).map(str::trim).filter(|topic| !topic.is_empty());
            Ok(topics.map(str::to_owned).collect())
        }
        value => serde_json::from_value(value).map_err(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_guessed_by_their_names() {
        for column in ["Unsubscribed", "opt_in", "newsletter", "#", "address"] {
            assert_eq!(guessed(column), Field::Metadata(column.to_owned()));
        }
        assert_eq!(guessed("Subscribed?"), Field::Subscribed);
        assert_eq!(guessed("Created at"), Field::Ignore);
    }
}
