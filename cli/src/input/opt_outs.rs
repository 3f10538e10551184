//! Who has opted out, according to the columns of a file: one rule for bulk sending and imports.
//!
//! A few exact names of columns, with exact values, are understood; the table is in
//! `docs/guides/bulk-sending.md#opt-outs`. Whatever else may say who gets no email is asked about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::email::{self, is_invisible};
use super::records::Record;
use crate::command_line::shell_quoted;
use crate::context::Context;
use crate::failure::Failure;
use crate::prepared::confirm;

/// Why a record without a value is left out of a file in which others have one.
pub const NOT_SAID: &str = "the row does not say whether the person is subscribed; write yes or no";

/// How many unknown words are kept to be shown.
const SHOWN: usize = 5;

/// A column with more different values says something else of each person.
const FEW: usize = 10;

/// With so many rows, a column with two values divides the people.
const MANY: usize = 10;

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

/// What a column is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Nothing that is understood: asked about if it looks as if it were about consent.
    Other,
    /// Nothing, as the user says.
    Ignored,
    /// Yes means subscribed.
    Subscribed,
    /// Yes, or a date, means opted out.
    OptedOut,
    /// A word such as `bounced` means opted out.
    Status,
}

impl About {
    /// What a column of this name is about.
    fn of(column: &str) -> Self {
        match compact(column).as_str() {
            "subscribed" | "issubscribed" | "optin" | "optedin" => Self::Subscribed,
            "unsubscribed" | "isunsubscribed" | "unsubscribedat" | "optout" | "optedout"
            | "optoutat" | "optedoutat" | "bounced" | "bouncedat" | "complained"
            | "complainedat" | "suppressed" | "suppressedat" | "cleanedat" | "blacklisted"
            | "isblacklisted" | "donotemail" => Self::OptedOut,
            "status" | "subscriptionstatus" | "emailstatus" | "liststatus" => Self::Status,
            "name" | "firstname" | "lastname" | "surname" | "givenname" | "familyname"
            | "fullname" | "vorname" | "nachname" | "company" | "city" | "country"
            | "salutation" | "anrede" | "title" | "gender" | "language" | "topics" | "metadata" => {
                Self::Ignored
            }
            _ => Self::Other,
        }
    }
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
    /// Words of a status that are not known, as `column: word`.
    unknown_words: BTreeSet<String>,
    /// The first columns that contradict each other: the one that says yes, and the one that opts
    /// out, with the number of the record.
    pub contradiction: Option<(u64, Arc<str>, Arc<str>)>,
}

/// A column, and which values it has.
struct Column {
    about: About,
    /// Whether the user says what it is about.
    is_chosen: bool,
    /// The first different values, one more than a few.
    values: BTreeSet<String>,
    /// How many records have a value, and how many have none or something like `-`.
    filled: usize,
    blank: usize,
    dates: usize,
    urls: usize,
    /// Whether a value is a word such as `unsubscribed`.
    has_word: bool,
}

/// A kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Yes,
    No,
    One,
    Zero,
    Date,
    Url,
    Text,
}

impl Column {
    fn new(about: About, is_chosen: bool) -> Self {
        Self {
            about,
            is_chosen,
            values: BTreeSet::new(),
            filled: 0,
            blank: 0,
            dates: 0,
            urls: 0,
            has_word: false,
        }
    }

    fn see(&mut self, text: &str) {
        let kind = kind(text);
        if matches!(kind, Kind::Nothing | Kind::Zero) || text.trim() == "-" {
            self.blank += 1;
            return;
        }
        self.filled += 1;
        self.dates += usize::from(kind == Kind::Date);
        self.urls += usize::from(kind == Kind::Url);
        let word = compact(text);
        self.has_word |= OPTED_OUT.contains(&word.as_str()) || SUBSCRIBED.contains(&word.as_str());
        if self.values.len() <= FEW {
            self.values.insert(text.trim().to_lowercase());
        }
    }

    /// Whether its values look as if they divided the people into those who want emails and others.
    fn may_say_who(&self) -> bool {
        if self.filled == 0 || self.has_only_urls() {
            return false;
        }
        if self.has_word {
            return true;
        }
        if self.dates == self.filled {
            return self.blank > 0;
        }
        let count = self.values.len();
        if count > FEW {
            return false;
        }
        let says_yes_or_no = |text: &String| matches!(kind(text), Kind::Yes | Kind::No);
        if self.values.iter().any(says_yes_or_no) {
            return true;
        }
        let divides = count == 2 || (count == 1 && self.blank > 0);
        divides && (self.values.iter().all(|it| is_code(it)) || self.filled + self.blank >= MANY)
    }

    fn has_only_urls(&self) -> bool {
        self.filled > 0 && self.urls == self.filled
    }
}

/// Whether a text is a letter, 1 or 2: what others write for yes and no.
fn is_code(text: &str) -> bool {
    let is_letter = text.chars().count() == 1 && text.chars().all(char::is_alphabetic);
    is_letter
        || text
            .parse::<f64>()
            .is_ok_and(|number| number == 1.0 || number == 2.0)
}

impl OptOuts {
    /// What the user says of a column.
    pub fn choose(&mut self, column: &str, about: About) {
        let chosen = Column::new(about, true);
        self.columns.insert(column.into(), chosen);
    }

    /// Whether a column says who has opted out.
    pub fn reads(&self, column: &str) -> bool {
        !matches!(self.about(column), About::Other | About::Ignored)
    }

    /// Tells of the columns of a CSV file: in one about being subscribed, every row needs a value.
    pub fn see_columns(&mut self, columns: &[Arc<str>]) {
        self.is_told |= columns
            .iter()
            .any(|column| self.about(column) == About::Subscribed);
    }

    /// What a column is about, by what the user says of it or by its name.
    pub fn about(&self, column: &str) -> About {
        let known = self.columns.get(column);
        known.map_or_else(|| About::of(column), |known| known.about)
    }

    /// Judges a record, whose address is in this field. Any one column that opts out is enough.
    pub fn judge(&mut self, record: &Record, address: Option<usize>) -> Subscribed {
        let mut yes = None;
        let mut no = None;
        let mut unclear = None;
        let mut is_blank = false;
        for Said { name, key, text } in said(record, address) {
            let column = self.columns.entry(Arc::clone(&name));
            let column = column.or_insert_with(|| Column::new(About::of(&key), false));
            column.see(&text);
            self.is_told |= column.about == About::Subscribed && text != NULL;
            match read(column.about, &text) {
                Word::Nothing => is_blank |= column.about == About::Subscribed,
                Word::Yes => yes = yes.or(Some(name)),
                Word::No => no = no.or(Some(name)),
                Word::Unreadable if column.about == About::Status => {
                    let word = text.trim().chars().take(40).collect::<String>();
                    if self.unknown_words.len() <= SHOWN {
                        self.unknown_words.insert(format!("{name}: {word}"));
                    }
                }
                Word::Unreadable => {
                    let problem = format!("the value of `{name}` must be yes or no");
                    unclear = unclear.or(Some(problem));
                }
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
        if let Some(problem) = unclear {
            return Subscribed::Unclear(problem);
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
        let read = self.columns.iter().filter(|(column, _)| self.reads(column));
        let read = read.map(|(name, column)| match (column.is_chosen, column.about) {
            (true, About::OptedOut) => format!("`{name}` (yes: opted out)"),
            (true, About::Subscribed) => format!("`{name}` (yes: subscribed)"),
            _ => format!("`{name}`"),
        });
        let read = read.collect::<Vec<_>>().join(", ");
        let recalled = match self.is_recalled {
            true => ", as declared for an earlier file with these columns",
            false => "",
        };
        if !read.is_empty() {
            return format!("who has opted out is read from {read}{recalled}");
        }
        match self.is_none_other || self.is_recalled {
            true => format!("no column says who has opted out{recalled}"),
            false => {
                "no column says who has opted out; name one with --opt-out or --opt-in".to_owned()
            }
        }
    }

    /// The option by which a column that opts out decides.
    pub fn keep(&self, column: &str) -> String {
        match self.about(column) {
            About::Subscribed => format!("--opt-in {}", shell_quoted(column)),
            About::Status => format!("--column {}", shell_quoted(&format!("{column}=status"))),
            _ => format!("--opt-out {}", shell_quoted(column)),
        }
    }

    /// Asks about columns that may say who has opted out, and about words of a status that are not
    /// known, once all records are read.
    pub async fn ask(&self, context: &Context) -> Result<(), Failure> {
        self.ask_about_columns(context).await?;
        self.ask_about_unknown_words(context).await
    }

    async fn ask_about_columns(&self, context: &Context) -> Result<(), Failure> {
        let open = self.undeclared();
        let Some(first) = open.first() else {
            return Ok(());
        };
        let shown = open.iter().map(|column| format!("`{column}`"));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let is_one = open.len() == 1;
        let columns = if is_one { "the column" } else { "the columns" };
        let problem = format!("{columns} {shown} may say who gets no email");
        let first = shell_quoted(first);
        let ways_out = format!(
            "if yes means opted out: --opt-out {first}\nif yes means subscribed: --opt-in {first}\n\
             if it says something else: --ignore {first}, or of all columns: --opt-out none"
        );
        if context.out.can_ask() && !context.settings.yes && !context.settings.dry_run {
            let question = format!("{problem}. Send to everybody, whatever it says?");
            let answer = confirm(context, &question).await;
            return answer.map_err(|failure| failure.hint(ways_out));
        }
        Err(Failure::input(problem)
            .code("opt_outs_unclear")
            .hint(ways_out))
    }

    /// The columns that nobody has declared, and that look as if they said who gets no email.
    fn undeclared(&self) -> Vec<&str> {
        if self.is_none_other {
            return Vec::new();
        }
        let is_open = |name: &str, column: &Column| {
            column.about == About::Other
                && !column.has_only_urls()
                && (column.may_say_who() || is_about_consent(name))
        };
        let columns = self.columns.iter();
        let open = columns.filter(|(name, column)| is_open(name, column));
        open.map(|(name, _)| &**name).collect()
    }

    async fn ask_about_unknown_words(&self, context: &Context) -> Result<(), Failure> {
        let Some(first) = self.unknown_words.first() else {
            return Ok(());
        };
        let column = first.split(": ").next().unwrap_or_default();
        let shown = self.unknown_words.iter().take(SHOWN).cloned();
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = if self.unknown_words.len() > SHOWN {
            ", …"
        } else {
            ""
        };
        let problem = format!("words that may say who has opted out are not known: {shown}{more}");
        if context.out.can_ask() && !context.settings.yes && !context.settings.dry_run {
            let question = format!("{problem}. Are people with these words subscribed?");
            return confirm(context, &question).await;
        }
        Err(Failure::input(problem)
            .code("opt_outs_unclear")
            .hint(format!(
                "if this column says something else: --ignore {}\nif not, add a column \
                 `unsubscribed` with yes or no",
                shell_quoted(column)
            )))
    }
}

/// Whether the name of a column has a word about consent.
fn is_about_consent(name: &str) -> bool {
    /// Also in other languages: a question too many harms nobody.
    const STARTS: [&str; 37] = [
        "newsletter",
        "marketing",
        "consent",
        "subscri",
        "unsub",
        "blacklist",
        "blocklist",
        "suppress",
        "bounce",
        "complain",
        "cleaned",
        "gdpr",
        "dsgvo",
        "rgpd",
        "werb",
        "abmeld",
        "abgemeld",
        "abbestell",
        "abonn",
        "gesperrt",
        "sperr",
        "widerruf",
        "einwillig",
        "nieuwsbrief",
        "afmeld",
        "uitschr",
        "toestemming",
        "nyhetsbrev",
        "désabon",
        "desabon",
        "désinscri",
        "desinscri",
        "consenti",
        "baja",
        "согласи",
        "рассыл",
        "отпис",
    ];
    const WORDS: [&str; 7] = ["opt", "opts", "opted", "optin", "optout", "dnc", "dne"];
    let words = words(name);
    let joined = words.concat();
    let is_word = |word: &String| {
        STARTS.iter().any(|start| word.starts_with(start)) || WORDS.contains(&word.as_str())
    };
    words.iter().any(is_word) || joined.contains("donot") || joined.contains("newsletter")
}

/// The words of a name, such as `opt` and `out` of `optOut`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && text.ends_with(char::is_lowercase) {
            text.push(' ');
        }
        text.push(letter);
    }
    let text = text.to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The meaning of a value.
#[derive(Debug, PartialEq)]
enum Word {
    Nothing,
    /// Subscribed.
    Yes,
    /// Opted out.
    No,
    Unreadable,
}

/// The words of a status that opt out, and those that do not.
const OPTED_OUT: [&str; 12] = [
    "unsubscribed",
    "notsubscribed",
    "optedout",
    "optout",
    "inactive",
    "bounced",
    "complained",
    "cleaned",
    "suppressed",
    "blocked",
    "blacklisted",
    "abgemeldet",
];
const SUBSCRIBED: [&str; 5] = ["subscribed", "optedin", "optin", "active", "confirmed"];

/// Yes and no, as people write them in many languages, and spreadsheets.
const YES: &str = "yes y true t x ✓ ✔ on j ja jah da o oui s si sí sì sim tak ano igen evet kyllä aan ein \
    wahr vrai vero verdadero waar да так はい 是 有 예 네 نعم כן";
const NO: &str = "no n false f - off nein nee nej nei non não nao nie ne nem hayır ei uit aus falsch faux \
    falso onwaar ✗ ✘ нет ні いいえ 否 無 아니요 아니오 لا לא";

/// JSON without a value.
const NULL: &str = "null";

/// A value of a record, or one within an object in it. A column or key is judged by the last name.
struct Said {
    name: Arc<str>,
    key: Arc<str>,
    text: String,
}

fn said(record: &Record, address: Option<usize>) -> Vec<Said> {
    let text = |value: &Value| {
        let text = value.as_str().map(str::to_owned);
        text.unwrap_or_else(|| value.to_string())
    };
    let mut all = Vec::with_capacity(record.fields.len());
    for (at, (name, value)) in record.fields.iter().enumerate() {
        if Some(at) == address {
            continue;
        }
        all.push(Said {
            name: Arc::clone(name),
            key: Arc::clone(name),
            text: text(value),
        });
        for (key, value) in within(name, value) {
            if matches!(About::of(&key), About::Subscribed | About::OptedOut) {
                all.push(Said {
                    name: format!("{name}.{key}").into(),
                    key: key.into(),
                    text: text(&value),
                });
            }
        }
    }
    all
}

/// The entries of an object. In CSV, metadata is a text with one, as an export writes it.
fn within(name: &str, value: &Value) -> Map<String, Value> {
    match value {
        Value::Object(entries) => entries.clone(),
        Value::String(text) if text.starts_with('{') && compact(name) == "metadata" => {
            serde_json::from_str(text).unwrap_or_default()
        }
        _ => Map::new(),
    }
}

fn read(about: About, text: &str) -> Word {
    let kind = kind(text);
    if kind == Kind::Nothing || matches!(about, About::Other | About::Ignored) {
        return Word::Nothing;
    }
    let word = compact(text);
    let is_out = OPTED_OUT.contains(&word.as_str());
    let is_in = SUBSCRIBED.contains(&word.as_str());
    match about {
        About::Subscribed if is_in || matches!(kind, Kind::Yes | Kind::One) => Word::Yes,
        About::Subscribed if is_out || matches!(kind, Kind::No | Kind::Zero) => Word::No,
        About::OptedOut if is_out || matches!(kind, Kind::Yes | Kind::One | Kind::Date) => Word::No,
        About::OptedOut if is_in || matches!(kind, Kind::No | Kind::Zero) => Word::Nothing,
        About::Status if is_out => Word::No,
        About::Status if is_in => Word::Yes,
        _ => Word::Unreadable,
    }
}

fn kind(text: &str) -> Kind {
    let word = text.trim().to_lowercase();
    let is_in = |words: &str| words.split_whitespace().any(|each| each == word);
    match word.as_str() {
        "" | NULL | "n/a" | "0000-00-00" | "0000-00-00 00:00:00" => Kind::Nothing,
        "1" | "1.0" => Kind::One,
        "0" | "0.0" => Kind::Zero,
        word if word.starts_with("http://") || word.starts_with("https://") => Kind::Url,
        word if is_date(word) => Kind::Date,
        _ if is_in(YES) => Kind::Yes,
        _ if is_in(NO) => Kind::No,
        _ => Kind::Text,
    }
}

/// Whether a text begins with a date such as 2026-01-31, 31.1.2026 or 1/31/26, or is a day as a
/// spreadsheet counts it, from 2000 to 2050.
fn is_date(text: &str) -> bool {
    let day = text.split([' ', 't']).next().unwrap_or_default();
    let parts = day.split(['-', '.', '/']).collect::<Vec<_>>();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let is_serial = || {
        let number = text.parse::<f64>();
        number.is_ok_and(|day| (36_526.0..54_789.0).contains(&day))
    };
    (parts.len() == 3 && parts.iter().all(is_number)) || is_serial()
}

/// The addresses of a row that opts out, however they are spelt: several in a cell, with `mailto:`,
/// quotes, brackets, or characters that cannot be seen. The error is for a text that cannot be read
/// for sure.
pub fn addresses(text: &str) -> Result<Vec<String>, &'static str> {
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

/// The letters and digits of a name, in lower case.
pub fn compact(name: &str) -> String {
    let lower = name.to_lowercase();
    lower
        .chars()
        .filter(|letter| letter.is_alphanumeric())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(rows: &[&[(&str, &str)]]) -> (OptOuts, Vec<Subscribed>) {
        let mut rule = OptOuts::default();
        let judge = |row: &&[(&str, &str)]| {
            let fields = row
                .iter()
                .map(|(name, value)| (Arc::from(*name), json!(value)));
            let record = Record {
                number: 2,
                fields: fields.collect(),
                problem: None,
            };
            rule.judge(&record, None)
        };
        let said = rows.iter().map(judge).collect();
        (rule, said)
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
        ] {
            let (rule, said) = judged(&[&[(column, value)]]);
            assert_eq!(said, [expected], "{column} {value}");
            assert_eq!(
                rule.undeclared().is_empty(),
                column != "newsletter",
                "{column}"
            );
        }
        let (_, said) = judged(&[&[("subscribed", "maybe")]]);
        assert!(matches!(said[0], Subscribed::Unclear(_)));
    }

    #[test]
    fn other_columns_with_two_kinds_of_values_or_a_word_about_consent_are_asked_about() {
        for (column, values) in [
            ("newsletter_active", ["no", "yes"]),
            ("nieuwsbrief", ["ja", "nee"]),
            ("Werbung erlaubt", ["1", "0"]),
            ("vip", ["true", ""]),
            ("left", ["2026-01-02", ""]),
            ("Abmeldung am", ["01.02.2026", "-"]),
            ("Post", ["45123", ""]),
            ("Werbung erlaubt", ["J", "N"]),
            ("Werbung erlaubt", ["1.0", "0.0"]),
            ("Post", ["1", "2"]),
            ("Post", ["aan", "uit"]),
            ("Post", ["да", "нет"]),
            ("Post", ["はい", "いいえ"]),
            ("Post", ["subscribed", "unsubscribed"]),
            ("Post", ["opted in", "opted out"]),
            ("Post", ["active", "inactive"]),
            ("lifecycle", ["lead", "unsubscribed"]),
            ("Sperrvermerk", ["a", "b"]),
            ("согласие", ["a", "b"]),
            ("marketing", ["a", "b"]),
            ("Do Not Contact", ["a", "b"]),
            ("emailOptIn", ["a", "b"]),
        ] {
            let rows = values.map(|value| [(column, value)]);
            let rows = rows.iter().map(|row| &row[..]).collect::<Vec<_>>();
            assert_eq!(judged(&rows).0.undeclared(), [column]);
        }
        for (column, values) in [
            ("name", ["Ada", ""]),
            ("orders", ["1", "1"]),
            ("orders", ["3", "2"]),
            ("born", ["2026-01-02", "2026-01-03"]),
            ("unsubscribe_url", ["https://x.test/1", "https://x.test/2"]),
            ("option", ["blue", "red"]),
        ] {
            let rows = values.map(|value| [(column, value)]);
            let rows = rows.iter().map(|row| &row[..]).collect::<Vec<_>>();
            assert!(judged(&rows).0.undeclared().is_empty(), "{column}");
        }
    }

    #[test]
    fn a_third_word_does_not_hide_the_other_two() {
        for values in [["Ja", "Nein", "weiß nicht"], ["yes", "no", "perhaps"]] {
            let rows = values.map(|value| [("VIP", value)]);
            let rows = rows.iter().map(|row| &row[..]).collect::<Vec<_>>();
            assert_eq!(judged(&rows).0.undeclared(), ["VIP"]);
        }
        let rows = ["red", "green"].map(|value| [("color", value)]).repeat(5);
        let rows = rows.iter().map(|row| &row[..]).collect::<Vec<_>>();
        assert_eq!(judged(&rows).0.undeclared(), ["color"]);
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
            };
            let said = rule.judge(&record, None);
            assert_eq!(said, Subscribed::No("metadata.subscribed".into()));
        }
    }

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
