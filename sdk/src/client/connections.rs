//! Builds the HTTP client: time-outs, proxies and TLS.

use std::sync::Arc;
use std::time::Duration;

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
    pub(super) fn client(&self) -> Result<reqwest::Client, Error> {
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
        let builder = self.tls.apply(builder)?;
        builder.build().map_err(|error| {
            Error::config("cannot create the HTTP client").with_source(error.without_url())
        })
    }
}

/// Whether `NO_PROXY` disables proxies for all hosts.
fn env_disables_proxy() -> bool {
    let named = ["NO_PROXY", "no_proxy"].into_iter().filter_map(|name| std::env::var(name).ok());
    let mut named = named.filter(|value| !value.is_empty());
    named.next().is_some_and(|list| matches_all_hosts(&list))
}

/// Whether a list in the format of `NO_PROXY` contains `*`. reqwest applies `*` to host
/// names only, not to IP addresses.
fn matches_all_hosts(list: &str) -> bool {
    list.split(',').any(|host| host.trim() == "*")
}
