//! What an application can see and change of every attempt.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::error::ErrorKind;
use crate::operation::Operation;

pub(super) type Observer = Arc<dyn Fn(&Attempt<'_>) + Send + Sync>;
pub(super) type HeaderHook = Arc<dyn Fn(&mut HeaderMap) + Send + Sync>;

/// A finished attempt, as passed to the callback of
/// [`on_attempt`](crate::ClientBuilder::on_attempt).
///
/// It contains neither the API key nor a body. The URL includes ids and query parameters.
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
}
