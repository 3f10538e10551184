//! Errors of the HTTP APIs: codes, statuses, messages and details
//! (`docs/undocumented/README.md#error-statuses`).

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error response: a code, which implies the status, a message and details.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
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
    ($($variant:ident $status:ident $meaning:literal,)*) => {
        // The error codes. Each has one status.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        #[schemars(rename = "ErrorCode")]
        pub(crate) enum Code { $($variant,)* }

        impl Code {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            /// When this code is returned; shown in the OpenAPI description.
            pub(crate) const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    InvalidJson BAD_REQUEST "the body is not valid JSON",
    InvalidRequest BAD_REQUEST "the request is malformed",
    Unauthorized UNAUTHORIZED "the API key is missing, malformed, unknown or revoked",
    InsufficientScope FORBIDDEN "the API key lacks the scope that the operation requires",
    DomainNotVerified FORBIDDEN "the sender's domain is not a verified domain of the organization",
    Forbidden FORBIDDEN "the request comes from a web page of another origin",
    NotFound NOT_FOUND "the resource does not exist in this organization",
    MethodNotAllowed METHOD_NOT_ALLOWED "the path does not support this method",
    RequestTimeout REQUEST_TIMEOUT "the request, or what it waited for, did not arrive in time",
    Conflict CONFLICT "the resource already exists, or its state does not allow this operation",
    IdempotencyMismatch CONFLICT "the `Idempotency-Key` was already used with a different request",
    NotCancellable CONFLICT "the email is not waiting for its scheduled time",
    PayloadTooLarge PAYLOAD_TOO_LARGE "the body is too large",
    UnsupportedMediaType UNSUPPORTED_MEDIA_TYPE "the content type or the content encoding of the body is not supported",
    WrongHost MISDIRECTED_REQUEST "the `Host` header is not an address of this server",
    ValidationFailed UNPROCESSABLE_ENTITY "fields are invalid; `details.fields` lists them",
    RateLimited TOO_MANY_REQUESTS "the API key exceeded its rate limit (only if the server has one)",
    Internal INTERNAL_SERVER_ERROR "the server failed; its log has the reason",
    Unavailable SERVICE_UNAVAILABLE "the server is temporarily unavailable",
    StorageFull INSUFFICIENT_STORAGE "the disk is full; nothing was stored",
}

names!(Code);

impl Code {
    /// The code of an error with this status; that of its class if none has it.
    pub(crate) fn of(status: StatusCode) -> Self {
        let class = if status.is_server_error() {
            Self::Unavailable
        } else {
            Self::InvalidRequest
        };
        let has_status = |code: &Self| code.status() == status;
        let specific = Self::ALL.iter().copied().find(has_status);
        if class.status() == status {
            class
        } else {
            specific.unwrap_or(class)
        }
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

impl ApiError {
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

    /// 404. `what` is the kind of resource, such as `audience`.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("no such {what}"))
    }

    /// 422 for one field.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut problems = Problems::default();
        problems.add(field, message);
        problems.into_error()
    }

    /// 422 if a field has more than `max` of `what`, such as `bytes`.
    pub(crate) fn at_most(field: &str, count: usize, max: usize, what: &str) -> Result<(), Self> {
        let mut problems = Problems::default();
        problems.at_most(field, count, max, what);
        problems.check()
    }

    /// 500. The cause is logged and not returned to the client.
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

/// Collects the invalid fields of a request, so that one response (422) lists all of
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
    pub(crate) fn check(self) -> Result<(), ApiError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(self.into_error())
        }
    }

    pub(crate) fn into_error(self) -> ApiError {
        let message = match self.0.first() {
            Some(first) if first.field.is_empty() => first.message.clone(),
            Some(first) => format!("{}: {}", first.field, first.message),
            None => String::new(),
        };
        ApiError::new(Code::ValidationFailed, message).with(|details| details.fields = self.0)
    }
}
