//! The state that all clones of a client share: what was set on the builder, and the state of
//! retries.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Duration, Instant, sleep_until};
use url::Url;
use zeroize::Zeroizing;

use super::connections::{HttpClients, lock};
use super::guard::ActiveGuard;
use super::observer::{HeaderHook, Observer};
use crate::dialect::{Dialect, Point};
use crate::error::{Error, ErrorKind, Outcome};
use crate::operation::{Operation, Service};
use crate::scope::Scope;
use crate::secret::Secret;

#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(super) http: Arc<HttpClients>,
    pub(crate) base: Url,
    /// The headers of every request, without the API key.
    pub(super) headers: HeaderMap,
    pub(super) key_header: HeaderName,
    pub(super) key_form: KeyForm,
    pub(super) key: Key,
    pub(crate) settings: Settings,
    pub(super) pauses: Arc<Pauses>,
    pub(super) observers: Vec<Observer>,
    pub(super) hooks: Vec<HeaderHook>,
    pub(crate) guard: Option<Arc<ActiveGuard>>,
    /// The known scopes of the API key: declared by the application, or learned from `me`.
    pub(super) scopes: Arc<Mutex<Option<BTreeSet<Scope>>>>,
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
        self.settings.insecure_webhook_urls || self.base.scheme() == "http"
    }

    /// Appends a path, with its query, to the base URL.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        match self.base.path() {
            "/" => url.set_path(path),
            prefix => url.set_path(&[prefix.trim_end_matches('/'), path].concat()),
        }
        if query.is_some() {
            url.set_query(query);
        }
        url
    }

    /// Rejects an operation if scope checks are enabled and the key is known to lack the
    /// scope.
    pub(super) fn check_scope(&self, operation: Operation) -> Result<(), Error> {
        if !self.settings.check_scopes {
            return Ok(());
        }
        match (operation.required_scope(), lock(&self.scopes).as_ref()) {
            (Some(scope), Some(granted)) if !granted.contains(&scope) => {
                let kind = ErrorKind::missing_scope(Some(scope), Some(granted.clone()));
                Err(Error::new(kind, Outcome::NotSent).with_operation(operation))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn known_scopes(&self) -> Option<BTreeSet<Scope>> {
        lock(&self.scopes).clone()
    }

    pub(crate) fn learn_scope(&self, scope: Scope) {
        *lock(&self.scopes) = Some(BTreeSet::from([scope]));
    }

    /// A client with another key and everything else shared. Its scopes are unknown.
    pub(crate) fn with_key(&self, key: &Secret) -> Result<Arc<Self>, Error> {
        let key = Key::Fixed(key_value(&self.key_form, key)?);
        Ok(Arc::new(Self {
            key,
            scopes: Arc::default(),
            ..self.clone()
        }))
    }

    /// The value of the key's header for the next attempt.
    pub(super) fn current_key(&self) -> Result<HeaderValue, Error> {
        match &self.key {
            Key::Fixed(value) => Ok(value.clone()),
            Key::Provided(provide) => key_value(&self.key_form, &provide()),
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("service", &self.service)
            .field("base", &self.base.as_str())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// The API key: the value of its header, or a function that is asked before each attempt.
#[derive(Clone)]
pub(super) enum Key {
    Fixed(HeaderValue),
    Provided(KeyProvider),
}

pub(super) type KeyProvider = Arc<dyn Fn() -> Secret + Send + Sync>;

/// How the key is written in its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyForm {
    /// After this text.
    Prefix(String),
    /// As the password of this user.
    Password(String),
    /// As the user name, without a password.
    UserName,
}

impl KeyForm {
    pub(super) fn of(dialect: &Dialect) -> Self {
        let header = dialect.choice(Point::KeyHeader);
        let is_usual = header.eq_ignore_ascii_case(AUTHORIZATION.as_str());
        match dialect.pinned(Point::KeyScheme) {
            Some("bare") => Self::Prefix(String::new()),
            Some("basic") => Self::Password(dialect.choice(Point::KeyUser).to_owned()),
            Some("basic-user") => Self::UserName,
            Some("token") => Self::Prefix("Token ".to_owned()),
            Some("bearer") => Self::Prefix("Bearer ".to_owned()),
            Some(word) => Self::Prefix(format!("{word} ")),
            None if is_usual => Self::Prefix("Bearer ".to_owned()),
            // Another header usually carries the key alone.
            None => Self::Prefix(String::new()),
        }
    }

    /// The text before the key, for a preview, which masks the rest.
    pub(super) fn prefix(&self) -> &str {
        match self {
            Self::Prefix(prefix) => prefix,
            Self::Password(_) | Self::UserName => "Basic ",
        }
    }
}

/// The value of the header that carries the key.
pub(super) fn key_value(form: &KeyForm, key: &Secret) -> Result<HeaderValue, Error> {
    if key.expose().trim().is_empty() {
        return Err(Error::config("the API key is empty"));
    }
    let basic = |credentials: String| {
        let credentials = Zeroizing::new(credentials);
        format!(
            "Basic {}",
            base64_simd::STANDARD.encode_to_string(credentials.as_bytes())
        )
    };
    let text = Zeroizing::new(match form {
        KeyForm::Prefix(prefix) => [prefix, key.expose()].concat(),
        KeyForm::Password(user) => basic([user, ":", key.expose()].concat()),
        KeyForm::UserName => basic([key.expose(), ":"].concat()),
    });
    let mut value = HeaderValue::from_str(&text).map_err(|_| {
        Error::config("the API key contains characters that are not allowed in a header")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Exponential back-off: the upper limit of the pause is `initial`, doubled with each attempt,
/// up to `max`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackOff {
    pub(super) initial: Duration,
    pub(super) max: Duration,
}

impl BackOff {
    /// The upper limit after this number of attempts.
    pub(super) fn after(self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(30);
        self.initial.saturating_mul(1 << doublings).min(self.max)
    }
}

/// The pauses that the service asked for, one for each value of the key's header: whether clones, `with_key` or a key
/// provider use a key, they wait together, and other keys do not.
#[derive(Default)]
pub(super) struct Pauses {
    until: Mutex<HashMap<HeaderValue, Instant>>,
}

impl Pauses {
    pub(super) fn pause(&self, key: &HeaderValue, until: Instant) {
        let mut pauses = lock(&self.until);
        let now = Instant::now();
        pauses.retain(|_, end| *end > now);
        let end = pauses.entry(key.clone()).or_insert(until);
        *end = until.max(*end);
    }

    /// Waits until the key may be used, and then for a random time, because a service would
    /// refuse most calls that start at the same moment. The less time a call has left of its
    /// `timeout`, the sooner it starts. Returns the end of the pause if it is not before
    /// `latest`, or lasts longer than `longest`.
    pub(super) async fn wait(
        &self,
        key: &HeaderValue,
        timeout: Duration,
        latest: Instant,
        longest: Duration,
    ) -> Result<(), Instant> {
        loop {
            let end = lock(&self.until).get(key).copied();
            let now = Instant::now();
            let Some(end) = end.filter(|end| *end > now) else {
                return Ok(());
            };
            if end >= latest || end - now > longest {
                return Err(end);
            }
            sleep_until(end + spread(latest - end, timeout).mul_f64(fastrand::f64())).await;
            // Meanwhile, another call may have been told to wait longer.
        }
    }
}

/// Within which time after a pause a call starts that has this much left of its `timeout`.
fn spread(left: Duration, timeout: Duration) -> Duration {
    /// The part of a call that has all its time left.
    const MAX_SHARE: f64 = 1.0 / 40.0;
    const LONGEST: Duration = Duration::from_secs(5);
    let share = left.as_secs_f64() / timeout.as_secs_f64();
    left.mul_f64(share * MAX_SHARE).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_start_soon_after_a_pause_however_long_they_may_take() {
        let [half, minute, hour] = [30, 60, 3600].map(Duration::from_secs);
        assert_eq!(spread(minute, minute), Duration::from_millis(1500));
        assert_eq!(spread(half, minute), Duration::from_millis(375));
        assert_eq!(spread(hour, hour), Duration::from_secs(5));
    }
}
