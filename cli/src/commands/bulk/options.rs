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

/// Parses `N/s`, as clap's `value_parser`.
pub fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    match number.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a rate such as 50/s")),
        Ok(rate) => Ok(rate),
    }
}
