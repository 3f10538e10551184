//! Parses durations: `500ms`, `30s`, `1h30m`, `2 days`, `1w`. Times relative to now use the same
//! grammar (`input/at.rs`).

use std::time::Duration;

/// The units with their names, each in milliseconds. Capitals are accepted, except `M`.
const UNITS: [(&[&str], u64); 6] = [
    (&["ms", "millisecond", "milliseconds"], 1),
    (&["s", "sec", "secs", "second", "seconds"], SECOND),
    (&["m", "min", "mins", "minute", "minutes"], 60 * SECOND),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600 * SECOND),
    (&["d", "day", "days"], DAY),
    (&["w", "week", "weeks"], 7 * DAY),
];
const SECOND: u64 = 1_000;
const DAY: u64 = 86_400 * SECOND;

/// The longest duration, in milliseconds: a time this far from now still has a year of four digits.
const MAX: u64 = 36_525 * DAY;

const GRAMMAR: &str = "use whole numbers with ms, s, m, h, d or w, such as 500ms, 30s, 5m or 1h30m; months and years are not supported, `m` means minutes";

/// Parses a duration, as clap's `value_parser`. A `+` before it is allowed, as in times.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    read(text.strip_prefix('+').unwrap_or(text))
        .ok_or_else(|| format!("`{text}` is not a duration up to 36525d: {GRAMMAR}"))
}

/// Like [`parse`], for a time limit: without any time, nothing could be done.
pub fn parse_limit(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err(format!(
            "`{text}` leaves no time for a request: use 30s, for example"
        )),
        limit => Ok(limit),
    }
}

/// Checks a time limit.
pub fn limit(text: &str) -> Result<String, String> {
    parse_limit(text).map(|_| text.trim().to_owned())
}

/// Reads a duration without a sign. Months and years have no fixed length.
pub(super) fn read(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = (!rest.is_empty()).then_some(0_u64)?;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number = rest[..digits].parse::<u64>().ok()?;
        let tail = rest[digits..].trim_start();
        let letters = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let lowercase = unit.to_lowercase();
        // A capital `M` is a month to some, and a minute to others.
        let known = UNITS
            .iter()
            .find(|(names, _)| unit != "M" && names.contains(&&*lowercase));
        let added = number.checked_mul(known?.1)?;
        total = added.checked_add(total).filter(|total| *total <= MAX)?;
        rest = tail.trim_start();
    }
    Some(Duration::from_millis(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("+1w"), parse("7d"));
        assert_eq!(parse("2d"), Ok(Duration::from_secs(172_800)));
        for text in ["1h30m", "1h 30m", "1 h 30 m", "90Min", " 5400 S "] {
            assert_eq!(parse(text), Ok(Duration::from_secs(5400)), "{text}");
        }
    }

    #[test]
    fn errors_show_examples() {
        for text in [
            "", "5", "h", "-1s", "1.5s", "5x", "1h30", "an", "++1s", "1,5h",
        ] {
            assert!(
                parse(text).is_err_and(|error| error.contains("1h30m")),
                "{text}"
            );
        }
    }

    #[test]
    fn months_and_years_have_no_fixed_length() {
        for text in ["1M", "1 M", "1h5M", "1mo", "2 Months", "5y", "1year"] {
            assert!(
                parse(text)
                    .is_err_and(|error| error.contains("months and years are not supported")),
                "{text}"
            );
        }
    }

    #[test]
    fn the_longest_duration_is_100_years() {
        assert!(parse("36525d").is_ok());
        for text in ["36525d1ms", "9999999w", "99999999999999999999s"] {
            let error = parse(text).expect_err(text);
            assert!(
                error.contains("not a duration up to 36525d"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_time_limit_is_longer_than_zero() {
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        assert!(parse_limit("0s").is_err_and(|error| error.contains("`0s` leaves no time")));
        assert_eq!(parse_limit("1ms"), Ok(Duration::from_millis(1)));
    }
}
