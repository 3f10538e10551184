//! Who has opted out, according to the columns of a file: one rule for bulk sending and imports. The
//! table of columns and words is in `docs/guides/bulk-sending.md#opt-outs`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::records::Record;
use crate::context::Context;
use crate::failure::Failure;
use crate::prepared::confirm;

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
    /// Only words that opt out count: the others are mostly a part of a postal address.
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
    /// A column with a value that cannot be read.
    unreadable: Option<Arc<str>>,
    /// Whether a column about a state has opted out somebody.
    is_read_from_state: bool,
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
        self.is_told |= columns
            .iter()
            .any(|column| self.about(column) == About::Subscribed);
    }

    /// What a column is about, by what the user says of it or by its name.
    pub fn about(&self, column: &str) -> About {
        self.columns
            .get(column)
            .copied()
            .unwrap_or_else(|| about(column))
    }

    /// Judges a record. Any one column that opts out is enough.
    pub fn judge(&mut self, record: &Record) -> Subscribed {
        let (mut yes, mut no, mut unclear, mut is_blank) = (None, None, None, false);
        for (column, value) in &record.fields {
            let about = *self
                .columns
                .entry(Arc::clone(column))
                .or_insert_with(|| about(column));
            if about == About::Nothing {
                continue;
            }
            self.is_told |= about == About::Subscribed && !value.is_null();
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            match read(about, &text) {
                Word::Nothing => is_blank |= about == About::Subscribed,
                Word::Yes => yes = yes.or(Some(column)),
                Word::No => {
                    self.is_read_from_state |= about == About::State;
                    no = no.or(Some(column));
                }
                Word::Unreadable if about == About::Status => {
                    let word = text.trim().chars().take(40).collect::<String>();
                    if self.unknown_words.len() < 100 {
                        self.unknown_words.insert(format!("{column}: {word}"));
                    }
                }
                Word::Unreadable => {
                    self.unreadable.get_or_insert_with(|| Arc::clone(column));
                    let problem = format!("the value of `{column}` must be yes or no");
                    unclear = unclear.or(Some(problem));
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
            (.., Some(_)) if !is_blank => match &record.problem {
                Some(problem) => Subscribed::Unclear(problem.clone()),
                None => Subscribed::Yes,
            },
            _ => Subscribed::Unsaid,
        }
    }

    /// Which columns say who has opted out, once all records are read.
    pub fn describe(&self) -> String {
        let is_address = |about: &About| *about == About::State && !self.is_read_from_state;
        let is_read = |about: &About| *about != About::Nothing && !is_address(about);
        let columns = self.columns.iter().filter(|(_, about)| is_read(about));
        let mut columns = columns
            .map(|(column, _)| format!("`{column}`"))
            .collect::<Vec<_>>();
        columns.sort_unstable();
        match columns.is_empty() {
            true => "no column says who has opted out; name one with --opt-out".to_owned(),
            false => {
                format!(
                    "who has opted out is read from {}{}",
                    columns.join(", "),
                    self.hint()
                )
            }
        }
    }

    /// What to do about a column that cannot be read, once all records are.
    pub fn hint(&self) -> String {
        let hint = |column| format!("; if `{column}` says something else: {}", ignore(column));
        self.unreadable.as_deref().map(hint).unwrap_or_default()
    }

    /// The option by which a column that opts out decides.
    pub fn keep(&self, column: &str) -> String {
        match self.about(column) {
            About::Subscribed => format!("--column '{column}=subscribed'"),
            About::Status | About::State => format!("--column '{column}=status'"),
            _ => format!("--opt-out '{column}'"),
        }
    }

    /// Asks about words of a status that are not known, once all records are read.
    pub async fn ask_about_unknown_words(&self, context: &Context) -> Result<(), Failure> {
        let Some(first) = self.unknown_words.first() else {
            return Ok(());
        };
        let column = first.split(": ").next().unwrap_or_default();
        let shown = self
            .unknown_words
            .iter()
            .take(5)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        let more = if self.unknown_words.len() > 5 {
            ", …"
        } else {
            ""
        };
        let problem = format!("words that may say who has opted out are not known: {shown}{more}");
        if context.out.can_ask() && !context.settings.yes && !context.settings.dry_run {
            let question = format!("{problem}. Are people with these words subscribed?");
            return confirm(context, &question).await;
        }
        Err(Failure::input(problem).code("opt_outs_unclear").hint(format!(
            "if these people are subscribed: --column '{column}=status', which leaves out only \
             `unsubscribed`, `bounced` and the like\nif not, add a column `unsubscribed` with yes or \
             no\nif this column says something else: {}",
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

/// Whether one of the words of a list is so.
fn any(list: &str, is: impl Fn(&str) -> bool) -> bool {
    list.split_whitespace().any(is)
}

fn read(about: About, text: &str) -> Word {
    const YES: &str = "true t yes y 1 x on ✓ ✔ ✅ ☑ ja j oui si sí ok wahr vrai verdadero vero";
    const NO: &str = "false f no n 0 off - nein non never none falsch faux falso";
    const EMPTY: &str = "null n/a #n/a na nan nil \\n 0000-00-00";
    const SUBSCRIBED: &str = "subscribed active confirmed optedin optin enabled valid \
        aktiv abonniert angemeldet inscrit";
    const OPTED_OUT_WORDS: &str =
        "inactive inaktiv disabled deleted removed donotcontact donotemail";
    let word = text.trim().to_lowercase();
    let word = word.strip_suffix(" 00:00:00").unwrap_or(&word);
    if word.is_empty() || any(EMPTY, |empty| empty == word) {
        return Word::Nothing;
    }
    let letters = compact(word);
    let is = |list| any(list, |it| it == word || it == letters);
    // `-1` is none of them.
    let (yes, no) = (any(YES, |yes| yes == word), any(NO, |no| no == word));
    let subscribed = is(SUBSCRIBED);
    let stem = ["hard", "soft"]
        .iter()
        .find_map(|kind| letters.strip_prefix(kind));
    let negated = ["not", "non", "nicht"]
        .iter()
        .find_map(|not| letters.strip_prefix(not));
    let opted_out = is(OPTED_OUT_WORDS)
        || negated.is_some_and(|rest| any(SUBSCRIBED, |word| word == rest))
        || any(OPTED_OUT, |word| stem.unwrap_or(&letters).starts_with(word));
    let number = word.parse::<f64>().ok();
    let mut digits = word
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty());
    let is_date = digits.clone().count() >= 3 || digits.any(|part| part.len() == 4);
    match about {
        About::Subscribed if yes || subscribed => Word::Yes,
        About::Subscribed if no || opted_out => Word::No,
        About::OptedOut if yes || opted_out || number.is_some_and(|n| n > 0.0) => Word::No,
        About::OptedOut if no || subscribed || number == Some(0.0) => Word::Nothing,
        About::OptedOut if is_date && number.is_none() => Word::No,
        About::TimeOfOptOut if no => Word::Nothing,
        About::TimeOfOptOut => Word::No,
        About::Status | About::State if opted_out => Word::No,
        About::Status if subscribed || yes => Word::Yes,
        About::Nothing | About::State => Word::Nothing,
        _ => Word::Unreadable,
    }
}

/// What opts out, as part of a column's name and as the beginning of a value.
const OPTED_OUT: &str = "abbestellt abgemeldet abmeld desabonn désabonn desinscri désinscri \
    disiscri uitgeschreven widerspruch widerruf gesperrt sperre optout optedout unsub suppress \
    blocklist blocked blacklist bounce complain spam cleaned deactiv";

/// What a column of this name is about.
fn about(column: &str) -> About {
    // As a value, `don't know` is something else.
    const OPTED_OUT_PARTS: &str = "donot dont cleantime";
    // `casino_email` is something else.
    const OPTED_OUT_STARTS: &str = "noemail nomail nospam";
    // As the whole name: `deleted_items` is something else.
    const OPTED_OUT_NAMES: &str = "dnc inactive deleted removed disabled emaildisabled baja";
    const SUBSCRIBED: &str = "canemail einwilligung emailallowed optin optedin subscribed consent \
        permission acceptsemail acceptsmarketing angemeldet abonniert abonné inscrit";
    // `newsletter_url` is something else.
    const SUBSCRIBED_ENDS: &str = "newsletter newsletters marketing marketingemail \
        marketingemails subscribe subscription gdpr werbung";
    const SUBSCRIBED_NAMES: &str = "active enabled emailenabled subscriber";
    // As the first word, they turn the meaning round. A number of bounces is not `no bounces`.
    const NOT: &str = "not non nicht";
    const NO: &str = "no nein never without kein keine keinen ohne sans geen";
    const JOINED: &str =
        "nonsubscribed notsubscribed nonewsletter nomarketing nooptin noconsent keinnewsletter";
    // As the last word.
    const WITHDRAWN: &str = "withdr revok denied declin refus expired";
    // As in `Newsletter (yes/no)`: the name has the values, too.
    const VALUES: &str = "yes y ja j oui o si sí s true t n f or oder ou granted given erteilt";
    const TIMES: &str = "at on date time when reason type am le datum";
    const TIMES_FIRST: &str = "date datum last when fecha";
    const OTHERS: &str = "url link token id key hash code source ip group";
    const NUMBERS: &str = "no nr number";
    let mut words = words(column);
    if words.len() > 1 && words[0] == "is" {
        words.remove(0);
    }
    let name = words.concat();
    let has = |parts: &str| any(parts, |part| name.contains(part));
    let has_word = |list: &str| any(list, |it| words.iter().any(|word| word == it));
    let is_last = |list: &str| any(list, |it| words.last().is_some_and(|last| last == it));
    let is_first = |list: &str| any(list, |it| words.first().is_some_and(|first| first == it));
    let begins = |list: &str, at| {
        any(list, |it| {
            words
                .get(at)
                .is_some_and(|word: &String| word.starts_with(it))
        })
    };
    let has_values = has_word(VALUES);
    if is_last(OTHERS)
        || (words.len() > 1 && is_last(NUMBERS) && !has_values)
        || (has_word("sms") && !has("mail newsletter"))
    {
        return About::Nothing;
    }
    let starts = (0..words.len()).map(|at| words[at..].concat());
    let is_own = |word: &&String| {
        ![NOT, NO, VALUES, TIMES, TIMES_FIRST, "de"]
            .iter()
            .any(|list| any(list, |it| it == *word))
    };
    let whole = words
        .iter()
        .filter(is_own)
        .map(String::as_str)
        .collect::<String>();
    let mut untimed = words
        .iter()
        .rev()
        .skip_while(|word| any(TIMES, |it| it == *word));
    let is_withdrawn = !has_values
        && untimed
            .next()
            .is_some_and(|word| any(WITHDRAWN, |it| word.starts_with(it)));
    let is_opted_out = has(OPTED_OUT) || any(OPTED_OUT_NAMES, |it| whole == it);
    let is_subscribed = has(SUBSCRIBED)
        || any(SUBSCRIBED_ENDS, |end| whole.ends_with(end))
        || any(SUBSCRIBED_NAMES, |it| whole == it)
        || (is_withdrawn && has(SUBSCRIBED_ENDS));
    let opts_out = match () {
        () if has(OPTED_OUT_PARTS) => Some(true),
        () if starts
            .into_iter()
            .any(|rest| any(OPTED_OUT_STARTS, |it| rest.starts_with(it))) =>
        {
            Some(true)
        }
        () if is_opted_out => Some(!(is_first(NOT) && begins(OPTED_OUT, 1))),
        () if is_subscribed => {
            Some(is_first(NOT) || is_first(NO) || has_word(JOINED) || is_withdrawn)
        }
        () => None,
    };
    let is_time = is_last(TIMES) || is_first(TIMES_FIRST);
    match opts_out {
        _ if name == "state" => About::State,
        _ if name.contains("status") => About::Status,
        Some(true) if is_time || any("date datum", |end| name.ends_with(end)) => {
            About::TimeOfOptOut
        }
        Some(true) => About::OptedOut,
        Some(false) if !is_time => About::Subscribed,
        _ => About::Nothing,
    }
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
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// The letters and digits of a name, in lower case.
pub fn compact(name: &str) -> String {
    name.to_lowercase()
        .chars()
        .filter(|letter| letter.is_alphanumeric())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judge(fields: &[(&str, Value)]) -> Subscribed {
        let fields = fields
            .iter()
            .map(|(name, value)| (Arc::from(*name), value.clone()));
        OptOuts::default().judge(&Record {
            number: 2,
            fields: fields.collect(),
            problem: None,
        })
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
            "no_newsletter",
            "noNewsletter",
            "nonewsletter",
            "not_subscribed",
            "nonsubscribed",
            "kein Newsletter",
            "Keine Werbung",
            "No marketing",
            "no_consent",
            "consent_withdrawn",
            "marketing revoked",
            "Newsletter denied",
            "not active",
            "email_disabled",
            "deactivated",
            "Werbesperre",
            "Gesperrt",
            "désinscrit",
            "Baja",
            "uitgeschreven",
            "disiscritto",
            "Email and SMS opt-out",
            "Bounced (not delivered)",
            "Not delivered (bounced)",
            "Abgemeldet (nicht mehr schreiben)",
            "Opted out of SMS and newsletter",
            "Opt-Out Bounces_msg",
            "No longer subscribed",
        ] {
            assert_eq!(about(column), About::OptedOut, "{column}");
        }
        for column in [
            "unsubscribed_at",
            "bounced on",
            "Opt-out date",
            "unsubscribedAt",
            "bounce_reason",
        ]
        .into_iter()
        .chain([
            "CLEAN_TIME",
            "deleted_at",
            "Bounce Type",
            "Abmeldedatum",
            "Abgemeldet am",
        ])
        .chain([
            "Widerrufen am",
            "Désabonné le",
            "Date unsubscribed",
            "last_bounce",
        ])
        .chain(["Fecha de baja", "consent_withdrawn_at"])
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
            "Newsletter (yes/no)",
            "not_unsubscribed",
            "Subscriber",
            "angemeldet",
            "Abonniert",
            "inscrit",
            "enabled",
            "Newsletter (J/N)",
            "Opt-in (J/N)",
            "Einwilligung J/N",
            "Consent O/N",
            "Consentement (oui/non)",
            "Permission (s/n)",
            "subscribed_t_n",
            "subscribed_or_not",
            "Einwilligung (nicht) erteilt",
            "Consent granted/denied",
            "optin_product_update",
            "Consent to update",
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
            "OPTIN_IP",
            "SMS_BLACKLISTED",
            "Accepts SMS Marketing",
            "Subscriber Email",
            "Casino",
            "Angemeldet am",
            "Subscriber No",
            "Newsletter No.",
            "Casino email",
        ] {
            assert_eq!(about(column), About::Nothing, "{column}");
        }
    }

    #[test]
    fn any_one_column_that_opts_out_is_enough_and_what_cannot_be_read_is_unclear() {
        for value in [
            "yes",
            "x",
            "on",
            "✓",
            "ja",
            "opted out",
            "bounced",
            "TRUE",
            "1",
            "3",
        ] {
            assert_eq!(opts_out("unsubscribed", value), Some(true), "{value}");
        }
        for value in ["2026-01-02", "02.01.2026", "3 Jan 2026", "WAHR", "vrai"] {
            assert_eq!(opts_out("unsubscribed", value), Some(true), "{value}");
        }
        for value in [
            "",
            "no",
            "0",
            "false",
            "subscribed",
            "-",
            "FALSCH",
            "NULL",
            "n/a",
        ] {
            assert_eq!(opts_out("unsubscribed", value), Some(false), "{value}");
        }
        for value in ["maybe", "?"] {
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
            ("no_newsletter", "yes"),
            ("Bounce Type", "Hard"),
            ("status", "nicht abonniert"),
            ("status", "non-subscribed"),
        ] {
            assert_eq!(opts_out(column, value), Some(true), "{column} {value}");
        }
        for (column, value) in [
            ("State", "NY"),
            ("bounced_at", ""),
            ("status", "active"),
            ("Status", "aktiv"),
            ("no_newsletter", "no"),
            ("unsubscribed_at", "NULL"),
            ("unsubscribed_at", "0000-00-00 00:00:00"),
        ] {
            assert_eq!(opts_out(column, value), Some(false), "{column} {value}");
        }
        assert_eq!(judge(&[("subscribed", json!("yes"))]), Subscribed::Yes);
        assert_eq!(
            judge(&[("subscribed", json!(false))]),
            Subscribed::No("subscribed".into())
        );
        assert_eq!(judge(&[("bounced", json!(0))]), Subscribed::Unsaid);
        let blank = [("newsletter", json!("")), ("status", json!("active"))];
        assert_eq!(judge(&blank), Subscribed::Unsaid);
        let both = [("Subscribed", json!("no")), ("subscribed", json!("yes"))];
        assert_eq!(judge(&both), Subscribed::No("Subscribed".into()));
    }

    #[test]
    fn words_of_a_status_that_are_not_known_are_kept_for_the_question() {
        let mut rule = OptOuts::default();
        let fields = |word: &str| {
            let fields = vec![(Arc::from("status"), json!(word))];
            Record {
                number: 2,
                fields,
                problem: None,
            }
        };
        assert_eq!(rule.judge(&fields("trial")), Subscribed::Unsaid);
        assert_eq!(
            OptOuts::default().judge(&fields("don't know")),
            Subscribed::Unsaid
        );
        assert_eq!(
            rule.unknown_words.first().map(String::as_str),
            Some("status: trial")
        );
        let mut rule = OptOuts::default();
        rule.choose("status", About::Nothing);
        assert_eq!(rule.judge(&fields("bounced")), Subscribed::Unsaid);
    }
}
