//! Reads from the headers of a response how long the service asks to wait: `Retry-After`, or after
//! a 429 the headers that announce limits. Dates are compared with the `Date` of the same response,
//! if it has one, so that a wrong local clock does not matter. A value that cannot be read is
//! ignored, and the client backs off by itself. The wait is in `engine/pauses.rs`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// Reads `Retry-After`, else of a 429 the headers with which services announce their limits. What
/// cannot be read says nothing: the client then backs off by itself.
pub(super) fn retry_after(headers: &HeaderMap, is_limited: bool) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    // Compare with the service's own clock if the response contains it.
    let date = header(DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok());
    let now = date.unwrap_or_else(SystemTime::now);
    if let Some(pause) = header(RETRY_AFTER.as_str()).and_then(|text| parse(text, now)) {
        return Some(pause);
    }
    if !is_limited {
        return None;
    }

    let structured = || header("ratelimit").and_then(reset_parameter);
    const RESETS: [&str; 4] = [
        "ratelimit-reset",
        "x-ratelimit-reset",
        "x-rate-limit-reset",
        "x-ratelimit-reset-requests",
    ];

    structured().or_else(|| {
        let mut resets = RESETS.iter().filter_map(|name| header(name));
        resets.find_map(|text| reset(text, now))
    })
}

/// `Retry-After`: seconds, also with a unit, or an HTTP date (RFC 9110 §10.2.3).
fn parse(text: &str, now: SystemTime) -> Option<Duration> {
    if let Some(pause) = seconds(text).or_else(|| with_unit(text)) {
        return Some(pause);
    }
    let at = httpdate::parse_http_date(text).ok()?;
    // A date in the past means no wait.
    Some(at.duration_since(now).unwrap_or_default())
}

fn seconds(text: &str) -> Option<Duration> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A number that overflows means practically forever.
    Some(Duration::from_secs(
        text.parse().unwrap_or(u64::from(u32::MAX)),
    ))
}

/// Go's form of a duration: `1s`, `250ms`, `1m30s`.
fn with_unit(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|letter: char| !letter.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let unit = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()?;
        total = total.checked_add(part)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// A number of seconds from now, or a time: seconds or milliseconds since 1970.
fn reset(text: &str, now: SystemTime) -> Option<Duration> {
    /// Larger numbers are times.
    const LONGEST: u64 = 100_000_000;
    const FIRST_MILLISECONDS: u64 = 100_000_000_000;

    // Some write fractions.
    let whole = text.split('.').next().unwrap_or_default();
    let Some(number) = seconds(whole) else {
        return parse(text, now);
    };

    let at = match number.as_secs() {
        ..LONGEST => return Some(number),
        FIRST_MILLISECONDS.. => Duration::from_millis(number.as_secs()),
        _ => number,
    };
    let at = UNIX_EPOCH.checked_add(at)?;
    Some(at.duration_since(now).unwrap_or_default())
}

/// `RateLimit: "default";r=0;t=1`, and the older `limit=10, remaining=0, reset=1`.
fn reset_parameter(text: &str) -> Option<Duration> {
    let pauses = text.split([';', ',']).filter_map(|part| {
        let (name, value) = part.trim().split_once('=')?;
        matches!(name.trim(), "t" | "reset").then(|| seconds(value.trim()))?
    });
    pauses.max()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn read(pairs: &[(&'static str, &str)]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_str(value).expect("a header"));
        }
        retry_after(&headers, true).map(|pause| pause.as_secs())
    }

    #[test]
    fn reads_retry_after_as_seconds_date_or_duration() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let parse = |value| read(&[date, ("retry-after", value)]);
        assert_eq!(parse("0"), Some(0));
        assert_eq!(parse(" 120 "), Some(120));
        assert_eq!(parse("99999999999999999999999"), Some(u64::from(u32::MAX)));
        assert_eq!(parse("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
        assert_eq!(parse("Sunday, 06-Nov-94 08:50:07 GMT"), Some(30));
        assert_eq!(parse("Sun Nov  6 08:50:07 1994"), Some(30));
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:07 GMT"), Some(0));
        assert_eq!(parse("1s"), Some(1));
        assert_eq!(parse("1m30s"), Some(90));
        for bad in ["", "-1", "1.5", "soon", "1 s", "+3", "3x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn reads_the_headers_that_announce_limits() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (name, value) in [
            ("x-ratelimit-reset", "784111807"),
            ("x-ratelimit-reset", "784111807000"),
            ("x-ratelimit-reset", "30"),
            ("ratelimit-reset", "30"),
            ("ratelimit", "\"default\";r=0;t=30"),
            ("ratelimit", "limit=10, remaining=0, reset=30"),
            ("x-ratelimit-reset-requests", "30s"),
        ] {
            assert_eq!(read(&[date, (name, value)]), Some(30), "{name}: {value}");
            let unreadable = [date, ("retry-after", "soon"), (name, value)];
            assert_eq!(read(&unreadable), Some(30), "{name}: {value}");
        }
        assert_eq!(read(&[("x-ratelimit-reset", "later")]), None);
    }

    proptest! {
        #[test]
        fn reading_never_panics(value in "[ -~]*", name in "(retry-after|ratelimit|x-ratelimit-reset)") {
            let mut headers = HeaderMap::new();
            let name: http::HeaderName = name.parse().expect("a name");
            headers.insert(name, HeaderValue::from_str(&value).expect("a header"));
            retry_after(&headers, true);
        }
    }
}
