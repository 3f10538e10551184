//! A call: an operation with its input, its options, and nothing sent yet.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, COOKIE, PROXY_AUTHORIZATION, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::preview::RequestPreview;
use super::response::{FromAnswer, Response};
use super::{BoxFuture, Payload, Shared, path, transport};
use crate::error::Target;
use crate::{Error, InvalidInput, Operation};

/// An operation that is about to be called. It runs when it is awaited; until
/// then its options can be set.
///
/// ```no_run
/// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
/// use std::time::Duration;
///
/// let answer = client
///     .emails()
///     .get("eml_1")
///     .timeout(Duration::from_secs(5))
///     .retries(0)
///     .with_response()
///     .await?;
/// println!("{} {:?}: {:?}", answer.status, answer.request_id, answer.value.status);
/// # Ok(())
/// # }
/// ```
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<T> {
    pub(super) shared: Arc<Shared>,
    pub(super) request: Result<Request, Error>,
    pub(super) options: Options,
    answer: PhantomData<fn() -> T>,
}

/// What is to be sent.
pub(crate) struct Request {
    pub(super) target: Target,
    pub(super) method: Method,
    /// The path below the base address, with the query.
    pub(super) path: Cow<'static, str>,
    pub(super) payload: Payload,
    /// Whether doing it twice is as doing it once.
    pub(super) harmless: bool,
    /// How many emails a batch has.
    pub(super) expected: usize,
    pub(super) organization: Option<String>,
}

/// What one call does differently.
#[derive(Default)]
pub(crate) struct Options {
    pub(super) timeout: Option<Duration>,
    pub(super) retries: Option<u32>,
    pub(super) idempotency_key: Option<HeaderValue>,
    pub(super) headers: HeaderMap,
}

impl<T> Call<T> {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        operation: Operation,
        ids: &[&str],
        payload: Result<Payload, Error>,
    ) -> Self {
        let target = Target::Operation(operation);
        let request = || -> Result<Request, Error> {
            let path = path::fill(operation, ids)?;
            shared.check_scope(operation)?;
            Ok(Request {
                target,
                method: operation.method().into(),
                path,
                payload: payload?,
                harmless: operation.is_idempotent(),
                expected: 0,
                organization: None,
            })
        };
        Self::from_request(shared, request().map_err(|error| error.with_target(target)))
    }

    pub(super) fn from_request(shared: &Arc<Shared>, request: Result<Request, Error>) -> Self {
        Self {
            shared: Arc::clone(shared),
            request,
            options: Options::default(),
            answer: PhantomData,
        }
    }

    /// The deadline over all attempts and waits, for this call.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// How often at most it is tried again, for this call.
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = Some(retries);
        self
    }

    /// Sends an `Idempotency-Key`.
    ///
    /// Where the client was told that the service honours it
    /// (`service_honours_idempotency_key`), ambiguous failures of this call
    /// are tried again too.
    pub fn idempotency_key(mut self, key: impl AsRef<str>) -> Self {
        let key = key.as_ref();
        let can_be_sent =
            !key.trim().is_empty() && key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match HeaderValue::from_str(key) {
            Ok(value) if can_be_sent => self.options.idempotency_key = Some(value),
            _ => self.refuse(InvalidInput::new("idempotency key", "empty or not printable ascii")),
        }
        self
    }

    /// A header for this call, in place of one of the same name. It cannot
    /// replace the key.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let name = HeaderName::try_from(name.as_ref());
        match (name, HeaderValue::from_str(value.as_ref())) {
            (Ok(name), _) if name == self.shared.key_header => {
                self.refuse(InvalidInput::new("header", "the key's own header"));
            }
            (Ok(name), _) if is_framing(&name) => {
                self.refuse(InvalidInput::new("header", "how a body is framed is not for callers"));
            }
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(is_secret(&name));
                self.options.headers.insert(name, value);
            }
            (Err(_), _) => self.refuse(InvalidInput::new("header", "no header name")),
            (_, Err(_)) => {
                self.refuse(InvalidInput::new("header", "a value that no header can carry"));
            }
        }
        self
    }

    /// Gives status, headers and request id beside the value.
    pub fn with_response(self) -> Call<Response<T>> {
        Call {
            shared: self.shared,
            request: self.request,
            options: self.options,
            answer: PhantomData,
        }
    }

    /// The exact request that would be sent, the key masked. Nothing is sent.
    ///
    /// ```
    /// # fn main() -> Result<(), svc_sdk::Error> {
    /// let client = svc_sdk::EmailClient::builder("https://mail.example", "mk_…").build()?;
    /// let request = client.emails().get("a/b").to_request()?;
    /// assert_eq!(request.url, "https://mail.example/api/v1/emails/a%2Fb");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the input would be refused before sending.
    pub fn to_request(self) -> Result<RequestPreview, Error> {
        let request = self.request?;
        Ok(RequestPreview::new(&self.shared, request, &self.options))
    }

    /// The operation, unless it is a raw request that the documents do not
    /// show.
    pub fn operation(&self) -> Option<Operation> {
        match &self.request {
            Ok(request) => request.target.operation(),
            Err(error) => error.operation(),
        }
    }

    pub(crate) fn expecting(mut self, count: usize) -> Self {
        if let Ok(request) = &mut self.request {
            request.expected = count;
        }
        self
    }

    pub(crate) fn of_organization(mut self, id: String) -> Self {
        if let Ok(request) = &mut self.request {
            request.organization = Some(id);
        }
        self
    }

    pub(crate) fn with_query(mut self, name: &str, value: Option<u64>) -> Self {
        if let (Ok(request), Some(value)) = (&mut self.request, value) {
            path::push_query(request.path.to_mut(), name, &value.to_string());
        }
        self
    }

    pub(super) fn refuse(&mut self, invalid: InvalidInput) {
        if let Ok(request) = &self.request {
            self.request = Err(Error::from(invalid).with_target(request.target));
        }
    }
}

/// What tells a body's length: a wrong one makes two requests of one.
pub(super) fn is_framing(name: &HeaderName) -> bool {
    matches!(*name, CONTENT_LENGTH | TRANSFER_ENCODING)
}

/// What a dry run does not show.
pub(super) fn is_secret(name: &HeaderName) -> bool {
    matches!(*name, AUTHORIZATION | PROXY_AUTHORIZATION | COOKIE)
}

impl<T: FromAnswer> IntoFuture for Call<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let request = self.request?;
            let answer = transport::send(&self.shared, &request, &self.options).await?;
            T::from_answer(&answer)
        })
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("operation", &self.operation()).finish_non_exhaustive()
    }
}

impl From<crate::Method> for Method {
    fn from(method: crate::Method) -> Self {
        match method {
            crate::Method::Get => Self::GET,
            crate::Method::Post => Self::POST,
            crate::Method::Patch => Self::PATCH,
            crate::Method::Delete => Self::DELETE,
        }
    }
}
