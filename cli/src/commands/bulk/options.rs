//! Options of `svc bulk send` and `svc bulk resume`.

use clap::ValueEnum;

/// What to do with rows whose outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unknown {
    /// Keep them back
    Hold,
    /// Send them again; some recipients may get the email twice
    Resend,
}

/// What to do with rows whose address an earlier row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Duplicates {
    /// Leave them out
    Skip,
    /// Send to them, too
    Keep,
}

/// Parses `N/s`, `N/min` or `N/h`, as clap's `value_parser`. Returns emails a second.
pub fn rate(text: &str) -> Result<f64, String> {
    let units = [("/s", 1.0), ("/min", 60.0), ("/h", 3600.0), ("", 1.0)];
    let rate = units.iter().find_map(|(unit, seconds)| {
        let number = text.strip_suffix(unit)?;
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        is_plain.then(|| number.parse::<f64>().ok()).flatten().map(|number| number / seconds)
    });
    // Slower than one email a day is more likely a mistake.
    rate.filter(|rate| *rate >= 1.0 / 86_400.0 && rate.is_finite())
        .ok_or_else(|| format!("`{text}` is not a rate such as 50/s, 0.5/s, 30/min or 100/h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_unit_of_time() {
        for (text, expected) in
            [("50/s", 50.0), ("50", 50.0), ("0.5/s", 0.5), ("30/min", 0.5), ("1800/h", 0.5)]
        {
            assert_eq!(rate(text), Ok(expected), "{text}");
        }
        for text in ["", "0/s", "-1/s", "1e9/s", "inf", "nan/s", "5/d", "/s", "0.000001/s", "1 /s"]
        {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
