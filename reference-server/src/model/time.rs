//! Timestamps: integer milliseconds internally, ISO 8601 in requests, RFC 3339 with
//! milliseconds and `Z` in responses (`docs/undocumented/both-services.md#timestamps`).

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
    let (year, month, day) = civil_from_days(at.div_euclid(DAY));
    let ms = at.rem_euclid(DAY);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

/// Parses an ISO 8601 date and time with offset or `Z`, or a date (midnight UTC).
pub(crate) fn parse(text: &str) -> Option<Millis> {
    let mut rest = Scanner(text.as_bytes());
    let (year, month, day) =
        (rest.digits(4)?, rest.byte(b'-')?.digits(2)?, rest.byte(b'-')?.digits(2)?);
    if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
        return None;
    }
    let midnight = days_from_civil(year, month, day) * DAY;
    if rest.0.is_empty() {
        return Some(midnight);
    }
    if !matches!(rest.next()?, b'T' | b't' | b' ') {
        return None;
    }
    let (hour, minute) = (rest.digits(2)?, rest.byte(b':')?.digits(2)?);
    let mut ms = hour * 3_600_000 + minute * 60_000;
    let mut second = 0;
    if rest.0.first() == Some(&b':') {
        second = rest.byte(b':')?.digits(2)?;
        ms += second * 1000;
        if matches!(rest.0.first(), Some(b'.' | b',')) {
            rest.next();
            ms += rest.fraction()?;
        }
    }
    // ISO 8601: 24:00:00 and leap seconds denote the next instant.
    let whole_day = hour == 24 && ms == 24 * 3_600_000;
    if !(whole_day || hour < 24) || minute > 59 || second > 60 {
        return None;
    }
    let offset = match rest.next()? {
        b'Z' | b'z' => 0,
        sign @ (b'+' | b'-') => {
            let hours = rest.digits(2)?;
            if rest.0.first() == Some(&b':') {
                rest.next();
            }
            let minutes = if rest.0.is_empty() { 0 } else { rest.digits(2)? };
            if hours > 23 || minutes > 59 {
                return None;
            }
            let size = hours * 3_600_000 + minutes * 60_000;
            if sign == b'+' { size } else { -size }
        }
        _ => return None,
    };
    // The offset may move the time out of the years 0000 to 9999.
    let at = midnight + ms - offset;
    (rest.0.is_empty() && is_representable(at)).then_some(at)
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

struct Scanner<'a>(&'a [u8]);

impl Scanner<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self, expected: u8) -> Option<&mut Self> {
        (self.next()? == expected).then_some(self)
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let mut value = 0;
        for _ in 0..count {
            let digit = self.next()?;
            if !digit.is_ascii_digit() {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
        }
        Some(value)
    }

    /// Reads the digits after the decimal point, truncated to milliseconds.
    fn fraction(&mut self) -> Option<i64> {
        let (mut value, mut unit) = (0, 100);
        let mut has_digit = false;
        while let Some(digit) = self.0.first().filter(|byte| byte.is_ascii_digit()) {
            value += i64::from(digit - b'0') * unit;
            unit /= 10;
            has_digit = true;
            self.next();
        }
        has_digit.then_some(value)
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

// Howard Hinnant's algorithms on the proleptic Gregorian calendar.

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

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
            ("2026-12-31T24:00:00Z", "2027-01-01T00:00:00.000Z"),
            ("0001-01-01", "0001-01-01T00:00:00.000Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(parse(text).map(rfc3339).as_deref(), Some(formatted), "{text}");
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
