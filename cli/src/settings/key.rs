//! An API key that cannot be printed by accident.

use std::fmt;

use crate::failure::Failure;

/// An API key; `Debug` and `Display` mask it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// A key, white space around it removed; `origin` says where it came from.
    pub fn parse(text: &str, origin: &str) -> Result<Self, Failure> {
        let key = text.trim();
        if key.is_empty() {
            return Err(Failure::input(format!("{origin} holds no key")));
        }
        if key.chars().any(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
            return Err(Failure::input(format!(
                "{origin} holds something that cannot be a key: white space or characters outside ASCII in it"
            )));
        }
        Ok(Self(key.to_owned()))
    }

    /// The key itself, to be handed to a client or written to the credentials.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the key works on live data, where its prefix says so.
    pub fn mode(&self) -> Option<&'static str> {
        let mut parts = self.0.splitn(3, '_');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(_), Some("live"), Some(_)) => Some("live"),
            (Some(_), Some("test"), Some(_)) => Some("test"),
            _ => None,
        }
    }
}

/// The prefix that says what kind of key it is, and nothing of the secret.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.0.splitn(3, '_');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(service), Some(mode @ ("live" | "test")), Some(_)) if service.len() <= 4 => {
                write!(f, "{service}_{mode}_…")
            }
            _ => f.write_str("…"),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_prefix_is_shown() {
        let key = Key::parse("sk_live_abcdef123456\n", "a test").expect("a key");
        assert_eq!(format!("{key} {key:?}"), "sk_live_… Key(sk_live_…)");
        assert_eq!(key.mode(), Some("live"));
        let odd = Key::parse("verysecret_live_thing", "a test").expect("a key");
        assert_eq!(odd.to_string(), "…");
    }

    #[test]
    fn what_cannot_be_a_key_is_refused_without_showing_it() {
        for text in ["", " \n", "two words", "schlüssel"] {
            let error = Key::parse(text, "the file").expect_err("no key");
            let message = &error.details().message;
            assert!(message.starts_with("the file holds"), "{message}");
            assert!(!message.contains("schl") && !message.contains("two"), "{message}");
        }
    }
}
