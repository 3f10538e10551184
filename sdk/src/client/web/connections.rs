//! The HTTP client in a browser, which manages connections, proxies and TLS itself.

use std::sync::Arc;
use std::time::Duration;

use crate::{Error, Secret};

/// The settings of both builders; a browser ignores them.
#[derive(Clone, Default)]
pub(crate) struct HttpConfig {
    pub(crate) connect_timeout: Duration,
    pub(crate) proxy: ProxyChoice,
    pub(crate) proxy_except: String,
}

#[derive(Clone, Debug, Default)]
pub(crate) enum ProxyChoice {
    #[default]
    Environment,
    None,
    Url(Secret),
}

pub(crate) struct Connections(reqwest::Client);

impl Connections {
    pub(crate) fn new(_: HttpConfig) -> Result<Arc<Self>, Error> {
        let client = reqwest::Client::builder().build().map_err(|error| {
            Error::config("cannot create the HTTP client").with_source(error.without_url())
        })?;
        Ok(Arc::new(Self(client)))
    }

    pub(crate) fn check_runtime() -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn current(self: &Arc<Self>) -> Result<reqwest::Client, Error> {
        Ok(self.0.clone())
    }
}
