//! A string that is never printed.

use std::fmt;

use zeroize::Zeroizing;

/// An API key or a signing secret.
///
/// `Display` and `Debug` print `[redacted]`, and the memory is overwritten when the value
/// is dropped. [`expose`](Self::expose) returns the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps `text` unmodified; white space is not trimmed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text. Keep it out of logs.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_and_debug_are_redacted() {
        let secret = Secret::new("sk_test_verysecret");
        assert_eq!(
            format!("{secret} {secret:?} {secret:#?}"),
            "[redacted] [redacted] [redacted]"
        );
    }
}
