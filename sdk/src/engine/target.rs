//! `Target`: the service as a client reaches it. From a `Request` and its `Options` it makes the
//! URL and the headers of all attempts. The API key is added for each attempt with
//! `current_api_key`, because a provider may return another key each time. `KeyForm` is how the
//! dialect writes the key into its header. That header is always marked as sensitive, so that
//! previews and logs mask it.

use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::Url;
use zeroize::Zeroizing;

use super::request::{IDEMPOTENCY_KEY, JSON, Options, Payload, Request};
use crate::dialect::{Dialect, Point};
use crate::error::Error;
use crate::operation::Service;
use crate::secret::Secret;

/// A service as a client reaches it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) service: Service,
    pub(crate) base: Url,
    /// The headers of every request, without the API key.
    pub(super) headers: HeaderMap,
    pub(super) key_header: HeaderName,
    pub(super) key_form: KeyForm,
    pub(super) api_key: ApiKey,
}

/// The API key: the value of its header, or a function that is asked before each attempt.
#[derive(Clone)]
pub(super) enum ApiKey {
    Fixed(HeaderValue),
    Provided(KeyProvider),
}

pub(super) type KeyProvider = Arc<dyn Fn() -> Secret + Send + Sync>;

impl Target {
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

    /// The headers of a request, without the key and what hooks add.
    pub(super) fn headers(&self, request: &Request, options: &Options) -> HeaderMap {
        // With room for those that follow: a clone would have none, and be copied when it grows.
        let mut headers = HeaderMap::with_capacity(self.headers.len() + options.headers.len() + 6);
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }

        match &request.payload {
            Payload::Empty => {
                // Methods that may have a body declare that there is none (RFC 9110 §8.6); some
                // servers respond with 411 otherwise.
                if matches!(request.method, Method::POST | Method::PUT | Method::PATCH) {
                    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
                }
            }
            Payload::Bytes(_, content_type) => {
                headers.insert(CONTENT_TYPE, content_type.clone());
            }
            Payload::Files(_) => {
                headers.insert(CONTENT_TYPE, JSON);
                headers.insert(CONTENT_LENGTH, request.payload.length().into());
            }
        }

        let callers_key = options.idempotency_key.as_ref();
        if let Some(idempotency_key) = callers_key.or(request.idempotency_key.as_ref()) {
            headers.insert(IDEMPOTENCY_KEY, idempotency_key.clone());
        }
        for (name, value) in &options.headers {
            headers.insert(name, value.clone());
        }

        headers
    }

    /// The value of the key's header for the next attempt.
    pub(super) fn current_api_key(&self) -> Result<HeaderValue, Error> {
        match &self.api_key {
            ApiKey::Fixed(value) => Ok(value.clone()),
            ApiKey::Provided(provide) => api_key_value(&self.key_form, &provide()),
        }
    }

    /// The key in a value of its header.
    pub(super) fn key_in<'a>(&self, value: &'a HeaderValue) -> Option<&'a str> {
        let text = value.to_str().ok()?;
        Some(text.strip_prefix(self.key_form.prefix()).unwrap_or(text))
    }
}

/// How the key is written in its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyForm {
    /// After this text.
    Prefix(String),
    /// The key is the password of this user.
    Password(String),
    /// The key is the user name, without a password.
    UserName,
}

impl KeyForm {
    pub(super) fn of(dialect: &Dialect) -> Self {
        let header = dialect.choice(Point::KeyHeader);
        let is_usual = header.eq_ignore_ascii_case(AUTHORIZATION.as_str());
        let prefix = match dialect.pinned(Point::KeyScheme) {
            Some("basic") => return Self::Password(dialect.choice(Point::KeyUser).to_owned()),
            Some("basic-user") => return Self::UserName,
            Some("bare") => "",
            Some("token") => "Token ",
            Some("bearer") => "Bearer ",
            Some(word) => return Self::Prefix(format!("{word} ")),
            None if is_usual => "Bearer ",
            // Another header usually carries the key alone.
            None => "",
        };
        Self::Prefix(prefix.to_owned())
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
pub(super) fn api_key_value(form: &KeyForm, api_key: &Secret) -> Result<HeaderValue, Error> {
    if api_key.expose().trim().is_empty() {
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
        KeyForm::Prefix(prefix) => [prefix, api_key.expose()].concat(),
        KeyForm::Password(user) => basic([user, ":", api_key.expose()].concat()),
        KeyForm::UserName => basic([api_key.expose(), ":"].concat()),
    });
    let mut value = HeaderValue::from_str(&text).map_err(|_| {
        Error::config("the API key contains characters that are not allowed in a header")
    })?;
    value.set_sensitive(true);
    Ok(value)
}
