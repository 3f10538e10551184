//! `HttpClients` builds a `reqwest::Client` for each tokio runtime from one `HttpConfig`, and
//! returns the one of the current runtime. Runtimes share no connections, because a connection ends
//! with the runtime that opened it. Clients that are built here follow no redirects and retry
//! nothing, whatever the application configures: `send.rs` decides about that. A client that the
//! application passes in is used as it is, in all runtimes; `attempt.rs` refuses its response after
//! a redirect.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use url::Url;

use super::proxy::{ProxyChoice, Route};
use crate::error::Error;

/// How long an idle connection stays in the pool. Servers close idle connections after 5 s
/// (Node) or more. If a server closes a connection while a request is being sent, the
/// outcome of that request is unknown, so the client closes it first.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Everything that makes an HTTP client.
#[derive(Clone, Default)]
pub(super) struct HttpConfig {
    /// The application's own client; the other options do not apply to it.
    pub(super) given: Option<reqwest::Client>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) proxy: ProxyChoice,
    pub(super) proxy_except: String,
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    pub(super) tls: super::tls::TlsChoice,
    pub(super) configure: Option<Configure>,
}

pub(super) type Configure =
    Arc<dyn Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + Sync>;

impl HttpConfig {
    fn client(&self, base: &Url, route: &Route) -> Result<reqwest::Client, Error> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }

        let mut builder = reqwest::Client::builder().pool_idle_timeout(POOL_IDLE_TIMEOUT);
        if let Some(timeout) = self.connect_timeout {
            builder = builder.connect_timeout(timeout);
        }
        builder = match (route, &self.proxy) {
            (Route::Direct, _) => builder.no_proxy(),
            (Route::Proxy(_), ProxyChoice::Environment) => builder,
            (Route::Proxy(url), _) => builder.proxy(
                reqwest::Proxy::all(url.expose())
                    .map_err(|_| Error::config("the proxy URL is not a valid URL"))?,
            ),
        };
        if let Some(configure) = &self.configure {
            builder = configure(builder);
        }

        // What the client relies on, whatever the application configured.
        builder = builder
            // The API key must only be sent to the configured host.
            .redirect(reqwest::redirect::Policy::none())
            // Retries are decided in one place: `super::send`.
            .retry(reqwest::retry::never());
        #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
        {
            builder = self.tls.apply(builder, self.uses_tls(base, route))?;
        }
        #[cfg(not(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls")))]
        let _ = base;
        builder.build().map_err(|error| {
            Error::config("cannot create the HTTP client").with_source(error.without_url())
        })
    }

    /// Whether a TLS handshake is to be expected: with the service, or with a proxy.
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    fn uses_tls(&self, base: &Url, route: &Route) -> bool {
        let has_secure_proxy = match route {
            Route::Direct => false,
            Route::Proxy(url) => url.expose().trim_start().starts_with("https"),
        };
        base.scheme() == "https" || self.configure.is_some() || has_secure_proxy
    }
}

/// The HTTP clients, one for each runtime. A connection is a task of the runtime that
/// established it and ends with it, so programs with several runtimes, such as a static client
/// in `#[tokio::test]` functions, must not share connections among them.
pub(super) struct HttpClients {
    config: HttpConfig,
    base: Url,
    route: Route,
    /// The latest runtimes, most recently added last.
    clients: Mutex<Vec<(Option<Id>, reqwest::Client)>>,
}

/// A runtime beyond this number replaces the oldest; that one connects anew if it still runs.
const MAX_RUNTIMES: usize = 64;

impl HttpClients {
    pub(super) fn new(config: HttpConfig, base: &Url) -> Result<Self, Error> {
        let route = match &config.given {
            // It has proxies of its own.
            Some(_) => Route::Direct,
            None => config.proxy.route(base, &config.proxy_except)?,
        };
        // Built now, so that mistakes in the configuration are found.
        let first = config.client(base, &route)?;
        Ok(Self {
            config,
            base: base.clone(),
            route,
            clients: Mutex::new(vec![(None, first)]),
        })
    }

    /// Whether requests go through a proxy.
    pub(super) fn uses_proxy(&self) -> bool {
        matches!(self.route, Route::Proxy(_))
    }

    /// The HTTP client of the current runtime.
    ///
    /// # Errors
    ///
    /// Outside a runtime, where timers and sockets would panic.
    pub(super) fn current(&self) -> Result<reqwest::Client, Error> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::config(
                "a call was awaited outside a tokio runtime; use `#[tokio::main]`, or `block` \
                 with the feature `blocking`",
            )
        })?;
        let id = runtime.id();
        let mut clients = lock(&self.clients);
        let known = clients
            .iter_mut()
            .find(|(known, _)| known.is_none_or(|known| known == id));
        if let Some((known, client)) = known {
            *known = Some(id);
            return Ok(client.clone());
        }

        let client = self.config.client(&self.base, &self.route)?;
        if clients.len() == MAX_RUNTIMES {
            clients.remove(0);
        }
        clients.push((Some(id), client.clone()));
        Ok(client)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
