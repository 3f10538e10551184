//! `ErrorKind`, `Outcome`, and `InvalidInput` for what is rejected before it is sent. Each kind
//! documents when it occurs, what to do, and whether the service may have processed the request.
//! The outcome of an error covers all attempts of its call, so it counts more than what the kind
//! says. The names that `ErrorKind::name` returns are in users' logs and metrics, and must not
//! change.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::names::named_enum;
use crate::scope::Scope;

/// The cause of an [`Error`](crate::Error).
///
/// Each variant documents when it occurs, what to do about it, and whether the service may
/// have processed the request. [`Error::outcome`](crate::Error::outcome) gives the exact
/// answer to the last question for the call at hand: if an earlier attempt of the same call
/// may have been processed, the outcome is [`Outcome::Unknown`] whatever the kind.
///
/// New variants may be added, so a `match` needs a wildcard arm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client or the call is set up incorrectly: for example the base URL is not a
    /// valid URL, the API key is empty, a certificate cannot be parsed, or a blocking
    /// method was called from async code.
    ///
    /// Fix the configuration that `problem` names. The request was not sent.
    #[error("{problem}")]
    #[non_exhaustive]
    Config {
        /// The problem. Contains no secrets.
        problem: String,
    },
    /// A parameter exceeds a documented limit or cannot be encoded. The client detected
    /// this before sending; [`InvalidInput`] names the field and the limit.
    ///
    /// Fix the field. The checks of documented limits can be turned off with
    /// `local_checks(false)` on the client's builder. The request was not sent.
    #[error("{0}")]
    InvalidInput(InvalidInput),
    /// The client's [`RecipientGuard`](crate::RecipientGuard) does not allow the request.
    /// [`InvalidInput`] names the field, the recipient and the rule.
    ///
    /// Write to allowed recipients only, or change the guard. The request was not sent.
    #[error("stopped by the recipient guard: {0}")]
    RecipientGuard(InvalidInput),
    /// The service did not accept the API key (HTTP 401): it is missing, malformed,
    /// revoked, or belongs to another service.
    ///
    /// Check the key. A missing scope is reported as [`MissingScope`](Self::MissingScope)
    /// instead. The service did not process the request.
    #[error("the service rejected the API key")]
    Unauthorized,
    /// The API key lacks the scope that the operation requires. Either the service
    /// responded with HTTP 403 and mentioned a scope or permission, or the client knows the
    /// key's scopes and `check_scopes(true)` made it reject the call before sending.
    ///
    /// Use a key that has the scope `required`. The service did not process the request.
    #[error("{}", missing_scope(*required, granted.as_ref()))]
    #[non_exhaustive]
    MissingScope {
        /// The required scope, as documented or else as named by the service. `None` if
        /// neither is known, which can happen for `emails.cancel`.
        required: Option<Scope>,
        /// The scopes that the key is known to have. `None` if they are not known.
        granted: Option<BTreeSet<Scope>>,
    },
    /// The service refused the request for another reason (HTTP 403), such as a sender
    /// domain that is not verified.
    ///
    /// See [`Error::code`](crate::Error::code) and
    /// [`Error::message`](crate::Error::message). The service did not process the request.
    #[error("the service refused the request")]
    Forbidden,
    /// The resource does not exist (HTTP 404 or 410).
    ///
    /// Check the id, and that the key belongs to the organization that owns the resource.
    /// The service did not process the request.
    #[error("resource not found")]
    NotFound,
    /// The request conflicts with existing data (HTTP 409), such as a duplicate.
    ///
    /// Fetch the current state and decide whether the change is still needed. With an
    /// idempotency key it may also mean that the key was used with another body, for example
    /// with a date that is computed anew for each try. The service did not process the request.
    #[error("the request conflicts with existing data")]
    Conflict,
    /// The service rejected the content of the request (HTTP 400 or 422).
    ///
    /// See [`Error::fields`](crate::Error::fields) and
    /// [`Error::message`](crate::Error::message) for the invalid fields. The service did
    /// not process the request.
    #[error("the service rejected the request as invalid")]
    Invalid,
    /// The request is larger than the service accepts (HTTP 413).
    ///
    /// Send less, for example smaller attachments or a smaller batch. The service did not
    /// process the request.
    #[error("the request is larger than the service accepts")]
    TooLarge,
    /// The service limits the request rate (HTTP 429), and the client did not retry, or
    /// its retries were used up.
    ///
    /// Wait for [`Error::retry_after`](crate::Error::retry_after), or a few seconds if it
    /// is `None`, and repeat the call. The service did not process the request.
    #[error("rate limit exceeded")]
    RateLimited,
    /// The service responded with a 4xx status that has no variant of its own, or with a 2xx status
    /// and a body that reports a failure, such as `{"success": false}`.
    ///
    /// See [`Error::status`](crate::Error::status) and
    /// [`Error::message`](crate::Error::message). The service did not process the request,
    /// except perhaps after 408 (request timeout), which some servers send after work began.
    #[error("the service rejected the request")]
    Rejected,
    /// The service failed (HTTP 5xx).
    ///
    /// The service may have processed the request. Repeat an idempotent call later; for any
    /// other call, first check whether it took effect.
    #[error("internal error of the service")]
    Server,
    /// The service responded with a redirect (HTTP 3xx). The client does not follow
    /// redirects, because the API key is meant for the configured host only.
    ///
    /// Check the base URL, in particular `http` instead of `https` and a missing path.
    /// After 307 and 308 the request was not processed; after any other redirect it may
    /// have been.
    #[error("the service sent a redirect, which the client does not follow; check the base URL")]
    Redirected,
    /// No connection was established: DNS lookup or TCP connection failed.
    ///
    /// Check the base URL and the network, then repeat the call. The request was not sent.
    #[error("cannot connect to the service")]
    Connect,
    /// The proxy cannot be reached, or refused to forward the request: for example, it demands
    /// credentials (HTTP 407) or may not connect to the service.
    ///
    /// Check the proxy and its settings, then repeat the call. The service did not get the request.
    #[error("the proxy cannot be reached, or does not forward the request")]
    Proxy,
    /// The TLS handshake failed, usually because the service's certificate is not trusted.
    /// With the feature `native-tls`, this is [`Connect`](Self::Connect) instead.
    ///
    /// Check the certificate, or trust its issuer with `ca_bundle` on the client's builder.
    /// The request was not sent.
    #[error("the TLS handshake with the service failed")]
    Tls,
    /// The connection was lost before the complete response was received, or what was
    /// received is not HTTP.
    ///
    /// Check the outcome: if it is [`Outcome::Unknown`], the service may have processed the
    /// request.
    #[error("the connection to the service was lost before the response was complete")]
    ConnectionLost,
    /// The deadline of the call or of a [`Wait`](crate::Wait) passed.
    ///
    /// Allow more time with `timeout`. Check the outcome: if it is [`Outcome::Unknown`],
    /// the service may have processed the request.
    #[error("timed out")]
    Timeout,
    /// The response cannot be decoded: it has a 2xx status and an unexpected body.
    ///
    /// Check the base URL: a web page or a proxy's login form is a frequent cause. The
    /// service may have processed the request.
    #[error("invalid response: {problem}")]
    #[non_exhaustive]
    InvalidResponse {
        /// The problem with the response. Contains none of its content.
        problem: String,
    },
    /// The service responded to a creation with a 2xx status, but without an id that the
    /// client understands. It probably accepted the request, unless the response reports an
    /// error; see [`Error::code`](crate::Error::code),
    /// [`Error::message`](crate::Error::message) and [`Error::body`](crate::Error::body),
    /// which holds the response.
    ///
    /// The points `id-field`, `id-place` and `resource-shape` of the [`Dialect`](crate::Dialect) say
    /// where the id is.
    ///
    /// Do not repeat the call unseen: check first whether the email or the resource exists.
    #[error(
        "the request was probably accepted, but the response contains no id that the client \
         understands"
    )]
    MissingId,
    /// The response body exceeds the client's limit, 16 MiB by default.
    ///
    /// Raise the limit with `max_response_size` on the client's builder. The service
    /// processed the request.
    #[error("the response body exceeds the limit of {limit} bytes")]
    #[non_exhaustive]
    ResponseTooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// An attachment could not be read, or its length changed while it was being sent. The
    /// request was aborted before its end.
    ///
    /// Make the file readable and repeat the call. The service did not receive a complete
    /// request.
    #[error("attachment {} of email {}: {problem}", .attachment + 1, .email + 1)]
    #[non_exhaustive]
    Attachment {
        /// Index of the email in the batch, starting at 0; 0 for a single email.
        email: usize,
        /// Index of the attachment in the email, starting at 0.
        attachment: usize,
        /// The problem. Contains neither the file name nor its content.
        problem: String,
    },
    /// The service returned a page of a list twice, so the client stopped instead of
    /// looping forever.
    ///
    /// The items that were returned before this error are valid. The call only read data.
    #[error("the service returned the same page twice")]
    PageRepeated,
    /// The service said that a list has more items, but not how to get them: neither a number, nor
    /// a cursor, nor a link on the same host led on.
    ///
    /// The items that were returned before this error are valid, but not all. Pin how the lists go
    /// on, with the points `list-pages` and `cursor-param` of the [`Dialect`](crate::Dialect). The
    /// call only read data.
    #[error(
        "the list has more items than the service says how to get (the points `list-pages` and \
         `cursor-param` of the dialect)"
    )]
    IncompleteList,
    /// The API key belongs to another organization than the one passed to
    /// [`ExtractionClient::verify_organization`](crate::ExtractionClient::verify_organization).
    ///
    /// Use a key of the expected organization. The call only read data.
    #[error("the API key belongs to organization {actual}, expected {expected}")]
    #[non_exhaustive]
    WrongOrganization {
        /// The id of the expected organization.
        expected: String,
        /// The id of the organization that the key belongs to.
        actual: String,
    },
}

impl ErrorKind {
    /// Creates [`Config`](Self::Config).
    pub fn config(problem: impl Into<String>) -> Self {
        Self::Config {
            problem: problem.into(),
        }
    }

    /// Creates [`MissingScope`](Self::MissingScope). `granted` is `None` if the scopes of
    /// the key are not known.
    pub fn missing_scope(required: Option<Scope>, granted: Option<BTreeSet<Scope>>) -> Self {
        Self::MissingScope { required, granted }
    }

    /// Creates [`InvalidResponse`](Self::InvalidResponse).
    pub fn invalid_response(problem: impl Into<String>) -> Self {
        Self::InvalidResponse {
            problem: problem.into(),
        }
    }

    /// Creates [`ResponseTooLarge`](Self::ResponseTooLarge), with the limit in bytes.
    pub fn response_too_large(limit: u64) -> Self {
        Self::ResponseTooLarge { limit }
    }

    /// Creates [`Attachment`](Self::Attachment), with indexes that start at 0.
    pub fn attachment(email: usize, attachment: usize, problem: impl Into<String>) -> Self {
        Self::Attachment {
            email,
            attachment,
            problem: problem.into(),
        }
    }

    /// Creates [`WrongOrganization`](Self::WrongOrganization).
    pub fn wrong_organization(expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Self::WrongOrganization {
            expected: expected.into(),
            actual: actual.into(),
        }
    }

    /// A stable name for logs and metrics, such as `missing_scope`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Config { .. } => "config",
            Self::InvalidInput(_) => "invalid_input",
            Self::RecipientGuard(_) => "recipient_guard",
            Self::Unauthorized => "unauthorized",
            Self::MissingScope { .. } => "missing_scope",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::TooLarge => "too_large",
            Self::RateLimited => "rate_limited",
            Self::Rejected => "rejected",
            Self::Server => "server",
            Self::Redirected => "redirected",
            Self::Connect => "connect",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
            Self::ConnectionLost => "connection_lost",
            Self::Timeout => "timeout",
            Self::InvalidResponse { .. } => "invalid_response",
            Self::MissingId => "missing_id",
            Self::ResponseTooLarge { .. } => "response_too_large",
            Self::Attachment { .. } => "attachment",
            Self::PageRepeated => "page_repeated",
            Self::IncompleteList => "incomplete_list",
            Self::WrongOrganization { .. } => "wrong_organization",
        }
    }
}

named_enum! {
    /// Whether the service may have processed a request that failed.
    ///
    /// It covers all attempts of a call. Only [`Unknown`](Self::Unknown) needs care: repeating
    /// such a call may, for example, send an email twice.
    pub enum Outcome {
        /// The service did not receive the complete request. Repeating the call is safe.
        NotSent = "not_sent",
        /// The service received the request and refused it. It had no effect; repeating the
        /// call without a change will usually fail again.
        Refused = "refused",
        /// The service may have processed the request. Check its effect before repeating a call
        /// that is not idempotent.
        Unknown = "unknown",
    }
}

/// A parameter that the client rejected before sending anything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
#[non_exhaustive]
pub struct InvalidInput {
    /// The field's JSON name, such as `to` or `attachments[2].filename`; in a batch,
    /// `emails[7].subject`.
    pub field: Cow<'static, str>,
    /// The problem of the value. Contains the value only if it is a recipient that
    /// [`RecipientGuard`](crate::RecipientGuard) refuses.
    pub problem: Cow<'static, str>,
}

impl InvalidInput {
    /// Creates an error about a field that cannot be sent as it is.
    pub fn new(field: impl Into<Cow<'static, str>>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// A name must occur once in a JSON object.
    pub(crate) fn given_twice(name: &str) -> Self {
        Self::new(
            name.to_owned(),
            "given twice: by its own method and by `extra`; remove one",
        )
    }

    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field).into();
        self
    }
}

fn missing_scope(required: Option<Scope>, granted: Option<&BTreeSet<Scope>>) -> String {
    let mut text = match required {
        Some(scope) => format!("the API key lacks the scope {scope}"),
        None => "the API key lacks a required scope".to_owned(),
    };
    if let Some(granted) = granted {
        let names: Vec<_> = granted.iter().map(|scope| scope.as_str()).collect();
        text += ", granted scopes: ";
        text += if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
        .as_str();
    }
    text
}
