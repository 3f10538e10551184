//! Who has opted out, according to the columns of a file: one rule for bulk sending and imports.
//!
//! A few exact names of columns, with exact values, are understood; they are in `opt_outs/words.toml`. Whatever
//! else may say who gets no email is asked about, once all records are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

pub use self::words::{About, compact};
use self::words::{Kind, has_word, is_about_consent};
use super::records::Record;
use crate::command_line::shell_quoted;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::one_line;
use crate::prepared::confirm;

mod words;

/// Why a record without a value is left out of a file in which others have one.
pub const NOT_SAID: &str = "the row does not say whether the person is subscribed; write yes or no";

/// A column with more different values says something else of each person.
const FEW: usize = 10;

/// How many columns are looked at; within values, the names of more may be data.
const MOST_COLUMNS: usize = 2_000;

/// Yes, no, and one more such as `perhaps`: with more values, `no` is something else.
const MOST_ANSWERS: usize = 3;

/// How many values of a column are shown, and of how many columns what to say.
const SHOWN: usize = 3;

/// The answer of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscribed {
    Unsaid,
    Yes,
    /// Opted out, according to this column.
    No(Arc<str>),
    /// A value cannot be read, for this reason.
    Unclear(String),
}

/// Judges the records of a file.
#[derive(Default)]
pub struct OptOuts {
    columns: BTreeMap<Arc<str>, Column>,
    /// Whether what the user says was said of an earlier file with the same columns.
    pub is_recalled: bool,
    /// Whether the user says that no other column says who has opted out.
    pub is_none_other: bool,
    /// Whether a column or key says who is subscribed. Then every record has to.
    pub is_told: bool,
    /// The first columns that contradict each other: the one that says yes, and the one that opts
    /// out, with the number of the record.
    pub contradiction: Option<(u64, Arc<str>, Arc<str>)>,
}

/// A column, and which values it has.
#[derive(Default)]
struct Column {
    about: About,
    /// Whether it is a key within values, such as metadata.
    is_within: bool,
    /// Whether the user says what it is about.
    is_chosen: bool,
    records: usize,
    /// The first different values, one more than a few, without those that are blank.
    values: BTreeSet<String>,
    /// Whether a value is missing, `-` or 0.
    has_blank: bool,
    has_yes: bool,
    has_no: bool,
    /// Whether a value that means yes or no is longer than one letter, as sizes and initials are not.
    has_word_for_yes_or_no: bool,
    /// Whether a value has a word such as `unsubscribed`.
    has_word: bool,
    has_other_than_dates: bool,
    has_other_than_urls: bool,
    /// Words of a status that are not known.
    unknown: BTreeSet<String>,
}

impl Column {
    fn see(&mut self, text: &str, kind: Kind) {
        self.records += 1;
        let text = text.trim().to_lowercase();
        let is_number = text.parse::<f64>().is_ok();
        let is_zero = kind == Kind::No && is_number;
        if kind == Kind::Nothing || is_zero || text == "-" {
            self.has_blank = true;
            return;
        }

        self.has_yes |= kind == Kind::Yes;
        self.has_no |= kind == Kind::No;
        self.has_word_for_yes_or_no |=
            matches!(kind, Kind::Yes | Kind::No) && !is_number && !is_letter(&text);
        self.has_word |= matches!(kind, Kind::Subscribed | Kind::OptedOut) || has_word(&text);
        self.has_other_than_dates |= kind != Kind::Date;
        self.has_other_than_urls |= !text.starts_with("http://") && !text.starts_with("https://");
        if self.values.len() <= FEW {
            self.values.insert(text);
        }
    }

    /// Whether its values look as if they divided the people into those who want emails and others.
    fn may_say_who(&self) -> bool {
        let count = self.values.len();
        if count == 0 {
            return false;
        }

        let kinds = count + usize::from(self.has_blank);
        // In a file of two people, two values may be anything.
        let is_sure = self.records > kinds || self.values.iter().all(|value| is_code(value));
        let divides = count <= 2 && kinds >= 2 && is_sure;
        // NO is a country as well, and S a size.
        let has_yes_or_no = count <= MOST_ANSWERS && self.has_word_for_yes_or_no;
        divides || has_yes_or_no || self.has_word || (!self.has_other_than_dates && self.has_blank)
    }

    /// Whether its values say yes of some people and no of others, which no name of a column excuses.
    fn is_yes_or_no(&self) -> bool {
        let count = self.values.len();
        let has_both = self.has_yes && (self.has_no || self.has_blank);
        let is_no_or_nothing = self.has_no && self.has_blank && self.has_word_for_yes_or_no;
        count <= 2 && (has_both || is_no_or_nothing)
    }

    /// Whether it has to be asked about.
    fn is_open(&self, name: &str) -> bool {
        match self.about {
            About::Other => {
                let has_only_urls = !self.values.is_empty() && !self.has_other_than_urls;
                !has_only_urls && (self.may_say_who() || is_about_consent(name))
            }
            About::OfPerson => self.has_word || self.is_yes_or_no(),
            _ => !self.unknown.is_empty(),
        }
    }
}

impl OptOuts {
    /// Takes over the user's word about a column.
    pub fn choose(&mut self, column: &str, about: About) {
        let chosen = Column {
            about,
            is_chosen: true,
            ..Column::default()
        };
        self.columns.insert(column.into(), chosen);
    }

    /// Whether a column says who has opted out.
    pub fn reads(&self, column: &str) -> bool {
        !matches!(
            self.about(column),
            About::Other | About::OfPerson | About::Ignored
        )
    }

    /// Tells of the columns of a CSV file: in one about being subscribed, every row needs a value.
    pub fn see_columns(&mut self, columns: &[Arc<str>]) {
        self.is_told |= columns
            .iter()
            .any(|column| self.about(column) == About::Subscribed);
    }

    /// The meaning of a column, by what the user says of it or by its name.
    fn about(&self, column: &str) -> About {
        let known = self.columns.get(column);
        known.map_or_else(|| About::of(column), |known| known.about)
    }

    /// The meaning of a key within a value: nothing, if the user says so of the whole value.
    fn about_within(&self, name: &str, key: &str) -> About {
        let dots = name.match_indices('.').map(|(at, _)| at);
        let mut around = dots.filter_map(|at| self.columns.get(&name[..at]));
        if around.any(|column| column.is_chosen && column.about == About::Ignored) {
            return About::Ignored;
        }

        match About::of(key) {
            // That of an order, for example.
            About::Status if name != key => About::Other,
            about => about,
        }
    }

    /// Judges a record, whose address is in this field. Any one column that opts out is enough.
    pub fn judge(&mut self, record: &Record, address: Option<usize>) -> Subscribed {
        let mut yes = None;
        let mut no = None;
        let mut unclear = None;
        let mut is_blank = false;
        for Said { name, key, text } in said(record, address) {
            if !self.columns.contains_key(&name) {
                if self.columns.len() >= MOST_COLUMNS && name != key {
                    continue;
                }
                let column = Column {
                    about: self.about_within(&name, &key),
                    is_within: name != key,
                    ..Column::default()
                };
                self.columns.insert(Arc::clone(&name), column);
            }
            let Some(column) = self.columns.get_mut(&name) else {
                continue;
            };
            let about = column.about;
            let kind = Kind::of(&text);
            column.see(&text, kind);
            self.is_told |= about == About::Subscribed && text != NULL;
            match (about, kind) {
                (About::Other | About::OfPerson | About::Ignored, _)
                | (About::OptedOut, Kind::No | Kind::Subscribed) => {}
                (_, Kind::Nothing) => is_blank |= about == About::Subscribed,
                (_, Kind::OptedOut)
                | (About::Subscribed, Kind::No)
                | (About::OptedOut, Kind::Yes | Kind::Date) => no = no.or(Some(name)),
                (About::Subscribed, Kind::Yes) | (_, Kind::Subscribed) => yes = yes.or(Some(name)),
                (About::Status, _) => {
                    let word = text.trim().chars().take(40).collect::<String>();
                    if column.unknown.len() <= FEW {
                        column.unknown.insert(word);
                    }
                }
                _ => unclear = unclear.or(Some(name)),
            }
        }

        if let Some(no) = no {
            // A key that is given twice is a problem of its record alone.
            if let Some(yes) = yes.filter(|yes| *yes != no) {
                let place = || (record.number, yes, Arc::clone(&no));
                self.contradiction.get_or_insert_with(place);
            }
            return Subscribed::No(no);
        }
        if let Some(name) = unclear {
            return Subscribed::Unclear(format!("the value of `{name}` must be yes or no"));
        }
        if yes.is_none() || is_blank {
            return Subscribed::Unsaid;
        }

        // A key that is given twice, for example: the record has only one of its values.
        match &record.problem {
            Some(problem) => Subscribed::Unclear(problem.clone()),
            None => Subscribed::Yes,
        }
    }

    /// Which columns say who has opted out, and how, once all records are read.
    pub fn describe(&self) -> String {
        let read = self.columns.iter().filter(|(name, _)| self.reads(name));
        let read = read.map(|(name, column)| match (column.is_chosen, column.about) {
            (true, About::OptedOut) => format!("`{name}` (yes: opted out)"),
            (true, About::Subscribed) => format!("`{name}` (yes: subscribed)"),
            _ => format!("`{name}`"),
        });
        let read = read.collect::<Vec<_>>().join(", ");
        let recalled = if self.is_recalled {
            ", as declared for an earlier file with these columns"
        } else {
            ""
        };
        if !read.is_empty() {
            return format!("who has opted out is read from {read}{recalled}");
        }

        if self.is_none_other || self.is_recalled {
            format!("no column says who has opted out{recalled}")
        } else {
            "no column says who has opted out; name one with --opt-out or --opt-in".to_owned()
        }
    }

    /// The option by which a column that opts out decides.
    pub fn keep(&self, column: &str) -> String {
        match self.about(column) {
            About::Subscribed => format!("--opt-in{}", value_of_option(column)),
            About::Status => format!("--column{}", value_of_option(&format!("{column}=status"))),
            _ => format!("--opt-out{}", value_of_option(column)),
        }
    }

    /// Asks about the columns that may say who has opted out, once all records are read. Returns what
    /// a person says of them; the file then has to be read again. Who cannot be asked has to declare
    /// them.
    pub async fn ask(&self, context: &Context) -> Result<Vec<(String, About)>, Failure> {
        // An export of contacts has a column that says it, and metadata of any kind.
        let is_said = self.columns.keys().any(|name| self.reads(name));
        let open = self.columns.iter().filter(|(name, column)| {
            let is_excluded = self.is_none_other && column.about != About::Status;
            let is_of_export = is_said && column.is_within;
            column.is_open(name) && !is_excluded && !is_of_export
        });
        let open = open.collect::<Vec<_>>();
        if open.is_empty() {
            return Ok(Vec::new());
        }

        let problems = open.iter().map(|(name, column)| column.problem(name));
        let problems = problems.collect::<Vec<_>>().join("; ");
        let ways_out = open.iter().take(SHOWN);
        let ways_out = ways_out.map(|(name, column)| column.ways_out(name));
        let others = "--opt-out none if no column but those with documented names says it";
        let has_others = open.iter().any(|(_, column)| column.about != About::Status);
        let ways_out = ways_out.chain(has_others.then(|| others.to_owned()));
        let ways_out = ways_out.collect::<Vec<_>>().join("\n");
        let unclear = || {
            let failure = Failure::input(&problems).code("opt_outs_unclear");
            failure.hint(&ways_out)
        };

        if !context.out.can_ask() || context.settings.yes || context.settings.dry_run {
            return Err(unclear());
        }

        let mut said = Vec::new();
        for (name, column) in &open {
            if column.about == About::Status {
                continue;
            }
            let problem = column.problem(name);
            let values = some_of(&column.values);
            let question = format!("{problem} ({values}). {QUESTION}");
            let answer = context.out.ask_until(&question, answer).await;
            let answer = answer.map_err(|failure| failure.hint(&ways_out))?;
            said.push((name.to_string(), answer.ok_or_else(unclear)?));
        }

        if said.is_empty() {
            let question = format!("{problems}. Are these people subscribed?");
            let confirmed = confirm(context, &question).await;
            confirmed.map_err(|failure| failure.hint(&ways_out))?;
        }

        Ok(said)
    }
}

const QUESTION: &str =
    "Does yes mean opted [o]ut, or opted [i]n, or has it [n]othing to do with it? ";

fn answer(text: &str) -> Result<About, Failure> {
    match text.to_lowercase().as_str() {
        "o" | "out" => Ok(About::OptedOut),
        "i" | "in" => Ok(About::Subscribed),
        "n" | "nothing" => Ok(About::Ignored),
        _ => Err(Failure::usage(format!(
            "`{text}` is not an answer: type o, i or n"
        ))),
    }
}

impl Column {
    /// The question about it.
    fn problem(&self, name: &str) -> String {
        match self.about {
            About::Status => {
                let words = some_of(&self.unknown);
                format!("the column `{name}` has words that are not known: {words}")
            }
            _ => format!("the column `{name}` may say who gets no email"),
        }
    }

    /// How the user says what it is about.
    fn ways_out(&self, name: &str) -> String {
        let column = value_of_option(name);
        match self.about {
            About::Status => format!(
                "--ignore{column} if it says something else; if not, add a column `unsubscribed` with \
                 yes or no"
            ),
            _ => format!(
                "--opt-out{column} if yes means opted out, --opt-in{column} if it means subscribed, \
                 --ignore{column} if it says something else"
            ),
        }
    }
}

/// The name of a column after an option, as it is typed.
fn value_of_option(column: &str) -> String {
    let between = if column.starts_with('-') { "=" } else { " " };
    format!("{between}{}", shell_quoted(column))
}

fn some_of(values: &BTreeSet<String>) -> String {
    let shown = values.iter().take(SHOWN).map(|value| one_line(value));
    let more = values.len() > SHOWN;
    let shown = shown.chain(more.then_some("…".into()));
    shown.collect::<Vec<_>>().join(", ")
}

/// Whether a text is a letter that means yes or no, 1 or 2: what others write for yes and no.
fn is_code(text: &str) -> bool {
    let is_answer = matches!(Kind::of(text), Kind::Yes | Kind::No);
    let number = text.parse::<f64>();
    (is_letter(text) && is_answer) || number.is_ok_and(|number| number == 1.0 || number == 2.0)
}

/// Whether a text is one letter.
fn is_letter(text: &str) -> bool {
    text.chars().count() == 1 && text.chars().all(char::is_alphabetic)
}

/// A value of a record, or one within an object or list in it.
struct Said {
    /// The names from the record to the value, such as `preferences.newsletter`.
    name: Arc<str>,
    /// The last name, by which the value is judged.
    key: Arc<str>,
    text: String,
}

fn said(record: &Record, address: Option<usize>) -> Vec<Said> {
    let mut all = Vec::with_capacity(record.fields.len());
    for (at, (name, value)) in record.fields.iter().enumerate() {
        if Some(at) != address {
            add_said(&mut all, name, name, value);
        }
    }
    all
}

/// Adds a value, or those within it. In CSV, metadata is a text with an object, as an export writes it.
fn add_said(all: &mut Vec<Said>, name: &Arc<str>, key: &Arc<str>, value: &Value) {
    match value {
        Value::Object(entries) => add_entries(all, name, entries),
        // Most lists hold something else; one of tags may have the tag `unsubscribed`.
        Value::Array(items) => {
            let is_said = |item: &&Value| match item {
                Value::String(text) => has_word(&text.to_lowercase()),
                item => item.is_object(),
            };
            for item in items.iter().filter(is_said) {
                add_said(all, name, key, item);
            }
        }
        Value::String(text) if text.starts_with('{') => {
            match serde_json::from_str::<Map<String, Value>>(text) {
                Ok(entries) => add_entries(all, name, &entries),
                Err(_) => all.push(Said::new(name, key, text.clone())),
            }
        }
        Value::String(text) => all.push(Said::new(name, key, text.clone())),
        value => all.push(Said::new(name, key, value.to_string())),
    }
}

fn add_entries(all: &mut Vec<Said>, name: &Arc<str>, entries: &Map<String, Value>) {
    for (key, value) in entries {
        let inner = Arc::from(format!("{name}.{key}"));
        add_said(all, &inner, &Arc::from(key.as_str()), value);
    }
}

impl Said {
    fn new(name: &Arc<str>, key: &Arc<str>, text: String) -> Self {
        Self {
            name: Arc::clone(name),
            key: Arc::clone(key),
            text,
        }
    }
}

/// JSON without a value.
const NULL: &str = "null";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whether each record is subscribed, and which columns are asked about.
    fn judged(rows: &[&[(&str, &str)]]) -> (Vec<Subscribed>, Vec<String>) {
        let mut rule = OptOuts::default();
        let judge = |row: &&[(&str, &str)]| {
            let fields = row
                .iter()
                .map(|(name, value)| (Arc::from(*name), json!(value)));
            let record = Record {
                number: 2,
                fields: fields.collect(),
                problem: None,
                misplaced: None,
            };
            rule.judge(&record, None)
        };

        let said = rows.iter().map(judge).collect();
        let open = rule.columns.iter().filter(|(name, it)| it.is_open(name));
        (said, open.map(|(name, _)| name.to_string()).collect())
    }

    /// The columns that are asked about in a file with one column of these values.
    fn asked(column: &str, values: &[&str]) -> Vec<String> {
        let rows = values.iter().map(|value| [(column, *value)]);
        let rows = rows.collect::<Vec<_>>();
        let rows = rows.iter().map(|row| &row[..]).collect::<Vec<_>>();
        judged(&rows).1
    }

    #[test]
    fn exact_names_and_values_are_understood() {
        let out = |column: &str| Subscribed::No(column.into());
        for (column, value, expected) in [
            ("subscribed", "yes", Subscribed::Yes),
            ("Subscribed?", "0", out("Subscribed?")),
            ("opt_in", "false", out("opt_in")),
            ("unsubscribed", "x", out("unsubscribed")),
            ("unsubscribed_at", "2026-01-02", out("unsubscribed_at")),
            ("Opted out", "", Subscribed::Unsaid),
            ("bounced", "no", Subscribed::Unsaid),
            ("status", "Opted out", out("status")),
            ("status", "active", Subscribed::Yes),
            ("newsletter", "no", Subscribed::Unsaid),
            ("status", "trial", Subscribed::Unsaid),
        ] {
            let (said, open) = judged(&[&[(column, value)]]);
            assert_eq!(said, [expected], "{column} {value}");
            let is_asked = column == "newsletter" || value == "trial";
            assert_eq!(open.len(), usize::from(is_asked), "{column} {value}");
        }

        let (said, _) = judged(&[&[("subscribed", "maybe")]]);
        assert!(matches!(said[0], Subscribed::Unclear(_)));
    }

    #[test]
    fn other_columns_with_two_values_or_a_word_about_consent_are_asked_about() {
        for (column, values) in [
            ("newsletter_active", &["no", "yes"][..]),
            ("nieuwsbrief", &["ja", "nee"]),
            ("Werbung erlaubt", &["1", "0"]),
            ("Werbung erlaubt", &["J", "N"]),
            ("Werbung erlaubt", &["1.0", "0.0"]),
            ("vip", &["true", ""]),
            ("left", &["2026-01-02", ""]),
            ("Abmeldung am", &["01.02.2026", "-"]),
            ("Post", &["45123", ""]),
            ("Post", &["1", "2"]),
            ("Post", &["aan", "uit"]),
            ("Post", &["да", "нет"]),
            ("Post", &["はい", "いいえ"]),
            ("Post", &["subscribed", "unsubscribed"]),
            ("Post", &["opted in", "opted out"]),
            ("Post", &["active", "inactive"]),
            ("Post", &["gern", "nie wieder", "gern"]),
            ("Post", &["gern", "", "gern"]),
            ("lifecycle", &["lead", "unsubscribed", "customer"]),
            ("VIP", &["Ja", "Nein", "weiß nicht"]),
            ("VIP", &["yes", "no", "perhaps"]),
            ("left", &["2026-01-02", "2026-01-03", "2026-01-04", ""]),
            ("Sperrvermerk", &["a", "b", "c"]),
            ("согласие", &["a", "b", "c"]),
            ("marketing", &["a", "b", "c"]),
            ("Do Not Contact", &["a", "b", "c"]),
            ("Tags", &["vip", "customer;unsubscribed", "b", "c"]),
            ("State", &["ok", "hard bounce", "soft bounce"]),
            ("Lifecycle", &["lead", "customer", "do not contact"]),
            ("Post", &["○", "×"]),
            ("Post", &["可", "不可"]),
            ("title", &["yes", "no"]),
            ("gender", &["1", "0"]),
            ("first_name", &["Ada", "unsubscribed"]),
            ("emailOptIn", &["a", "b", "c"]),
        ] {
            assert_eq!(asked(column, values), [column], "{values:?}");
        }
        for (column, values) in [
            ("name", &["Ada", ""][..]),
            ("token", &["k7", "m2"]),
            ("orders", &["1", "1"]),
            ("orders", &["3", "2"]),
            ("orders", &["1", "0", "3", "4"]),
            ("born", &["2026-01-02", "2026-01-03", "2026-01-04"]),
            ("unsubscribe_url", &["https://x.test/1", "https://x.test/2"]),
            ("option", &["blue", "red"]),
            ("a,b", &["x"]),
            ("size", &["S", "M", "L", "XL"]),
            ("initial", &["J", "N", "K"]),
            ("group", &["A", "B"]),
            ("country_code", &["DE", "NO", "SE", "FI"]),
            ("gender", &["f", "m", ""]),
            ("country", &["DE", "AT", "DE"]),
            ("color", &["blue", "red", "green"]),
        ] {
            assert_eq!(asked(column, values), [""; 0], "{values:?}");
        }
    }

    #[test]
    fn metadata_says_who_has_opted_out() {
        let mut rule = OptOuts::default();
        for metadata in [
            json!({"subscribed": false}),
            json!(r#"{"subscribed": false}"#),
        ] {
            let record = Record {
                number: 2,
                fields: vec![("metadata".into(), metadata)],
                problem: None,
                misplaced: None,
            };
            let said = rule.judge(&record, None);
            assert_eq!(said, Subscribed::No("metadata.subscribed".into()));
        }
    }

    #[test]
    fn values_within_others_are_judged_and_asked_about() {
        let mut rule = OptOuts::default();
        let mut judge = |value| {
            let record = Record {
                number: 2,
                fields: vec![("attributes".into(), value)],
                problem: None,
                misplaced: None,
            };
            rule.judge(&record, None)
        };

        let out = Subscribed::No("attributes.prefs.opt_out".into());
        assert_eq!(judge(json!({"prefs": {"opt_out": true}})), out);
        judge(
            json!({"news": false, "tags": ["vip", "unsubscribed"], "orders": [{"status": "new"}]}),
        );
        judge(json!({"news": true, "orders": [{"status": "shipped"}]}));
        let open = rule.columns.iter().filter(|(name, it)| it.is_open(name));
        let open = open.map(|(name, _)| &**name).collect::<Vec<_>>();
        assert_eq!(open, ["attributes.news", "attributes.tags"]);
    }
}
