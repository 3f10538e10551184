//! A file of people, for bulk sending and imports: the address of each record, and whether it says that
//! the person is subscribed.

use std::sync::Arc;

use super::columns::{ColumnOptions, names};
use super::email::{self, is_invisible};
use super::opt_outs::{OptOuts, Subscribed};
use super::records::{Record, Records};
use crate::failure::Failure;

/// The records of a file of people.
pub struct PeopleFile {
    pub records: Records,
    pub options: ColumnOptions,
    pub opt_outs: OptOuts,
    /// The columns of a CSV file.
    pub columns: Option<Vec<Arc<str>>>,
    /// The position of the column with the addresses in a CSV file.
    pub address: Option<usize>,
}

/// A record with what it says of a person.
pub struct Person {
    pub record: Record,
    /// The position of the value with the address.
    pub address: Option<usize>,
    pub subscribed: Subscribed,
    /// The addresses that opt out, however they are spelt, if the record does so.
    pub opted_out: Vec<String>,
}

impl PeopleFile {
    /// Starts to read. A CSV file needs the columns of the options, and one with addresses.
    pub fn new(records: Records, options: &ColumnOptions) -> Result<Self, Failure> {
        let columns = records.columns().map(<[_]>::to_vec);
        options.check(columns.as_deref())?;
        let mut opt_outs = options.opt_outs();
        let mut address = None;
        if let Some(columns) = &columns {
            opt_outs.see_columns(columns);
            let found = options.address(&columns.iter().map(AsRef::as_ref));
            let found = found.and_then(|at| {
                at.ok_or_else(|| {
                    if columns.iter().any(|name| email::check(name).is_ok()) {
                        return Failure::input("the first line looks like data")
                            .hint("add a first line with the names of the columns: email,name");
                    }
                    let hint = "name the column with the address: --column 'E-Mail Address'";
                    Failure::input("no column is named `email`")
                        .hint(format!("{}; {hint}", names(columns)))
                })
            });
            address = Some(found.map_err(|failure| records.in_file(failure))?);
        }
        Ok(Self {
            records,
            options: options.clone(),
            opt_outs,
            columns,
            address,
        })
    }

    /// The next person; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Person>, Failure> {
        let Some(mut record) = self.records.next()? else {
            return Ok(None);
        };
        // Each object of JSON has its own keys.
        let of_keys = || {
            self.options
                .address(&record.fields.iter().map(|(key, _)| key.as_ref()))
        };
        let address = self.address.map_or_else(of_keys, |at| Ok(Some(at)));
        let address = address.unwrap_or_else(|failure| {
            let problem = failure.message.replace("columns", "keys");
            record.problem.get_or_insert(problem);
            None
        });
        let subscribed = self.opt_outs.judge(&record, address);
        let mut opted_out = Vec::new();
        if let (Subscribed::No(column), Some(at)) = (&subscribed, address) {
            let text = record.fields.get(at).and_then(|(_, value)| value.as_str());
            opted_out = addresses(text.unwrap_or_default()).map_err(|why| {
                let number = record.number;
                let problem = format!(
                    "row {number} opts out, as `{column}` says, but its address cannot be read: {why}"
                );
                let failure = Failure::input(problem).code("opt_out_unreadable");
                self.records
                    .in_file(failure.hint("correct the address, or remove the row"))
            })?;
        }
        Ok(Some(Person {
            record,
            address,
            subscribed,
            opted_out,
        }))
    }
}

/// The addresses of a row that opts out, however they are spelt: several in a cell, with `mailto:`,
/// quotes, brackets, or characters that cannot be seen. The error is for a text that cannot be read
/// for sure.
fn addresses(text: &str) -> Result<Vec<String>, &'static str> {
    if let Ok(address) = email::check(text.trim()) {
        return Ok(vec![address]);
    }
    let mut text = text.to_owned();
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
    ] {
        text = text.replace(entity, character);
    }
    let visible = text.chars().filter(|c| !is_invisible(*c)).map(narrow);
    let visible = visible.collect::<String>();
    let is_between = |c: char| c.is_whitespace() || email::is_quote(c) || ",;|<>()[]{}".contains(c);
    let mut found = Vec::new();
    for part in visible.split(is_between) {
        let part = part.trim_matches(['.', ':']);
        let bare = part
            .get(..7)
            .filter(|start| start.eq_ignore_ascii_case("mailto:"));
        let bare = if bare.is_some() { &part[7..] } else { part };
        let bare = bare.split('?').next().unwrap_or_default();
        if bare.contains('@') {
            found.push(email::check(bare)?);
        }
    }
    if found.is_empty() {
        return Err("no email address");
    }
    Ok(found)
}

/// The ASCII character of a full-width or small one.
fn narrow(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xff01 + 0x21).unwrap_or(c),
        '\u{fe6b}' => '@',
        '\u{3002}' | '\u{ff61}' | '\u{2024}' | '\u{fe52}' => '.',
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_opts_out_is_read_however_it_is_spelt() {
        for text in [
            "a@b.test",
            " A@B.test. ",
            "mailto:a@b.test?subject=x",
            "\"a@b.test\",",
            "<a@b.test>",
            "[a@b.test]",
            "\u{200b}a@b.test",
            "a\u{ff20}b.test",
            "Ada Lovelace (a@b.test)",
            "'a@b.test'",
            "'a@b.test",
            "\u{201c}a@b.test\u{201d}",
            "`a@b.test`",
            "«a@b.test»",
            "&lt;a@b.test&gt;",
        ] {
            assert_eq!(addresses(text), Ok(vec!["a@b.test".to_owned()]), "{text}");
        }
        let two = ["a@b.test", "c@d.test"].map(str::to_owned).to_vec();
        assert_eq!(addresses("a@b.test; c@d.test"), Ok(two));
        for text in ["", "ada", "a@b@c.test", "a@b.test c@"] {
            assert!(addresses(text).is_err(), "{text}");
        }
    }
}
