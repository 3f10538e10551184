//! `Call<T>`: an operation with its parameters and options, before it is sent. An error in a
//! parameter is kept in the call, and returned when the call is awaited. Then the recipient guard
//! checks the request and counts its recipients, `send.rs` sends it, and the closure `read` decodes
//! the response. When the call ends or is dropped, the counted recipients are given back, unless
//! the service may have processed the request.

use std::fmt::{self, Write as _};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, COOKIE, PROXY_AUTHORIZATION, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Method};
use serde_json::Value;

use super::guard::ActiveGuard;
use super::preview::RequestPreview;
use super::request::body::InDoubt;
use super::request::path;
use super::request::{Confirmation, OnRepetition, Options, Payload, Request, RequestBody};
use super::response::{FromResponse, RawResponse, Received, Response};
use super::send::send;
use super::shared::Shared;
use crate::decode::parse_list;
use crate::dialect::{Dialect, Point};
use crate::error::{Error, InvalidInput};
use crate::list::{List, read_list_by};
use crate::names::setters;
use crate::operation::Operation;

/// A request that has not been sent yet. Awaiting it sends the request and returns the
/// decoded response.
///
/// Every operation of a client returns a `Call`. Options that apply to this call only are
/// set before awaiting it, and override those of the client:
///
/// - [`timeout`](Self::timeout), [`attempt_timeout`](Self::attempt_timeout) and
///   [`retries`](Self::retries)
/// - [`idempotency_key`](Self::idempotency_key) and [`header`](Self::header)
/// - [`with_response`](Self::with_response) also returns status, headers and request id
///
/// [`to_request`](Self::to_request) returns the request without sending it, and `block`
/// (feature `blocking`) sends it from a program without an async runtime.
/// [`EmailClient::raw`](crate::EmailClient::raw) returns a `Call` whose query and body can
/// be set, too.
///
/// Invalid parameters are reported when the call is awaited, as an error of kind
/// [`InvalidInput`](crate::ErrorKind::InvalidInput); nothing is sent then. Dropping the
/// future stops the call and its retries; a request that was already sent may still be
/// processed.
///
/// To run a call as a task, pass its future: `tokio::spawn(call.into_future())`.
///
/// # Panics
///
/// Awaiting a call panics if a callback, a header hook or a key provider of the application
/// panics.
///
/// ```no_run
/// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
/// use std::time::Duration;
///
/// let response = client
///     .emails()
///     .get("eml_1")
///     .timeout(Duration::from_secs(5))
///     .retries(0)
///     .with_response()
///     .await?;
/// println!("{} {:?}: {:?}", response.status, response.request_id, response.value.status);
/// # Ok(())
/// # }
/// ```
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<T> {
    pub(super) shared: Arc<Shared>,
    pub(super) request: Result<Request, Error>,
    pub(super) options: Options,
    read: Read<T>,
}

/// Decodes the response.
type Read<T> = Box<dyn FnOnce(&Received) -> Result<T, Error> + Send + Sync>;

impl<T> Call<T> {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        operation: Operation,
        ids: &[&str],
        body: Result<impl Into<RequestBody>, Error>,
    ) -> Self
    where
        T: FromResponse + 'static,
    {
        Self::read_by(T::from_response, shared, operation, ids, body)
    }

    pub(crate) fn without_body(shared: &Arc<Shared>, operation: Operation, ids: &[&str]) -> Self
    where
        T: FromResponse + 'static,
    {
        Self::new(shared, operation, ids, Ok(Payload::Empty))
    }

    /// A call whose response `read` decodes.
    pub(crate) fn read_by(
        read: impl FnOnce(&Received) -> Result<T, Error> + Send + Sync + 'static,
        shared: &Arc<Shared>,
        operation: Operation,
        ids: &[&str],
        body: Result<impl Into<RequestBody>, Error>,
    ) -> Self {
        let request = build_request(shared, operation, ids, body);
        Self::from_request(
            read,
            shared,
            request.map_err(|error| error.with_operation(operation)),
        )
    }

    pub(super) fn from_request(
        read: impl FnOnce(&Received) -> Result<T, Error> + Send + Sync + 'static,
        shared: &Arc<Shared>,
        request: Result<Request, Error>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            request,
            options: Options::default(),
            read: Box::new(read),
        }
    }

    /// Sends an `Idempotency-Key` header. The key must be non-empty printable ASCII.
    ///
    /// If the client was built with
    /// [`service_honors_idempotency_key(true)`](crate::ClientBuilder::service_honors_idempotency_key),
    /// this call is also retried after ambiguous failures. Sends then have a key by themselves;
    /// with one of your own, the call can be repeated later, even by another process.
    ///
    /// A service that honors the key refuses the same key with another body (409). So a value
    /// that is made anew for each try, such as `scheduled_at(now + 24 h)`, must be stored with
    /// the key and sent unchanged.
    pub fn idempotency_key(mut self, key: impl AsRef<str>) -> Self {
        let key = key.as_ref();
        let can_be_sent =
            !key.trim().is_empty() && key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        match HeaderValue::from_str(key) {
            Ok(value) if can_be_sent => self.options.idempotency_key = Some(value),
            _ => self.reject(InvalidInput::new(
                "idempotency key",
                "must be non-empty printable ASCII",
            )),
        }
        self
    }

    /// Sets a header of this call. It replaces a client header of the same name, but cannot
    /// replace the header that carries the API key.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        match header(
            name.as_ref(),
            value.as_ref(),
            &self.shared.target.key_header,
        ) {
            Ok((name, value)) => {
                self.options.headers.insert(name, value);
            }
            Err(problem) => self.reject(InvalidInput::new("header", problem)),
        }
        self
    }

    /// Also returns the status, headers and request id of the response.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// let response = client.emails().get("eml_1").with_response().await?;
    /// println!("{} {:?}: {:?}", response.status, response.request_id, response.value);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_response(self) -> Call<Response<T>>
    where
        T: 'static,
    {
        self.then(|received, value| Ok(received.with_value(value)))
    }

    /// Returns the exact request that would be sent, with the API key masked, without
    /// sending it.
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
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if a parameter is
    /// invalid.
    pub fn to_request(&self) -> Result<RequestPreview, Error> {
        let request = self.request.as_ref().map_err(Error::clone)?;
        check_guard(&self.shared, request, &self.options)?;
        Ok(RequestPreview::new(
            &self.shared.target,
            request,
            &self.options,
        ))
    }

    /// The operation. `None` for a raw request that matches no documented operation.
    pub fn operation(&self) -> Option<Operation> {
        match &self.request {
            Ok(request) => request.operation,
            Err(error) => error.operation(),
        }
    }

    /// After a conflict, `get` finds out whether an earlier attempt whose response was lost has
    /// done what was asked for; `is_done` reads its body.
    pub(crate) fn confirmed_by<U>(
        mut self,
        get: Call<U>,
        is_done: fn(&[u8], &Dialect) -> bool,
    ) -> Self {
        if let (Ok(request), Ok(get)) = (&mut self.request, get.request) {
            request.on_repetition = OnRepetition::Confirm(Box::new(Confirmation {
                request: get,
                is_done,
            }));
        }
        self
    }

    /// Makes something else of the decoded value, and the response that it came from.
    pub(crate) fn then<U>(
        self,
        read_on: impl FnOnce(&Received, T) -> Result<U, Error> + Send + Sync + 'static,
    ) -> Call<U>
    where
        T: 'static,
    {
        let read = self.read;
        Call {
            shared: self.shared,
            request: self.request,
            options: self.options,
            read: Box::new(move |received| read_on(received, read(received)?)),
        }
    }

    pub(crate) fn with_query(mut self, name: &str, value: impl fmt::Display) -> Self {
        if let Ok(request) = &mut self.request {
            path::set_query(request.path.to_mut(), name, &value.to_string());
        }
        self
    }

    /// The path, relative to the base URL, that a link in the response to this call leads to. `None`
    /// if it leads to another host.
    pub(crate) fn path_of(&self, link: &str) -> Option<String> {
        let path = &self.request.as_ref().ok()?.path;
        let url = self.shared.target.url(path).join(link).ok()?;
        let base = &self.shared.target.base;
        if url.origin() != base.origin() {
            return None;
        }

        let prefix = base.path().trim_end_matches('/');
        let path = url.path().strip_prefix(prefix).unwrap_or(url.path());
        Some(match url.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        })
    }

    /// The number of the first page of a list.
    pub(crate) fn first_page(&self) -> u64 {
        match self.shared.settings.dialect.choice(Point::FirstPage) {
            "0" => 0,
            _ => 1,
        }
    }

    /// Replaces path and query, for a link of the service.
    pub(crate) fn with_path(mut self, path: String) -> Self {
        if let Ok(request) = &mut self.request {
            request.path = path.into();
        }
        self
    }

    pub(super) fn reject(&mut self, invalid: InvalidInput) {
        if let Ok(request) = &self.request {
            self.request = Err(Error::from(invalid).with_operation(request.operation));
        }
    }
}

setters! {
    impl<T> Call<T>;

    /// Sets the deadline of this call, including all attempts and the pauses between them.
    timeout(timeout: Duration) { options.timeout = Some(timeout) }

    /// Sets the time limit of each attempt of this call, see
    /// [`ClientBuilder::attempt_timeout`](crate::ClientBuilder::attempt_timeout).
    attempt_timeout(timeout: Duration) { options.attempt_timeout = Some(timeout) }

    /// Sets the maximum number of retries of this call.
    retries(retries: u32) { options.retries = Some(retries) }
}

fn build_request(
    shared: &Shared,
    operation: Operation,
    ids: &[&str],
    body: Result<impl Into<RequestBody>, Error>,
) -> Result<Request, Error> {
    let path = path::fill(operation, ids)?;
    shared.check_scope(operation)?;
    let RequestBody {
        payload,
        recipients,
    } = body?.into();

    let sends = matches!(
        operation,
        Operation::EmailsSend | Operation::EmailsSendBatch
    );
    let needs_key = sends && shared.settings.honors_idempotency_key;
    let on_repetition = if *operation.method() == Method::DELETE {
        OnRepetition::MayBeDeleted
    } else {
        OnRepetition::Refused
    };
    Ok(Request {
        operation: Some(operation),
        method: operation.method().clone(),
        path,
        payload,
        idempotent: operation.is_idempotent(),
        recipients,
        idempotency_key: needs_key.then(random_key).flatten(),
        on_repetition,
    })
}

/// 128 bits from the random seeds of the standard library's hash maps.
fn random_key() -> Option<HeaderValue> {
    let random = || RandomState::new().build_hasher().finish();
    let mut key = String::with_capacity(32);
    write!(key, "{:016x}{:016x}", random(), random()).ok()?;
    key.try_into().ok()
}

impl Call<RawResponse> {
    /// Reads the response as a list of any JSON.
    pub(crate) fn into_list(self) -> Call<List<Value>> {
        self.then(|received, _| {
            let value = parse_list(&received.body);
            let list = value.and_then(|value| {
                read_list_by(value, &received.headers, &received.dialect, |item| item)
            });
            list.map_err(|bad| received.decode_error(bad))
        })
    }
}

/// Whatever is sent, the recipient guard has seen all of its request.
fn check_guard(shared: &Shared, request: &Request, options: &Options) -> Result<(), Error> {
    let Some(guard) = &shared.guard else {
        return Ok(());
    };
    let headers = shared.target.headers.keys().chain(options.headers.keys());
    guard.check_request(shared.target.base.path(), request, headers)
}

/// Checks a header that the application sets, and marks a value that [`RequestPreview`] masks.
pub(super) fn header(
    name: &str,
    value: &str,
    key_header: &HeaderName,
) -> Result<(HeaderName, HeaderValue), &'static str> {
    let name = HeaderName::try_from(name).map_err(|_| "has a name that is not valid")?;
    if name == *key_header {
        return Err("carries the API key and cannot be set");
    }
    // A wrong value would let the server read one request as two (request smuggling).
    if matches!(name, CONTENT_LENGTH | TRANSFER_ENCODING) {
        return Err("delimits the body and cannot be set");
    }

    let mut value = HeaderValue::from_str(value)
        .map_err(|_| "has a value with characters that are not allowed")?;
    value.set_sensitive(matches!(name, AUTHORIZATION | PROXY_AUTHORIZATION | COOKIE));
    Ok((name, value))
}

impl<T: 'static> IntoFuture for Call<T> {
    type Output = Result<T, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let request = self.request?;
            check_guard(&self.shared, &request, &self.options)?;
            let in_doubt = InDoubt::default();
            let _counted = Counted::new(&self.shared, &request, in_doubt.clone())?;
            let received = send(&self.shared, &request, &self.options, &in_doubt).await;
            (self.read)(&received?)
        })
    }
}

/// The recipients of a request, counted by the recipient guard. When the call ends or is dropped,
/// they count on only if the service may have processed the request.
struct Counted {
    guard: Option<Arc<ActiveGuard>>,
    recipients: u64,
    in_doubt: InDoubt,
}

impl Counted {
    fn new(shared: &Shared, request: &Request, in_doubt: InDoubt) -> Result<Self, Error> {
        let guard = shared.guard.clone();
        if let Some(guard) = &guard {
            guard
                .count(request.recipients)
                .map_err(|error| error.with_operation(request.operation))?;
        }
        Ok(Self {
            guard,
            recipients: request.recipients,
            in_doubt,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(guard) = &self.guard
            && !self.in_doubt.get()
        {
            guard.uncount(self.recipients);
        }
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("operation", &self.operation())
            .finish_non_exhaustive()
    }
}
