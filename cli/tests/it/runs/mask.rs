//! Replaces values that differ between runs by fixed ones of the same length, so that the columns of
//! tables stay aligned.

use std::cell::RefCell;
use std::collections::HashMap;

use chrono::{DateTime, FixedOffset, TimeDelta, TimeZone as _, Utc};
use regex_lite::{Captures, Regex};

/// The replacements. Equal values get equal replacements in all outputs of a run.
pub struct Mask {
    now: DateTime<Utc>,
    literals: Vec<(String, String)>,
    ports: Vec<(String, &'static str)>,
    seen: HashMap<String, String>,
    numbers: HashMap<String, usize>,
}

impl Mask {
    /// A mask for a server whose clock is frozen at `now`.
    pub fn new(now: DateTime<Utc>) -> Self {
        Self {
            now,
            literals: Vec::new(),
            ports: Vec::new(),
            seen: HashMap::new(),
            numbers: HashMap::new(),
        }
    }

    /// Forgets the values of earlier outputs, so that numbering starts again.
    pub fn forget(&mut self) {
        self.seen.clear();
        self.numbers.clear();
    }

    /// Replaces a known text, padded to its length.
    pub fn literally(&mut self, text: &str, shown: &str) {
        self.literals.push((
            text.to_owned(),
            format!("{shown:_<width$}", width = text.len()),
        ));
    }

    /// Replaces a known text of another length on every machine.
    pub fn shortened(&mut self, text: &str, shown: &str) {
        self.literals.push((text.to_owned(), shown.to_owned()));
    }

    /// Replaces a port by a fixed one.
    pub fn port(&mut self, port: &str, shown: &'static str) {
        self.ports.push((port.to_owned(), shown));
    }

    /// The replacement of a port. Unknown ports were picked by the command.
    fn any_port(&self, port: &str) -> String {
        let known = self.ports.iter().find(|(known, _)| known == port);
        format!("127.0.0.1:{}", known.map_or("45000", |(_, shown)| shown))
    }

    pub fn apply(&mut self, text: &str) -> String {
        let mut text = without_progress(text);
        for (from, to) in &self.literals {
            text = text.replace(from, to);
        }

        let text = each(&text, TIME, |found| match found.get(1) {
            // An example in a message.
            Some(_) => found[0].to_owned(),
            None => self.time(&found[0]),
        });
        let text = each(&text, SHORT_TIME, |found| {
            format!("2026-01-05 09:00{}", &found[1])
        });
        // These times are of this machine's clock.
        let text = each(&text, RECEIVED, |found| {
            let zone = if found[2].ends_with('Z') {
                "T09:00:00.000Z"
            } else {
                " 09:00:00 +00:00"
            };
            format!("{}2026-01-05{zone}", &found[1])
        });
        let text = each(&text, TIME_OF_DAY, |_| "09:00:00  ".to_owned());
        let text = each(&text, TODAY, |_| "(2026-01-05 +00:00)".to_owned());
        let text = each(&text, ID, |found| self.numbered(&found[1], &found[2]));
        let text = each(&text, SHORTENED_ID, |_| "0000…0001".to_owned());
        let text = each(&text, JOB, |found| {
            self.numbered("20260105-090000-", &found[1])
        });
        let text = each(&text, RECORD, |found| self.numbered("rec_", &found[1]));
        let text = each(&text, SECRET, |found| self.numbered(&found[1], &found[2]));
        let text = each(&text, PUBLIC_KEY, |_| "MII…".to_owned());
        let text = each(&text, SELECTOR, |_| "svc00000000._domainkey".to_owned());
        let text = each(&text, DOMAIN, |_| "0000abcd.test".to_owned());
        let text = each(&text, DATE, |_| "Mon, 5 Jan 2026 09:00:00 +0000".to_owned());
        // The size depends on the number of digits of the date.
        let text = each(&text, SIZE, |found| format!("{}1209", &found[1]));
        let text = each(&text, SIGNED, |found| {
            format!("{}…{}", &found[1], &found[2])
        });
        let text = each(&text, BOUNDARY, |_| "=_alternative_0".to_owned());
        let text = each(&text, PORT, |found| self.any_port(&found[1]));
        let text = each(&text, MILLISECONDS, |found| {
            format!("{}7{}", &found[1], &found[2])
        });
        let text = each(&text, DURATION, |found| format!("{}7", &found[1]));
        let text = each(&text, LAST_COLUMN, |found| {
            format!("{}{:>width$}", &found[1], 7, width = found[2].len())
        });
        let text = each(&text, ATTEMPT, |found| {
            format!(
                "{}{:<width$}{}",
                &found[1],
                7,
                &found[3],
                width = found[2].len()
            )
        });
        let text = each(&text, VERSION, |found| format!("{}0.0.0", &found[1]));
        let text = each(&text, TARGET, |found| format!("{}x86_64-linux", &found[1]));
        // Escape characters are made visible and harmless.
        text.replace('\u{1b}', "␛")
            .replace('\r', "␍")
            .replace('\u{7}', "␇")
    }

    /// Numbers values in order of appearance; equal values get the same number.
    fn numbered(&mut self, prefix: &str, text: &str) -> String {
        let whole = format!("{prefix}{text}");
        if let Some(shown) = self.seen.get(&whole) {
            return shown.clone();
        }

        let number = self.numbers.entry(prefix.to_owned()).or_default();
        *number += 1;
        let mut digits = number.to_string();
        let shape = text.chars().rev().map(|c| match c {
            '-' => '-',
            _ => digits.pop().unwrap_or('0'),
        });
        let shape = shape
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<String>();
        let shown = format!("{prefix}{shape}");
        self.seen.insert(whole, shown.clone());
        shown
    }

    /// Moves a time near the run to a fixed date. The distance between two times is kept, to the minute
    /// or to the quarter of an hour.
    fn time(&self, text: &str) -> String {
        let (layout, parsed) = match DateTime::parse_from_rfc3339(text) {
            Ok(time) if text.contains('T') => (layout_of(text), time),
            _ => match DateTime::parse_from_str(text, TABLE) {
                Ok(time) => (TABLE.to_owned(), time),
                Err(_) => return text.to_owned(),
            },
        };
        let past = parsed.to_utc() - self.now;
        if past.abs() > TimeDelta::days(40) {
            return text.to_owned();
        }

        // Times hours ahead depend on this machine's clock at the moment of the run.
        let (step, around) = if past > TimeDelta::hours(1) {
            (15, 450)
        } else {
            (1, 30)
        };
        let minutes = (past + TimeDelta::seconds(around))
            .num_seconds()
            .div_euclid(60 * step)
            * step;
        let fixed = Utc
            .with_ymd_and_hms(2026, 1, 5, 9, 0, 0)
            .single()
            .expect("a time");
        let moved =
            (fixed + TimeDelta::minutes(minutes)).with_timezone::<FixedOffset>(parsed.offset());
        let moved = moved.format(&layout).to_string();
        if text.ends_with('Z') {
            moved.replace("+00:00", "Z")
        } else {
            moved
        }
    }
}

/// A time in a column that is too narrow for the seconds.
const SHORT_TIME: &str = r"(?m)\d{4}-\d\d-\d\d \d\d:\d\d( |$)";
const TIME: &str = r"(RFC 3339 \()?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| ?[+-]\d\d:\d\d)";
const TABLE: &str = "%Y-%m-%d %H:%M:%S %:z";
const DATE: &str =
    r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (\+0000|GMT)";
/// The time at which `svc listen` received a delivery.
const RECEIVED: &str = r#"(?m)^(\{"at":"|)(\d{4}-\d\d-\d\d(?:T[\d:.]+Z| [\d:]+ \+00:00))"#;
/// The same on a terminal, where only the first line has the date.
const TIME_OF_DAY: &str = r"(?m)^\d\d:\d\d:\d\d  ";
const TODAY: &str = r"\(\d{4}-\d\d-\d\d \+00:00\)";
const SIZE: &str = r#"("size": ?|Size(?:\x1b\[22m)? +)\d+"#;
/// An ID in a table that is too narrow for it.
const SHORTENED_ID: &str = "[0-9a-f]{4}…[0-9a-f]{4}";
const ID: &str =
    r"\b((?:[a-z]{3}_)?)([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b";
/// A job of `svc bulk`.
const JOB: &str = r"\b\d{8}-\d{6}-([0-9a-f]{8})\b";
const RECORD: &str = r"\brec_([0-9a-f]{32})\b";
const SECRET: &str = r"\b(whsec_|mk_test_|sk_test_|sk_live_|sha256=|)([0-9a-f]{24,})\b";
const PUBLIC_KEY: &str = r#"\bMII[A-Za-z0-9+/=]{60,}(?:\\?" ?\\?"[A-Za-z0-9+/=]+)?"#;
/// The domain of a new organization.
const DOMAIN: &str = r"\b[0-9a-f]{8}\.test\b";
const SELECTOR: &str = r"\bsvc[0-9a-f]{8}\._domainkey";
/// A DKIM signature, in JSON and in a table.
const SIGNED: &str = r#"(v=1; a=rsa-sha256)[^"]*?(", "|",|"\n|, From=|\n)"#;
const BOUNDARY: &str = "=_alternative_[0-9a-f]{24}";
/// A port that was picked, or that of SMTP, which is another one if it is taken.
const PORT: &str = r"\b127\.0\.0\.1:(\d{5}|1025)\b";
const MILLISECONDS: &str = r"( in )[\d.]+( ms)";
const DURATION: &str = r#"("duration_ms": ?|"durationMs": ?|"ahead": ?|(?:Duration ms|Ahead)(?:\x1b\[22m)? +)-?[\d.]+"#;
/// Milliseconds at the end of a table row, after a status.
const LAST_COLUMN: &str = r"(?m)( (?:\x1b\[32m)?200(?:\x1b\[39m)?)( +\d+)$";
/// The same in the table of a delivery's attempts.
const ATTEMPT: &str = r"(\+00:00  )(\d+ +)(http)";
const TARGET: &str = r#"("target": ?")[a-z0-9_]+-(?:linux|macos|windows)"#;
const VERSION: &str = r#"((?:svc|server)[ /]|"version": ?"|Version(?:\x1b\[22m)? +)\d+\.\d+\.\d+"#;

fn layout_of(text: &str) -> String {
    let digits = text.split_once('.').map_or(0, |(_, rest)| {
        rest.chars().take_while(char::is_ascii_digit).count()
    });
    match digits {
        0 => "%Y-%m-%dT%H:%M:%S%:z".to_owned(),
        digits => format!("%Y-%m-%dT%H:%M:%S.{}%:z", "0".repeat(digits)),
    }
}

/// Removes the frames of the progress indicator, which appear only on a slow machine.
fn without_progress(text: &str) -> String {
    each(
        text,
        "\r\u{1b}\\[2K([⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] [^\r\n]*)?",
        |_| String::new(),
    )
}

fn each(text: &str, pattern: &'static str, shown: impl FnMut(&Captures<'_>) -> String) -> String {
    thread_local! {
        /// Compiled patterns: compiling takes longer than most replacements.
        static COMPILED: RefCell<HashMap<&'static str, Regex>> = RefCell::default();
    }
    COMPILED.with_borrow_mut(|compiled| {
        let regex = compiled
            .entry(pattern)
            .or_insert_with(|| Regex::new(pattern).expect("a pattern"));
        regex.replace_all(text, shown).into_owned()
    })
}
