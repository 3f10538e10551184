//! Parses the times of `--at`, `--since` and `--after`: ISO 8601, a day, an offset such as `+2h`, or
//! words such as `tomorrow 9am`.

use chrono::{
    DateTime, Datelike as _, Days, FixedOffset, LocalResult, NaiveDate, NaiveDateTime, NaiveTime,
    TimeDelta, TimeZone, Weekday,
};

use super::duration;
use super::iso8601::Iso8601;

const FORMATS: &str = "use ISO 8601 (2026-12-01T09:00+01:00), a day (2026-12-01, tomorrow), `tomorrow 9am`, `friday 14:00`, `+2h` or `1d ago`; the longest offset is 36525d; months and years are not supported, `m` means minutes";

/// The direction of an offset without a sign, such as `2h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From now on: `--at 2h`.
    Future,
    /// Before now: `--since 2h`.
    Past,
}

/// Parses an instant. Words are relative to the date and time zone of `now`. A day without a time
/// means its start.
pub fn parse<Z: TimeZone>(
    text: &str,
    now: &DateTime<Z>,
    direction: Direction,
) -> Result<DateTime<FixedOffset>, String> {
    let text = text.trim();
    if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
        return Ok(instant);
    }
    if let Some(time) = Iso8601::parse(text) {
        let instant = match time.offset {
            Some(_) => time.instant(),
            None => resolve(time.local, now),
        };
        return instant.map_or_else(|| Err(skipped(text)), |instant| in_range(text, instant));
    }

    let words = text
        .split_whitespace()
        .filter(|word| !word.eq_ignore_ascii_case("at"));
    let mut words = words.collect::<Vec<_>>();
    // `next thursday` is the one that comes, as `thursday` is.
    if let [next, day, ..] = words[..]
        && direction == Direction::Future
        && next.eq_ignore_ascii_case("next")
        && day.parse::<Weekday>().is_ok()
    {
        words.remove(0);
    }

    let lowercase = words
        .iter()
        .map(|word| word.to_lowercase())
        .collect::<Vec<_>>();
    let lowercase = lowercase.iter().map(String::as_str).collect::<Vec<_>>();
    let instant = match calendar_time(&lowercase, now, direction) {
        Some(local) => resolve(local, now).ok_or_else(|| skipped(text))?,
        None => {
            let offset = relative(&words, direction);
            let offset = offset.ok_or_else(|| format!("`{text}` is not a time: {FORMATS}"))?;
            (now.clone() + offset).fixed_offset()
        }
    };
    in_range(text, instant)
}

fn skipped(text: &str) -> String {
    format!("`{text}` does not exist in this time zone: the clock skips it")
}

/// RFC 3339 has years of four digits.
fn in_range(text: &str, instant: DateTime<FixedOffset>) -> Result<DateTime<FixedOffset>, String> {
    match instant.naive_utc().year() {
        0..=9999 => Ok(instant),
        _ => Err(format!("`{text}` is not in the years 0 to 9999")),
    }
}

/// `now`, `2h`, `+2h`, `-2h`, `in 30 minutes`, `2 days ago`. The units keep their case, because `M`
/// is not `m`.
fn relative(words: &[&str], direction: Direction) -> Option<TimeDelta> {
    let is = |word: &str, expected: &str| word.eq_ignore_ascii_case(expected);
    let (words, sign) = match words {
        [now] if is(now, "now") => return Some(TimeDelta::zero()),
        [first, rest @ ..] if is(first, "in") => (rest, 1),
        [rest @ .., last] if is(last, "ago") => (rest, -1),
        _ => (words, if direction == Direction::Past { -1 } else { 1 }),
    };
    let text = match words {
        [count, unit @ ..] if !unit.is_empty() => {
            format!("{} {}", in_digits(count), unit.join(" "))
        }
        _ => words.join(" "),
    };
    let (text, sign) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (rest, 1),
        (_, Some(rest)) => (rest, -1),
        _ => (text.as_str(), sign),
    };
    Some(TimeDelta::from_std(duration::read(text)?).ok()? * sign)
}

/// A number that is written as a word, such as `two`.
fn in_digits(word: &str) -> String {
    const NUMBERS: [&str; 12] = [
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    let is = |name: &str| word.eq_ignore_ascii_case(name);
    match NUMBERS.iter().zip(1..).find(|(name, _)| is(name)) {
        Some((_, number)) => number.to_string(),
        None if is("a") || is("an") => "1".to_owned(),
        // It may have a unit, whose case counts.
        None => word.to_owned(),
    }
}

/// A time of day with an optional day. A time or a weekday alone means its next occurrence, or the
/// last one for a time in the past.
fn calendar_time<Z: TimeZone>(
    words: &[&str],
    now: &DateTime<Z>,
    direction: Direction,
) -> Option<NaiveDateTime> {
    let today = now.date_naive();
    if let [time] = words
        && let Some(time) = time_of_day(time)
    {
        let is_later = resolve(today.and_time(time), now).is_some_and(|instant| instant > *now);
        let day = match (direction, is_later) {
            (Direction::Future, true) | (Direction::Past, false) => today,
            (Direction::Future, false) => today.checked_add_days(Days::new(1))?,
            (Direction::Past, true) => today.checked_sub_days(Days::new(1))?,
        };
        return Some(day.and_time(time));
    }
    if let [day] = words
        && let Some(day) = day_of(day, today, direction)
    {
        return Some(day.and_time(NaiveTime::MIN));
    }

    let (day, time) = match words {
        [day, time] => (*day, (*time).to_owned()),
        [day, time, half @ ("am" | "pm")] => (*day, format!("{time}{half}")),
        [both] => {
            let (day, time) = both.split_once('t')?;
            (day, time.to_owned())
        }
        _ => return None,
    };
    Some(day_of(day, today, direction)?.and_time(time_of_day(&time)?))
}

fn day_of(word: &str, today: NaiveDate, direction: Direction) -> Option<NaiveDate> {
    match word {
        "today" => Some(today),
        "tomorrow" => today.checked_add_days(Days::new(1)),
        "yesterday" => today.checked_sub_days(Days::new(1)),
        _ => {
            if let Ok(weekday) = word.parse::<Weekday>() {
                let today_is = chrono::Datelike::weekday(&today);
                if direction == Direction::Past {
                    let ago = today_is.days_since(weekday);
                    return today.checked_sub_days(Days::new(u64::from(ago)));
                }
                let ahead = weekday.days_since(today_is);
                let ahead = if ahead == 0 { 7 } else { ahead };
                return today.checked_add_days(Days::new(u64::from(ahead)));
            }
            NaiveDate::parse_from_str(word, "%Y-%m-%d").ok()
        }
    }
}

/// `9am`, `9:30pm`, `14:00`.
fn time_of_day(word: &str) -> Option<NaiveTime> {
    let half = word.len() - word.trim_end_matches(['a', 'p', 'm']).len();
    let (clock, half) = word.split_at(word.len() - half);
    let minutes = if half.is_empty() || clock.contains(':') {
        ""
    } else {
        ":00"
    };
    let word = format!("{clock}{minutes}{half}");
    let formats = ["%H:%M", "%H:%M:%S", "%I:%M%p", "%I:%M:%S%p"];
    formats
        .iter()
        .find_map(|format| NaiveTime::parse_from_str(&word, format).ok())
}

/// The instant of a local time. A time that occurs twice when the clock is set back means the
/// first occurrence; a time that the clock skips is `None`.
fn resolve<Z: TimeZone>(local: NaiveDateTime, now: &DateTime<Z>) -> Option<DateTime<FixedOffset>> {
    let zone = now.timezone();
    let candidates = match zone.from_local_datetime(&local) {
        LocalResult::Single(instant) => vec![instant],
        LocalResult::Ambiguous(one, other) => vec![one, other],
        LocalResult::None => Vec::new(),
    };
    // chrono returns the candidates in any order, and around a transition also a wrong one.
    let is_local = |instant: &DateTime<Z>| instant.with_timezone(&zone).naive_local() == local;
    candidates
        .into_iter()
        .filter(is_local)
        .min()
        .map(|instant| instant.fixed_offset())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> String {
        // A Saturday, 10:30 in a zone two hours ahead.
        let now = DateTime::parse_from_rfc3339("2026-11-21T10:30:00+02:00").expect("a time");
        parse(text, &now, Direction::Future)
            .map_or_else(|error| error, |instant| instant.to_rfc3339())
    }

    #[test]
    fn instants_keep_their_offset() {
        assert_eq!(at("2026-12-01T09:00:00Z"), "2026-12-01T09:00:00+00:00");
        assert_eq!(at("2026-12-01T09:00:00-05:00"), "2026-12-01T09:00:00-05:00");
    }

    #[test]
    fn other_forms_of_iso_8601_are_read_in_the_local_time_zone() {
        assert_eq!(at("2026-12-01T09:00Z"), "2026-12-01T09:00:00+00:00");
        assert_eq!(at("20261201T0900+0100"), "2026-12-01T09:00:00+01:00");
        assert_eq!(at("2026-W49-2T09"), "2026-12-01T09:00:00+02:00");
        assert_eq!(at("2026-12"), "2026-12-01T00:00:00+02:00");
    }

    #[test]
    fn relative_times_start_now() {
        assert_eq!(at("+2h"), "2026-11-21T12:30:00+02:00");
        assert_eq!(at("in 30 minutes"), "2026-11-21T11:00:00+02:00");
        assert_eq!(at("in 2 weeks"), "2026-12-05T10:30:00+02:00");
        assert_eq!(at("In 1h 30 Min"), "2026-11-21T12:00:00+02:00");
        assert_eq!(at("in two hours"), "2026-11-21T12:30:00+02:00");
        assert_eq!(at("in an hour"), "2026-11-21T11:30:00+02:00");
    }

    #[test]
    fn an_offset_without_a_sign_has_the_direction_of_the_option() {
        let now = DateTime::parse_from_rfc3339("2026-11-21T10:30:00+02:00").expect("a time");
        let past = |text| {
            parse(text, &now, Direction::Past)
                .expect("a time")
                .to_rfc3339()
        };

        assert_eq!(past("1d"), "2026-11-20T10:30:00+02:00");
        assert_eq!(past("+1w"), "2026-11-28T10:30:00+02:00");
        assert_eq!(past("2 hours ago"), "2026-11-21T08:30:00+02:00");
        assert_eq!(past("9am"), "2026-11-21T09:00:00+02:00");
        assert_eq!(past("11:00"), "2026-11-20T11:00:00+02:00");
        assert_eq!(past("friday 9am"), "2026-11-20T09:00:00+02:00");
        assert_eq!(past("saturday"), "2026-11-21T00:00:00+02:00");
        assert_eq!(past("yesterday"), "2026-11-20T00:00:00+02:00");
        assert_eq!(at("1d"), "2026-11-22T10:30:00+02:00");
        assert_eq!(at("+1w"), "2026-11-28T10:30:00+02:00");
        assert_eq!(at("-1h"), "2026-11-21T09:30:00+02:00");
    }

    #[test]
    fn a_day_means_its_start() {
        assert_eq!(at("tomorrow"), "2026-11-22T00:00:00+02:00");
        assert_eq!(at("2026-12-01"), "2026-12-01T00:00:00+02:00");
        assert_eq!(at("monday"), "2026-11-23T00:00:00+02:00");
        assert_eq!(at("today"), "2026-11-21T00:00:00+02:00");
    }

    #[test]
    fn words_use_the_local_calendar() {
        assert_eq!(at("tomorrow 9am"), "2026-11-22T09:00:00+02:00");
        assert_eq!(at("Tomorrow at 9:15 pm"), "2026-11-22T21:15:00+02:00");
        assert_eq!(at("monday 14:00"), "2026-11-23T14:00:00+02:00");
        assert_eq!(at("next monday"), "2026-11-23T00:00:00+02:00");
        assert_eq!(at("Next Thursday at 9am"), "2026-11-26T09:00:00+02:00");
        assert_eq!(at("saturday 12pm"), "2026-11-28T12:00:00+02:00");
        assert_eq!(at("2026-12-24 18:00"), "2026-12-24T18:00:00+02:00");
        assert_eq!(at("2026-12-24T18:00"), "2026-12-24T18:00:00+02:00");
        assert_eq!(at("12am"), "2026-11-22T00:00:00+02:00");
    }

    #[test]
    fn a_time_alone_is_its_next_occurrence() {
        assert_eq!(at("11:00"), "2026-11-21T11:00:00+02:00");
        assert_eq!(at("9am"), "2026-11-22T09:00:00+02:00");
    }

    #[test]
    fn a_time_has_the_units_and_the_limit_of_a_duration() {
        for (text, problem) in [
            (
                "1M",
                "months and years are not supported, `m` means minutes",
            ),
            (
                "in 2 months",
                "months and years are not supported, `m` means minutes",
            ),
            ("9999999w", "the longest offset is 36525d"),
        ] {
            assert!(at(text).contains(problem), "{text}: {}", at(text));
        }
    }

    #[test]
    fn errors_list_the_accepted_formats() {
        for text in [
            "",
            "soon",
            "25:00",
            "13pm",
            "tomorrow 25",
            "9",
            "2026-13-01 09:00",
            "+",
        ] {
            assert!(at(text).contains("tomorrow 9am"), "{text}: {}", at(text));
        }
        let far = at("+99999-01-01 9am");
        assert!(far.contains("is not in the years 0 to 9999"), "{far}");
    }
}
