//! Times in any form of ISO 8601: a year, month, week or day, with or without a time, in the basic or the
//! extended format. A date means its start.

use chrono::{DateTime, Days, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};

/// A time, which may lack a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iso8601 {
    pub local: NaiveDateTime,
    pub offset: Option<FixedOffset>,
}

impl Iso8601 {
    /// `None` if the text is in no form of ISO 8601.
    pub fn parse(text: &str) -> Option<Self> {
        let Some((date, rest)) = text.trim().split_once(['T', 't', ' ']) else {
            let local = date(text.trim())?.and_time(NaiveTime::MIN);
            return Some(Self {
                local,
                offset: None,
            });
        };
        let (time, offset) = split_zone(rest)?;
        Some(Self {
            local: at(self::date(date)?, time)?,
            offset,
        })
    }

    /// The instant, if there is a zone.
    pub fn instant(self) -> Option<DateTime<FixedOffset>> {
        self.local.and_local_timezone(self.offset?).single()
    }
}

/// The text with `0` in place of each digit.
fn shape(text: &str) -> String {
    let of = |c: char| if c.is_ascii_digit() { '0' } else { c };
    text.chars().map(of).collect::<String>().to_uppercase()
}

fn date(text: &str) -> Option<NaiveDate> {
    // What is left out is the first.
    let (whole, format) = match shape(text).as_str() {
        "0000" => (format!("{text}-01-01"), "%Y-%m-%d"),
        "0000-00" => (format!("{text}-01"), "%Y-%m-%d"),
        "0000-00-00" => (text.to_owned(), "%Y-%m-%d"),
        "00000000" => (text.to_owned(), "%Y%m%d"),
        "0000-000" => (text.to_owned(), "%Y-%j"),
        "0000000" => (text.to_owned(), "%Y%j"),
        "0000-W00" => (format!("{text}-1"), "%G-W%V-%u"),
        "0000-W00-0" => (text.to_owned(), "%G-W%V-%u"),
        "0000W00" => (format!("{text}1"), "%GW%V%u"),
        "0000W000" => (text.to_owned(), "%GW%V%u"),
        _ => return None,
    };
    NaiveDate::parse_from_str(&whole.to_uppercase(), format).ok()
}

/// Splits `09:00+01:00` into time and zone.
fn split_zone(text: &str) -> Option<(&str, Option<FixedOffset>)> {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return Some((time.trim_end(), FixedOffset::east_opt(0)));
    }
    // A minus may be the sign of mathematics, as the standard recommends.
    let Some(at) = text.find(['+', '-', '\u{2212}']) else {
        return Some((text, None));
    };

    let (time, zone) = text.split_at(at);
    let sign = if zone.starts_with('+') { 1 } else { -1 };
    let digits = zone
        .trim_start_matches(['+', '-', '\u{2212}'])
        .replace(':', "");
    let (hours, minutes) = match digits.len() {
        2 => (digits.as_str(), "0"),
        4 => digits.split_at(2),
        _ => return None,
    };
    let hours = number(hours)?;
    let minutes = number(minutes)?;
    if minutes >= 60 {
        return None;
    }

    let offset = FixedOffset::east_opt(sign * (hours * 3600 + minutes * 60))?;
    Some((time.trim_end(), Some(offset)))
}

/// A time of the day: hours, with minutes and seconds or without, of which the last may have a
/// fraction. `24:00` is the end of the day.
fn at(date: NaiveDate, time: &str) -> Option<NaiveDateTime> {
    let (whole, fraction) = match time.split_once(['.', ',']) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (time, None),
    };
    if !matches!(
        shape(whole).as_str(),
        "00" | "00:00" | "0000" | "00:00:00" | "000000"
    ) {
        return None;
    }

    let digits = whole.replace(':', "");
    let part = |start: usize| digits.get(start..start + 2).map_or(Some(0), number);
    let hours = part(0)?;
    let minutes = part(2)?;
    let seconds = part(4)?;
    let unit = match digits.len() {
        2 => 3600,
        4 => 60,
        _ => 1,
    };
    let of_day = i64::from(hours * 3600 + minutes * 60 + seconds);
    if hours > 24 || minutes > 59 || seconds > 60 || (hours == 24 && of_day > 86_400) {
        return None;
    }

    let mut time = TimeDelta::seconds(of_day);
    if let Some(fraction) = fraction {
        if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let part = format!("0.{fraction}").parse::<f64>().ok()?;
        time += TimeDelta::milliseconds((part * f64::from(unit) * 1000.0) as i64);
    }

    let days = Days::new(u64::try_from(time.num_days()).ok()?);
    let rest = time - TimeDelta::days(time.num_days());
    let day = date.checked_add_days(days)?.and_time(NaiveTime::MIN);
    day.checked_add_signed(rest)
}

fn number(digits: &str) -> Option<i32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        for (text, expected) in [
            ("2026-11-01", "2026-11-01T00:00:00"),
            ("20261101", "2026-11-01T00:00:00"),
            ("2026-11", "2026-11-01T00:00:00"),
            ("2026", "2026-01-01T00:00:00"),
            ("2026-305", "2026-11-01T00:00:00"),
            ("2026305", "2026-11-01T00:00:00"),
            ("2026-W44-7", "2026-11-01T00:00:00"),
            ("2026w447", "2026-11-01T00:00:00"),
            ("2026-W45", "2026-11-02T00:00:00"),
            ("2026-11-01T09", "2026-11-01T09:00:00"),
            ("2026-11-01T09:00", "2026-11-01T09:00:00"),
            ("2026-11-01 09:00", "2026-11-01T09:00:00"),
            ("20261101T0900", "2026-11-01T09:00:00"),
            ("20261101T090030", "2026-11-01T09:00:30"),
            ("2026-11-01T09:00:30,5", "2026-11-01T09:00:30.500"),
            ("2026-11-01T09:30.5", "2026-11-01T09:30:30"),
            ("2026-11-01T09.5", "2026-11-01T09:30:00"),
            ("2026-11-01T24:00", "2026-11-02T00:00:00"),
            ("2026-11-01T09:00Z", "2026-11-01T09:00:00+00:00"),
            ("2026-11-01t09:00z", "2026-11-01T09:00:00+00:00"),
            ("2026-11-01T09:00+01:00", "2026-11-01T09:00:00+01:00"),
            ("2026-11-01T09:00+0100", "2026-11-01T09:00:00+01:00"),
            ("2026-11-01 09:00 +01", "2026-11-01T09:00:00+01:00"),
            ("20261101T0900-0530", "2026-11-01T09:00:00-05:30"),
            ("2026-11-01T09:00\u{2212}05:00", "2026-11-01T09:00:00-05:00"),
        ] {
            let time = Iso8601::parse(text).unwrap_or_else(|| panic!("{text}"));
            let shown = match time.offset {
                Some(_) => time.instant().map(|instant| instant.to_rfc3339()),
                None => Some(format!("{:?}", time.local)),
            };
            assert_eq!(shown.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "soon",
            "tomorrow",
            "2026-13-01",
            "2026-02-30",
            "2026-W54-1",
            "2026-11-01T25:00",
            "2026-11-01T24:01",
            "2026-11-01T9:00",
            "2026-11-01 9am",
            "2026-11-01T09:00+1",
            "2026-11-01T09:60",
            "2026-11-01T09:00:00.",
            "2026-1-1",
            "01.11.2026",
            "11/01/2026",
        ] {
            assert_eq!(Iso8601::parse(text), None, "{text}");
        }
    }
}
