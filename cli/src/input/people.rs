//! A file of people, for bulk sending and imports: the address of each record, and whether it says that
//! the person is subscribed.

use std::sync::Arc;

use serde_json::Value;

use super::columns::{ColumnOptions, names};
use super::email;
use super::opt_outs::{OptOuts, Subscribed};
use super::records::{Record, Records};
use crate::command_line::shell_quoted;
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
    /// The addresses that opt out, or may do so, however they are spelt, if the record does.
    pub opted_out: Vec<String>,
}

impl PeopleFile {
    /// Starts to read. A CSV file needs the columns of the options, and one with addresses.
    pub fn new(mut records: Records, options: &ColumnOptions) -> Result<Self, Failure> {
        let columns = records.columns().map(<[_]>::to_vec);
        options.check(columns.as_deref())?;
        let mut opt_outs = options.opt_outs();
        let mut address = None;
        if let Some(columns) = &columns {
            opt_outs.see_columns(columns);
            let found = options.address(&columns.iter().map(AsRef::as_ref));
            let found = found.and_then(|at| at.ok_or_else(|| no_address(columns, &mut records)));
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
        let mut subscribed = self.opt_outs.judge(&record, address);
        if let Some(problem) = record
            .problem
            .as_ref()
            .filter(|_| record.misplaced.is_some())
            && !matches!(subscribed, Subscribed::No(_))
            && self.says_who_opts_out()
        {
            subscribed = Subscribed::Unclear(problem.clone());
        }

        let opted_out = match &subscribed {
            Subscribed::Unsaid | Subscribed::Yes => Vec::new(),
            Subscribed::No(_) | Subscribed::Unclear(_) => {
                let read = addresses_of(&record, address);
                read.map_err(|why| self.unreadable(record.number, &subscribed, why))?
            }
        };
        Ok(Some(Person {
            record,
            address,
            subscribed,
            opted_out,
        }))
    }

    /// Whether a column says who has opted out. Each object of JSON may have a key that does.
    fn says_who_opts_out(&self) -> bool {
        let Some(columns) = &self.columns else {
            return true;
        };
        columns.iter().any(|column| self.opt_outs.reads(column))
    }

    /// The address of a row cannot be read for sure, and the row opts out, or may do so.
    fn unreadable(&self, number: u64, subscribed: &Subscribed, why: &str) -> Failure {
        let says = match subscribed {
            Subscribed::No(column) => format!("opts out, as `{column}` says"),
            _ => "may opt out".to_owned(),
        };
        let problem = format!("row {number} {says}, but its address cannot be read: {why}");
        let failure = Failure::input(problem).code("opt_out_unreadable");
        self.records
            .in_file(failure.hint("correct the row, or remove it"))
    }
}

/// No column has a name that stands for the address.
fn no_address(columns: &[Arc<str>], records: &mut Records) -> Failure {
    if columns.iter().any(|name| addresses(name).is_ok()) {
        return Failure::input("the first line looks like data")
            .hint("add a first line with the names of the columns: email,name");
    }

    let first = records.next().ok().flatten();
    let fields = first.map(|record| record.fields).unwrap_or_default();
    let is_address = |value: &Value| value.as_str().is_some_and(|it| addresses(it).is_ok());
    let found = fields.iter().find(|(_, value)| is_address(value));
    let column = found.map_or("E-Mail Address", |(name, _)| name);
    let hint = format!(
        "{}; name the column with the address: --column {}",
        names(columns),
        shell_quoted(column)
    );
    Failure::input("no column is named `email`").hint(hint)
}

/// The addresses of a record that opts out, or may do so: those of its field, or all that it has, if
/// its values may be in the fields of others.
fn addresses_of(record: &Record, address: Option<usize>) -> Result<Vec<String>, &'static str> {
    let Some(misplaced) = &record.misplaced else {
        let value = address.and_then(|at| record.fields.get(at)?.1.as_str());
        return addresses(value.unwrap_or_default());
    };

    let values = record.fields.iter().map(|(_, value)| value);
    let texts = values.filter_map(|value| value.as_str());
    let texts = texts.chain(misplaced.iter().map(String::as_str));
    let mut found = Vec::new();
    for text in texts.filter(|text| text.contains('@') || text.contains('\u{ff20}')) {
        found.extend(addresses(text)?);
    }

    Ok(found)
}

/// The addresses of a row that opts out or may do so, however they are spelt: several in a cell, with
/// `mailto:`, quotes, brackets, other marks around them, or characters that cannot be seen. Where
/// `*ada@x.test` may be that address or `ada@x.test`, both count. The error is for a text that cannot be
/// read for sure.
pub fn addresses(text: &str) -> Result<Vec<String>, &'static str> {
    let text = text.trim();
    let mut found = email::check(text).into_iter().collect::<Vec<_>>();
    let mut text = text.to_owned();
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
    ] {
        text = text.replace(entity, character);
    }

    // The apostrophe of o'neil@x.test is within a part.
    let is_between = |c: char| {
        let is_quote = email::is_quote(c) && c != '\'' && c != '\u{2019}';
        c.is_whitespace() || is_quote || ",;|<>()[]{}".contains(c)
    };

    for part in text.split(is_between) {
        for part in email::plain(part).split(is_between) {
            found.extend(readings(part)?);
        }
    }

    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return Err("no email address");
    }

    Ok(found)
}

/// What a word may mean if it has an `@`: all of it, or without the marks around it.
fn readings(word: &str) -> Result<Vec<String>, &'static str> {
    const SCHEME: &str = "mailto:";

    if !word.contains('@') {
        return Ok(Vec::new());
    }

    let is_mark = |c: char| !c.is_alphanumeric();
    let bare = word.trim_matches(is_mark);
    let has_scheme = bare
        .get(..SCHEME.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(SCHEME));
    let bare = if has_scheme {
        &bare[SCHEME.len()..]
    } else {
        bare
    };
    let bare = bare.split('?').next().unwrap_or_default();
    let bare = bare.trim_matches(is_mark);
    // Letters of two alphabets look alike, and `%61` may be a letter.
    let local = word.split('@').next().unwrap_or_default();
    let is_other = |c: char| matches!(c, '\u{370}'..='\u{52f}');
    if local.contains('%')
        || (local.contains(is_other) && local.contains(|c: char| c.is_ascii_alphabetic()))
    {
        return Err("a letter may be another one");
    }

    let mut readings = vec![email::check(bare)?];
    let whole = word.trim_end_matches(is_mark);
    readings.extend(email::check(whole).ok());
    Ok(readings)
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
            "{a@b.test}",
            "「a@b.test」",
            "\u{2033}a@b.test\u{2033}",
            "a@b.test!",
            "a@b.test…",
            "mailto://a@b.test",
            "\u{2800}a@b.test",
            "\u{fffd}a@b.test",
            "\u{1d41a}@b.test",
            "\u{24d0}@b.test",
        ] {
            assert_eq!(addresses(text), Ok(vec!["a@b.test".to_owned()]), "{text}");
        }

        for text in [
            "*a@b.test",
            "#a@b.test",
            "**a@b.test**",
            "_a@b.test_",
            "-a@b.test",
        ] {
            let found = addresses(text).expect(text);
            assert!(found.contains(&"a@b.test".to_owned()), "{text}: {found:?}");
        }

        for (text, address) in [
            ("o\u{2019}neil@b.test", "o'neil@b.test"),
            ("a\u{2011}b@b.test", "a-b@b.test"),
            ("\u{fb01}@b.test", "fi@b.test"),
            ("\u{1112}\u{1161}@b.test", "\u{d558}@b.test"),
        ] {
            assert_eq!(addresses(text), Ok(vec![address.to_owned()]), "{text}");
        }

        let two = ["a@b.test", "c@d.test"].map(str::to_owned).to_vec();
        assert_eq!(addresses("a@b.test; c@d.test"), Ok(two));
        for text in [
            "",
            "ada",
            "a@b@c.test",
            "a@b.test c@",
            "%61@b.test",
            "\u{430}da@b.test",
        ] {
            assert!(addresses(text).is_err(), "{text}");
        }
    }
}
