//! Hooks with which an application sees and changes every attempt.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::preview::RequestPreview;
use super::request::{Options, Request};
use super::target::Target;
use crate::error::ErrorKind;
use crate::operation::Operation;

pub(super) type Observer = Arc<dyn Fn(&Attempt<'_>) + Send + Sync>;
pub(super) type HeaderHook = Arc<dyn Fn(&mut HeaderMap) + Send + Sync>;

/// A finished attempt, as passed to the callback of
/// [`on_attempt`](crate::ClientBuilder::on_attempt).
///
/// Its `Debug` output contains neither the API key nor a body. The URL includes ids and query
/// parameters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The operation. `None` for a raw request that matches no documented operation.
    pub operation: Option<Operation>,
    /// The HTTP method.
    pub method: &'a str,
    /// The full URL, including ids and query parameters.
    pub url: &'a str,
    /// Number of the attempt within its call, starting at 1.
    pub number: u32,
    /// HTTP status of the response. `None` if there was no response.
    pub status: Option<StatusCode>,
    /// The id that the service assigned to the request.
    pub request_id: Option<&'a str>,
    /// Why the attempt failed. `None` if it succeeded.
    pub failure: Option<&'a ErrorKind>,
    /// Duration of the attempt.
    pub elapsed: Duration,
    /// Pause before the next attempt. `None` if there is none.
    pub retry_in: Option<Duration>,
    pub(super) exchange: Exchange<'a>,
}

/// # Headers and bodies
///
/// They contain what users write, and secrets, such as that of a new webhook.
impl<'a> Attempt<'a> {
    /// Returns the request that was sent, as a dry run shows it. This allocates.
    pub fn request(&self) -> RequestPreview {
        let Exchange {
            target,
            request,
            options,
            ..
        } = self.exchange;
        RequestPreview::new(target, request, options)
    }

    /// The response's headers. `None` if there was no response.
    pub fn response_headers(&self) -> Option<&'a HeaderMap> {
        self.status.map(|_| self.exchange.headers)
    }

    /// The response's body. Of an error response, its first 64 KiB; of a successful one that was
    /// not read to its end, nothing.
    pub fn response_body(&self) -> &'a [u8] {
        self.exchange.body
    }
}

/// A request and its response.
#[derive(Clone, Copy)]
pub(super) struct Exchange<'a> {
    pub(super) target: &'a Target,
    pub(super) request: &'a Request,
    pub(super) options: &'a Options,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: &'a [u8],
}

impl fmt::Debug for Exchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}
