//! The HTTP clients, one for each runtime: time-outs, proxies and TLS.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::error::Error;
use crate::secret::Secret;

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
    /// Whether the base URL is `https`.
    pub(super) is_https: bool,
    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    pub(super) tls: super::tls::TlsChoice,
    pub(super) configure: Option<Configure>,
}

pub(super) type Configure =
    Arc<dyn Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + Sync>;

#[derive(Clone, Debug, Default)]
pub(super) enum ProxyChoice {
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`.
    #[default]
    Environment,
    None,
    Url(Secret),
}

impl HttpConfig {
    fn client(&self) -> Result<reqwest::Client, Error> {
        if let Some(given) = &self.given {
            return Ok(given.clone());
        }
        let builder = reqwest::Client::builder().pool_idle_timeout(POOL_IDLE_TIMEOUT);
        let builder = match self.connect_timeout {
            Some(timeout) => builder.connect_timeout(timeout),
            None => builder,
        };
        let builder = match &self.proxy {
            ProxyChoice::Environment if env_disables_proxy() => builder.no_proxy(),
            ProxyChoice::Environment => builder,
            ProxyChoice::None => builder.no_proxy(),
            ProxyChoice::Url(_) if matches_all_hosts(&self.proxy_except) => builder.no_proxy(),
            ProxyChoice::Url(url) => builder.proxy(
                reqwest::Proxy::all(url.expose())
                    .map_err(|_| Error::config("the proxy URL is not a valid URL"))?
                    .no_proxy(reqwest::NoProxy::from_string(&self.proxy_except)),
            ),
        };
        let builder = match &self.configure {
            Some(configure) => configure(builder),
            None => builder,
        };
        // What the client relies on, whatever the application configured.
        let builder = builder
            // The API key must only be sent to the configured host.
            .redirect(reqwest::redirect::Policy::none())
            // Retries are decided in one place: `super::send`.
            .retry(reqwest::retry::never());
        #[cfg(any(feature = "rustls", feature = "native-tls"))]
        let builder = self.tls.apply(builder, self.uses_tls())?;
        builder.build().map_err(|error| {
            Error::config("cannot create the HTTP client").with_source(error.without_url())
        })
    }

    /// Whether a TLS handshake is to be expected: with the service, or with a proxy.
    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    fn uses_tls(&self) -> bool {
        let proxies = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
        let is_https = |url: &str| url.trim_start().starts_with("https");
        self.is_https
            || self.configure.is_some()
            || match &self.proxy {
                ProxyChoice::Url(url) => is_https(url.expose()),
                ProxyChoice::None => false,
                ProxyChoice::Environment => proxies
                    .into_iter()
                    .any(|name| std::env::var(name).is_ok_and(|url| is_https(&url))),
            }
    }
}

/// Whether `NO_PROXY` disables proxies for all hosts.
fn env_disables_proxy() -> bool {
    let named = ["NO_PROXY", "no_proxy"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok());
    let mut named = named.filter(|value| !value.is_empty());
    named.next().is_some_and(|list| matches_all_hosts(&list))
}

/// Whether a list in the format of `NO_PROXY` contains `*`. reqwest applies `*` to host
/// names only, not to IP addresses.
fn matches_all_hosts(list: &str) -> bool {
    list.split(',').any(|host| host.trim() == "*")
}

/// The HTTP clients, one for each runtime. A connection is a task of the runtime that
/// established it and ends with it, so programs with several runtimes, such as a static client
/// in `#[tokio::test]` functions, must not share connections among them.
pub(super) struct HttpClients {
    config: HttpConfig,
    /// The latest runtimes, most recently added last.
    clients: Mutex<Vec<(Option<Id>, reqwest::Client)>>,
}

/// A runtime beyond this number replaces the oldest; that one connects anew if it still runs.
const MAX_RUNTIMES: usize = 64;

impl HttpClients {
    pub(super) fn new(config: HttpConfig) -> Result<Self, Error> {
        // Built now, so that mistakes in the configuration are found.
        let first = config.client()?;
        Ok(Self {
            config,
            clients: Mutex::new(vec![(None, first)]),
        })
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
        let client = self.config.client()?;
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
