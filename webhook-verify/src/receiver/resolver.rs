//! The verifier of a request: always the same, or resolved for each request.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::{Receiver, Rejection};
use crate::log_text::LogText;
use crate::{BoxError, Scheme, Verifier};

/// The head of a request, for [`Receiver::resolving`].
///
/// Nothing in it is signed.
#[derive(Clone)]
pub struct RequestHead {
    path: Box<str>,
    query: Option<Box<str>>,
    headers: Vec<(Box<str>, Box<[u8]>)>,
}

impl RequestHead {
    pub(super) fn new<'a>(
        path: &str,
        query: Option<&str>,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        let headers = headers.map(|(name, value)| (name.into(), value.into())).collect();
        Self { path: path.into(), query: query.map(Into::into), headers }
    }

    /// The path of the request, percent-encoded as it was received. In a nested axum
    /// router, the part of the path that the router sees.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query of the request, without the question mark.
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// The first value of a header, if it is valid UTF-8. Names are case-insensitive.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        named.next().and_then(|(_, value)| str::from_utf8(value).ok())
    }
}

/// Shows the path only: a query or a header may contain a token.
impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The head of a request in the type of a framework.
///
/// With the feature `http`, these are `http::HeaderMap` and `http::request::Parts`.
///
/// This trait is sealed and cannot be implemented outside this crate.
pub trait RequestParts: sealed::RequestParts {}

impl<T: sealed::RequestParts + ?Sized> RequestParts for T {}

pub(crate) mod sealed {
    use super::RequestHead;

    pub trait RequestParts {
        /// All values of a header.
        fn values(&self, name: &str) -> Vec<&[u8]>;
        fn to_head(&self) -> RequestHead;
    }
}

type Resolving<S> =
    Pin<Box<dyn Future<Output = Result<Option<Verifier<S>>, BoxError>> + Send + 'static>>;

pub(super) enum Verifiers<S> {
    One(Verifier<S>),
    Resolved(Arc<dyn Fn(RequestHead) -> Resolving<S> + Send + Sync>),
}

impl<S: Scheme> Verifiers<S> {
    pub(super) fn resolving<F, Fut>(resolve: F) -> Self
    where
        F: Fn(RequestHead) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Verifier<S>>, BoxError>> + Send + 'static,
    {
        Self::Resolved(Arc::new(move |head| Box::pin(resolve(head))))
    }
}

impl<S: Clone> Clone for Verifiers<S> {
    fn clone(&self) -> Self {
        match self {
            Self::One(verifier) => Self::One(verifier.clone()),
            Self::Resolved(resolve) => Self::Resolved(resolve.clone()),
        }
    }
}

impl<S: Scheme> fmt::Debug for Verifiers<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(verifier) => verifier.fmt(f),
            Self::Resolved(_) => f.write_str("resolved for each request"),
        }
    }
}

impl<S: Scheme> Receiver<S> {
    /// The verifier of a request.
    pub(super) async fn verifier_for(
        &self,
        parts: &impl RequestParts,
    ) -> Result<Verifier<S>, Rejection> {
        let resolving = match &self.verifiers {
            Verifiers::One(verifier) => return Ok(verifier.clone()),
            Verifiers::Resolved(resolve) => resolve(parts.to_head()),
        };
        match resolving.await {
            Ok(Some(verifier)) => Ok(verifier),
            Ok(None) => Err(Rejection::UnknownVerifier),
            Err(error) => {
                tracing::error!(
                    scheme = S::NAME,
                    error = ?LogText(&error),
                    "failed to resolve the verifier of a webhook delivery"
                );
                Err(Rejection::ResolverFailed)
            }
        }
    }
}
