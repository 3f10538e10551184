//! What an attempt was and what came of it, for logs and metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{ErrorKind, Operation};

/// One attempt that is done: for a program's own logs and metrics. It holds no
/// key and no body; its address has the ids and the query of the request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The operation; `None` for a raw request that the documents do not show.
    pub operation: Option<Operation>,
    /// The HTTP method.
    pub method: &'a str,
    /// The address, ids and query included.
    pub url: &'a str,
    /// Which attempt of the call it was, from 1.
    pub number: u32,
    /// The answer's HTTP status, where there was an answer.
    pub status: Option<u16>,
    /// The id that the service gave to the request.
    pub request_id: Option<&'a str>,
    /// Why it failed, if it did.
    pub failure: Option<&'a ErrorKind>,
    /// How long it took.
    pub elapsed: Duration,
    /// How long will be waited before the next attempt, if there is one.
    pub retry_in: Option<Duration>,
}

/// A function that is told of every attempt.
#[derive(Clone)]
pub(crate) struct Observer(Arc<dyn Fn(&Attempt<'_>) + Send + Sync>);

impl Observer {
    pub(crate) fn new(observe: impl Fn(&Attempt<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observe))
    }

    pub(crate) fn tell(&self, attempt: &Attempt<'_>) {
        (self.0)(attempt);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
