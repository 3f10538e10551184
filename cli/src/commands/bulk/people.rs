//! The people that a job is for: the rows of a file or the contacts of an audience, read once, in
//! order, into the folder of the job.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::jobs::create_private;
use super::message::Renderer;
use super::plan::hash_of;
use crate::failure::{Failure, Kind};
use crate::input::columns::{ColumnOptions, no_address, placeholder};
use crate::input::opt_outs::{OptOuts, Subscribed};
use crate::input::records::{Record, Records};

/// The people as they were read, in the folder of a job that is being prepared.
pub const PEOPLE: &str = "people.ndjson";

/// A line of the file [`PEOPLE`].
#[derive(Serialize, Deserialize)]
pub struct Person {
    pub row: u64,
    pub address: String,
    pub values: Map<String, Value>,
    /// Why the row cannot be sent, whatever others say: a code and a message.
    pub left_out: Option<(String, String)>,
    /// Whether the row says that the person is subscribed.
    pub is_subscribed: bool,
}

/// What was read.
pub struct People {
    file: BufWriter<File>,
    pub opt_outs: OptOuts,
    /// The addresses with a row that opts out.
    pub opted_out: HashSet<u64>,
    /// The addresses with a row that may opt out, and the number of that row.
    pub unclear: HashMap<u64, u64>,
    /// Names of columns that look like fields of an email, which no part uses.
    unused: Vec<&'static str>,
    /// Those of them that have values.
    pub unused_columns: Vec<&'static str>,
}

impl People {
    pub fn new(
        folder: &Path,
        opt_outs: OptOuts,
        unused: Vec<&'static str>,
    ) -> Result<Self, Failure> {
        let file = BufWriter::new(create_private(&folder.join(PEOPLE))?);
        let (opted_out, unclear, unused_columns) = Default::default();
        Ok(Self { file, opt_outs, opted_out, unclear, unused, unused_columns })
    }

    /// Reads the records of a file. It blocks, until `stop` is set.
    pub fn read(
        &mut self,
        mut records: Records,
        options: &ColumnOptions,
        renderer: &Renderer,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let header = records.columns().map(<[_]>::to_vec);
        options.check(header.as_deref())?;
        let of_header = match &header {
            None => None,
            Some(header) => {
                self.opt_outs.see_columns(header);
                let columns = Columns::of_header(header, options, renderer);
                Some(columns.map_err(|failure| records.in_file(failure))?)
            }
        };
        while let Some(mut record) = records.next()? {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::new(Kind::Interrupted, "interrupted"));
            }
            let subscribed = self.opt_outs.judge(&record);
            let of_record;
            let columns = match &of_header {
                Some(columns) => columns,
                None => {
                    let names = record.fields.iter().map(|(name, _)| Arc::clone(name));
                    let names = names.collect::<Vec<_>>();
                    of_record = Columns::of(&names, options);
                    of_record.as_ref().unwrap_or_else(|failure| {
                        record.problem.get_or_insert_with(|| failure.details().message.clone());
                        &NO_COLUMNS
                    })
                }
            };
            if let Some(same) = columns.same_name(renderer) {
                record.problem.get_or_insert_with(|| same.problem() + "; " + &same.way_out());
            }
            self.add(record, columns, &subscribed)?;
        }
        Ok(())
    }

    /// Adds a contact of an audience. Only the service says whether it is subscribed.
    pub fn add_contact(
        &mut self,
        record: Record,
        is_subscribed: bool,
        renderer: &Renderer,
    ) -> Result<(), Failure> {
        let names = record.fields.iter().map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>();
        // Metadata may have another key that looks like the address.
        let email = ("email".to_owned(), "email".to_owned());
        let options = ColumnOptions { column: vec![email], ..ColumnOptions::default() };
        let columns = Columns::of(&names, &options)?;
        let mut record = record;
        record.problem = columns.same_name(renderer).map(SameName::problem);
        let subscribed = match is_subscribed {
            true => Subscribed::Yes,
            false => Subscribed::No("subscribed".into()),
        };
        self.add(record, &columns, &subscribed)
    }

    fn add(
        &mut self,
        record: Record,
        columns: &Columns,
        subscribed: &Subscribed,
    ) -> Result<(), Failure> {
        let Record { number: row, fields, problem } = record;
        let address = columns.address.and_then(|at| fields.get(at)?.1.as_str());
        let address = address.unwrap_or_default().trim().to_owned();
        match (subscribed, hash_of(&address)) {
            (Subscribed::No(_), Some(hash)) => _ = self.opted_out.insert(hash),
            (Subscribed::Unclear(_), Some(hash)) => _ = self.unclear.entry(hash).or_insert(row),
            _ => {}
        }
        let invalid = |problem| ("invalid".to_owned(), problem);
        let left_out = match subscribed {
            Subscribed::No(column) => {
                let why = format!("not subscribed, as `{column}` says");
                Some(("unsubscribed".to_owned(), why))
            }
            Subscribed::Unclear(why) => Some(invalid(problem.unwrap_or_else(|| why.clone()))),
            Subscribed::Yes | Subscribed::Unsaid => problem.map(invalid),
        };
        let mut values = Map::new();
        for (at, (name, value)) in fields.into_iter().enumerate() {
            let is_missing =
                value.is_null() || value.as_str().is_some_and(|it| it.trim().is_empty());
            if is_missing || name.is_empty() {
                continue;
            }
            if let Some(Some(placeholder)) = columns.placeholders.get(at) {
                values.insert(placeholder.clone(), value.clone());
            }
            values.insert(name.to_string(), value);
        }
        let (found, unused) = self.unused.iter().partition(|name| values.contains_key(**name));
        self.unused = unused;
        self.unused_columns.extend::<Vec<_>>(found);
        let is_subscribed = *subscribed == Subscribed::Yes;
        let person = Person { row, address, values, left_out, is_subscribed };
        serde_json::to_writer(&mut self.file, &person).map_err(std::io::Error::from)?;
        Ok(self.file.write_all(b"\n")?)
    }

    /// Ends the reading.
    pub fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.file.flush()?)
    }
}

/// Where the address is, and what the columns are in placeholders.
struct Columns {
    address: Option<usize>,
    /// Where it differs from the name.
    placeholders: Vec<Option<String>>,
    /// Those that share a placeholder.
    same_names: Vec<SameName>,
}

static NO_COLUMNS: Columns =
    Columns { address: None, placeholders: Vec::new(), same_names: Vec::new() };

/// Two columns that would be the same placeholder, which therefore names neither.
#[derive(Debug, PartialEq)]
struct SameName {
    placeholder: String,
    columns: [String; 2],
}

impl SameName {
    fn problem(&self) -> String {
        let [first, second] = &self.columns;
        format!("`{first}` and `{second}` are both `{}` in a placeholder", self.placeholder)
    }

    fn way_out(&self) -> String {
        format!("rename one of them, or write {{{{ row[{:?}] }}}}", self.columns[0])
    }
}

impl Columns {
    fn of_header(
        header: &[Arc<str>],
        options: &ColumnOptions,
        renderer: &Renderer,
    ) -> Result<Self, Failure> {
        let mut seen = HashSet::new();
        if let Some(twice) = header.iter().find(|name| !name.is_empty() && !seen.insert(*name)) {
            return Err(Failure::input(format!("line 1: two columns are named `{twice}`"))
                .hint("rename or remove one"));
        }
        let columns = Self::of(header, options)?;
        if columns.address.is_none() {
            return Err(no_address());
        }
        match columns.same_name(renderer) {
            Some(same) => {
                Err(Failure::input(format!("line 1: {}", same.problem())).hint(same.way_out()))
            }
            None => Ok(columns),
        }
    }

    /// `First Name` is `first_name` in a placeholder, unless another column has exactly that name.
    fn of(names: &[Arc<str>], options: &ColumnOptions) -> Result<Self, Failure> {
        let address = options.address(&names.iter().map(AsRef::as_ref))?;
        let exact = names.iter().map(AsRef::as_ref).collect::<HashSet<&str>>();
        let mut placeholders = Vec::new();
        let (mut first, mut same_names) = (HashMap::<String, &str>::new(), Vec::new());
        for name in names {
            let simple = match options.field(name) {
                None | Some("email" | "subscribed" | "ignore") => placeholder(name),
                Some(chosen) => chosen.to_owned(),
            };
            let simple = Some(simple).filter(|simple| !exact.contains(simple.as_str()));
            if let Some(simple) = &simple
                && let Some(other) = first.insert(simple.clone(), name)
            {
                let columns = [other.to_owned(), name.to_string()];
                same_names.push(SameName { placeholder: simple.clone(), columns });
            }
            placeholders.push(simple);
        }
        for shared in &same_names {
            for simple in &mut placeholders {
                simple.take_if(|simple| *simple == shared.placeholder);
            }
        }
        Ok(Self { address, placeholders, same_names })
    }

    /// Two columns that share a placeholder which the email uses.
    fn same_name(&self, renderer: &Renderer) -> Option<&SameName> {
        self.same_names.iter().find(|same| renderer.uses(&same.placeholder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_share_a_placeholder_have_none() {
        let columns = |names: &[&str]| {
            let names = names.iter().map(|name| Arc::from(*name)).collect::<Vec<_>>();
            Columns::of(&names, &ColumnOptions::default()).expect("columns")
        };
        let shared = columns(&["First Name", "plan", "first-name", "FIRST_NAME"]);
        assert_eq!(shared.placeholders, [const { None }; 4]);
        let problem = "`First Name` and `first-name` are both `first_name` in a placeholder";
        assert_eq!(shared.same_names[0].problem(), problem);
        let way_out = "rename one of them, or write {{ row[\"First Name\"] }}";
        assert_eq!(shared.same_names[0].way_out(), way_out);
        // A column with exactly the name of the placeholder is the placeholder.
        let exact = columns(&["First Name", "first_name", "Last Name"]);
        assert_eq!(exact.placeholders, [None, None, Some("last_name".to_owned())]);
        assert!(exact.same_names.is_empty());
    }
}
