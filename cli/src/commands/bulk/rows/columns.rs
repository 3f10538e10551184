//! The columns of a CSV file or the keys of an object, and their names in placeholders.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::opt_outs::is_beside;

/// The columns of a CSV file.
#[derive(Debug)]
pub struct Columns {
    /// The names, and what they are in a placeholder if that differs.
    pub names: Vec<(String, Option<String>)>,
    /// Which one has the addresses.
    pub email: usize,
    /// Which one says who is subscribed.
    pub subscribed: Option<usize>,
    /// Which ones may say so, too.
    beside_subscribed: Vec<usize>,
    /// Those that share a placeholder.
    pub same_names: Vec<SameName>,
}

/// Two columns that would be the same placeholder, which therefore names neither.
#[derive(Clone, Debug, PartialEq)]
pub struct SameName {
    pub placeholder: String,
    columns: [String; 2],
}

impl SameName {
    pub fn problem(&self) -> String {
        let [first, second] = &self.columns;
        format!("`{first}` and `{second}` are both `{}` in a placeholder", self.placeholder)
    }

    pub fn way_out(&self) -> String {
        format!("rename one of them, or write {{{{ row[{:?}] }}}}", self.columns[0])
    }
}

impl Columns {
    pub fn new(names: Vec<String>, email: usize, subscribed: Option<usize>) -> Self {
        let is_beside = |at: &usize| *at != email && is_beside(&names[*at]);
        let beside_subscribed = (0..names.len()).filter(is_beside).collect();
        let (simple_names, same_names) = placeholders(names.iter().map(String::as_str));
        let names = names.into_iter().zip(simple_names).collect();
        Self { names, email, subscribed, beside_subscribed, same_names }
    }

    /// The cell that says whether the row is subscribed; empty if the row is too short.
    pub fn subscribed<'a>(&self, cells: &'a csv::StringRecord) -> Option<&'a str> {
        self.subscribed.map(|at| cells.get(at).unwrap_or_default())
    }

    /// The columns beside `subscribed` that may say who has opted out, with their cells.
    pub fn beside_subscribed<'a>(
        &'a self,
        cells: &'a csv::StringRecord,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let cells = self.beside_subscribed.iter().filter_map(|at| Some((*at, cells.get(*at)?)));
        cells.map(|(at, cell)| (self.names[at].0.as_str(), cell))
    }

    pub fn values(&self, cells: &csv::StringRecord) -> Map<String, Value> {
        let mut values = Map::new();
        for ((name, simple), cell) in self.names.iter().zip(cells) {
            if !name.is_empty() && !is_blank(cell) {
                put(&mut values, name.clone(), simple.as_deref(), cell.into());
            }
        }
        values
    }

    /// Whether a column has this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|column| is_named(column, name))
    }

    /// Whether a row has a value of this name.
    pub fn has_value(&self, cells: &csv::StringRecord, name: &str) -> bool {
        let mut columns = self.names.iter().zip(cells);
        columns.any(|(column, cell)| is_named(column, name) && !is_blank(cell))
    }
}

fn is_named((column, simple): &(String, Option<String>), name: &str) -> bool {
    column == name || simple.as_deref() == Some(name)
}

pub fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Adds a value, also by its name in placeholders.
pub fn put(values: &mut Map<String, Value>, name: String, simple: Option<&str>, value: Value) {
    if let Some(simple) = simple {
        values.insert(simple.to_owned(), value.clone());
    }
    values.insert(name, value);
}

/// What each column is in a placeholder if that differs from its name: `First Name` is
/// `first_name`, unless another column has exactly that name. Also returns the columns that would
/// share a placeholder, and have none therefore.
pub fn placeholders<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
) -> (Vec<Option<String>>, Vec<SameName>) {
    let exact = names.clone().collect::<HashSet<_>>();
    let mut simple_names = Vec::new();
    let (mut first, mut same_names) = (HashMap::<String, &str>::new(), Vec::new());
    for name in names {
        let simple = Some(simple_name(name)).filter(|simple| !exact.contains(simple.as_str()));
        if let Some(placeholder) = &simple
            && let Some(other) = first.insert(placeholder.clone(), name)
        {
            let columns = [other.to_owned(), name.to_owned()];
            same_names.push(SameName { placeholder: placeholder.clone(), columns });
        }
        simple_names.push(simple);
    }
    let shared = same_names.iter().map(|same| same.placeholder.as_str()).collect::<HashSet<_>>();
    for simple in &mut simple_names {
        simple.take_if(|simple| shared.contains(simple.as_str()));
    }
    drop(shared);
    (simple_names, same_names)
}

/// The name of a column in a placeholder: `First Name` is `first_name`.
pub fn simple_name(name: &str) -> String {
    let letter = |c: char| if c.is_alphanumeric() { c } else { '_' };
    name.trim().to_lowercase().chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_share_a_placeholder_have_none() {
        let simple = |names: &[&'static str]| placeholders(names.iter().copied());
        let (names, same) = simple(&["First Name", "plan", "first-name", "FIRST_NAME"]);
        assert_eq!(names, [None, None, None, None]);
        let shown = same.iter().map(SameName::problem).collect::<Vec<_>>();
        let problem = "`First Name` and `first-name` are both `first_name` in a placeholder";
        assert_eq!(shown[0], problem);
        assert_eq!(same[0].way_out(), "rename one of them, or write {{ row[\"First Name\"] }}");
        // A column with exactly the name of the placeholder is the placeholder.
        let (names, same) = simple(&["First Name", "first_name", "Last Name"]);
        assert_eq!((names, same), (vec![None, None, Some("last_name".to_owned())], Vec::new()));
    }
}
