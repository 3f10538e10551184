//! [`Request`]: a request that has not been sent yet.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use svc_sdk::{Call, ErrorKind, Outcome, RawResponse};

use super::connection::Client;
use super::error::Error;
use crate::api::control::Page;
use crate::api::framework::endpoint::Endpoint;

/// A request to the control interface. Awaiting it sends it and returns the response.
///
/// # Panics
///
/// Awaiting it panics outside of a Tokio runtime.
#[must_use = "a request does nothing until it is awaited"]
pub struct Request<T> {
    parts: RequestParts<T>,
}

/// A request, to send it in another way than by awaiting it.
#[non_exhaustive]
pub struct RequestParts<T> {
    /// The call of the SDK.
    pub call: Call<RawResponse>,
    /// Reads the response.
    pub decode: fn(&RawResponse) -> Result<T, svc_sdk::Error>,
    /// Whether sending it twice does no more than sending it once.
    pub is_idempotent: bool,
    /// How long the server may take to respond, if it waits for something.
    pub wait: Option<Duration>,
}

/// How much longer than the server's own wait a response may take.
const RESPONSE_TIME: Duration = Duration::from_secs(300);

impl<T> Request<T> {
    /// The request, to send it in another way.
    pub fn into_parts(self) -> RequestParts<T> {
        self.parts
    }

    /// Adds a query parameter.
    pub(super) fn query(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.parts.call = self.parts.call.query(name, value);
        self
    }

    /// Sets the JSON body that the endpoint takes.
    pub(super) fn with_body<B: Serialize, R>(mut self, _: &Endpoint<B, R>, body: &B) -> Self {
        self.parts.call = self.parts.call.json(body);
        self
    }

    /// Sets a body that is not JSON.
    pub(super) fn with_bytes(mut self, body: Bytes, content_type: &str) -> Self {
        self.parts.call = self.parts.call.body(body, content_type);
        self
    }

    /// Allows for a server that waits this long before it responds.
    pub(super) fn waits(mut self, wait: Duration) -> Self {
        self.parts.wait = Some(wait);
        self
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
        let RequestParts { call, decode, wait, .. } = self.parts;
        let call = match wait {
            Some(wait) => call.timeout(wait.saturating_add(RESPONSE_TIME)).retries(0),
            None => call,
        };
        Box::pin(async move { Ok(decode(&call.await?)?) })
    }
}

impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for RequestParts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestParts").finish_non_exhaustive()
    }
}

impl Client {
    /// A request whose response is JSON.
    pub(super) fn json<B, R>(&self, endpoint: &Endpoint<B, R>, parameters: &[&str]) -> Request<R>
    where
        R: DeserializeOwned,
    {
        self.request(endpoint, parameters, |response| {
            response.json().map_err(|error| {
                let kind = ErrorKind::invalid_response(error.to_string());
                svc_sdk::Error::new(kind, Outcome::Unknown)
            })
        })
    }

    /// A request whose response has no body.
    pub(super) fn empty<B>(&self, endpoint: &Endpoint<B, ()>, parameters: &[&str]) -> Request<()> {
        self.request(endpoint, parameters, |_| Ok(()))
    }

    /// A request whose response is read by `decode`.
    pub(super) fn request<B, R, T>(
        &self,
        endpoint: &Endpoint<B, R>,
        parameters: &[&str],
        decode: fn(&RawResponse) -> Result<T, svc_sdk::Error>,
    ) -> Request<T> {
        let is_idempotent = endpoint.method != Method::POST;
        let path = path(endpoint.path, parameters);
        let mut call = self.http.raw(endpoint.method.as_str(), &path).idempotent(is_idempotent);
        if let Some(organization) = self.organization.as_ref().filter(|_| endpoint.of_organization)
        {
            call = call.query("organization", organization);
        }
        Request { parts: RequestParts { call, decode, is_idempotent, wait: None } }
    }
}

/// The path with its parameters, percent-encoded.
fn path(template: &str, parameters: &[&str]) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    let mut parameters = parameters.iter();
    let segments = template.split('/').map(|segment| match segment.starts_with('{') {
        // An empty one would make another path of it. A dot is the same as an empty segment,
        // and the SDK reports it.
        true => match *parameters.next().unwrap_or(&"") {
            "" => ".".to_owned(),
            value => utf8_percent_encode(value, KEPT).to_string(),
        },
        false => segment.to_owned(),
    });
    segments.collect::<Vec<_>>().join("/")
}
