//! `Secret`, the signing secret of a webhook, and `SecretError`. A secret that exists is valid: not
//! empty, and as text without surrounding whitespace or invisible characters. Nothing is trimmed,
//! because a trimmed secret is a different key. It is never printed, no error contains any of it,
//! and its memory is zeroized on drop. `signature.rs` makes the HMAC key of it.

use std::fmt;

use zeroize::Zeroizing;

/// The signing secret of a webhook, as the service returned it when the webhook
/// was created.
///
/// A `Secret` is validated when it is created: it is not empty, and as text it is printable and
/// neither starts nor ends with whitespace or a byte order mark. Nothing is trimmed,
/// because a trimmed secret is a different key. A stray newline from a file is
/// therefore an error at startup instead of a signature that never matches.
///
/// `Debug` prints `[redacted]`, there is no `Display`, and the memory is zeroized
/// on drop. With serde, a `Secret` can be a field of your configuration struct. The
/// errors of the `Secret` itself contain nothing of it, but those of some file formats do:
/// the crate `toml` quotes the line of an invalid value. Do not print the error of a file
/// with secrets (for `toml`, `error.message()` and `error.span()` are safe), or use
/// [`from_env`](Self::from_env).
///
/// ```
/// use webhook_verify::{Secret, SecretError};
///
/// assert!(Secret::new("whsec_3f1c").is_ok());
/// assert_eq!(Secret::new("").unwrap_err(), SecretError::Empty);
/// assert_eq!(Secret::new("whsec_3f1c\n").unwrap_err(), SecretError::SurroundingWhitespace);
/// ```
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Creates a secret from text, such as the secret that a service returned.
    ///
    /// A `String` or `Vec<u8>` is moved and not copied, so that its memory is
    /// zeroized with the secret.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if the secret is empty, starts or ends with whitespace or a byte order mark,
    /// is UTF-16, or is not printable text. The error contains nothing of the secret.
    pub fn new(secret: impl Into<Vec<u8>>) -> Result<Self, SecretError> {
        let secret = Self::from_bytes(secret)?;
        let bytes = secret.as_bytes();
        if bytes.starts_with(b"\xEF\xBB\xBF") {
            return Err(SecretError::ByteOrderMark);
        }
        // With its byte order mark, or as text of which every other byte is zero.
        if bytes.starts_with(b"\xFF\xFE") || bytes.starts_with(b"\xFE\xFF") || bytes.contains(&0) {
            return Err(SecretError::Utf16);
        }
        let Ok(text) = str::from_utf8(bytes) else {
            return Err(SecretError::NotPrintable);
        };
        // No-break spaces and similar characters come with text copied from a web page.
        if text.trim().len() != text.len() {
            return Err(SecretError::SurroundingWhitespace);
        }
        if !text.chars().all(is_printable) {
            return Err(SecretError::NotPrintable);
        }

        Ok(secret)
    }

    /// Creates a secret from a binary key, such as 32 random bytes, of which any byte may
    /// happen to be whitespace.
    ///
    /// A `Vec<u8>` is moved and not copied, so that its memory is zeroized with the
    /// secret.
    ///
    /// # Errors
    ///
    /// [`SecretError::Empty`] if there is no byte other than zero.
    pub fn from_bytes(key: impl Into<Vec<u8>>) -> Result<Self, SecretError> {
        // Wrapped first, so that a rejected secret is zeroized too.
        let bytes = Zeroizing::new(key.into());
        // HMAC pads the key with zero bytes, so zero bytes alone equal the empty key.
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(SecretError::Empty);
        }
        Ok(Self(bytes))
    }

    /// Reads the secret from an environment variable.
    ///
    /// # Errors
    ///
    /// [`SecretError::Variable`], which contains the variable's name and nothing of its value.
    pub fn from_env(name: &str) -> Result<Self, SecretError> {
        let value = std::env::var_os(name).ok_or(SecretError::NotSet);
        value
            .and_then(|value| Self::new(value.into_encoded_bytes()))
            .map_err(|reason| SecretError::Variable {
                name: name.to_owned(),
                reason: Box::new(reason),
            })
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

impl TryFrom<&str> for Secret {
    type Error = SecretError;

    fn try_from(secret: &str) -> Result<Self, SecretError> {
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
        // Serde's own type error would quote the value.
        let not_a_string = |_| serde::de::Error::custom("the signing secret is not a string");
        let secret = String::deserialize(deserializer).map_err(not_a_string)?;
        Self::new(secret).map_err(serde::de::Error::custom)
    }
}

/// A value is not a valid [`Secret`], or the number of secrets is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The secret is empty, or consists of zero bytes only, which is the same
    /// HMAC key. Anyone could sign with it.
    #[error("the signing secret is empty")]
    Empty,
    /// The secret starts or ends with whitespace, most often the newline at the
    /// end of a file. Remove it where the secret is stored. For a binary key, use
    /// [`Secret::from_bytes`].
    #[error("the signing secret starts or ends with whitespace")]
    SurroundingWhitespace,
    /// The secret starts with a UTF-8 byte order mark, which some editors
    /// insert at the start of a file.
    #[error("the signing secret starts with a byte order mark")]
    ByteOrderMark,
    /// The secret is UTF-16, which some editors and shells write, or contains zero bytes. Store it
    /// as UTF-8. For a binary key, use [`Secret::from_bytes`].
    #[error("the signing secret is UTF-16, or contains zero bytes; store it as UTF-8")]
    Utf16,
    /// The secret is not UTF-8, or contains control characters or invisible ones, so it is most
    /// likely not what the service returned. For a binary key, use [`Secret::from_bytes`].
    #[error("the signing secret is not printable text")]
    NotPrintable,
    /// The environment variable is not set.
    #[error("the environment variable is not set")]
    NotSet,
    /// [`Verifier::with_secrets`](crate::Verifier::with_secrets) was called
    /// without a secret.
    #[error("no signing secret was given")]
    NoSecrets,
    /// [`Verifier::with_secrets`](crate::Verifier::with_secrets) was called with
    /// more than [`MAX_SECRETS`](crate::MAX_SECRETS) secrets.
    #[error("more than {} signing secrets were given", crate::MAX_SECRETS)]
    TooManySecrets,
    /// Both services have the same secret. Use a separate secret for each webhook.
    #[error("both services have the same signing secret")]
    Shared,
    /// An environment variable does not contain a valid secret.
    #[error("{name}: {reason}")]
    Variable {
        /// The variable's name.
        name: String,
        /// The problem with its value.
        reason: Box<SecretError>,
    },
}

/// False for control characters, and for those that nobody sees and a web page may contain.
fn is_printable(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}'
    );
    !c.is_control() && !is_invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unusable_secrets() {
        for (secret, error) in [
            ("", SecretError::Empty),
            ("\0", SecretError::Empty),
            ("\0\0\0", SecretError::Empty),
            (" ", SecretError::SurroundingWhitespace),
            ("s\n", SecretError::SurroundingWhitespace),
            ("s\r\n", SecretError::SurroundingWhitespace),
            ("\ts", SecretError::SurroundingWhitespace),
            ("s\u{b}", SecretError::SurroundingWhitespace),
            ("\u{a0}s", SecretError::SurroundingWhitespace),
            ("s\u{2003}", SecretError::SurroundingWhitespace),
            ("\u{feff}s", SecretError::ByteOrderMark),
        ] {
            assert_eq!(Secret::new(secret).unwrap_err(), error, "{secret:?}");
        }

        for secret in ["s", "with space inside", "ü", "=="] {
            assert_eq!(Secret::new(secret).unwrap().as_bytes(), secret.as_bytes());
        }

        for (secret, error) in [
            (&b"\xFF\xFEs\0"[..], SecretError::Utf16),
            (b"\xFE\xFF\0s", SecretError::Utf16),
            (b"s\0e\0", SecretError::Utf16),
            (b"\0s\0e", SecretError::Utf16),
            (b"s\xFF", SecretError::NotPrintable),
            (b"s\x07e", SecretError::NotPrintable),
            ("s\u{200b}e".as_bytes(), SecretError::NotPrintable),
            ("s\u{feff}".as_bytes(), SecretError::NotPrintable),
        ] {
            assert_eq!(Secret::new(secret).unwrap_err(), error, "{secret:?}");
        }

        assert!(Secret::from_bytes(&b"\xFF\x00"[..]).is_ok());
        assert!(Secret::try_from("s").is_ok() && Secret::try_from("s\n".to_owned()).is_err());
    }

    #[test]
    fn the_error_of_a_missing_variable_names_it() {
        let error = Secret::from_env("SVC_NO_SUCH_SECRET").unwrap_err();
        assert_eq!(
            error.to_string(),
            "SVC_NO_SUCH_SECRET: the environment variable is not set"
        );
        // Cargo sets this one for every test.
        assert!(Secret::from_env("CARGO_PKG_NAME").is_ok());
    }

    #[test]
    fn is_never_printed() {
        let secret = Secret::new("hunter2").unwrap();
        assert_eq!(format!("{secret:?}"), "[redacted]");
        assert_eq!(format!("{:?}", Some(&secret)), "Some([redacted])");
        let error = serde_json::from_str::<Secret>("\"hunter2 \"").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
        for not_a_string in ["31337", "-31337", "[31337]", "{\"31337\":1}"] {
            let error = serde_json::from_str::<Secret>(not_a_string).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("31337"), "{error}");
        }

        assert_eq!(
            serde_json::from_str::<Secret>("\"hunter2\"")
                .unwrap()
                .as_bytes(),
            b"hunter2"
        );
    }
}
