//! An API key. Its `Debug` and `Display` output is masked.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use regex_lite::Regex;

use crate::failure::Failure;

/// An API key; `Debug` and `Display` mask it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Parses a key and trims it. Errors name its `origin`.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Failure> {
        // Some editors mark UTF-8 with a byte order mark.
        let key = text.trim_start_matches('\u{feff}').trim();
        if key.is_empty() {
            return Err(Failure::input(format!("{origin} contains no key")));
        }
        if key.contains(['\0', '\u{fffd}']) {
            let problem = format!("{origin} is not UTF-8 text");
            return Err(Failure::input(problem).hint("save it as UTF-8, with the key alone"));
        }

        let is_assignment = key.starts_with("SVC_") && key.contains('=');
        if is_assignment || key.starts_with(['"', '\'']) {
            let problem = format!("{origin} has more than the key");
            return Err(
                Failure::input(problem).hint("write the key alone, without quotes and name")
            );
        }
        if key
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || !c.is_ascii())
        {
            return Err(Failure::input(format!(
                "{origin} contains an invalid key: it has white space or characters outside ASCII"
            )));
        }

        Ok(Self(key.to_owned()))
    }

    /// The key in cleartext, for a client or the credentials file.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `live` or `test`, if the key's prefix says so.
    pub fn mode(&self) -> Option<&'static str> {
        self.prefix().map(|(_, mode)| mode)
    }

    /// The service and the mode of a key such as `mk_live_…`.
    fn prefix(&self) -> Option<(&str, &'static str)> {
        let (service, rest) = self.0.split_once('_')?;
        let (mode, _) = rest.split_once('_')?;
        ["live", "test"]
            .into_iter()
            .find(|known| *known == mode)
            .map(|mode| (service, mode))
    }
}

/// The prefix with the kind of key, without any part of the secret.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix().filter(|(service, _)| service.len() <= 4) {
            Some((service, mode)) => write!(f, "{service}_{mode}_…"),
            None => f.write_str("…"),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// The prefix of a key or a signing secret, which says what it is, and the rest of the word.
static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    let prefix = "(^|[^[:alnum:]])([[:alnum:]]{1,4}_(?:live|test)_|whsec_)";
    let rest = r#"[^\s[:cntrl:]'"`,;:)\]}>\\…]+"#;
    Regex::new(&format!("{prefix}{rest}")).expect("a valid pattern")
});

/// Masks keys and signing secrets in a message, such as a key that was typed in place of another
/// value. Keys of a service that have another form are not recognized.
pub fn masked(text: &str) -> Cow<'_, str> {
    SECRET.replace_all(text, "${1}${2}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_shows_only_the_prefix() {
        let key = Key::parse("sk_live_abcdef123456\n", "a test").expect("a key");
        assert_eq!(format!("{key} {key:?}"), "sk_live_… Key(sk_live_…)");
        assert_eq!(key.mode(), Some("live"));
        let odd = Key::parse("verysecret_live_thing", "a test").expect("a key");
        assert_eq!(odd.to_string(), "…");
    }

    #[test]
    fn errors_do_not_quote_invalid_keys() {
        for text in ["", " \n", "two words", "schlüssel"] {
            let error = Key::parse(text, "the file").expect_err("no key");
            let message = &error.message;
            assert!(message.starts_with("the file contains"), "{message}");
            assert!(
                !message.contains("schl") && !message.contains("two"),
                "{message}"
            );
        }
    }

    #[test]
    fn keys_in_messages_are_masked() {
        for (text, shown) in [
            (
                "unexpected argument 'mk_live_abc-1.2' found",
                "unexpected argument 'mk_live_…' found",
            ),
            (
                "--key-file: sk_test_x: No such file",
                "--key-file: sk_test_…: No such file",
            ),
            (
                "whsec_0123 and mk_live_1, mk_test_2",
                "whsec_… and mk_live_…, mk_test_…",
            ),
            (
                "eml_019a is sent, not mk_live_… or my_profile_live_x",
                "eml_019a is sent, not mk_live_… or my_profile_live_x",
            ),
        ] {
            assert_eq!(masked(text), shown);
        }
    }
}
