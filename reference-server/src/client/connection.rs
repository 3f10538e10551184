//! [`Client`]: how to reach a server, and the organization that requests are about.

use std::fmt;

use svc_sdk::{EmailClient, Secret};

use super::error::Error;

/// A client of the control interface, for one organization.
///
/// [`Server::client`](crate::Server::client) creates one for a server in this process,
/// [`new`](Self::new) one for a server elsewhere.
#[derive(Clone)]
pub struct Client {
    pub(super) http: EmailClient,
    pub(super) organization: Option<String>,
}

impl Client {
    /// A client of the server at a base URL, such as `http://127.0.0.1:4080`, for the seeded
    /// organization.
    ///
    /// # Errors
    ///
    /// If the URL is invalid.
    pub fn new(base_url: impl AsRef<str>) -> Result<Self, Error> {
        Self::with_token(base_url, "none")
    }

    /// As [`new`](Self::new), with the control token that a server with `--public` requires.
    ///
    /// # Errors
    ///
    /// If the URL or the token is invalid.
    pub fn with_token(base_url: impl AsRef<str>, token: impl Into<Secret>) -> Result<Self, Error> {
        let http = EmailClient::builder(base_url.as_ref(), token).no_proxy().build()?;
        Ok(Self::from_http(http))
    }

    /// A client that sends its requests through another one, whose key is the control token,
    /// if the server requires one.
    pub fn from_http(http: EmailClient) -> Self {
        Self { http, organization: None }
    }

    /// A client for another organization, by its ID or name.
    #[must_use]
    pub fn of(&self, organization: impl Into<String>) -> Self {
        Self { http: self.http.clone(), organization: Some(organization.into()) }
    }
}

/// Omits the control token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("organization", &self.organization).finish_non_exhaustive()
    }
}
