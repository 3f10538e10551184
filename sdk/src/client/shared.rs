//! The state that all clones of a client share.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use url::Url;

use super::call::Request;
use super::connections::Connections;
use super::guard::ActiveGuard;
use super::hold::Hold;
use super::key::KeyProvider;
#[cfg(feature = "tower")]
use super::layer::RequestUrl;
use super::observer::Observers;
use super::retry::{BackOff, RetryBudget};
use crate::email::BatchShape;
use crate::error::Target;
use crate::{Error, ErrorKind, Operation, Outcome, Scopes, Secret, Service};

pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) connections: Arc<Connections>,
    pub(crate) base: Url,
    /// Cached URLs of operations whose path contains no id.
    pub(crate) urls: [OnceLock<Url>; Operation::ALL.len()],
    /// The same, for requests that go through layers.
    #[cfg(feature = "tower")]
    pub(crate) layer_urls: [OnceLock<Arc<RequestUrl>>; Operation::ALL.len()],
    /// The headers of every request, including the API key.
    pub(crate) headers: HeaderMap,
    /// The same plus a JSON content type, for most requests with a body.
    pub(crate) json_headers: HeaderMap,
    pub(crate) key_header: HeaderName,
    pub(crate) key: Secret,
    pub(crate) key_prefix: String,
    pub(crate) key_provider: Option<KeyProvider>,
    pub(crate) settings: Settings,
    pub(crate) budget: Arc<RetryBudget>,
    /// The pause that the service asked for.
    pub(crate) hold: Arc<Hold>,
    pub(crate) observers: Observers,
    pub(crate) guard: Option<Arc<ActiveGuard>>,
    #[cfg(feature = "rate-limit")]
    pub(crate) rate_limit: Option<Arc<super::rate_limit::RateLimit>>,
    #[cfg(feature = "tower")]
    pub(crate) layered: Option<super::layer::Layered>,
    pub(crate) scopes: KnownScopes,
}

/// The settings made on the builder.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    /// `None`: a share of the deadline.
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) retries: u32,
    pub(crate) max_retry_after: Duration,
    pub(crate) back_off: BackOff,
    pub(crate) honors_idempotency_key: bool,
    pub(crate) local_checks: bool,
    pub(crate) check_scopes: bool,
    pub(crate) insecure_webhook_urls: bool,
    pub(crate) batch_shape: BatchShape,
    pub(crate) first_page: u64,
    pub(crate) request_id_headers: Vec<HeaderName>,
    pub(crate) max_response_size: u64,
}

impl Shared {
    pub(crate) fn local_checks(&self) -> bool {
        self.settings.local_checks
    }

    pub(crate) fn allows_insecure_webhook_urls(&self) -> bool {
        self.settings.insecure_webhook_urls
    }

    pub(crate) fn batch_shape(&self) -> &BatchShape {
        &self.settings.batch_shape
    }

    pub(crate) fn first_page(&self) -> u64 {
        self.settings.first_page
    }

    /// The URL of the request.
    pub(crate) fn url(&self, request: &Request) -> Cow<'_, Url> {
        match (&request.path, request.target) {
            // Paths without an id are joined once.
            (Cow::Borrowed(path), Target::Operation(operation)) => {
                Cow::Borrowed(self.urls[operation as usize].get_or_init(|| self.join(path)))
            }
            (path, _) => Cow::Owned(self.join(path)),
        }
    }

    /// The URL of the request, in the form that layers need.
    #[cfg(feature = "tower")]
    pub(crate) fn layer_url(&self, request: &Request) -> Result<Arc<RequestUrl>, Error> {
        let known = match (&request.path, request.target) {
            (Cow::Borrowed(_), Target::Operation(operation)) => {
                Some(&self.layer_urls[operation as usize])
            }
            _ => None,
        };
        if let Some(url) = known.and_then(OnceLock::get) {
            return Ok(Arc::clone(url));
        }
        let url = RequestUrl::new(self.url(request).into_owned())
            .map_err(|error| Error::config("the request cannot be built").with_source(error))?;
        let url = Arc::new(url);
        if let Some(known) = known {
            // If another thread was faster, it stored the same value.
            let _ = known.set(Arc::clone(&url));
        }
        Ok(url)
    }

    /// Appends a path to the base URL.
    fn join(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        if self.base.path() == "/" {
            url.set_path(path);
        } else {
            url.set_path(&[self.base.path().trim_end_matches('/'), path].concat());
        }
        url.set_query(query);
        url
    }

    /// Rejects an operation if scope checks are enabled and the key is known to lack the
    /// scope.
    pub(crate) fn check_scope(&self, operation: Operation) -> Result<(), Error> {
        if !self.settings.check_scopes {
            return Ok(());
        }
        match (operation.required_scope(), self.scopes.get()) {
            (required @ Some(scope), granted @ Some(scopes)) if !scopes.contains(scope) => {
                let kind = ErrorKind::MissingScope { required, granted };
                Err(Error::new(kind, Outcome::NotSent).with_target(Target::Operation(operation)))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("service", &self.service)
            .field("base", &self.base.as_str())
            .field("key", &self.key)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// The known scopes of the API key: declared by the application, or learned from `me`.
#[derive(Debug)]
pub(crate) struct KnownScopes(AtomicU8);

/// A bit pattern that no set of scopes has.
const UNKNOWN: u8 = 0b1000_0000;

impl KnownScopes {
    pub(crate) fn new(scopes: Option<Scopes>) -> Self {
        Self(AtomicU8::new(scopes.map_or(UNKNOWN, Scopes::bits)))
    }

    pub(crate) fn get(&self) -> Option<Scopes> {
        let bits = self.0.load(Ordering::Relaxed);
        (bits != UNKNOWN).then(|| Scopes::from_bits(bits))
    }

    pub(crate) fn learn(&self, scopes: Scopes) {
        self.0.store(scopes.bits(), Ordering::Relaxed);
    }
}
