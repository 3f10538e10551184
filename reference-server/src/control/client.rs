//! [`Client`]: how to reach a server, and the organization that requests are about; and
//! [`Request`], a request that has not been sent yet.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Map, Value, json};
use svc_sdk::{Call, EmailClient, RawResponse, Secret, StatusCode};

use super::endpoint::{Declaration, Decode, Endpoint, Page, Subject};
use crate::model::time::duration_text;

/// A client of the control interface, for one organization.
///
/// `Server::client` creates one for a server in this process, [`new`](Self::new) one for a
/// server elsewhere.
#[derive(Clone, Debug)]
pub struct Client {
    http: EmailClient,
    organization: Option<String>,
}

impl Client {
    /// A client of the server at a base URL, such as `http://127.0.0.1:4080`, for the seeded
    /// organization.
    ///
    /// # Errors
    ///
    /// If the URL is invalid.
    pub fn new(base_url: impl AsRef<str>) -> Result<Self, Error> {
        Self::with_token(base_url, "none")
    }

    /// Like [`new`](Self::new), with the control token that a server may require.
    ///
    /// # Errors
    ///
    /// If the URL or the token is invalid.
    pub fn with_token(base_url: impl AsRef<str>, token: impl Into<Secret>) -> Result<Self, Error> {
        let http = EmailClient::builder(base_url.as_ref(), token)
            .no_proxy()
            .build()?;
        Ok(Self::from_http(http))
    }

    /// A client that sends its requests through another one, whose key is the control token,
    /// if the server requires one.
    pub fn from_http(http: EmailClient) -> Self {
        Self {
            http,
            organization: None,
        }
    }

    /// A client for another organization, by its ID or name.
    #[must_use]
    pub fn of(&self, organization: impl Into<String>) -> Self {
        Self {
            http: self.http.clone(),
            organization: Some(organization.into()),
        }
    }

    /// A request without a body. The parameters are those of the path, in order.
    pub(crate) fn call<B, R, Q>(
        &self,
        endpoint: &Endpoint<B, R, Q>,
        parameters: &[&str],
    ) -> Request<R> {
        let Declaration {
            method,
            path: template,
            subject,
            ..
        } = &endpoint.declared;
        let is_idempotent = method != Method::POST;
        let path = path(template, parameters);
        let mut call = self
            .http
            .raw(method.as_str(), &path)
            .idempotent(is_idempotent);
        if let Some(organization) = &self.organization
            && *subject == Subject::Organization
        {
            call = call.query("organization", organization);
        }

        let wait = endpoint.declared.wait.map(|[default, _]| default);
        Request {
            call,
            decode: endpoint.decode,
            is_idempotent,
            wait,
        }
    }

    /// A request with the query parameters that are set.
    pub(crate) fn select<R, Q: Serialize>(
        &self,
        endpoint: &Endpoint<(), R, Q>,
        parameters: &[&str],
        query: &Q,
    ) -> Request<R> {
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        let set = fields(query);
        set.iter()
            .fold(self.call(endpoint, parameters), |request, (name, value)| {
                request.query(name, text(value))
            })
    }

    /// A request with a JSON body, without the fields that are not set.
    pub(crate) fn send<B: Serialize, R, Q>(
        &self,
        endpoint: &Endpoint<B, R, Q>,
        parameters: &[&str],
        body: &B,
    ) -> Request<R> {
        let mut request = self.call(endpoint, parameters);
        request.call = request.call.json(&Value::Object(fields(body)));
        request
    }
}

/// Declares requests without query and body: for each, its endpoint and the method of the client, which
/// takes the parameters of the path.
macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        $endpoint:ident: fn $method:ident($($parameter:ident),*) -> $reply:ty = $declared:expr;
    )*) => {
        $(pub(crate) const $endpoint: $crate::control::endpoint::Endpoint<(), $reply> = $declared;)*

        impl $crate::control::client::Client {
            $(
                $(#[$doc])*
                pub fn $method(&self, $($parameter: &str),*) -> $crate::control::client::Request<$reply> {
                    self.call(&$endpoint, &[$($parameter),*])
                }
            )*
        }
    };
}
pub(crate) use requests;

/// The fields that are set.
fn fields(object: &impl Serialize) -> Map<String, Value> {
    let Value::Object(mut fields) = json!(object) else {
        return Map::new();
    };
    fields.retain(|_, value| !value.is_null());
    fields
}

/// The path with its parameters, percent-encoded.
fn path(template: &str, parameters: &[&str]) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'~');

    let mut parameters = parameters.iter();
    let segments = template.split('/').map(|segment| {
        if !segment.starts_with('{') {
            return segment.to_owned();
        }

        // An empty one would make another path of it. A dot is the same as an empty segment,
        // and the SDK reports it.
        match *parameters.next().unwrap_or(&"") {
            "" => ".".to_owned(),
            value => utf8_percent_encode(value, KEPT).to_string(),
        }
    });
    segments.collect::<Vec<_>>().join("/")
}

/// A request to the control interface. Awaiting it sends it and returns the response.
///
/// # Panics
///
/// Awaiting it panics outside of a Tokio runtime.
#[must_use = "a request does nothing until it is awaited"]
#[non_exhaustive]
pub struct Request<T> {
    /// The call of the SDK.
    pub call: Call<RawResponse>,
    /// Reads the response.
    pub decode: Decode<T>,
    /// Whether sending it twice does no more than sending it once.
    pub is_idempotent: bool,
    /// How long the server may take to respond, if it waits for something.
    pub wait: Option<Duration>,
}

/// How much longer than the server's own wait a response may take.
const RESPONSE_TIME: Duration = Duration::from_secs(300);

impl<T> Request<T> {
    /// Adds a query parameter.
    pub(crate) fn query(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.call = self.call.query(name, value);
        self
    }

    /// Sets a body that is not JSON.
    pub(crate) fn body(mut self, body: Bytes, content_type: &str) -> Self {
        self.call = self.call.body(body, content_type);
        self
    }

    /// Allows for a server that waits this long before it responds.
    pub(crate) fn waits(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Tells the server how long to wait.
    pub(crate) fn timeout(self, timeout: Duration) -> Self {
        self.query("timeout", duration_text(timeout)).waits(timeout)
    }
}

impl<T> Request<Page<T>> {
    /// Limits the page to this many items, 1 to 100. Default: 20.
    pub fn limit(self, limit: u32) -> Self {
        self.query("limit", limit.to_string())
    }

    /// Requests the page at this cursor, the `next` of the previous page.
    pub fn cursor(self, cursor: impl AsRef<str>) -> Self {
        self.query("cursor", cursor)
    }
}

impl<T: 'static> IntoFuture for Request<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let call = match self.wait {
            Some(wait) => self
                .call
                .timeout(wait.saturating_add(RESPONSE_TIME))
                .retries(0),
            None => self.call,
        };
        Box::pin(async move { Ok((self.decode)(&call.await?)?) })
    }
}

impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").finish_non_exhaustive()
    }
}

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
}

/// The SDK's error also has the kind and the response.
impl From<Error> for svc_sdk::Error {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl From<svc_sdk::Error> for Error {
    fn from(error: svc_sdk::Error) -> Self {
        Self(error)
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

/// The same as `Display`: a failed `unwrap` prints it.
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
