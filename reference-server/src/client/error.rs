//! [`Error`]: the SDK's error with the server's explanation.

use std::fmt;

use svc_sdk::StatusCode;

/// Why a request to the control interface failed.
///
/// Unlike the SDK's error, its text contains the message of the server, which may quote the
/// content of the local mailbox: after a wait for a message it says what arrived.
pub struct Error(svc_sdk::Error);

impl Error {
    /// The status of the response; `None` if there was none.
    pub fn status(&self) -> Option<StatusCode> {
        self.0.status()
    }

    /// The error code of the server, such as `not_found`.
    pub fn code(&self) -> Option<&str> {
        self.0.code()
    }

    /// The message of the server.
    pub fn message(&self) -> Option<&str> {
        self.0.message()
    }

    /// The SDK's error, which also has the kind and the response.
    pub fn into_inner(self) -> svc_sdk::Error {
        self.0
    }
}

impl From<svc_sdk::Error> for Error {
    fn from(error: svc_sdk::Error) -> Self {
        Self(error)
    }
}

impl From<Error> for svc_sdk::Error {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        if let Some(message) = self.message() {
            write!(f, ": {message}")?;
        }
        Ok(())
    }
}

/// As `Display`: it is what a failed `unwrap` prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0)
    }
}
