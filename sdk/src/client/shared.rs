//! What all clones of a client share.

use std::borrow::Cow;
use std::fmt;
#[cfg(feature = "tower")]
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use url::Url;

use super::call::Request;
#[cfg(feature = "tower")]
use super::layer::Address;
use super::observe::Observer;
use super::retry::{BackOff, Budget};
use crate::email::BatchShape;
use crate::error::Target;
use crate::{Error, ErrorKind, Operation, Outcome, Scopes, Secret, Service};

pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) http: reqwest::Client,
    /// Whether it was made here, not handed over by the caller.
    pub(crate) own_http: bool,
    pub(crate) base: Url,
    /// Addresses of operations whose path has no id.
    pub(crate) urls: [OnceLock<Url>; Operation::ALL.len()],
    /// The same, where layers have to see them.
    #[cfg(feature = "tower")]
    pub(crate) addresses: [OnceLock<Arc<Address>>; Operation::ALL.len()],
    /// On every request, the key included.
    pub(crate) headers: HeaderMap,
    /// The same and the content type of JSON, which is what mostly goes out.
    pub(crate) json_headers: HeaderMap,
    pub(crate) key_header: HeaderName,
    pub(crate) key: Secret,
    pub(crate) key_prefix: String,
    pub(crate) settings: Settings,
    pub(crate) budget: Budget,
    pub(crate) observer: Option<Observer>,
    #[cfg(feature = "rate-limit")]
    pub(crate) rate_limit: Option<super::rate::RateLimit>,
    #[cfg(feature = "tower")]
    pub(crate) layered: Option<super::layer::AttemptService>,
    pub(crate) scopes: KnownScopes,
}

/// What the builder sets.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    pub(crate) retries: u32,
    pub(crate) max_retry_after: Duration,
    pub(crate) back_off: BackOff,
    pub(crate) honours_idempotency_key: bool,
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

    /// The request's address.
    pub(crate) fn url(&self, request: &Request) -> Cow<'_, Url> {
        match (&request.path, request.target) {
            // The same address each time is put together once.
            (Cow::Borrowed(path), Target::Operation(operation)) => {
                Cow::Borrowed(self.urls[operation as usize].get_or_init(|| self.join(path)))
            }
            (path, _) => Cow::Owned(self.join(path)),
        }
    }

    /// The request's address as layers need it.
    #[cfg(feature = "tower")]
    pub(crate) fn address(&self, request: &Request) -> Result<Arc<Address>, Error> {
        let known = match (&request.path, request.target) {
            (Cow::Borrowed(_), Target::Operation(operation)) => {
                Some(&self.addresses[operation as usize])
            }
            _ => None,
        };
        if let Some(address) = known.and_then(OnceLock::get) {
            return Ok(Arc::clone(address));
        }
        let address = Address::new(self.url(request).into_owned())
            .map_err(|error| Error::config("the request cannot be built").with_source(error))?;
        let address = Arc::new(address);
        if let Some(known) = known {
            // Another thread may have been first, with the same.
            let _ = known.set(Arc::clone(&address));
        }
        Ok(address)
    }

    /// The path after the base's own path.
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

    /// Refuses an operation that the key is known to have no scope for, where
    /// that is to be checked.
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

/// The scopes that the key is known to have: told by the caller, or learned
/// from `me`.
#[derive(Debug)]
pub(crate) struct KnownScopes(AtomicU8);

/// No key has all seven bits and this one.
const NOT_KNOWN: u8 = 0b1000_0000;

impl KnownScopes {
    pub(crate) fn new(scopes: Option<Scopes>) -> Self {
        Self(AtomicU8::new(scopes.map_or(NOT_KNOWN, Scopes::bits)))
    }

    pub(crate) fn get(&self) -> Option<Scopes> {
        let bits = self.0.load(Ordering::Relaxed);
        (bits != NOT_KNOWN).then(|| Scopes::from_bits(bits))
    }

    pub(crate) fn learn(&self, scopes: Scopes) {
        self.0.store(scopes.bits(), Ordering::Relaxed);
    }
}
