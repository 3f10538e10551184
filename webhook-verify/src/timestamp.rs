//! Timestamps and ISO 8601 parsing, without a dependency on a clock.

use core::time::Duration;

use chrono::{NaiveDate, NaiveTime};

/// A point in time, in milliseconds since the Unix epoch.
///
/// Used by [`Delivery::created_at`](crate::Delivery::created_at) and
/// [`Delivery::check_age`](crate::Delivery::check_age). Without the feature
/// `std` the crate has no clock, so the caller provides the current time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from milliseconds since the Unix epoch.
    pub const fn from_unix_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_unix_millis(self) -> i64 {
        self.0
    }

    /// The current time of the system clock.
    #[cfg(feature = "std")]
    pub fn now() -> Self {
        // The clock of std panics in a browser.
        #[cfg(all(target_family = "wasm", target_os = "unknown"))]
        let since_epoch = web_time::SystemTime::now().duration_since(web_time::UNIX_EPOCH);
        #[cfg(all(target_family = "wasm", target_os = "unknown"))]
        let now = std::time::UNIX_EPOCH + since_epoch.unwrap_or_default();
        #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
        let now = std::time::SystemTime::now();
        now.into()
    }

    /// Parses an ISO 8601 date-time such as `2026-03-01T09:30:00.250Z`, with
    /// millisecond precision. Returns `None` if the text is not one.
    ///
    /// A date-time without an offset is taken as UTC
    /// (`docs/undocumented/both-services.md#timestamps`). The seconds can be
    /// missing, because Java omits them if they are zero, and so can the minutes
    /// of the offset, because PostgreSQL omits them.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.split_once(['T', 't', ' '])?;
        let (time, offset_minutes) = split_offset(time)?;
        let local = parse_date(date)?.and_time(parse_time(time)?).and_utc();
        Some(Self(local.timestamp_millis() - offset_minutes * 60_000))
    }

    /// The time since `earlier`, or zero if `earlier` is later.
    pub(crate) fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

#[cfg(feature = "std")]
impl From<std::time::SystemTime> for Timestamp {
    fn from(time: std::time::SystemTime) -> Self {
        let millis = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        match time.duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => Self(millis(after)),
            Err(before) => Self(-millis(before.duration())),
        }
    }
}

/// The age of a verified delivery is unknown or outside the allowed range: respond 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgeError {
    /// `created` is missing or not a date-time.
    #[error("the creation time of the delivery is missing or unreadable")]
    Unknown,
    /// The delivery was created longer ago than the maximum age.
    #[error("the delivery is too old")]
    TooOld,
    /// The delivery was created further in the future than the maximum age, so
    /// the sender's or the receiver's clock is wrong.
    #[error("the delivery was created in the future")]
    InTheFuture,
}

// The format is more lenient than chrono's RFC 3339 parser (optional seconds and
// offsets) and stricter than its format strings (fixed widths, no signs or spaces), so
// the text is split here and chrono only validates and converts the numbers.

fn parse_date(date: &str) -> Option<NaiveDate> {
    let (year, rest) = date.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let year = i32::try_from(digits(year, 4)?).ok()?;
    NaiveDate::from_ymd_opt(year, digits(month, 2)?, digits(day, 2)?)
}

/// Splits a time into the time without its offset, and the offset in minutes.
fn split_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(utc) = time.strip_suffix(['Z', 'z']) {
        return Some((utc, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (time, offset) = time.split_at(at);
    let (sign, offset) = offset.split_at(1);
    let (hours, minutes) = match offset.split_once(':') {
        Some(parts) => parts,
        None if offset.len() == 2 => (offset, "00"),
        None => offset.split_at_checked(2)?,
    };
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let total = i64::from(hours * 60 + minutes);
    Some((time, if sign == "-" { -total } else { total }))
}

fn parse_time(time: &str) -> Option<NaiveTime> {
    let (hour, rest) = time.split_once(':')?;
    let (minute, second) = rest.split_once(':').unwrap_or((rest, "00"));
    let (second, millis) = match second.split_once(['.', ',']) {
        Some((second, fraction)) => (second, parse_millis(fraction)?),
        None => (second, 0),
    };
    let (hour, minute) = (digits(hour, 2)?, digits(minute, 2)?);
    match digits(second, 2)? {
        // chrono represents a leap second as second 59 with 1000 or more milliseconds.
        60 => NaiveTime::from_hms_milli_opt(hour, minute, 59, 1000 + millis),
        second => NaiveTime::from_hms_milli_opt(hour, minute, second, millis),
    }
}

/// The first three digits of a fraction of a second.
fn parse_millis(fraction: &str) -> Option<u32> {
    if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = fraction.bytes().chain(core::iter::repeat(b'0')).take(3);
    Some(digits.fold(0, |millis, digit| millis * 10 + u32::from(digit - b'0')))
}

fn digits(text: &str, width: usize) -> Option<u32> {
    let well_formed = text.len() == width && text.bytes().all(|b| b.is_ascii_digit());
    well_formed.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_date_times() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01t00:00:00.5z", 500),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2026-03-01T09:30:00.250Z", 1_772_357_400_250),
            ("2026-03-01T09:30:00.2509999Z", 1_772_357_400_250),
            ("2026-03-01 09:30:00", 1_772_357_400_000),
            ("2026-03-01T11:30:00+02:00", 1_772_357_400_000),
            ("2026-03-01T04:00:00-0530", 1_772_357_400_000),
            ("2026-03-01 09:30:00.25+00", 1_772_357_400_250),
            ("2026-03-01T11:30+02:00", 1_772_357_400_000),
            ("2026-03-01T09:30Z", 1_772_357_400_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ] {
            assert_eq!(Timestamp::parse(text), Some(Timestamp(millis)), "{text}");
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn converts_from_system_time() {
        use std::time::{SystemTime, UNIX_EPOCH};

        let second_and_a_half = Duration::from_millis(1500);
        assert_eq!(Timestamp::from(UNIX_EPOCH + second_and_a_half), Timestamp(1500));
        assert_eq!(Timestamp::from(UNIX_EPOCH - second_and_a_half), Timestamp(-1500));
        let (before, now, after) = (SystemTime::now(), Timestamp::now(), SystemTime::now());
        // The system clock may be set back between the calls.
        assert!(before > after || (before.into()..=after.into()).contains(&now));
    }

    #[test]
    fn rejects_invalid_date_times() {
        for text in [
            "",
            "T",
            "2026-03-01",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2026-03-01T24:00:00Z",
            "2026-03-01T00:60:00Z",
            "2026-03-01T00:00:61Z",
            "2026-03-01T00Z",
            "2026-03-01T00:00.5Z",
            "2026-03-01T00:00:Z",
            "2026-03-01T00:00:00:00Z",
            "2026-03-01T00:00:00.Z",
            "2026-03-01T00:00:00+",
            "2026-03-01T00:00:00+1",
            "2026-03-01T00:00:00+02:",
            "2026-03-01T00:00:00+020",
            "2026-03-01T00:00:00+24:00",
            "2026-03-01T00:00:00+02:60",
            "2026-03-01T00:00:00 Z",
            "26-03-01T00:00:00Z",
            "+026-03-01T00:00:00Z",
            "２０２６-03-01T00:00:00Z",
            "2026-03-01T00:00:00+ü",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
