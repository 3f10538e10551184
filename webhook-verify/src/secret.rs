//! The signing secret: never empty, never shown, wiped when dropped.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use zeroize::Zeroizing;

/// A webhook's signing secret, as the registration answer gave it.
///
/// One that exists is usable: it is not empty, and no white space or byte
/// order mark stands at either end. Nothing is trimmed, because a trimmed
/// secret is a different key: a stray newline is reported where the secret is
/// loaded and not as a signature that never matches.
///
/// `Debug` prints `[redacted]`, there is no `Display`, and the bytes are wiped
/// when it is dropped.
///
/// ```
/// use webhook_verify::{Secret, SecretError};
///
/// assert!(Secret::new("whsec_3f1c").is_ok());
/// assert_eq!(Secret::new("").unwrap_err(), SecretError::Empty);
/// assert_eq!(Secret::new("whsec_3f1c\n").unwrap_err(), SecretError::SurroundingWhiteSpace);
/// ```
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the secret's exact bytes. A `String` or `Vec<u8>` is taken over
    /// without a copy, so that it is wiped with the secret.
    ///
    /// # Errors
    ///
    /// [`SecretError`], which never holds any of the secret.
    pub fn new(secret: impl Into<Vec<u8>>) -> Result<Self, SecretError> {
        // Wrapped first, so that what is refused is wiped too.
        let bytes = Zeroizing::new(secret.into());
        // HMAC fills the key up with zeros: zeros alone are the empty key.
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(SecretError::Empty);
        }
        if bytes.starts_with(b"\xEF\xBB\xBF") {
            return Err(SecretError::ByteOrderMark);
        }
        if has_surrounding_white_space(&bytes) {
            return Err(SecretError::SurroundingWhiteSpace);
        }
        Ok(Self(bytes))
    }

    /// Takes the secret from an environment variable.
    ///
    /// # Errors
    ///
    /// [`SecretEnvError`], which names the variable and not its value.
    #[cfg(feature = "std")]
    pub fn from_env(name: &str) -> Result<Self, SecretEnvError> {
        let value = std::env::var_os(name).ok_or(SecretError::NotSet);
        value
            .and_then(|value| Self::new(value.into_encoded_bytes()))
            .map_err(|reason| SecretEnvError { name: name.into(), reason })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(secret: &str) -> Result<Self, SecretError> {
        Self::new(secret)
    }
}

impl TryFrom<String> for Secret {
    type Error = SecretError;

    fn try_from(secret: String) -> Result<Self, SecretError> {
        Self::new(secret)
    }
}

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // What a number in its place is told would quote the number.
        let no_text = |_| serde::de::Error::custom("the signing secret is not text");
        let secret = String::deserialize(deserializer).map_err(no_text)?;
        Self::new(secret).map_err(serde::de::Error::custom)
    }
}

/// Why a text cannot be a [`Secret`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// An empty secret would verify what anybody signs with an empty secret.
    /// One of zero bytes only is the same key.
    #[error("the signing secret is empty")]
    Empty,
    /// White space at the start or the end, most often the newline at the end
    /// of a file. Take it off where the secret is stored.
    #[error("the signing secret has white space at its start or end")]
    SurroundingWhiteSpace,
    /// A UTF-8 byte order mark, as some editors put at the start of a file.
    #[error("the signing secret starts with a byte order mark")]
    ByteOrderMark,
    /// There is no such environment variable.
    #[error("no signing secret is set")]
    NotSet,
    /// No secret was given at all.
    #[error("no signing secret was given")]
    None,
    /// More secrets were given than can be active at once
    /// ([`MAX_SECRETS`](crate::MAX_SECRETS)).
    #[error("more than {} signing secrets were given", crate::MAX_SECRETS)]
    TooMany,
}

/// Why an environment variable gives no [`Secret`].
#[cfg(feature = "std")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct SecretEnvError {
    name: String,
    reason: SecretError,
}

#[cfg(feature = "std")]
impl SecretEnvError {
    /// The variable's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is wrong with it.
    pub fn reason(&self) -> SecretError {
        self.reason
    }
}

fn has_surrounding_white_space(bytes: &[u8]) -> bool {
    let ascii = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0B;
    if bytes.first().is_some_and(ascii) || bytes.last().is_some_and(ascii) {
        return true;
    }
    // No-break spaces and the like come with text that was copied from a page.
    core::str::from_utf8(bytes).is_ok_and(|text| text.trim().len() != text.len())
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString as _;

    use super::*;

    #[test]
    fn a_secret_that_exists_is_usable() {
        for (secret, error) in [
            ("", SecretError::Empty),
            ("\0", SecretError::Empty),
            ("\0\0\0", SecretError::Empty),
            (" ", SecretError::SurroundingWhiteSpace),
            ("s\n", SecretError::SurroundingWhiteSpace),
            ("s\r\n", SecretError::SurroundingWhiteSpace),
            ("\ts", SecretError::SurroundingWhiteSpace),
            ("s\u{b}", SecretError::SurroundingWhiteSpace),
            ("\u{a0}s", SecretError::SurroundingWhiteSpace),
            ("s\u{2003}", SecretError::SurroundingWhiteSpace),
            ("\u{feff}s", SecretError::ByteOrderMark),
        ] {
            assert_eq!(Secret::new(secret).unwrap_err(), error, "{secret:?}");
        }
        for secret in ["s", "with space inside", "ü", "=="] {
            assert_eq!(Secret::new(secret).unwrap().as_bytes(), secret.as_bytes());
        }
        assert!(Secret::new(&b"\xFF\x00"[..]).is_ok(), "a secret need not be text");
        for no_text in [&b" \xFF"[..], b"\xFF\n", b"\x0B\xFF", b"\xFF\x0B"] {
            let error = Secret::new(no_text).unwrap_err();
            assert_eq!(error, SecretError::SurroundingWhiteSpace, "{no_text:?}");
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn a_missing_variable_is_named() {
        let error = Secret::from_env("SVC_NO_SUCH_SECRET").unwrap_err();
        assert_eq!(error.to_string(), "SVC_NO_SUCH_SECRET: no signing secret is set");
        assert_eq!((error.name(), error.reason()), ("SVC_NO_SUCH_SECRET", SecretError::NotSet));
        // Cargo sets this one for every test.
        assert!(Secret::from_env("CARGO_PKG_NAME").is_ok());
    }

    #[test]
    fn nothing_prints_it() {
        let secret = Secret::new("hunter2").unwrap();
        assert_eq!(format!("{secret:?}"), "[redacted]");
        assert_eq!(format!("{:?}", Some(&secret)), "Some([redacted])");
        let error = serde_json::from_str::<Secret>("\"hunter2 \"").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
        for no_text in ["31337", "-31337", "[31337]", "{\"31337\":1}"] {
            let error = serde_json::from_str::<Secret>(no_text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("31337"), "{error}");
        }
        assert_eq!(serde_json::from_str::<Secret>("\"hunter2\"").unwrap().as_bytes(), b"hunter2");
    }
}
