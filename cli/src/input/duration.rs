//! Parses durations: `500ms`, `30s`, `1h30m`, `2d`, `1w`.

use std::time::Duration;

const UNITS: [(&str, u64); 6] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

const GRAMMAR: &str =
    "use whole numbers with ms, s, m, h, d or w and no blanks, such as 500ms, 30s, 5m or 1h30m";

/// Parses a duration, as clap's `value_parser`. A `+` before it is allowed, as in times.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let millis = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, millis)| *millis);
        total = number
            .parse::<u64>()
            .ok()
            .zip(millis)
            .and_then(|(number, millis)| number.checked_mul(millis)?.checked_add(total))
            .ok_or_else(|| format!("`{text}` is not a duration: {GRAMMAR}"))?;
        rest = tail;
    }
    if text.is_empty() {
        return Err(format!("the duration is empty: {GRAMMAR}"));
    }
    Ok(Duration::from_millis(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("+1w"), parse("7d"));
        assert_eq!(parse("2d"), Ok(Duration::from_secs(172_800)));
    }

    #[test]
    fn errors_show_examples() {
        for text in ["", "5", "h", "-1s", "1.5s", "1 s", "99999999999999999999s", "5y"] {
            assert!(parse(text).is_err_and(|error| error.contains("1h30m")), "{text}");
        }
    }
}
