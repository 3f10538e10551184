//! The columns of a file of people, in bulk sending and in imports: which one has the address, what
//! they are in placeholders, and what the user says of them.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::opt_outs::{About, OptOuts, compact};
use crate::command_line::shell_quoted;
use crate::failure::Failure;
use crate::private_files;

/// The file, in the state directory, with what was declared of other files.
pub const DECLARED: &str = "columns.json";

/// Options that say what columns mean.
#[derive(Args, Clone, Debug, Default)]
pub struct ColumnOptions {
    /// Use a column as the address or as another field; repeatable
    ///
    /// Without FIELD, it has the address. Fields: email, name, subscribed (as --opt-in), status (words
    /// such as unsubscribed opt out) and ignore (as --ignore); `svc bulk` takes any other word as a
    /// placeholder, and `svc contacts import` topics, metadata and metadata.KEY.
    #[arg(long, hide_short_help = true, value_name = "COLUMN[=FIELD]", value_parser = parse)]
    pub column: Vec<(String, String)>,
    /// Column in which yes means that the person has opted out, or none; repeatable
    ///
    /// With `none`, no column but those with documented names says who has opted out.
    #[arg(long, hide_short_help = true, value_name = "COLUMN|none")]
    pub opt_out: Vec<String>,
    /// Column in which yes means that the person is subscribed; repeatable
    #[arg(long, hide_short_help = true, value_name = "COLUMN")]
    pub opt_in: Vec<String>,
    /// Column that does not say who has opted out; repeatable
    #[arg(long, hide_short_help = true, value_name = "COLUMN")]
    pub ignore: Vec<String>,
    /// Whether an earlier file with the same columns was declared so.
    #[arg(skip)]
    is_recalled: bool,
}

/// In place of a column that opts out.
const NONE: &str = "none";

/// The declared columns of a file.
#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Declared {
    opt_out: Vec<String>,
    opt_in: Vec<String>,
    ignore: Vec<String>,
}

/// Parses `COLUMN=FIELD`, or `COLUMN` for the address.
fn parse(text: &str) -> Result<(String, String), String> {
    let (column, field) = text.rsplit_once('=').unwrap_or((text, "email"));
    if column.is_empty() || field.is_empty() {
        Err(format!("`{text}` is not COLUMN or COLUMN=FIELD"))
    } else {
        Ok((column.to_owned(), field.to_owned()))
    }
}

impl ColumnOptions {
    /// The field to which the options assign a column.
    pub fn field(&self, column: &str) -> Option<&str> {
        let chosen = self.column.iter().find(|(name, _)| name == column);
        chosen.map(|(_, field)| field.as_str())
    }

    /// The rule about opt-outs with what the options say.
    pub fn opt_outs(&self) -> OptOuts {
        let mut rule = OptOuts::default();
        for (column, field) in &self.column {
            let about = match field.as_str() {
                "subscribed" => About::Subscribed,
                "status" => About::Status,
                _ => About::Ignored,
            };
            rule.choose(column, about);
        }

        let declared = [
            (&self.opt_out, About::OptedOut),
            (&self.opt_in, About::Subscribed),
            (&self.ignore, About::Ignored),
        ];
        for (columns, about) in declared {
            for column in columns.iter().filter(|column| *column != NONE) {
                rule.choose(column, about);
            }
        }

        rule.is_none_other = self.opt_out.iter().any(|column| column == NONE);
        rule.is_recalled = self.is_recalled;
        rule
    }

    /// Takes over what was declared of an earlier file with these columns, except of those that the
    /// options name.
    pub fn recall(&mut self, columns: &[Arc<str>], file: &Path) {
        if self.opt_out.iter().any(|column| column == NONE) {
            return;
        }
        let Some(declared) = known(file).remove(&sorted(columns)) else {
            return;
        };

        let is_all = self.declared() == Declared::default();
        let given = [&self.opt_out, &self.opt_in, &self.ignore];
        let given = given.into_iter().flatten();
        let named = given.chain(self.column.iter().map(|(column, _)| column));
        let named = named.cloned().collect::<HashSet<_>>();
        let others = |columns: Vec<String>| {
            let others = columns.into_iter();
            others.filter(|column| !named.contains(column))
        };

        self.opt_out.extend(others(declared.opt_out));
        self.opt_in.extend(others(declared.opt_in));
        self.ignore.extend(others(declared.ignore));
        self.is_recalled = is_all;
    }

    /// Takes over what a person has said of columns.
    pub fn declare(&mut self, said: Vec<(String, About)>) {
        for (column, about) in said {
            let columns = match about {
                About::OptedOut => &mut self.opt_out,
                About::Subscribed => &mut self.opt_in,
                _ => &mut self.ignore,
            };
            columns.push(column);
        }
        self.is_recalled = false;
    }

    /// Stores in this file what the options declare of files with these columns.
    pub fn remember(&self, columns: &[Arc<str>], file: &Path) -> Result<(), Failure> {
        let declared = self.declared();
        if declared == Declared::default() || self.is_recalled {
            return Ok(());
        }
        let mut known = known(file);
        known.insert(sorted(columns), declared);
        let text = serde_json::to_vec(&known).map_err(std::io::Error::from)?;
        Ok(private_files::replace(file, &text)?)
    }

    /// Without `none`, which is a word about all columns of one run.
    fn declared(&self) -> Declared {
        let opt_out = self.opt_out.iter().filter(|column| *column != NONE);
        Declared {
            opt_out: opt_out.cloned().collect(),
            opt_in: self.opt_in.clone(),
            ignore: self.ignore.clone(),
        }
    }

    /// Refuses columns that are named twice, and those that a CSV file does not have.
    pub fn check(&self, columns: Option<&[Arc<str>]>) -> Result<(), Failure> {
        let named = self.column.iter().map(|(column, _)| ("--column", column));
        let opt_out = self.opt_out.iter().filter(|column| *column != NONE);
        let named = named
            .chain(opt_out.map(|column| ("--opt-out", column)))
            .chain(self.opt_in.iter().map(|column| ("--opt-in", column)))
            .chain(self.ignore.iter().map(|column| ("--ignore", column)));
        let mut seen = HashSet::new();
        for (option, column) in named {
            if !seen.insert(column) {
                return Err(Failure::usage(format!(
                    "{option}: `{column}` is given twice"
                )));
            }
            let Some(columns) = columns.filter(|all| !has_column(all, column)) else {
                continue;
            };
            let problem = format!("{option}: the file has no column `{column}`");
            let similar = columns.iter().find(|name| compact(name) == compact(column));
            return Err(Failure::usage(problem).hint(match similar {
                Some(similar) => format!("did you mean `{similar}`?"),
                None => names(columns),
            }));
        }

        Ok(())
    }

    /// The position of the only column or key that has the addresses, if there is one.
    pub fn address<'a>(
        &self,
        columns: &(impl Iterator<Item = &'a str> + Clone),
    ) -> Result<Option<usize>, Failure> {
        let position = |is: &dyn Fn(&str) -> bool| {
            let mut found = columns.clone().enumerate().filter(|(_, name)| is(name));
            match (found.next(), found.next()) {
                (Some((_, name)), Some(_)) => {
                    Err(Failure::input("several columns may hold the address")
                        .hint(format!("name it: --column {}", shell_quoted(name))))
                }
                (first, _) => Ok(first.map(|(at, _)| at)),
            }
        };

        if let Some(at) = position(&|name| self.field(name) == Some("email"))? {
            return Ok(Some(at));
        }

        let is_named = |name: &str, words: &[&str]| {
            self.field(name).is_none() && words.contains(&compact(name).as_str())
        };
        match position(&|name| is_named(name, &["email", "emailaddress", "mail"]))? {
            // More often that of a house.
            None => position(&|name| is_named(name, &["address"])),
            at => Ok(at),
        }
    }
}

/// Whether one of the columns has this name, or values with this key, as in `metadata.newsletter`.
fn has_column(columns: &[Arc<str>], name: &str) -> bool {
    columns.iter().any(|column| {
        let rest = name.strip_prefix(&**column);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The columns of a file in a fixed order: exports have the same ones in another.
fn sorted(columns: &[Arc<str>]) -> String {
    let mut columns = columns.to_vec();
    columns.sort_unstable();
    columns.join("\n")
}

/// Earlier declarations, by the columns of a file. An unreadable one is declared anew.
fn known(file: &Path) -> BTreeMap<String, Declared> {
    let text = std::fs::read(file).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Which columns a file has.
pub fn names(columns: &[Arc<str>]) -> String {
    let names = columns.iter().map(|name| format!("`{name}`"));
    format!("its columns are {}", names.collect::<Vec<_>>().join(", "))
}

/// The name of a column in a placeholder: `First Name` is `first_name`.
pub fn placeholder(name: &str) -> String {
    let letter = |c: char| if c.is_alphanumeric() { c } else { '_' };
    name.trim().to_lowercase().chars().map(letter).collect()
}
