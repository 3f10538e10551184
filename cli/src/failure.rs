//! `Failure`, the error type of `svc`: a `Kind`, which decides the exit code (`exit.rs`), and
//! `Details`, which are printed as the error object: what failed, why, and the next step. Names of
//! kinds and fields are documented and read by scripts, so they must not change. Errors of the SDK
//! become failures in `sdk_error.rs`, and `hints.rs` adds hints at the end of a run.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;
use svc_sdk::{Operation, Outcome};

/// The kind of a failure, which decides the exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The reader of standard output closed the pipe. Not an error: the exit code is 0.
    #[schemars(skip)]
    BrokenPipe,
    /// A dry run has shown the request, and ends. Not an error: the exit code is 0.
    #[schemars(skip)]
    Shown,
    /// Any failure without a more specific kind.
    #[default]
    Other,
    /// The command line is wrong.
    Usage,
    /// The input was refused before anything was sent.
    InvalidInput,
    /// No key is set, or the service rejected it: 401.
    Unauthenticated,
    /// The key lacks the scope that the operation needs.
    MissingScope,
    /// The resource does not exist.
    NotFound,
    /// The service refused the request.
    Refused,
    /// Too many requests, after all retries.
    RateLimited,
    /// No connection, timeout or 5xx; the request was not processed, or is safe to retry.
    Unavailable,
    /// The request may have been processed.
    OutcomeUnknown,
    /// A check failed, for example a signature that does not match.
    CheckFailed,
    /// Part of a batch was refused.
    PartlyRefused,
    /// Ctrl-C.
    Interrupted,
}

/// A failure, boxed so that results stay small.
#[derive(Debug)]
pub struct Failure(Box<Details>);

/// The error object. Absent fields are left out of it.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Details {
    pub kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    pub message: String,
    /// The HTTP status of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(serialize_with = "name", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub operation: Option<Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["not_sent", "refused", "unknown", null]))]
    pub outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// In seconds.
    #[serde(serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub retry_after: Option<Duration>,
    /// The scheme that `WWW-Authenticate` of a 401 asks for.
    #[serde(skip)]
    pub challenge: Option<String>,
    /// Whether svc does not understand the response, so that the service may need another dialect.
    #[serde(skip)]
    pub is_not_understood: bool,
    /// Whether a proxy refused the request.
    #[serde(skip)]
    pub is_of_proxy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(serialize_with = "pairs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<FieldError>")]
    pub fields: Vec<(String, String)>,
}

/// The last line of standard error.
#[derive(Serialize, JsonSchema)]
pub struct ErrorLine<'a> {
    error: &'a Details,
}

/// The problem with a field.
#[derive(Serialize, JsonSchema)]
pub struct FieldError<'a> {
    pub field: &'a str,
    pub message: &'a str,
}

impl Failure {
    /// Creates a failure. The message is a lowercase fragment without a full stop.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind,
            message: message.into(),
            outcome: (kind == Kind::OutcomeUnknown).then_some(Outcome::Unknown.as_str()),
            ..Details::default()
        }))
    }

    /// A wrong command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Invalid input, found before anything is sent.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Kind::InvalidInput, message)
    }

    /// A failure without a more specific kind.
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(Kind::Other, message)
    }

    /// A failed check.
    pub fn check(message: impl Into<String>) -> Self {
        Self::new(Kind::CheckFailed, message)
    }

    /// Sets the hint: the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the machine-readable code.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }

    /// The kind of the failure.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The error object of `docs/commands/README.md`.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(ErrorLine { error: self }).unwrap_or_default()
    }
}

/// The fields of the error object.
impl Deref for Failure {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.0
    }
}

/// The operation's name.
fn name<S: Serializer>(operation: &Option<Operation>, serializer: S) -> Result<S::Ok, S::Error> {
    operation
        .map(|operation| operation.to_string())
        .serialize(serializer)
}

/// Whole seconds, rounded up, because a shorter wait would end too early.
fn seconds<S: Serializer>(wait: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    let up = |wait: Duration| wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    wait.map(up).serialize(serializer)
}

fn pairs<S: Serializer>(fields: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        fields
            .iter()
            .map(|(field, message)| FieldError { field, message }),
    )
}

/// An error's message followed by those of all its sources.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::new(Kind::BrokenPipe, "broken pipe"),
            std::io::ErrorKind::Interrupted => Self::new(Kind::Interrupted, "interrupted"),
            _ => Self::other(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_rounded_up() {
        for (millis, seconds) in [(0, 0), (1, 1), (1000, 1), (1001, 2)] {
            let mut failure = Failure::other("x");
            failure.retry_after = Some(Duration::from_millis(millis));
            assert_eq!(failure.to_json()["error"]["retry_after"], seconds);
        }
    }

    #[test]
    fn outcome_unknown_sets_the_outcome_field() {
        let outcome = |kind| {
            Failure::new(kind, "x").to_json()["error"]
                .get("outcome")
                .cloned()
        };
        assert_eq!(outcome(Kind::OutcomeUnknown), Some("unknown".into()));
        assert_eq!(outcome(Kind::Other), None);
    }
}
