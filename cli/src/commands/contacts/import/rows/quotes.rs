//! Finds stray quotes in a CSV file. The `csv` crate accepts them, and one then swallows all rows up
//! to the next quote.

use crate::failure::Failure;

/// Rejects a quote that is not closed, or closed within a value. Describes the first quoted value
/// that looks like several rows.
pub(super) fn check(bytes: &[u8], delimiter: u8) -> Result<Option<String>, Failure> {
    let (mut line, mut at_start_of_value, mut doubt) = (1, true, None);
    // The line and the position of the open quote.
    let mut opened = None;
    let mut rest = bytes.iter().copied().enumerate().peekable();
    while let Some((index, byte)) = rest.next() {
        let next = rest.peek().map(|(_, next)| *next);
        match opened {
            None if byte == b'"' && at_start_of_value => opened = Some((line, index + 1)),
            Some(_) if byte == b'"' && next == Some(b'"') => {
                rest.next();
            }
            Some((first, start)) if byte == b'"' => {
                if next.is_some_and(|next| next != delimiter && !b"\r\n".contains(&next)) {
                    return Err(Failure::input(format!(
                        "line {line}: text follows a closing quote; the quote was opened in line {first}"
                    ))
                    .hint("close the value with a quote before the separator, or write a quote within a value as \"\""));
                }
                if doubt.is_none() && contains_rows(&bytes[start..index], delimiter) {
                    doubt = Some(format!(
                        "lines {first} to {line} are one value because of their quotes, but look like several rows"
                    ));
                }
                opened = None;
            }
            _ => {}
        }
        at_start_of_value = byte == delimiter || byte == b'\n';
        line += usize::from(byte == b'\n');
    }
    match opened {
        None => Ok(doubt),
        Some((first, _)) => Err(Failure::input(format!("line {first}: the quote is never closed"))
            .hint("close it, or remove it: all rows after it would become part of one value")),
    }
}

/// Whether a line of a value after the first one looks like a row.
fn contains_rows(value: &[u8], delimiter: u8) -> bool {
    let is_row = |line: &[u8]| {
        line.contains(&b'@') || line.iter().filter(|byte| **byte == delimiter).count() > 1
    };
    value.split(|byte| *byte == b'\n').skip(1).any(is_row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stray_quotes_are_rejected_with_their_line() {
        let rows = "b@b.test,Bob\n".repeat(900);
        let unclosed = format!("email,name\na@b.test,\"Ada\n{rows}");
        let closed_later = format!("email,name\na@b.test,\"Ada\n{rows}c@b.test,\"Smith, J\"\n");
        for (file, line) in [(unclosed, "line 2: "), (closed_later, "opened in line 2")] {
            let failure = check(file.as_bytes(), b',').expect_err("refused");
            assert!(failure.details().message.contains(line), "{}", failure.details().message);
        }
        let valid =
            "email,name\r\na@b.test,\"A \"\"the\"\" B\"\r\nc@b.test,5\" nails\n\"d@b.test\",\"\"";
        assert_eq!(check(valid.as_bytes(), b',').expect("valid"), None);
    }

    #[test]
    fn a_quoted_value_that_looks_like_rows_is_described() {
        for (rows, lines) in [
            ("a@b.test,\"Ada\nc@b.test,Bob\nd@b.test,Carl\"\n", "lines 2 to 4"),
            ("a@b.test,\"x\"\nb@b.test,\"Ada\nc,Bob,1\"\n", "lines 3 to 4"),
        ] {
            let doubt = check(format!("email,name\n{rows}").as_bytes(), b',').expect("valid");
            assert!(doubt.as_deref().is_some_and(|doubt| doubt.starts_with(lines)), "{doubt:?}");
        }
        for rows in ["a@b.test,\"1 Main St\nSpringfield, IL\"\n", "\"a@b.test\",\"A, B, C\nD\"\n"] {
            let doubt = check(format!("email,name\n{rows}").as_bytes(), b',').expect("valid");
            assert_eq!(doubt, None, "{rows}");
        }
    }
}
