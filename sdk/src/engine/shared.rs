//! The state that all clones of a client share: what was set on the builder, and the state of
//! retries.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use http::HeaderValue;
use tokio::time::Duration;

use super::connections::{HttpClients, lock};
use super::guard::ActiveGuard;
use super::observer::{HeaderHook, Observer};
use super::pauses::{MAX_TIMEOUT, Pause, Pauses, Rate};
use super::target::{ApiKey, Target, api_key_value};
use crate::dialect::Dialect;
use crate::error::{Error, ErrorKind, Outcome};
use crate::operation::Operation;
use crate::scope::Scope;
use crate::secret::Secret;

#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) target: Target,
    pub(super) http: Arc<HttpClients>,
    pub(crate) settings: Settings,
    pub(super) pauses: Arc<Pauses>,
    pub(super) rate: Option<Arc<Rate>>,
    pub(super) observers: Vec<Observer>,
    pub(super) hooks: Vec<HeaderHook>,
    pub(crate) guard: Option<Arc<ActiveGuard>>,
    pub(super) scopes: Arc<Mutex<Option<KnownScopes>>>,
}

/// The scopes of an API key.
pub(super) struct KnownScopes {
    pub(super) scopes: BTreeSet<Scope>,
    /// The key that `me` told them of. A key provider may return another one next time. `None`: the
    /// application declared them.
    pub(super) learned_of: Option<HeaderValue>,
}

/// The settings made on the builder.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    /// `None`: the time that is left until the deadline.
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) retries: u32,
    pub(crate) max_retry_after: Duration,
    pub(crate) back_off: BackOff,
    pub(crate) honors_idempotency_key: bool,
    pub(crate) local_checks: bool,
    pub(crate) check_scopes: bool,
    pub(crate) insecure_webhook_urls: bool,
    pub(crate) dialect: Arc<Dialect>,
    pub(crate) max_response_size: u64,
}

impl Shared {
    /// Whether a webhook URL may be `http`: if the service itself is reached in cleartext, its
    /// receivers may be, too.
    pub(crate) fn allows_insecure_webhook_urls(&self) -> bool {
        self.settings.insecure_webhook_urls || self.target.base.scheme() == "http"
    }

    /// Rejects an operation if scope checks are enabled and the key is known to lack the
    /// scope.
    pub(super) fn check_scope(&self, operation: Operation) -> Result<(), Error> {
        if !self.settings.check_scopes {
            return Ok(());
        }
        let Some(required) = operation.required_scope() else {
            return Ok(());
        };
        match self.known_scopes() {
            Some(granted) if !granted.contains(&required) => {
                let kind = ErrorKind::missing_scope(Some(required), Some(granted));
                Err(Error::new(kind, Outcome::NotSent).with_operation(operation))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn known_scopes(&self) -> Option<BTreeSet<Scope>> {
        let known = lock(&self.scopes);
        let KnownScopes { scopes, learned_of } = known.as_ref()?;
        let is_current = |key: &HeaderValue| {
            let current = self.target.current_api_key();
            current.is_ok_and(|current| current == *key)
        };

        learned_of
            .as_ref()
            .is_none_or(is_current)
            .then(|| scopes.clone())
    }

    /// Keeps the scope that a response told about the key of its request.
    pub(crate) fn learn_scope(&self, scope: Scope, api_key: HeaderValue) {
        *lock(&self.scopes) = Some(KnownScopes {
            scopes: BTreeSet::from([scope]),
            learned_of: Some(api_key),
        });
    }

    /// A client with another key and everything else shared. Its scopes are unknown.
    pub(crate) fn with_key(&self, api_key: &Secret) -> Result<Arc<Self>, Error> {
        let api_key = ApiKey::Fixed(api_key_value(&self.target.key_form, api_key)?);
        Ok(Arc::new(Self {
            target: Target {
                api_key,
                ..self.target.clone()
            },
            scopes: Arc::default(),
            ..self.clone()
        }))
    }

    /// The pauses of the current key.
    pub(crate) fn pauses(&self) -> Vec<Pause> {
        match self.target.current_api_key() {
            Ok(api_key) => self.pauses.of(&api_key),
            Err(_) => Vec::new(),
        }
    }

    pub(crate) fn end_pauses(&self) {
        if let Ok(api_key) = self.target.current_api_key() {
            self.pauses.end(&api_key);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("service", &self.target.service)
            .field("base", &self.target.base.as_str())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Exponential back-off: the upper limit of the pause is `initial`, doubled with each attempt,
/// up to `max`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackOff {
    pub(super) initial: Duration,
    pub(super) max: Duration,
}

impl BackOff {
    pub(super) fn new(initial: Duration, max: Duration) -> Self {
        let max = max.min(MAX_TIMEOUT);
        Self { initial, max }
    }

    /// The upper limit after this number of attempts.
    pub(super) fn after(self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(30);
        self.initial.saturating_mul(1 << doublings).min(self.max)
    }
}
