//! The errors that the server answers with (`open-points.md` B4, B10).

use http::StatusCode;
use serde_json::{Map, Value, json};

/// One error answer: its status, code, message, and what helps to mend it.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    inner: Box<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    message: String,
    details: Map<String, Value>,
    retry_after: Option<u64>,
    allow: Option<String>,
}

/// Every code, each with its one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    InvalidJson,
    InvalidRequest,
    Unauthorized,
    InsufficientScope,
    DomainNotVerified,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    Conflict,
    IdempotencyMismatch,
    NotCancellable,
    PayloadTooLarge,
    UnsupportedMediaType,
    WrongHost,
    ValidationFailed,
    RateLimited,
    Internal,
    Unavailable,
    StorageFull,
}

impl Code {
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::InvalidJson | Self::InvalidRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::InsufficientScope | Self::DomainNotVerified | Self::Forbidden => {
                StatusCode::FORBIDDEN
            }
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict | Self::IdempotencyMismatch | Self::NotCancellable => {
                StatusCode::CONFLICT
            }
            Self::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::WrongHost => StatusCode::MISDIRECTED_REQUEST,
            Self::ValidationFailed => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidJson => "invalid_json",
            Self::InvalidRequest => "invalid_request",
            Self::Unauthorized => "unauthorized",
            Self::InsufficientScope => "insufficient_scope",
            Self::DomainNotVerified => "domain_not_verified",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::Conflict => "conflict",
            Self::IdempotencyMismatch => "idempotency_mismatch",
            Self::NotCancellable => "not_cancellable",
            Self::PayloadTooLarge => "payload_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::WrongHost => "wrong_host",
            Self::ValidationFailed => "validation_failed",
            Self::RateLimited => "rate_limited",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::StorageFull => "storage_full",
        }
    }
}

impl ApiError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let inner = Inner {
            code,
            message: message.into(),
            details: Map::new(),
            retry_after: None,
            allow: None,
        };
        Self { inner: Box::new(inner) }
    }

    /// 404: `what` is the kind of thing, such as `audience`.
    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("there is no such {what}"))
    }

    /// 422 for one field.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut problems = Problems::default();
        problems.add(field, message);
        problems.into_error()
    }

    /// 500. What went wrong goes to the log and not to the caller.
    pub(crate) fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(Code::Internal, "the server failed to process the request; see its log")
    }

    pub(crate) fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.inner.details.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.inner.retry_after = Some(seconds);
        self
    }

    pub(crate) fn allow(mut self, methods: impl Into<String>) -> Self {
        self.inner.allow = Some(methods.into());
        self
    }

    pub(crate) fn code(&self) -> Code {
        self.inner.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.inner.message
    }

    pub(crate) fn details(&self) -> &Map<String, Value> {
        &self.inner.details
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.inner.retry_after
    }

    pub(crate) fn allowed_methods(&self) -> Option<&str> {
        self.inner.allow.as_deref()
    }

    /// `{code, message, details}`, without `details` where there are none.
    pub(crate) fn to_object(&self) -> Value {
        let mut object = Map::new();
        object.insert("code".to_owned(), self.code().as_str().into());
        object.insert("message".to_owned(), self.message().into());
        if !self.inner.details.is_empty() {
            object.insert("details".to_owned(), Value::Object(self.inner.details.clone()));
        }
        Value::Object(object)
    }
}

impl From<rusqlite::Error> for ApiError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DiskFull, SystemIoFailure};
        match error.sqlite_error_code() {
            Some(DiskFull) => {
                tracing::error!("the disk is full");
                Self::new(Code::StorageFull, "the server's disk is full; nothing was stored")
            }
            Some(SystemIoFailure) => {
                tracing::error!(%error, "the database cannot be read or written");
                Self::new(Code::Unavailable, "the server's database cannot be read or written")
                    .retry_after(1)
            }
            _ => Self::internal(error),
        }
    }
}

/// What is wrong with a request's fields, gathered so that one answer names
/// all of it (422).
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Value>);

impl Problems {
    pub(crate) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(json!({"field": field.into(), "message": message.into()}));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `Ok` where nothing was wrong.
    pub(crate) fn check(self) -> Result<(), ApiError> {
        if self.is_empty() { Ok(()) } else { Err(self.into_error()) }
    }

    pub(crate) fn into_error(self) -> ApiError {
        let first = self.0.first();
        let part =
            |name: &str| first.and_then(|problem| problem[name].as_str()).unwrap_or_default();
        let message = format!("{}: {}", part("field"), part("message"));
        ApiError::new(Code::ValidationFailed, message).detail("fields", Value::Array(self.0))
    }
}
