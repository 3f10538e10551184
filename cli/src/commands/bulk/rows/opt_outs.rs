//! What a row says about being subscribed.

use serde_json::{Map, Value};

use super::Row;
use super::columns::is_blank;
use crate::failure::Failure;
use crate::input::old_opt_outs::{
    SUBSCRIBED_TWICE, is_mostly_harmless, is_subscribed, lists_opt_outs, says_who_opted_out,
    subscribed,
};

/// What a row says about being subscribed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscribed {
    /// Nothing.
    Unsaid,
    Yes,
    No,
    /// A word that is neither yes nor no, or several values.
    Unclear,
}

impl Row {
    /// Reads the value of `subscribed`, if the file has such a column.
    pub(super) fn read_subscribed(&mut self, said: Option<&str>) {
        let Some(said) = said else { return };
        if is_blank(said) {
            self.problem.get_or_insert_with(|| {
                "`subscribed` is empty; it must be true or false".to_owned()
            });
            return;
        }
        self.subscribed = match subscribed(said) {
            Ok(true) => Subscribed::Yes,
            Ok(false) => Subscribed::No,
            Err(problem) => {
                self.problem = Some(problem);
                Subscribed::Unclear
            }
        };
    }

    /// Reads the value of a column beside `subscribed` that may say who has opted out, too. Only a
    /// value that says so counts.
    pub(super) fn read_beside_subscribed(&mut self, column: &str, value: &str) {
        let word = value.to_lowercase();
        let opts_out = match word.trim() {
            "unsubscribed" => true,
            "subscribed" => false,
            word => subscribed(word) == Ok(lists_opt_outs(column)),
        };
        if opts_out {
            self.subscribed = Subscribed::No;
            self.opted_out_by = Some(column.to_owned());
        }
    }

    /// Reads the keys of an object that say who is subscribed.
    pub(super) fn read_subscribed_of(&mut self, object: &Map<String, Value>, is_contact: bool) {
        // A key that is given twice, for example: the object has only one of its values.
        let is_damaged = self.problem.is_some();
        let is_read = |name: &str| match is_contact {
            true => name == "subscribed",
            false => is_subscribed(name),
        };
        let mut keys = object.iter().filter(|(name, _)| is_read(name));
        let Some((name, value)) = keys.next() else { return };
        if let Some((other, _)) = keys.next() {
            self.problem =
                Some(format!("`{name}` and `{other}` may both say who has opted out; remove one"));
            self.subscribed = Subscribed::Unclear;
            return;
        }
        match value {
            Value::Null => self.read_subscribed(Some("")),
            Value::String(word) => self.read_subscribed(Some(word)),
            other => self.read_subscribed(Some(&other.to_string())),
        }
        if is_damaged && self.subscribed == Subscribed::Yes {
            self.subscribed = Subscribed::Unclear;
        }
        for (name, value) in object.iter().filter(|(name, _)| !is_contact && is_beside(name)) {
            match value {
                Value::String(word) => self.read_beside_subscribed(name, word),
                other => self.read_beside_subscribed(name, &other.to_string()),
            }
        }
    }
}

/// Whether a column beside `subscribed` may say who has opted out, too.
pub(super) fn is_beside(column: &str) -> bool {
    !is_subscribed(column) && says_who_opted_out(column) && !is_mostly_harmless(column)
}

/// The column that says who is subscribed. Two are refused.
pub(super) fn only_subscribed(columns: &[String]) -> Result<Option<usize>, Failure> {
    let mut said = (0..columns.len()).filter(|at| is_subscribed(&columns[*at]));
    let (first, second) = (said.next(), said.next());
    if let (Some(first), Some(second)) = (first, second) {
        let (first, second) = (&columns[first], &columns[second]);
        let problem = format!("line 1: `{first}` and `{second}` both say who is subscribed");
        return Err(Failure::input(problem).hint(SUBSCRIBED_TWICE));
    }
    Ok(first)
}

/// Refuses a file in which only a column that is not read may say who has opted out.
pub(super) fn refuse_unread<'a>(
    line: u64,
    names: impl Iterator<Item = &'a str> + Clone,
    email: &str,
) -> Result<(), Failure> {
    if names.clone().any(is_subscribed) {
        return Ok(());
    }
    let mut doubtful = names.filter(|name| *name != email && says_who_opted_out(name));
    let Some(name) = doubtful.next() else { return Ok(()) };
    let way_out = match lists_opt_outs(name) {
        true => "add a column `subscribed` with the opposite values",
        false => "rename it to `subscribed`, with yes or no in each row",
    };
    Err(Failure::input(format!("line {line}: `{name}` may say who has opted out, but is not read"))
        .hint(format!("if it does, {way_out}; otherwise, rename or remove it")))
}
