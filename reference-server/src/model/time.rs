//! Timestamps: integer milliseconds internally, ISO 8601 in requests, RFC 3339 with
//! milliseconds and `Z` in responses (`docs/undocumented/README.md#timestamps`).

use chrono::{DateTime, NaiveDate, NaiveTime, SecondsFormat};

/// Milliseconds since 1970-01-01T00:00:00Z.
pub(crate) type Millis = i64;

const DAY: i64 = 86_400_000;

/// 0000-01-01T00:00:00.000Z to 9999-12-31T23:59:59.999Z: RFC 3339 has four digits for
/// the year.
const REPRESENTABLE: std::ops::RangeInclusive<Millis> = -719_528 * DAY..=2_932_897 * DAY - 1;

/// Whether RFC 3339 can represent this time.
pub(crate) fn is_representable(at: Millis) -> bool {
    REPRESENTABLE.contains(&at)
}

/// Formats a time as RFC 3339, such as `2026-11-21T08:00:00.000Z`.
pub(crate) fn rfc3339(at: Millis) -> String {
    let at = DateTime::from_timestamp_millis(at).unwrap_or_default();
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Parses an ISO 8601 date and time with offset or `Z`, or a date (midnight UTC).
pub(crate) fn parse(text: &str) -> Option<Millis> {
    let (day, rest) = text.split_at_checked(10)?;
    let date = NaiveDate::parse_from_str(day, "%Y-%m-%d").ok()?;
    // chrono also accepts fewer digits, and white space.
    if date.to_string() != day {
        return None;
    }
    if rest.is_empty() {
        return Some(date.and_time(NaiveTime::MIN).and_utc().timestamp_millis());
    }

    let time = rest.strip_prefix(['T', 't', ' '])?.replace(',', ".");
    let is_digit = |position: usize| {
        time.as_bytes()
            .get(position)
            .is_some_and(u8::is_ascii_digit)
    };

    if !is_digit(0) || !is_digit(1) {
        return None;
    }

    let text = format!("{day} {time}");
    let read = |format| DateTime::parse_from_str(&text, format).ok();
    let at = ["%F %H:%M:%S%.f%#z", "%F %H:%M%#z"]
        .into_iter()
        .find_map(read)?
        .timestamp_millis();
    // The offset may move the time out of the years 0000 to 9999.
    is_representable(at).then_some(at)
}

/// Writes a duration for [`parse_duration`].
pub(crate) fn duration_text(duration: std::time::Duration) -> String {
    // A part of a millisecond counts as a whole one: no wait is shorter than asked for.
    format!("{}ms", duration.as_nanos().div_ceil(1_000_000))
}

/// Parses a duration: a number with the unit `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn parse_duration(text: &str) -> Option<Millis> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => DAY,
        _ => return None,
    };
    if let Ok(whole) = number.parse::<i64>() {
        return whole.checked_mul(factor).filter(|ms| *ms <= MAX_DURATION);
    }

    let ms = number.parse::<f64>().ok()? * factor as f64;
    (ms.is_finite() && ms <= MAX_DURATION as f64).then_some(ms.round() as i64)
}

/// A thousand years. Keeps every sum of times far from overflow.
const MAX_DURATION: i64 = 365_000 * DAY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_times() {
        for (text, formatted) in [
            ("2026-11-21T08:00:00Z", "2026-11-21T08:00:00.000Z"),
            ("2026-11-21T08:00:00.1239+02:00", "2026-11-21T06:00:00.123Z"),
            ("2026-11-21 08:00-0330", "2026-11-21T11:30:00.000Z"),
            ("2026-11-21T23:00+01", "2026-11-21T22:00:00.000Z"),
            ("2024-02-29", "2024-02-29T00:00:00.000Z"),
            ("1969-12-31T23:59:59,5Z", "1969-12-31T23:59:59.500Z"),
            ("0001-01-01", "0001-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(
                parse(text).map(rfc3339).as_deref(),
                Some(formatted),
                "{text}"
            );
        }
    }

    #[test]
    fn rejects_invalid_times() {
        for text in [
            "",
            "tomorrow",
            "2026-11-21T08:00:00",
            "2026-13-01",
            "2026-02-29",
            "2026-11-31T08:00:00Z",
            "2026-11-21T25:00:00Z",
            "2026-11-21T08:60:00Z",
            "2026-11-21T08:00:00Zx",
            "20261121",
            "2026-11-21T08:00:00.Z",
            "2026-11-21T08:00:00+99:00",
            "1732176000",
            "2026-11-21T24:00:01Z",
            "9999-12-31T23:59:59-00:01",
            "0000-01-01T00:00:00+00:01",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn durations_require_a_unit() {
        for (text, ms) in [
            ("90s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            ("250ms", Some(250)),
            ("1d", Some(DAY)),
            ("0s", Some(0)),
            ("2m", Some(120_000)),
            ("90", None),
            ("-1s", None),
            ("s", None),
            ("1w", None),
            ("99999999999999d", None),
            ("1.2.3s", None),
        ] {
            assert_eq!(parse_duration(text), ms, "{text}");
        }
    }
}
