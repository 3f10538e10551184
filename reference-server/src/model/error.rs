//! [`Failure`]: why the store or a rule did not do what was asked for. The status that a code has as a
//! response is in `http/error.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of the store and the rules.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// A code, a message for people, and details.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    inner: Box<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    message: String,
    details: Details,
    retry_after: Option<u64>,
}

macro_rules! codes {
    ($($variant:ident $meaning:literal,)*) => {
        // The error codes.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        #[schemars(rename = "ErrorCode")]
        pub(crate) enum Code { $($variant,)* }

        impl Code {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            /// When this code is returned; shown in the OpenAPI description.
            pub(crate) const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    InvalidJson "the body is not valid JSON",
    InvalidRequest "the request is malformed",
    Unauthorized "the API key is missing, malformed, unknown or revoked",
    InsufficientScope "the API key lacks the scope that the operation requires",
    DomainNotVerified "the sender's domain is not a verified domain of the organization",
    Forbidden "the request comes from a web page of another origin",
    NotFound "the resource does not exist in this organization",
    MethodNotAllowed "the path does not support this method",
    RequestTimeout "the request, or what it waited for, did not arrive in time",
    Conflict "the resource already exists, or its state does not allow this operation",
    IdempotencyMismatch "the `Idempotency-Key` was already used with a different request",
    NotCancellable "the email is not waiting for its scheduled time",
    PayloadTooLarge "the body is too large",
    UnsupportedMediaType "the content type or the content encoding of the body is not supported",
    WrongHost "the `Host` header is not an address of this server",
    ValidationFailed "fields are invalid; `details.fields` lists them",
    RateLimited "the API key exceeded its rate limit (only if the server has one)",
    Internal "the server failed; its log has the reason",
    Unavailable "the server is temporarily unavailable",
    StorageFull "the disk is full; nothing was stored",
}

names!(Code);

impl Code {
    /// Whether the server failed, and not the request.
    pub(crate) const fn is_of_server(self) -> bool {
        matches!(self, Self::Internal | Self::Unavailable | Self::StorageFull)
    }
}

/// The JSON form of an error.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ErrorObject")]
pub(crate) struct ErrorObject<'a> {
    /// Identifies the error for programs.
    pub(crate) code: Code,
    /// Describes the error for people.
    pub(crate) message: &'a str,
    /// Data about the error.
    #[serde(skip_serializing_if = "Details::is_empty")]
    pub(crate) details: &'a Details,
}

/// Data about an error; which fields are present depends on the code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ErrorDetails")]
pub(crate) struct Details {
    /// The invalid fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<Problem>,
    /// The scope that the operation requires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) required_scope: Option<&'static str>,
    /// The sender's domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) domain: Option<String>,
    /// The status of the email.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    /// The limit that the request exceeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<usize>,
}

/// An invalid field.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "FieldProblem")]
pub(crate) struct Problem {
    /// The path of the field, such as `attachments[2].content`; empty for the whole body.
    field: String,
    message: String,
}

impl Details {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let inner = Inner {
            code,
            message: message.into(),
            details: Details::default(),
            retry_after: None,
        };
        Self {
            inner: Box::new(inner),
        }
    }

    /// `what` is the kind of resource, such as `audience`.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("no such {what}"))
    }

    /// One field is invalid.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut problems = Problems::default();
        problems.add(field, message);
        problems.into_error()
    }

    /// One field is invalid if it has more than `max` of `what`, such as `bytes`.
    pub(crate) fn at_most(field: &str, count: usize, max: usize, what: &str) -> Result<(), Self> {
        let mut problems = Problems::default();
        problems.at_most(field, count, max, what);
        problems.check()
    }

    /// The cause is logged and not returned to the client.
    pub(crate) fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(
            Code::Internal,
            "the server failed to process the request; see its log",
        )
    }

    pub(crate) fn with(mut self, set: impl FnOnce(&mut Details)) -> Self {
        set(&mut self.inner.details);
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.inner.retry_after = Some(seconds);
        self
    }

    /// The same error about the fields of the value at `path`.
    pub(crate) fn within(mut self, path: &str) -> Self {
        for problem in &mut self.inner.details.fields {
            let dot = if problem.field.is_empty() { "" } else { "." };
            problem.field = format!("{path}{dot}{}", problem.field);
        }
        if let Some((field, message)) = self.first_problem() {
            self.inner.message = format!("{field}: {message}");
        }
        self
    }

    /// The first invalid field, and what is wrong with it.
    pub(crate) fn first_problem(&self) -> Option<(&str, &str)> {
        self.inner
            .details
            .fields
            .first()
            .map(|first| (&*first.field, &*first.message))
    }

    pub(crate) fn code(&self) -> Code {
        self.inner.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.inner.message
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.inner.retry_after
    }

    pub(crate) fn object(&self) -> ErrorObject<'_> {
        ErrorObject {
            code: self.code(),
            message: self.message(),
            details: &self.inner.details,
        }
    }
}

/// Collects the invalid fields of a request, so that one response lists all of
/// them.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

/// Maximum number of invalid fields in an error
/// (`docs/undocumented/README.md#size-limits`).
const MAX_PROBLEMS: usize = 100;

impl Problems {
    pub(crate) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < MAX_PROBLEMS {
            self.0.push(Problem {
                field: field.into(),
                message: message.into(),
            });
        }
    }

    /// Adds a problem if the field has more than `max` of `what`, such as `bytes`.
    pub(crate) fn at_most(
        &mut self,
        field: impl Into<String>,
        count: usize,
        max: usize,
        what: &str,
    ) {
        if count > max {
            self.add(
                field,
                format!("has {count} {what}, at most {max} are allowed"),
            );
        }
    }

    /// The value of a field, or a problem.
    pub(crate) fn ok<T>(
        &mut self,
        field: impl Into<String>,
        value: Result<T, impl Into<String>>,
    ) -> Option<T> {
        value.map_err(|message| self.add(field, message)).ok()
    }

    /// Returns an error if any field is invalid.
    pub(crate) fn check(self) -> Result<(), Failure> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(self.into_error())
        }
    }

    pub(crate) fn into_error(self) -> Failure {
        let message = match self.0.first() {
            Some(first) if first.field.is_empty() => first.message.clone(),
            Some(first) => format!("{}: {}", first.field, first.message),
            None => String::new(),
        };
        Failure::new(Code::ValidationFailed, message).with(|details| details.fields = self.0)
    }
}
