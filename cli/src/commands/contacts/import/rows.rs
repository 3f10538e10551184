//! Reads the records of a file as `ImportRow`s. The file is read twice, so that few rows are in
//! memory: `Rows::read` learns what rows say of the same address (`Addresses`), and `Rows::next`
//! returns each row, judged by that. Of the rows of an address, only the first valid one is
//! imported; one that opts out, valid or not, unsubscribes the contact. A row with a `problem` is
//! reported and not sent. Which columns opt out is decided in `input/opt_outs.rs`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use svc_sdk::email::NewContact;

use crate::context::Context;
use crate::failure::Failure;
use crate::input::columns::ColumnOptions;
use crate::input::opt_outs::{NOT_SAID, OptOuts, Subscribed, compact};
use crate::input::people::{PeopleFile, Person};
use crate::input::records::{Record, Records};
use crate::input::{LOSES_DIGITS, email, loses_digits, read_json};

/// One contact of the file.
#[derive(Clone)]
pub(super) struct ImportRow {
    /// The number of its record.
    pub(super) number: u64,
    /// With the address as it is in the file; empty if the row has none.
    pub(super) contact: NewContact,
    pub(super) subscribed: Option<bool>,
    /// Why the row is not imported.
    pub(super) problem: Option<String>,
    /// Whether that is because another row has the same address.
    pub(super) is_duplicate: bool,
    /// The addresses that the row unsubscribes.
    pub(super) opted_out: Vec<String>,
    /// Which row with the same address unsubscribes the contact, although this one does not.
    pub(super) note: Option<String>,
}

impl ImportRow {
    /// The same row for this address, which its own text spells in another way.
    fn of(&self, address: &str) -> Self {
        let mut row = self.clone();
        row.contact.email = address.to_owned();
        if self.problem.as_deref() == email::check(&self.contact.email).err() {
            row.problem = None;
        }
        row
    }
}

/// The header of `svc contacts list --all -o csv`. Values of such a file are not trimmed, so that they are
/// imported as they were exported.
pub(crate) const EXPORT_HEADER: [&str; 6] =
    ["id", "email", "name", "subscribed", "topics", "metadata"];

/// The rows of a file, which is read twice, so that few of them are in memory: first for what one row
/// says of another, then row by row.
pub(super) struct Rows {
    file: ImportFile,
    addresses: Addresses,
    /// How the columns are read, such as `plan → metadata.plan`.
    pub(super) mapping: String,
    /// From which columns it is read who has opted out.
    pub(super) opt_outs: String,
    pub(super) total: usize,
}

impl Rows {
    /// Reads a file for the first time, and asks about its columns; if a person says what they mean,
    /// it is read again.
    pub(super) async fn read(
        context: &Context,
        open: impl Fn() -> Result<Records, Failure>,
        options: &mut ColumnOptions,
    ) -> Result<Self, Failure> {
        loop {
            let mut file = ImportFile::new(open()?, options)?;
            let mut addresses = Addresses::default();
            let mut total = 0;
            while let Some(row) = file.next()? {
                addresses.see(&row);
                total += 1;
            }
            let mapping = file.mapping();
            let PeopleFile {
                records, opt_outs, ..
            } = file.people;
            let in_file = |failure| records.in_file(failure);
            let said = opt_outs.ask(context).await.map_err(in_file)?;
            if !said.is_empty() {
                options.declare(said);
                continue;
            }
            refuse_contradiction(&opt_outs, options).map_err(in_file)?;
            addresses.is_told = opt_outs.is_told;
            return Ok(Self {
                file: ImportFile::new(open()?, options)?,
                addresses,
                mapping,
                opt_outs: opt_outs.describe(),
                total,
            });
        }
    }

    /// The next row; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<ImportRow>, Failure> {
        let mut next = self.file.next()?;
        if let Some(row) = &mut next {
            self.addresses.judge(row);
        }
        Ok(next)
    }
}

/// A file of contacts.
struct ImportFile {
    people: PeopleFile,
    fields: Fields,
    is_csv: bool,
    /// The column with the addresses of a CSV file.
    address: Option<Arc<str>>,
    /// The other addresses of the last row, which opts all of them out.
    others: Vec<ImportRow>,
}

impl ImportFile {
    fn new(records: Records, options: &ColumnOptions) -> Result<Self, Failure> {
        let mut people = PeopleFile::new(records, options)?;
        let header = people.columns.take();
        let columns = header.as_deref().unwrap_or_default();
        if columns.iter().map(AsRef::as_ref).eq(EXPORT_HEADER) {
            people.records.keep_white_space();
        }
        let mut fields = Fields::default();
        for column in columns {
            fields.of(column, options)?;
        }

        let address = people.address.and_then(|at| columns.get(at)).cloned();
        if let Some(address) = &address {
            let repeated = refuse_repeated(&fields.known, address);
            repeated.map_err(|failure| people.records.in_file(failure))?;
        }
        Ok(Self {
            people,
            fields,
            is_csv: header.is_some(),
            address,
            others: Vec::new(),
        })
    }

    fn next(&mut self) -> Result<Option<ImportRow>, Failure> {
        if let Some(other) = self.others.pop() {
            return Ok(Some(other));
        }
        let Some(person) = self.people.next()? else {
            return Ok(None);
        };

        let opts_out = matches!(person.subscribed, Subscribed::No(_));
        let options = &self.people.options;
        let row = row(person, &mut self.fields, options, self.is_csv)?;
        if !opts_out || email::check(&row.contact.email).is_ok() {
            return Ok(Some(row));
        }

        // A contact that exists is to be found, however the row spells its address.
        let mut others = row.opted_out.iter().map(|address| row.of(address));
        let first = others.next();
        self.others = others.collect();
        Ok(Some(first.unwrap_or(row)))
    }

    fn mapping(&self) -> String {
        let known = &self.fields.known;
        let names = known.iter().map(|(column, _)| &**column);
        let named = self.people.options.address(&names).ok().flatten();
        let named = named.map(|at| &known[at].0);
        let address = self.address.as_ref().or(named);
        let mapping = known.iter().map(|(column, field)| match &**field {
            _ if Some(column) == address => format!("{column} → email"),
            field if field != "subscribed" && self.people.opt_outs.reads(column) => {
                format!("{column} → {field} and opt-outs")
            }
            field => format!("{column} → {field}"),
        });
        mapping.collect::<Vec<_>>().join(", ")
    }
}

/// The columns or keys so far, each with its field.
#[derive(Default)]
struct Fields {
    known: Vec<(Arc<str>, Arc<str>)>,
    /// Where each is in `known`.
    places: HashMap<Arc<str>, usize>,
}

impl Fields {
    /// The field of a column or key, as --column names it.
    fn of(&mut self, column: &Arc<str>, options: &ColumnOptions) -> Result<Arc<str>, Failure> {
        const FIELDS: [&str; 6] = [
            "email",
            "name",
            "topics",
            "subscribed",
            "metadata",
            "ignore",
        ];

        if let Some(place) = self.places.get(column) {
            return Ok(Arc::clone(&self.known[*place].1));
        }

        let field = match options.field(column) {
            None => guessed(column),
            Some("status") => format!("metadata.{column}"),
            Some(field) => field.to_owned(),
        };
        let is_entry = field
            .strip_prefix("metadata.")
            .is_some_and(|key| !key.is_empty());
        if !is_entry && !FIELDS.contains(&&*field) {
            return Err(Failure::usage(format!(
                "--column: unknown field `{field}`; use {}, status or metadata.KEY",
                FIELDS.join(", ")
            )));
        }

        let field = Arc::from(field);
        self.places.insert(Arc::clone(column), self.known.len());
        self.known.push((Arc::clone(column), Arc::clone(&field)));
        Ok(field)
    }
}

fn guessed(column: &str) -> String {
    let field = match compact(column).as_str() {
        "name" | "fullname" | "displayname" => "name",
        "topics" | "topic" => "topics",
        "metadata" => "metadata",
        "subscribed" | "issubscribed" => "subscribed",
        // Columns of an export that only the service can set.
        "id" | "audienceid" | "createdat" | "updatedat" => "ignore",
        _ if column.trim().is_empty() => "ignore",
        _ => return format!("metadata.{column}"),
    };
    field.to_owned()
}

fn refuse_repeated(columns: &[(Arc<str>, Arc<str>)], address: &str) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    for (column, field) in columns {
        // Of several that say who is subscribed, any one that opts out is enough.
        let may_repeat =
            **column == *address || matches!(&**field, "email" | "ignore" | "subscribed");
        if !may_repeat && !seen.insert(field) {
            let problem = format!("several columns map to the field of `{column}`");
            let hint = format!("rename one, or ignore it: --column '{column}=ignore'");
            return Err(Failure::input(problem).hint(hint));
        }
    }
    Ok(())
}

fn refuse_contradiction(opt_outs: &OptOuts, options: &ColumnOptions) -> Result<(), Failure> {
    let Some((row, yes, no)) = &opt_outs.contradiction else {
        return Ok(());
    };
    if options
        .opt_out
        .iter()
        .chain(&options.opt_in)
        .any(|column| **column == **no)
        || options.field(no).is_some()
    {
        return Ok(());
    }
    Err(Failure::input(format!(
        "row {row}: the person is subscribed according to `{yes}`, but not according to `{no}`"
    ))
    .code("columns_contradict")
    .hint(format!(
        "let everybody opt out whom `{no}` opts out: {}\nlet `{yes}` decide: --ignore '{no}'",
        opt_outs.keep(no)
    )))
}

fn row(
    person: Person,
    fields: &mut Fields,
    options: &ColumnOptions,
    is_csv: bool,
) -> Result<ImportRow, Failure> {
    let Person {
        record,
        address,
        subscribed,
        opted_out,
    } = person;
    let Record {
        number,
        fields: values,
        mut problem,
        ..
    } = record;
    let mut contact = NewContact::new("");
    let mut filled = Vec::new();
    // All values are read, so that the report names the address, and an opt-out is not missed.
    for (at, (key, value)) in values.into_iter().enumerate() {
        let field = fields.of(&key, options)?;
        if value.is_null() || (is_csv && value == "") {
            continue;
        }
        if Some(at) == address {
            match value {
                Value::String(email) => contact.email = email,
                other => {
                    contact.email = other.to_string();
                    problem.get_or_insert_with(|| format!("`{key}` is not a text"));
                }
            }
            continue;
        }
        // Who is subscribed is judged already: any one column that opts out is enough.
        if matches!(&*field, "email" | "ignore" | "subscribed") {
            continue;
        }
        let read = if filled.contains(&field) {
            Err(format!(
                "two values are the {field}; ignore one: --column '{key}=ignore'"
            ))
        } else {
            set(&mut contact, &key, value, &field)
        };
        filled.push(field);
        if let Err(why) = read {
            problem.get_or_insert(why);
        }
    }

    let subscribed = match subscribed {
        Subscribed::Unsaid => None,
        Subscribed::Yes => Some(true),
        Subscribed::No(_) => Some(false),
        // Nobody may be subscribed by mistake: it opts out in other rows of the address.
        Subscribed::Unclear(why) => {
            problem.get_or_insert(why);
            Some(false)
        }
    };
    if let Err(why) = email::check(&contact.email) {
        problem.get_or_insert_with(|| why.to_owned());
    }
    Ok(ImportRow {
        number,
        contact,
        subscribed,
        problem,
        is_duplicate: false,
        opted_out,
        note: None,
    })
}

/// Sets the field of a contact.
fn set(contact: &mut NewContact, key: &str, value: Value, field: &str) -> Result<(), String> {
    let not = |what: &str| format!("`{key}` is not {what}");
    let entries = match (field, value) {
        ("name", Value::String(name)) => {
            contact.name = Some(name);
            return Ok(());
        }
        ("name", _) => return Err(not("a text")),
        ("topics", value) => {
            contact.topics = topics(value).map_err(|_| not("a list of texts"))?;
            return Ok(());
        }
        ("metadata", Value::Object(entries)) => entries,
        ("metadata", Value::String(text)) => match read_json(&text) {
            Ok(Value::Object(entries)) => entries,
            Ok(_) => return Err(not("a JSON object")),
            Err(problem) => return Err(format!("`{key}`: {problem}")),
        },
        ("metadata", _) => return Err(not("a JSON object")),
        (field, value) => {
            let key = field.strip_prefix("metadata.").unwrap_or(key);
            Map::from_iter([(key.to_owned(), value)])
        }
    };
    for (key, value) in entries {
        if loses_digits(&value) {
            return Err(format!("`{key}`: {LOSES_DIGITS}"));
        }
        // One of two values would be lost.
        if contact
            .metadata
            .get(&key)
            .is_some_and(|other| *other != value)
        {
            return Err(format!(
                "`metadata` and a column have different values for `{key}`"
            ));
        }
        contact.metadata.insert(key, value);
    }
    Ok(())
}

/// The rows of each address, by the hash of the address. Of the rows of an
/// address, only the first valid one is imported. One that says that the person has opted out wins
/// over it, wherever it is, and even if it is not imported itself.
#[derive(Default)]
struct Addresses {
    /// The first row that opts out.
    opt_outs: HashMap<u64, u64>,
    /// The row that is imported.
    imported: HashMap<u64, u64>,
    is_told: bool,
}

impl Addresses {
    fn see(&mut self, row: &ImportRow) {
        let address = hash(&row.contact.email);
        if row.subscribed == Some(false) {
            let others = row.opted_out.iter().map(|address| email::hash(address));
            for address in others.chain([address]) {
                self.opt_outs.entry(address).or_insert(row.number);
            }
        }
        if row.problem.is_none() {
            self.imported.entry(address).or_insert(row.number);
        }
    }

    fn judge(&self, row: &mut ImportRow) {
        let address = hash(&row.contact.email);
        let opt_out = self.opt_outs.get(&address);
        if row.problem.is_none() {
            let imported = self.imported.get(&address).copied().unwrap_or(row.number);
            if imported != row.number {
                row.problem = Some(format!("the address is already in row {imported}"));
                row.is_duplicate = true;
            } else if let Some(number) = opt_out.filter(|_| row.subscribed != Some(false)) {
                row.note = Some(format!("row {number} unsubscribes the contact"));
                row.subscribed = Some(false);
            }
        }

        // A new contact is subscribed, unless its row says otherwise.
        if self.is_told && row.subscribed.is_none() {
            row.problem.get_or_insert_with(|| NOT_SAID.to_owned());
        }
    }
}

/// The hash of an address in a file or in the audience.
pub(super) fn hash(address: &str) -> u64 {
    email::hash(&comparable(address))
}

/// The address by which contacts are compared, without a display name.
fn comparable(email: &str) -> String {
    let email = email.trim();
    let bare = email
        .strip_suffix('>')
        .and_then(|named| Some(named.rsplit_once('<')?.1));
    email::comparable(bare.unwrap_or(email))
}

/// Topics separated by semicolons or commas, or a JSON array.
fn topics(value: Value) -> serde_json::Result<Vec<String>> {
    match value {
        Value::String(cell) if cell.trim_start().starts_with('[') => serde_json::from_str(&cell),
        Value::String(cell) => {
            let topics = cell
                .split([';', ','])
                .map(str::trim)
                .filter(|topic| !topic.is_empty());
            Ok(topics.map(str::to_owned).collect())
        }
        value => serde_json::from_value(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_guessed_by_their_names() {
        for column in ["Unsubscribed", "opt_in", "newsletter", "#", "address"] {
            assert_eq!(guessed(column), format!("metadata.{column}"));
        }
        assert_eq!(guessed("Subscribed?"), "subscribed");
        assert_eq!(guessed("Created at"), "ignore");
    }
}
