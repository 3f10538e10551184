//! `Failed`, with which a handler overrides the back-off, and `text_of`, which writes an error with its
//! sources in ASCII, so that every database can store it. The errors of the inbox itself are those of
//! `svc-sql`.

use std::error::Error as StdError;
use std::time::Duration;

/// An error of your own: of a handler.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// What a handler returns, as an error, if the usual back-off is wrong.
///
/// ```
/// use std::time::Duration;
/// use webhook_inbox::{BoxError, Failed};
///
/// fn check(status: u16) -> Result<(), BoxError> {
///     match status {
///         410 => Err(Failed::for_good("the customer has left").into()),
///         429 => Err(Failed::again_in(Duration::from_secs(60), "too many requests").into()),
///         _ => Ok(()),
///     }
/// }
/// # assert!(check(410).is_err());
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Failed {
    again_in: Option<Duration>,
    #[source]
    reason: BoxError,
}

impl Failed {
    /// No other attempt will succeed: the delivery is a dead letter at once.
    pub fn for_good(reason: impl Into<BoxError>) -> Self {
        Self {
            again_in: None,
            reason: reason.into(),
        }
    }

    /// The delivery is due again after this time, at most 30 days. The attempt counts.
    pub fn again_in(delay: Duration, reason: impl Into<BoxError>) -> Self {
        const MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
        Self {
            again_in: Some(delay.min(MAX)),
            reason: reason.into(),
        }
    }

    pub(crate) fn delay(&self) -> Option<Duration> {
        self.again_in
    }
}

/// The messages of an error and its sources, in ASCII, so that every database can store them.
pub(crate) fn text_of(error: &dyn StdError) -> String {
    /// Longest text that is stored, in characters.
    const MAX_CHARS: usize = 2000;

    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let message = error.to_string();
        // Some errors repeat the message of their source.
        if !text.ends_with(&message) {
            text = format!("{text}: {message}");
        }
        source = error.source();
    }

    let mut ascii = String::new();
    for c in text.chars() {
        if c == '\n' || c == '\t' || c == ' ' || c.is_ascii_graphic() {
            ascii.push(c);
        } else {
            ascii.extend(c.escape_unicode());
        }
        if ascii.len() >= MAX_CHARS {
            ascii.truncate(MAX_CHARS);
            break;
        }
    }

    ascii
}
