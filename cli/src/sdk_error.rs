//! Converts an `svc_sdk::Error` to a `Failure`. `kind` decides the exit code: an outcome that is
//! unknown and not safe to repeat becomes `Kind::OutcomeUnknown`, unless the kind of the error says
//! that nothing was done. A test checks every `ErrorKind`, because the match needs a wildcard.
//! `message` adds the service's own message, or the root cause of a failed connection. `hints.rs`
//! adds the hint.

use svc_sdk::{Error, ErrorKind, Operation, Outcome, StatusCode};

use crate::failure::{Failure, Kind};

/// The code of a failure because a list has more items than the service says how to get.
const INCOMPLETE_LIST: &str = "incomplete_list";
/// The code of a failure because of the recipient guard.
pub const RECIPIENT_GUARD: &str = "recipient_guard";
/// The next step after a refusal by the recipient guard.
pub const RECIPIENT_GUARD_HINT: &str =
    "nothing was sent; see the guard and where it is set: svc config show";
/// The same after a part of a job was sent.
pub const SEE_RECIPIENT_GUARD: &str = "see the guard and where it is set: svc config show";

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let retry_safe = error.operation().is_some_and(Operation::is_idempotent);
        Self::from_sdk(&error, retry_safe)
    }
}

impl Failure {
    /// Whether a part of a list was read, but not the rest.
    pub fn is_incomplete_list(&self) -> bool {
        self.code.as_deref() == Some(INCOMPLETE_LIST)
    }

    /// Converts the error of a call. `retry_safe` says whether sending the request twice does no
    /// more than sending it once; for raw requests only the caller knows.
    pub fn from_sdk(error: &Error, retry_safe: bool) -> Self {
        let kind = kind(error, retry_safe);
        let mut failure = Self::new(kind, message(error));
        failure.code = match error.kind() {
            ErrorKind::MissingId => Some("response_not_understood".to_owned()),
            ErrorKind::RecipientGuard(_) => Some(RECIPIENT_GUARD.to_owned()),
            _ if error.is_incomplete_list() => Some(INCOMPLETE_LIST.to_owned()),
            _ => error.code().map(str::to_owned),
        };
        failure.status = error.status().map(|status| status.as_u16());
        failure.operation = error.operation();
        failure.required_scope = match error.kind() {
            ErrorKind::MissingScope {
                required: Some(scope),
                ..
            } => Some(scope.to_string()),
            ErrorKind::MissingScope { .. } => error.required_scope().map(|it| it.to_string()),
            // If the service says why, the scope is not the reason.
            ErrorKind::Forbidden if error.code().or(error.message()).is_none() => {
                error.required_scope().map(|it| it.to_string())
            }
            _ => None,
        };
        let challenge = error.headers().get(reqwest::header::WWW_AUTHENTICATE);
        let challenge = challenge.and_then(|value| value.to_str().ok()?.split(' ').next());
        failure.challenge = challenge.map(str::to_owned);
        failure.request_id = error.request_id().map(str::to_owned);
        failure.outcome = Some(error.outcome().as_str());
        failure.attempts = (error.attempts() > 0).then(|| error.attempts());
        failure.retryable = Some(error.is_retryable());
        failure.retry_after = error.retry_after();
        let fields = error.fields().iter();
        failure.fields = fields
            .map(|it| (it.field.clone(), it.message.clone()))
            .collect();
        failure.is_not_understood = matches!(
            error.kind(),
            ErrorKind::InvalidResponse { .. } | ErrorKind::MissingId
        ) || error.is_incomplete_list();
        failure.is_of_proxy = matches!(error.kind(), ErrorKind::Proxy);
        if let ErrorKind::RecipientGuard(_) = error.kind() {
            failure.hint = Some(RECIPIENT_GUARD_HINT.to_owned());
        }
        failure
    }
}

/// The kind, which decides the exit code. `ErrorKind` is non-exhaustive, so this match needs a
/// wildcard; a test checks the exit code of every kind.
fn kind(error: &Error, retry_safe: bool) -> Kind {
    // A read of the control interface has no operation, and the SDK knows that it may be repeated.
    let retry_safe = retry_safe || error.operation().is_none() && error.is_retryable();
    let unknown = error.outcome() == Outcome::Unknown && !retry_safe;
    match error.kind() {
        ErrorKind::InvalidInput(_) | ErrorKind::Attachment { .. } if !unknown => Kind::InvalidInput,
        ErrorKind::RecipientGuard(_) => Kind::InvalidInput,
        ErrorKind::Config { .. } => Kind::Usage,
        ErrorKind::Unauthorized => Kind::Unauthenticated,
        ErrorKind::MissingScope { .. } => Kind::MissingScope,
        ErrorKind::NotFound => Kind::NotFound,
        ErrorKind::Forbidden | ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::TooLarge => {
            Kind::Refused
        }
        ErrorKind::Rejected
            if error.status().is_some_and(|status| {
                // Some tell a refusal with a status of success.
                status.is_success() || status == StatusCode::UNSUPPORTED_MEDIA_TYPE
            }) =>
        {
            Kind::Refused
        }
        ErrorKind::RateLimited => Kind::RateLimited,
        ErrorKind::WrongOrganization { .. } => Kind::CheckFailed,
        _ if unknown => Kind::OutcomeUnknown,
        ErrorKind::Connect
        | ErrorKind::Proxy
        | ErrorKind::Tls
        | ErrorKind::ConnectionLost
        | ErrorKind::Timeout
        | ErrorKind::Server => Kind::Unavailable,
        ErrorKind::Rejected if error.status() == Some(StatusCode::REQUEST_TIMEOUT) => {
            Kind::Unavailable
        }
        _ => Kind::Other,
    }
}

/// The SDK's description of the error, followed by the service's message or the root cause.
fn message(error: &Error) -> String {
    let mut message = match (error.kind(), error.operation()) {
        (ErrorKind::InvalidInput(invalid), _) => format!("{}: {}", invalid.field, invalid.problem),
        (ErrorKind::MissingScope { .. }, Some(operation)) => {
            format!("{}, which {} requires", error.kind(), operation.name())
        }
        (ErrorKind::Server, _) => match error.status().map(|status| status.as_u16()) {
            Some(502..=504) => "the service is temporarily unavailable".to_owned(),
            _ => "the service has an internal error".to_owned(),
        },
        (kind, _) => kind.to_string(),
    };
    // Omit a service message that only repeats the scope.
    let repeats_scope = |text: &str| {
        let scope = error.required_scope().filter(|_| error.is_missing_scope());
        scope.is_some_and(|scope| text.contains(scope.as_str()))
    };

    if let Some(text) = error
        .message()
        .filter(|text| !text.is_empty() && !repeats_scope(text) && !says_unavailable(error, text))
    {
        message.push_str(": ");
        message.push_str(text);
    } else if let Some(cause) = root_cause(error) {
        message.push_str(": ");
        message.push_str(&cause);
    }
    message
}

/// Whether a message only repeats that the service is unavailable.
fn says_unavailable(error: &Error, text: &str) -> bool {
    matches!(error.kind(), ErrorKind::Server) && text.contains("unavailable")
}

/// The innermost cause of a failed connection, as the operating system or TLS library words it.
fn root_cause(error: &Error) -> Option<String> {
    if error.status().is_some() {
        return None;
    }

    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let cause = causes.last()?.to_string();
    // What rustls says about a server that speaks plain http.
    if cause.contains("InvalidContentType") {
        Some("the server does not use TLS on this port; is its base URL http://?".into())
    } else {
        Some(cause)
    }
}
