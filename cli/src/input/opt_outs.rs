//! Who has opted out, according to the columns of a file: one rule for bulk sending and imports. The
//! table of columns and words is in `docs/guides/bulk-sending.md#opt-outs`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::records::Record;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;

/// Why a record without a value is left out of a file in which others have one.
pub const NOT_SAID: &str = "the row does not say whether the person is subscribed; write yes or no";

/// What a record says.
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
    Nothing,
    /// Yes means subscribed.
    Subscribed,
    /// Yes means opted out.
    OptedOut,
    /// Any value means opted out, such as the time of it.
    TimeOfOptOut,
    /// A word such as `bounced`.
    Status,
    /// Mostly a part of a postal address.
    State,
}

/// Judges the records of a file.
#[derive(Default)]
pub struct OptOuts {
    /// What columns are about, as the user says or by their names.
    columns: HashMap<Arc<str>, About>,
    /// Whether a column or key says who is subscribed. Then every record has to.
    pub is_told: bool,
    /// Words of a status that are not known, as `column: word`.
    unknown_words: BTreeSet<String>,
    /// The first columns that contradict each other: the one that says yes, and the one that opts
    /// out, with the number of the record.
    pub contradiction: Option<(u64, Arc<str>, Arc<str>)>,
}

impl OptOuts {
    /// What the user says of a column.
    pub fn choose(&mut self, column: &str, about: About) {
        self.columns.insert(column.into(), about);
    }

    /// Whether a column may say who has opted out.
    pub fn reads(&self, column: &str) -> bool {
        self.about(column) != About::Nothing
    }

    /// Tells of the columns of a CSV file: in one about being subscribed, every row needs a value.
    pub fn see_columns(&mut self, columns: &[Arc<str>]) {
        self.is_told |= columns.iter().any(|column| self.about(column) == About::Subscribed);
    }

    fn about(&self, column: &str) -> About {
        self.columns.get(column).copied().unwrap_or_else(|| about(column))
    }

    /// Judges a record. Any one column that opts out is enough.
    pub fn judge(&mut self, record: &Record) -> Subscribed {
        let (mut yes, mut no, mut unclear) = (None, None, None);
        for (column, value) in &record.fields {
            let about = *self.columns.entry(Arc::clone(column)).or_insert_with(|| about(column));
            if about == About::Nothing || value.is_null() {
                continue;
            }
            self.is_told |= about == About::Subscribed;
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match read(about, &text) {
                Word::Nothing => {}
                Word::Yes => yes = yes.or(Some(column)),
                Word::No => no = no.or(Some(column)),
                Word::Unreadable if about == About::Status => {
                    let word = text.trim().chars().take(40).collect::<String>();
                    if self.unknown_words.len() < 100 {
                        self.unknown_words.insert(format!("{column}: {word}"));
                    }
                }
                Word::Unreadable => {
                    let problem = format!("the value of `{column}` must be yes or no");
                    unclear = unclear.or(Some(format!("{problem}; otherwise: {}", ignore(column))));
                }
            }
        }
        match (no, unclear, yes) {
            (Some(no), _, yes) => {
                if let Some(yes) = yes.filter(|yes| *yes != no) {
                    let place = || (record.number, Arc::clone(yes), Arc::clone(no));
                    self.contradiction.get_or_insert_with(place);
                }
                Subscribed::No(Arc::clone(no))
            }
            (_, Some(problem), _) => Subscribed::Unclear(problem),
            // A key that is given twice, for example: the record has only one of its values.
            (.., Some(_)) => match &record.problem {
                Some(problem) => Subscribed::Unclear(problem.clone()),
                None => Subscribed::Yes,
            },
            _ => Subscribed::Unsaid,
        }
    }

    /// Which columns say who has opted out, once all records are read.
    pub fn describe(&self) -> String {
        let is_read = |about: &About| !matches!(about, About::Nothing | About::State);
        let columns = self.columns.iter().filter(|(_, about)| is_read(about));
        let mut columns = columns.map(|(column, _)| format!("`{column}`")).collect::<Vec<_>>();
        columns.sort_unstable();
        match columns.is_empty() {
            true => "no column says who has opted out; name one with --opt-out".to_owned(),
            false => format!("who has opted out is read from {}", columns.join(", ")),
        }
    }

    /// Asks about words of a status that are not known, once all records are read.
    pub async fn ask_about_unknown_words(&self, context: &Context) -> Result<(), Failure> {
        let Some(first) = self.unknown_words.first() else { return Ok(()) };
        let column = first.split(": ").next().unwrap_or_default();
        let shown = self.unknown_words.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let more = if self.unknown_words.len() > 5 { ", …" } else { "" };
        let problem = format!("words that may say who has opted out are not known: {shown}{more}");
        if context.out.can_ask() && !context.settings.yes && !context.settings.dry_run {
            let question = format!("{problem}. Are people with these words subscribed?");
            return confirm(context, &question).await;
        }
        Err(Failure::input(problem).code("opt_outs_unclear").hint(format!(
            "if they do not: {}\nif they do, add a column `unsubscribed` with yes or no",
            ignore(column)
        )))
    }
}

fn ignore(column: &str) -> String {
    format!("--column '{column}=ignore'")
}

/// What a value says.
#[derive(Debug, PartialEq)]
enum Word {
    Nothing,
    /// Subscribed.
    Yes,
    /// Opted out.
    No,
    Unreadable,
}

fn read(about: About, text: &str) -> Word {
    const YES: [&str; 17] = [
        "true", "t", "yes", "y", "1", "x", "on", "✓", "✔", "✅", "☑", "ja", "j", "oui", "si", "sí",
        "ok",
    ];
    const NO: [&str; 11] =
        ["false", "f", "no", "n", "0", "off", "-", "nein", "non", "never", "none"];
    const SUBSCRIBED: [&str; 7] =
        ["subscribed", "active", "confirmed", "optedin", "optin", "enabled", "valid"];
    const OPTED_OUT_WORDS: [&str; 6] =
        ["inactive", "disabled", "deleted", "removed", "donotcontact", "donotemail"];
    let word = text.trim().to_lowercase();
    if word.is_empty() {
        return Word::Nothing;
    }
    let letters = compact(&word);
    let is = |words: &[&str]| words.contains(&word.as_str()) || words.contains(&letters.as_str());
    // `-1` is none of them.
    let (yes, no) = (YES.contains(&word.as_str()), NO.contains(&word.as_str()));
    let subscribed = is(&SUBSCRIBED);
    let stem = ["hard", "soft"].iter().find_map(|kind| letters.strip_prefix(kind));
    let opted_out = is(&OPTED_OUT_WORDS)
        || letters == "notsubscribed"
        || OPTED_OUT.iter().any(|word| stem.unwrap_or(&letters).starts_with(word));
    let number = word.parse::<f64>().ok();
    match about {
        About::Subscribed if yes || subscribed => Word::Yes,
        About::Subscribed if no || opted_out => Word::No,
        About::OptedOut if yes || opted_out || number.is_some_and(|n| n > 0.0) => Word::No,
        About::OptedOut if no || subscribed || number == Some(0.0) => Word::Nothing,
        About::TimeOfOptOut if no => Word::Nothing,
        About::TimeOfOptOut => Word::No,
        About::Status | About::State if opted_out => Word::No,
        About::Status if subscribed || yes => Word::Yes,
        About::Nothing | About::State => Word::Nothing,
        _ => Word::Unreadable,
    }
}

/// What opts out, as part of a column's name and as the beginning of a value.
const OPTED_OUT: [&str; 17] = [
    "abbestellt",
    "abgemeldet",
    "abmeldung",
    "desabonn",
    "désabonn",
    "widerspruch",
    "optout",
    "optedout",
    "unsub",
    "suppress",
    "blocklist",
    "blocked",
    "blacklist",
    "bounce",
    "complain",
    "spam",
    "cleaned",
];

/// What a column of this name is about.
fn about(column: &str) -> About {
    // As a value, `don't know` is something else.
    const OPTED_OUT_PARTS: [&str; 4] = ["donot", "dont", "noemail", "nomail"];
    // As the whole name: `deleted_items` is something else.
    const OPTED_OUT_NAMES: [&str; 5] = ["dnc", "inactive", "deleted", "removed", "disabled"];
    const SUBSCRIBED: [&str; 10] = [
        "canemail",
        "einwilligung",
        "emailallowed",
        "optin",
        "optedin",
        "subscribed",
        "consent",
        "permission",
        "acceptsemail",
        "acceptsmarketing",
    ];
    // `newsletter_url` is something else.
    const SUBSCRIBED_ENDS: [&str; 8] = [
        "newsletter",
        "newsletters",
        "marketing",
        "marketingemail",
        "marketingemails",
        "subscribe",
        "subscription",
        "gdpr",
    ];
    const TIMES: [&str; 6] = ["at", "on", "date", "time", "when", "reason"];
    const OTHERS: [&str; 10] =
        ["url", "link", "token", "id", "key", "hash", "code", "source", "type", "group"];
    let name = compact(column);
    let (lower, whole) = (column.to_lowercase(), name.strip_prefix("is").unwrap_or(&name));
    let last = lower.rsplit(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
    let ends = |words: &[&str]| last.is_some_and(|last| words.contains(&last));
    if ends(&OTHERS) {
        return About::Nothing;
    }
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    if has(&OPTED_OUT) || has(&OPTED_OUT_PARTS) || OPTED_OUT_NAMES.contains(&whole) {
        return match () {
            () if name.contains("status") => About::Status,
            () if ends(&TIMES) || name.ends_with("date") || column.ends_with("At") => {
                About::TimeOfOptOut
            }
            () => About::OptedOut,
        };
    }
    let is_subscribed = has(&SUBSCRIBED)
        || SUBSCRIBED_ENDS.iter().any(|end| name.ends_with(end))
        || whole == "active";
    match () {
        () if name.contains("status") => About::Status,
        () if name == "state" => About::State,
        () if is_subscribed && !ends(&TIMES) && !column.ends_with("At") => About::Subscribed,
        () => About::Nothing,
    }
}

/// The letters and digits of a name, in lower case.
pub fn compact(name: &str) -> String {
    name.to_lowercase().chars().filter(|letter| letter.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judge(fields: &[(&str, Value)]) -> Subscribed {
        let fields = fields.iter().map(|(name, value)| (Arc::from(*name), value.clone()));
        OptOuts::default().judge(&Record { number: 2, fields: fields.collect(), problem: None })
    }

    fn opts_out(column: &str, value: &str) -> Option<bool> {
        match judge(&[("subscribed", json!("yes")), (column, json!(value))]) {
            Subscribed::No(by) => {
                assert_eq!(&*by, column);
                Some(true)
            }
            Subscribed::Yes => Some(false),
            _ => None,
        }
    }

    #[test]
    fn columns_are_recognized_by_their_names() {
        for column in [
            "Unsubscribed",
            "Opt out",
            "opted_out",
            "Unsub",
            "do not email",
            "suppressed",
            "bounced",
            "complained",
            "Hard Bounces",
            "is_spam",
            "blocked",
            "DNC",
            "inactive",
            "is_deleted",
        ] {
            assert_eq!(about(column), About::OptedOut, "{column}");
        }
        for column in
            ["unsubscribed_at", "bounced on", "Opt-out date", "unsubscribedAt", "bounce_reason"]
        {
            assert_eq!(about(column), About::TimeOfOptOut, "{column}");
        }
        for column in [
            "subscribed",
            "is_subscribed",
            "Subscribed?",
            "Opted-In",
            "opt_in",
            "email_permission",
            "Accepts Marketing",
            "newsletter",
            "Wants newsletter",
            "email marketing",
            "Subscribe",
            "marketing_emails",
            "is active",
        ] {
            assert_eq!(about(column), About::Subscribed, "{column}");
        }
        for column in ["status", "Member status", "bounce_status"] {
            assert_eq!(about(column), About::Status, "{column}");
        }
        for column in [
            "newsletter_url",
            "city",
            "plan",
            "marketing_source",
            "last_active",
            "deleted_items",
            "subscriber_id",
            "unsubscribe_link",
            "unsub token",
            "Subscribed on",
            "subscribed_at",
            "subscribedAt",
        ] {
            assert_eq!(about(column), About::Nothing, "{column}");
        }
    }

    #[test]
    fn any_one_column_that_opts_out_is_enough_and_what_cannot_be_read_is_unclear() {
        for value in ["yes", "x", "on", "✓", "ja", "opted out", "bounced", "TRUE", "1", "3"] {
            assert_eq!(opts_out("unsubscribed", value), Some(true), "{value}");
        }
        for value in ["", "no", "0", "false", "subscribed", "-"] {
            assert_eq!(opts_out("unsubscribed", value), Some(false), "{value}");
        }
        for value in ["2026-01-02", "maybe", "?"] {
            assert_eq!(opts_out("unsubscribed", value), None, "{value}");
        }
        for (column, value) in [
            ("unsubscribed_at", "2026-01-02"),
            ("unsubscribed_at", "x"),
            ("status", "Unsubscribed"),
            ("status", "cleaned"),
            ("status", "Opted out"),
            ("status", "complained"),
            ("State", "bounced"),
            ("opt_in", "no"),
            ("newsletter", "unsubscribed"),
        ] {
            assert_eq!(opts_out(column, value), Some(true), "{column} {value}");
        }
        for (column, value) in [("State", "NY"), ("bounced_at", ""), ("status", "active")] {
            assert_eq!(opts_out(column, value), Some(false), "{column} {value}");
        }
        assert_eq!(judge(&[("subscribed", json!("yes"))]), Subscribed::Yes);
        assert_eq!(judge(&[("subscribed", json!(false))]), Subscribed::No("subscribed".into()));
        assert_eq!(judge(&[("bounced", json!(0))]), Subscribed::Unsaid);
        let both = [("Subscribed", json!("no")), ("subscribed", json!("yes"))];
        assert_eq!(judge(&both), Subscribed::No("Subscribed".into()));
    }

    #[test]
    fn words_of_a_status_that_are_not_known_are_kept_for_the_question() {
        let mut rule = OptOuts::default();
        let fields = |word: &str| {
            let fields = vec![(Arc::from("status"), json!(word))];
            Record { number: 2, fields, problem: None }
        };
        assert_eq!(rule.judge(&fields("trial")), Subscribed::Unsaid);
        assert_eq!(OptOuts::default().judge(&fields("don't know")), Subscribed::Unsaid);
        assert_eq!(rule.unknown_words.first().map(String::as_str), Some("status: trial"));
        let mut rule = OptOuts::default();
        rule.choose("status", About::Nothing);
        assert_eq!(rule.judge(&fields("bounced")), Subscribed::Unsaid);
    }
}
