//! Whether the name of a column, or a value in it, says something about consent: by the lists in
//! `words.toml`, and by rules for dates and for names of several words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization as _;

/// The meaning of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// Nothing that is understood.
    #[default]
    Other,
    /// Something else of a person, as its name says.
    OfPerson,
    /// Nothing, as the user says.
    Ignored,
    /// Yes means subscribed.
    Subscribed,
    /// Yes, or a date, means opted out.
    OptedOut,
    /// A word such as `bounced` means opted out.
    Status,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Nothing,
    Yes,
    No,
    Subscribed,
    OptedOut,
    Date,
    Text,
}

#[derive(Deserialize)]
struct Words {
    columns: BTreeMap<About, BTreeSet<String>>,
    values: BTreeMap<Kind, BTreeSet<String>>,
    consent: Consent,
}

#[derive(Deserialize)]
struct Consent {
    starts: Vec<String>,
    words: Vec<String>,
    parts: Vec<String>,
    values: Vec<String>,
    phrases: Vec<String>,
}

static WORDS: LazyLock<Words> =
    LazyLock::new(|| toml::from_str(include_str!("words.toml")).expect("a test reads the words"));

impl About {
    /// The meaning of a column with this name.
    pub(super) fn of(column: &str) -> Self {
        let name = compact(column);
        let mut known = WORDS.columns.iter();
        let about = known.find(|(_, names)| names.contains(&name));
        about.map_or(Self::Other, |(about, _)| *about)
    }
}

impl Kind {
    pub(super) fn of(value: &str) -> Self {
        let text = value.trim().to_lowercase();
        let word = compact(value);
        let mut known = WORDS.values.iter();
        let kind = known.find(|(kind, words)| {
            let is_word = matches!(kind, Self::Subscribed | Self::OptedOut);
            words.contains(if is_word { &word } else { &text })
        });
        match kind {
            Some((kind, _)) => *kind,
            None if is_date(&text) => Self::Date,
            None => Self::Text,
        }
    }
}

/// Whether a text in lower case has, among others, a word such as `unsubscribed`.
pub(super) fn has_word(text: &str) -> bool {
    let Consent {
        values, phrases, ..
    } = &WORDS.consent;
    let opted_out = &WORDS.values[&Kind::OptedOut];
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    phrases.iter().any(|phrase| text.contains(phrase))
        || words.any(|word| {
            opted_out.contains(word) || values.iter().any(|start| word.starts_with(start))
        })
}

/// Whether the name of a column has a word about consent.
pub(super) fn is_about_consent(name: &str) -> bool {
    let Consent {
        starts,
        words,
        parts,
        ..
    } = &WORDS.consent;
    let mut text = String::new();
    for letter in name.chars() {
        // `optOut` is two words.
        if letter.is_uppercase() && text.ends_with(char::is_lowercase) {
            text.push(' ');
        }
        text.push(letter);
    }

    let text = text.to_lowercase();
    let mut of_name = text.split(|c: char| !c.is_alphanumeric());
    let joined = compact(name);
    parts.iter().any(|part| joined.contains(part))
        || of_name.any(|word| {
            let is_start = starts.iter().any(|start| word.starts_with(start));
            is_start || words.iter().any(|each| each == word)
        })
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

/// The letters and digits of a name, in lower case; those of full width as others.
pub fn compact(name: &str) -> String {
    let lower = if name.is_ascii() {
        name.to_ascii_lowercase()
    } else {
        name.nfkc().collect::<String>().to_lowercase()
    };
    lower.chars().filter(|it| it.is_alphanumeric()).collect()
}
