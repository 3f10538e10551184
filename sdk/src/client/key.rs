//! API keys: clients with another key on the same connections, keys that rotate, and keys
//! from the environment.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use zeroize::Zeroizing;

use super::guard::RecipientGuard;
use super::shared::{KnownScopes, Shared};
use super::{EmailClient, EmailClientBuilder, ExtractionClient, ExtractionClientBuilder};
use crate::{Error, Secret};

/// Returns the key to use now.
#[derive(Clone)]
pub(crate) struct KeyProvider(Arc<dyn Fn() -> Secret + Send + Sync>);

impl KeyProvider {
    pub(super) fn new(provide: impl Fn() -> Secret + Send + Sync + 'static) -> Self {
        Self(Arc::new(provide))
    }

    pub(super) fn key(&self) -> Secret {
        (self.0)()
    }
}

impl fmt::Debug for KeyProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyProvider")
    }
}

/// The value of the header that carries the key.
pub(super) fn key_value(prefix: &str, key: &Secret) -> Result<HeaderValue, Error> {
    if key.expose().trim().is_empty() {
        return Err(Error::config("the API key is empty"));
    }
    let text = Zeroizing::new([prefix, key.expose()].concat());
    let mut value = HeaderValue::from_str(&text).map_err(|_| {
        Error::config("the API key contains characters that are not allowed in a header")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

impl Shared {
    /// The value of the key's header, if it may differ from attempt to attempt.
    pub(super) fn provided_key(&self) -> Result<Option<HeaderValue>, Error> {
        let Some(provider) = &self.key_provider else { return Ok(None) };
        key_value(&self.key_prefix, &provider.key()).map(Some)
    }

    fn with_key(&self, key: Secret) -> Result<Arc<Self>, Error> {
        let value = key_value(&self.key_prefix, &key)?;
        let mut headers = self.headers.clone();
        headers.insert(&self.key_header, value.clone());
        let mut json_headers = self.json_headers.clone();
        json_headers.insert(&self.key_header, value);
        Ok(Arc::new(Self {
            service: self.service,
            connections: self.connections.clone(),
            base: self.base.clone(),
            urls: Default::default(),
            #[cfg(feature = "tower")]
            layer_urls: Default::default(),
            headers,
            json_headers,
            key_header: self.key_header.clone(),
            key,
            key_prefix: self.key_prefix.clone(),
            key_provider: None,
            settings: self.settings.clone(),
            budget: Arc::clone(&self.budget),
            hold: Arc::clone(&self.hold),
            observers: self.observers.clone(),
            guard: self.guard.clone(),
            #[cfg(feature = "rate-limit")]
            rate_limit: self.rate_limit.clone(),
            #[cfg(feature = "tower")]
            layered: self.layered.clone(),
            // They belong to the other key.
            scopes: KnownScopes::new(None),
        }))
    }
}

/// The methods of both clients and builders.
macro_rules! keys {
    ($client:ident, $builder:ident, $url:literal, $key:literal, $guard:expr) => {
        impl $client {
            /// Returns a client that uses another API key, and shares the connections, the
            /// retry budget, the rate limit and all options with this one. For an
            /// application that acts for several organizations.
            ///
            /// The scopes of the key are unknown to the client until they are declared or
            /// learned.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the key is empty, or
            /// contains characters that are not allowed in a header.
            pub fn with_key(&self, key: impl Into<Secret>) -> Result<Self, Error> {
                Ok(Self { shared: self.shared.with_key(key.into())? })
            }

            #[doc = concat!("Builds a client from the environment variables `", $url, "` (the")]
            #[doc = concat!("base URL) and `", $key, "` (the API key), which `svc` reads, too.")]
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Config`](crate::ErrorKind::Config) if a variable is missing or
            /// invalid; the error names it.
            pub fn from_env() -> Result<Self, Error> {
                $builder::from_env()?.build()
            }
        }

        /// # API key
        impl $builder {
            #[doc = concat!("Starts building a client from the environment variables `", $url)]
            #[doc = concat!("` (the base URL) and `", $key, "` (the API key).")]
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Config`](crate::ErrorKind::Config) if a variable is missing; the
            /// error names it.
            pub fn from_env() -> Result<Self, Error> {
                let (url, key) = from_env($url, $key, |name| std::env::var(name))?;
                let mut builder = Self::new(url, key);
                builder.set_guard($guard?);
                Ok(builder)
            }

            /// Sets a function that returns the API key, for keys that rotate. It replaces
            /// the key that was passed to the builder. The client calls it when it is built
            /// and before each attempt, so the function should return quickly: it reads the
            /// key from memory, and something else keeps that up to date.
            ///
            /// An empty or invalid key fails the call with
            /// [`ErrorKind::Config`](crate::ErrorKind::Config); nothing is sent then.
            pub fn key_provider(
                mut self,
                provide: impl Fn() -> Secret + Send + Sync + 'static,
            ) -> Self {
                self.set_key_provider(KeyProvider::new(provide));
                self
            }
        }
    };
}

keys!(
    EmailClient,
    EmailClientBuilder,
    "SVC_EMAIL_URL",
    "SVC_EMAIL_KEY",
    RecipientGuard::from_env()
);
keys!(
    ExtractionClient,
    ExtractionClientBuilder,
    "SVC_EXTRACTION_URL",
    "SVC_EXTRACTION_KEY",
    Ok::<_, Error>(None)
);

fn from_env(
    url: &str,
    key: &str,
    read: impl Fn(&str) -> Result<String, std::env::VarError>,
) -> Result<(String, Secret), Error> {
    let read = |name: &str| match read(name) {
        Ok(text) if !text.trim().is_empty() => Ok(text),
        Ok(_) => Err(Error::config(format!("the environment variable {name} is empty"))),
        Err(std::env::VarError::NotPresent) => {
            Err(Error::config(format!("the environment variable {name} is not set")))
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Error::config(format!("the environment variable {name} is not UTF-8")))
        }
    };
    Ok((read(url)?, read(key)?.into()))
}

#[cfg(test)]
mod tests {
    use std::env::VarError;

    use super::*;

    #[test]
    fn names_the_environment_variable_that_is_missing() {
        let read = |set: &'static [&str]| {
            from_env("URL", "KEY", move |name| match set.contains(&name) {
                true => Ok(format!("value of {name}")),
                false => Err(VarError::NotPresent),
            })
        };
        let (url, key) = read(&["URL", "KEY"]).expect("both are set");
        assert_eq!((url.as_str(), key.expose()), ("value of URL", "value of KEY"));
        let error = read(&["URL"]).expect_err("no key");
        assert_eq!(error.to_string(), "the environment variable KEY is not set");
        let error = from_env("URL", "KEY", |_| Ok(" ".to_owned())).expect_err("empty");
        assert_eq!(error.to_string(), "the environment variable URL is empty");
    }
}
