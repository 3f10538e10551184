//! [`Builder`]: the options of a server, each a method that changes `Settings`. What is text is
//! parsed at once, so an invalid URL, certificate or seed file is an error of its method; whether
//! addresses and the data directory can be used is seen by `start`. The defaults suit a test: in
//! memory, on loopback, with seed data. What the options mean together is in `settings.rs`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use svc_sdk::{Dialect, Secret};
use url::Url;

use super::start_error::StartError;
use super::{Server, start};
use crate::http::request_log::OnRequest;
use crate::mail::relay::{InvalidRelay, InvalidRelayTo, RelayTarget, RelayTo};
use crate::model::{Millis, Network};
use crate::net::certificate::{Certificate, InvalidCertificate};
use crate::requests::request_wire::LoggedRequest;
use crate::seeds::seed_file::{InvalidSeed, SeedFile};
use crate::settings::{Limits, Settings};

/// Options of a [`Server`]; created by [`Server::builder`].
///
/// The defaults suit a test: in memory, with seed data, HTTP and DNS on free
/// loopback ports, no SMTP, no relay, no rate limit.
#[derive(Clone)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct Builder {
    pub(super) settings: Settings,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Builder")
    }
}

impl Builder {
    /// Sets who can reach the server. Default: [`Network::Loopback`].
    pub fn network(mut self, network: Network) -> Self {
        self.settings.network = network;
        self
    }

    /// Sets the HTTP listen address of both services and the control interface.
    ///
    /// Port 0 picks a free port. Default: a free port of `127.0.0.1`, or of all addresses with
    /// [`Network::Trusted`]. An address beyond loopback needs another
    /// [`network`](Self::network) than the default.
    pub fn addr(mut self, addr: SocketAddr) -> Self {
        self.settings.addr = Some(addr);
        self
    }

    /// Sets the base URL at which others reach the server, such as `https://mail.dev.example`
    /// behind a proxy.
    ///
    /// Tracking links carry it, and its host is accepted like an address of the server. Default:
    /// the host of each request.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidUrl`] if it is not an `http` or `https` URL with a host, or has
    /// credentials, a query or a fragment.
    pub fn public_url(mut self, url: &str) -> Result<Self, InvalidUrl> {
        let parsed = Url::parse(url).map_err(|_| InvalidUrl)?;
        let is_plain = parsed.username().is_empty() && parsed.password().is_none();
        let is_base = parsed.query().is_none() && parsed.fragment().is_none();
        if !matches!(parsed.scheme(), "http" | "https") || !is_plain || !is_base {
            return Err(InvalidUrl);
        }
        self.settings.public_url = Some(parsed);
        Ok(self)
    }

    /// Accepts requests that name this host, such as `mail.dev.example`, in addition to those that
    /// the [`network`](Self::network) allows. Without it, a name of the public DNS is refused,
    /// because a web page could have made it resolve to this server.
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.settings
            .allowed_hosts
            .push(name.into().to_ascii_lowercase());
        self
    }

    /// Creates what a seed file in TOML declares, at each start: organizations with keys, domains,
    /// templates, audiences and webhooks. What exists is changed to what the file says, and what
    /// the file does not name stays. See
    /// <https://github.com/svc-tools/svc/blob/main/docs/sandbox.md#seed-file>.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidSeed`] if the text is not TOML, or has an unknown field or a value of the
    /// wrong type. [`start`](Self::start) checks the values themselves.
    pub fn seed_file(mut self, toml: &str) -> Result<Self, InvalidSeed> {
        let file = SeedFile::parse(toml)?;
        if self.settings.dialect.is_empty() {
            self.settings.dialect = file.dialect.clone();
        }
        self.settings.seed_file = Some(Arc::new(file));
        Ok(self)
    }

    /// Sets the email key of the seeded organization. Default: `mk_test_sandbox`.
    pub fn email_key(mut self, key: impl Into<Secret>) -> Self {
        self.settings.email_key = key.into();
        self
    }

    /// Sets the extraction key of the seeded organization. Default: `sk_test_sandbox`.
    pub fn extraction_key(mut self, key: impl Into<Secret>) -> Self {
        self.settings.extraction_key = key.into();
        self
    }

    /// Sets the bearer token that the control interface requires. Default: a random one with
    /// [`Network::Public`], else none.
    pub fn control_token(mut self, token: impl Into<Secret>) -> Self {
        self.settings.control_token = Some(token.into());
        self
    }

    /// Keeps all data in this directory, which is created if it does not exist.
    ///
    /// One server at a time can use a data directory. On Unix, only its owner can
    /// read the directory and the files in it.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.data_dir = Some(directory.into());
        self
    }

    /// Keeps all data in memory. This is the default.
    pub fn in_memory(mut self) -> Self {
        self.settings.data_dir = None;
        self
    }

    /// Sets whether the start puts the seed data in place. Default: `true`.
    ///
    /// The seed data is the organization `Sandbox` with the keys `mk_test_sandbox`
    /// and `sk_test_sandbox`, and the verified domain `sandbox.test`. With
    /// [`Network::Public`], the server never seeds. See
    /// <https://github.com/svc-tools/svc/blob/main/docs/sandbox.md#seeds>.
    pub fn seed(mut self, seed: bool) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Sets the listen address of the built-in DNS server, for UDP and TCP.
    ///
    /// Port 0 picks a free port. Default: `127.0.0.1:0`.
    pub fn dns(mut self, addr: SocketAddr) -> Self {
        self.settings.dns = addr;
        self
    }

    /// Sets the upstream DNS server for names outside the built-in zone, and for the
    /// hosts of webhooks that are not in the hosts file.
    ///
    /// Default: the resolver configuration of the system. The built-in zone answers
    /// for names under `.test`, `.example`, `.invalid` and `.localhost`.
    pub fn resolver(mut self, addr: SocketAddr) -> Self {
        self.settings.resolver = Some(addr);
        self
    }

    /// Sends outgoing mail to an SMTP server.
    ///
    /// The URL is `smtp://user:password@mail.example.com:587`, which uses `STARTTLS`
    /// if the server offers it, `smtp+starttls://…`, which demands `STARTTLS`, or `smtps://…`
    /// for TLS from the start. Nobody gets mail until [`relay_to`](Self::relay_to) names who may, but
    /// for single messages that are released.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRelay`] if the URL is not a valid relay URL. The error does
    /// not repeat the URL, because it may hold a password.
    pub fn relay(mut self, url: &str) -> Result<Self, InvalidRelay> {
        self.settings.relay = Some(RelayTarget::parse(url)?);
        Ok(self)
    }

    /// Lets the relay send mail to an address, to a domain, or with `*` to anyone; for more, call it
    /// again. All other mail stays in the local mailbox, as that to the magic recipients does (such as
    /// `bounced@example.test`).
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRelayTo`] if the text is none of these.
    pub fn relay_to(mut self, recipient: &str) -> Result<Self, InvalidRelayTo> {
        self.settings.relay_to.push(RelayTo::parse(recipient)?);
        Ok(self)
    }

    /// Calls a function after each request to a documented operation, for example to print it.
    ///
    /// It must return at once: the response waits for it.
    pub fn on_request(mut self, function: impl Fn(&LoggedRequest) + Send + Sync + 'static) -> Self {
        self.settings.on_request = Some(OnRequest(Arc::new(function)));
        self
    }

    /// Accepts mail to any address over SMTP on this listen address.
    ///
    /// Port 0 picks a free port. Default: no SMTP listener.
    pub fn smtp(mut self, addr: SocketAddr) -> Self {
        self.settings.smtp = Some(addr);
        self
    }

    /// Like [`smtp`](Self::smtp), on a free port if another program uses this one.
    pub fn smtp_or_free_port(mut self, addr: SocketAddr) -> Self {
        self.settings.smtp_may_move = true;
        self.smtp(addr)
    }

    /// Sets the certificate chain and the private key, both PEM-encoded, that the
    /// SMTP listener uses for `STARTTLS`.
    ///
    /// Default: none, and `STARTTLS` is not offered.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidCertificate`] if either file is not valid PEM, or if the key
    /// does not belong to the certificate.
    pub fn smtp_certificate(
        mut self,
        chain_pem: &[u8],
        key_pem: &[u8],
    ) -> Result<Self, InvalidCertificate> {
        self.settings.smtp_certificate = Some(Certificate::from_pem(chain_pem, key_pem)?);
        Ok(self)
    }

    /// Lets [`find_running`](crate::find_running) find a server without a data directory: by this
    /// directory, in which it keeps its address and no data.
    ///
    /// If the directory cannot be used, the server starts, and is not found.
    pub fn announce_in(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.announce_in = Some(directory.into());
        self
    }

    /// Limits the requests per second of each API key, at least 1. Default: no limit.
    ///
    /// Requests over the limit get status 429 with `Retry-After`.
    pub fn rate_limit(mut self, requests_per_second: u32) -> Self {
        self.settings.rate_limit = Some(requests_per_second.max(1));
        self
    }

    /// Changes limits that the tests of this crate cannot wait for.
    #[doc(hidden)]
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.settings.limits);
        self
    }

    /// Sets how many emails, and how many received messages, are kept of each organization, at least
    /// 1: the oldest go first, with their messages and deliveries, in the background. An email that
    /// has no final status, or whose deliveries are due, stays. Default: all.
    ///
    /// # Panics
    ///
    /// Panics if `newest` is 0.
    pub fn keep(mut self, newest: u32) -> Self {
        assert!(newest > 0, "at least one email is kept");
        self.settings.limits.keep.newest = Some(newest);
        self
    }

    /// Sets for how long emails, received messages and deliveries are kept, by the server's clock. What
    /// is still due stays. Default: for ever.
    pub fn keep_for(mut self, duration: Duration) -> Self {
        let millis = Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX);
        self.settings.limits.keep.duration = Some(millis);
        self
    }

    /// Sets how the services behave where their reference is silent, such as whether a creation
    /// returns 201 or 200, so that you can test a client against a service that chose otherwise. The
    /// points are listed in
    /// <https://github.com/svc-tools/svc/blob/main/docs/undocumented/README.md>.
    ///
    /// The last call wins.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.settings.dialect = dialect;
        self
    }

    /// Starts the server. It accepts requests when this method returns.
    ///
    /// # Errors
    ///
    /// Returns a [`StartError`] if another server uses the data directory, an address
    /// is not available, or the database cannot be opened.
    ///
    /// # Panics
    ///
    /// Panics when called outside of a Tokio runtime.
    pub async fn start(self) -> Result<Server, StartError> {
        start(self.settings).await
    }
}

/// A text is not a base URL; returned by [`Builder::public_url`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an http or https URL without credentials, query or fragment")]
pub struct InvalidUrl;
