//! Checks the options and builds what the clients share.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::Builder;
use crate::client::call::{is_framing, is_secret};
use crate::client::connections::Connections;
use crate::client::guard::ActiveGuard;
use crate::client::hold::Hold;
use crate::client::key::{KeyProvider, key_value};
use crate::client::payload::JSON;
use crate::client::retry::RetryBudget;
use crate::client::shared::{KnownScopes, Shared};
use crate::{Error, Service};

impl Builder {
    pub(super) fn build(self, service: Service) -> Result<Arc<Shared>, Error> {
        let base = parse_base_url(&self.base)?;
        check_base_url(&base, service)?;
        let key = self.key_provider.as_ref().map_or(self.key, KeyProvider::key);
        let key_value = key_value(&self.key_prefix, &key)?;
        let key_header = header_name(&self.key_header)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let known = header_name(name)?;
            if is_framing(&known) {
                return Err(Error::config(format!(
                    "the header {name} cannot be set: the client sets it"
                )));
            }
            if known == key_header {
                return Err(Error::config(format!(
                    "the header {name} carries the API key and cannot be set"
                )));
            }
            let mut value = header_value(name, value)?;
            value.set_sensitive(is_secret(&known));
            headers.insert(known, value);
        }
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        headers.entry(USER_AGENT).or_insert(DEFAULT_USER_AGENT);
        headers.insert(&key_header, key_value);

        let mut settings = self.settings;
        settings.request_id_headers = if self.request_id_headers.is_empty() {
            ["x-request-id", "request-id", "x-amzn-requestid", "cf-ray"]
                .map(HeaderName::from_static)
                .to_vec()
        } else {
            self.request_id_headers
                .iter()
                .map(|name| header_name(name))
                .collect::<Result<_, _>>()?
        };

        let guard = self.guard.map(ActiveGuard::new).transpose()?.map(Arc::new);
        let connections = Connections::new(self.http)?;
        Ok(Arc::new(Shared {
            service,
            observers: self.observers,
            guard,
            #[cfg(feature = "rate-limit")]
            rate_limit: self.rate_limit.map(|(rate, burst)| {
                Arc::new(crate::client::rate_limit::RateLimit::new(rate, burst))
            }),
            #[cfg(feature = "tower")]
            layered: self.layers.around(&connections),
            connections,
            base,
            urls: Default::default(),
            #[cfg(feature = "tower")]
            layer_urls: Default::default(),
            json_headers: {
                let mut headers = headers.clone();
                headers.insert(CONTENT_TYPE, JSON);
                headers
            },
            headers,
            key_header,
            key,
            key_prefix: self.key_prefix,
            key_provider: self.key_provider,
            settings,
            budget: Arc::new(RetryBudget::new(self.retry_budget)),
            hold: Arc::new(Hold::new()),
            scopes: KnownScopes::new(self.scopes),
        }))
    }
}

pub(super) fn parse_base_url(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text)
        .map_err(|error| Error::config(format!("the base URL is not a valid URL: {error}")))?;
    let problem = if !matches!(url.scheme(), "http" | "https") {
        "the base URL must start with http:// or https://"
    } else if !url.username().is_empty() || url.password().is_some() {
        "the base URL must not contain a user name or password"
    } else if url.query().is_some() || url.fragment().is_some() {
        "the base URL must not contain a query or a fragment"
    } else {
        return Ok(url);
    };
    Err(Error::config(problem))
}

/// Rejects base URLs with which no call can succeed.
fn check_base_url(base: &Url, service: Service) -> Result<(), Error> {
    let prefix = service.path_prefix();
    if base.path().trim_end_matches('/').ends_with(prefix) {
        return Err(Error::config(format!(
            "the base URL must not end in {prefix}: the client appends it to the base URL; \
             leave it out"
        )));
    }
    let has_tls = cfg!(any(
        feature = "_rustls",
        feature = "native-tls",
        all(target_arch = "wasm32", target_os = "unknown")
    ));
    if base.scheme() == "https" && !has_tls {
        return Err(Error::config(
            "the base URL uses https, but svc-sdk was compiled without TLS; \
             enable its feature `rustls` in Cargo.toml",
        ));
    }
    Ok(())
}

const DEFAULT_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("svc-sdk/", env!("CARGO_PKG_VERSION")));

fn header_name(name: &str) -> Result<HeaderName, Error> {
    name.parse().map_err(|_| Error::config(format!("{name:?} is not a valid header name")))
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(value).map_err(|_| {
        Error::config(format!(
            "the value of the header {name} contains characters that are not allowed"
        ))
    })
}
