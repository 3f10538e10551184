//! The HTTP client of each runtime.
//!
//! A connection is a task of the runtime that established it, and does nothing while that
//! runtime is not running. Programs with several runtimes, such as a static client in
//! `#[tokio::test]` functions, would wait for a response on a connection that nobody
//! drives. So each runtime has connections of its own.

use std::collections::{HashMap, hash_map};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;

use crate::{Error, Secret};

/// How long an idle connection stays in the pool. Servers close idle connections after 5 s
/// (Node) or more. If a server closes a connection while a request is being sent, the
/// outcome of that request is unknown, so the client closes it first.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Everything that makes an HTTP client.
#[derive(Clone)]
pub(crate) struct HttpConfig {
    pub(crate) connect_timeout: Duration,
    pub(crate) proxy: ProxyChoice,
    pub(crate) proxy_except: String,
    #[cfg(any(feature = "_rustls", feature = "native-tls"))]
    pub(crate) tls: super::tls::TlsChoice,
    pub(crate) configure: Option<Configure>,
}

pub(crate) type Configure =
    Arc<dyn Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + Sync>;

#[derive(Clone, Debug)]
pub(crate) enum ProxyChoice {
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`.
    Environment,
    None,
    Url(Secret),
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            proxy: ProxyChoice::Environment,
            proxy_except: String::new(),
            #[cfg(any(feature = "_rustls", feature = "native-tls"))]
            tls: Default::default(),
            configure: None,
        }
    }
}

impl HttpConfig {
    fn client(&self) -> Result<reqwest::Client, Error> {
        let builder = reqwest::Client::builder()
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT);
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
            // Retries are decided in one place: `super::retry`.
            .retry(reqwest::retry::never());
        #[cfg(any(feature = "_rustls", feature = "native-tls"))]
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

/// The HTTP clients, one per runtime.
pub(crate) struct Connections {
    config: HttpConfig,
    /// The client of the first runtime. Most programs have only one.
    first: reqwest::Client,
    first_runtime: OnceLock<Id>,
    others: Mutex<HashMap<Id, Entry>>,
}

struct Entry {
    client: reqwest::Client,
    /// Dropped with the entry, which ends the task that waits for the runtime's end.
    _in_use: oneshot::Sender<()>,
}

impl Connections {
    pub(crate) fn new(config: HttpConfig) -> Result<Arc<Self>, Error> {
        let first = config.client()?;
        Ok(Arc::new(Self {
            config,
            first,
            first_runtime: OnceLock::new(),
            others: Mutex::default(),
        }))
    }

    /// Fails outside a runtime, where timers and sockets would panic.
    pub(crate) fn check_runtime() -> Result<(), Error> {
        Self::runtime().map(drop)
    }

    fn runtime() -> Result<Handle, Error> {
        Handle::try_current().map_err(|_| {
            Error::config(
                "a call was awaited outside a tokio runtime; use `#[tokio::main]`, or `block` \
                 with the feature `blocking`",
            )
        })
    }

    /// The HTTP client of the current runtime.
    pub(crate) fn current(self: &Arc<Self>) -> Result<reqwest::Client, Error> {
        let runtime = Self::runtime()?;
        let id = runtime.id();
        if *self.first_runtime.get_or_init(|| id) == id {
            return Ok(self.first.clone());
        }
        if let Some(entry) = self.others().get(&id) {
            return Ok(entry.client.clone());
        }
        let client = self.config.client()?;
        let (in_use, unused) = oneshot::channel();
        let entry = Entry { client: client.clone(), _in_use: in_use };
        match self.others().entry(id) {
            // Another thread of the runtime was faster.
            hash_map::Entry::Occupied(faster) => return Ok(faster.get().client.clone()),
            hash_map::Entry::Vacant(vacant) => vacant.insert(entry),
        };
        let leave = Leave { connections: Arc::downgrade(self), runtime: id };
        runtime.spawn(async move {
            let _ = unused.await;
            drop(leave);
        });
        Ok(client)
    }

    fn others(&self) -> MutexGuard<'_, HashMap<Id, Entry>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the client of a runtime when the runtime ends, which drops its tasks.
struct Leave {
    connections: Weak<Connections>,
    runtime: Id,
}

impl Drop for Leave {
    fn drop(&mut self) {
        let Some(connections) = self.connections.upgrade() else { return };
        let removed = connections.others().remove(&self.runtime);
        drop(removed);
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// A client does not keep the connections of runtimes that have ended.
    #[test]
    fn forgets_a_runtime_that_has_ended() {
        let connections = Connections::new(HttpConfig::default()).unwrap();
        assert!(connections.current().is_err());
        let first = runtime();
        for _ in 0..3 {
            let other = runtime();
            first.block_on(async { connections.current().unwrap() });
            other.block_on(async { connections.current().unwrap() });
            other.block_on(async { connections.current().unwrap() });
            assert_eq!(connections.others().len(), 1);
            drop(other);
            assert_eq!(connections.others().len(), 0);
        }
    }

    #[test]
    fn a_dropped_client_leaves_no_task_behind() {
        let (first, second) = (runtime(), runtime());
        let connections = Connections::new(HttpConfig::default()).unwrap();
        first.block_on(async { connections.current().unwrap() });
        second.block_on(async {
            connections.current().unwrap();
            assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
            drop(connections);
            while Handle::current().metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        });
    }
}
