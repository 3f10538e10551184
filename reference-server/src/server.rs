//! [`Server`] and its [`Builder`]: starting and stopping a server.

pub(crate) mod organization;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::api::app::{App, Shared};
use crate::api::control::faults::parse_definition;
use crate::api::control::seed;
use crate::api::framework::input::BODY_BUDGET;
use crate::api::framework::listen;
use crate::delivery::Delivery;
use crate::engine::{self, EngineHandle};
use crate::mail::dns::{Data, DnsServer, Resolver, Zone};
use crate::mail::relay::{InvalidRelay, Relay, RelayTarget};
use crate::model::addresses::Addresses;
use crate::model::clock::{Clock, ClockMode};
use crate::model::compatibility::InvalidSetting;
use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::model::worker::Worker;
use crate::net::outbound::{Outbound, Policy};
use crate::settings::Settings;
use crate::smtp::{Certificate, InvalidCertificate, MailServer};
use crate::store::data_dir::{DataDir, DataDirError, RunningServer};
use crate::store::keys::random_hex;
use crate::store::{Location, OpenError, Store};
use crate::store::{deliveries, dns_records, local_deliveries, meta, relay_queue};
use crate::{routes, smtp, store};

/// A running local server for the email service and the extraction service.
///
/// [`Server::start`] starts one for a test, [`Server::builder`] one with options.
/// The server runs on tasks of the current Tokio runtime. A process can run any
/// number of servers.
///
/// End it with [`stop`](Self::stop), which waits for requests in progress. Dropping
/// a `Server` aborts its tasks at once; data of completed requests is kept either
/// way.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use svc_reference_server::Server;
///
/// let directory = tempfile::tempdir()?;
/// let server = Server::builder().data_dir(directory.path()).start().await?;
/// println!("listening on {}", server.base_url());
/// server.stop().await;
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub struct Server {
    app: Shared,
    addresses: Addresses,
    tasks: Option<Tasks>,
}

struct Tasks {
    web: JoinHandle<()>,
    engine: JoinHandle<()>,
    smtp: Option<JoinHandle<()>>,
    _dns: DnsServer,
    _data_dir: Option<DataDir>,
}

impl Server {
    /// Starts a server for a test: in memory, with seed data, on a free loopback
    /// port.
    ///
    /// Short for `Server::builder().start()`.
    ///
    /// # Errors
    ///
    /// Returns a [`StartError`] for the same reasons as [`Builder::start`].
    ///
    /// # Panics
    ///
    /// Panics when called outside of a Tokio runtime.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().in_memory().start().await
    }

    /// Returns a builder for a server with other options.
    pub fn builder() -> Builder {
        Builder { settings: Settings::default() }
    }

    /// The base URL of both services and of the control interface, such as
    /// `http://127.0.0.1:4080`, without a trailing slash.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addresses.http)
    }

    /// The address of the built-in DNS server, for UDP and TCP.
    pub fn dns_addr(&self) -> SocketAddr {
        self.addresses.dns
    }

    /// All addresses that the server listens on.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The bearer token that the control interface requires.
    ///
    /// `None` for a server that is not [`public`](Builder::public) and listens on
    /// loopback, where the control interface needs no token.
    pub fn control_token(&self) -> Option<&str> {
        self.app.control_token.as_deref()
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Waits until the server is idle.
    ///
    /// The server is idle when it processes no request, no client holds a lease
    /// (`GET /_sandbox/lease`), and all work that is due by the server's clock is
    /// done: emails, webhook deliveries and retries. Work that is due later, such as
    /// a scheduled email, does not count.
    pub async fn until_idle(&self) {
        self.app.activity.until_idle(&self.app.engine).await;
    }

    /// Waits until the server is idle, as [`until_idle`](Self::until_idle) does,
    /// then stops it.
    ///
    /// A client that requests a lease while the server is about to stop either gets
    /// the lease, and the server waits for it, or gets an error.
    pub async fn stop_when_idle(self) {
        self.app.activity.close_when_idle(&self.app.engine).await;
        self.stop().await;
    }

    /// Stops the server gracefully.
    ///
    /// Waits at most ten seconds for requests and webhook deliveries in progress.
    /// Pending work stays in the database; a server that starts again on the same
    /// data directory continues with it.
    pub async fn stop(mut self) {
        self.app.stop.request();
        if let Some(tasks) = self.tasks.take() {
            for task in [tasks.web, tasks.engine].into_iter().chain(tasks.smtp) {
                if let Err(error) = task.await {
                    tracing::error!(%error, "a server task failed");
                }
            }
            if let Some(relay) = &self.app.delivery.relay {
                relay.close().await;
            }
            let app = Arc::clone(&self.app);
            let closed = tokio::task::spawn_blocking(move || app.store.close());
            if let Err(error) = closed.await {
                tracing::error!(%error, "failed to close the database");
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.app.stop.request();
        if let Some(tasks) = self.tasks.take() {
            tasks.web.abort();
            tasks.engine.abort();
            tasks.smtp.inspect(JoinHandle::abort);
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Options of a [`Server`]; created by [`Server::builder`].
///
/// The defaults suit a test: in memory, with seed data, HTTP and DNS on free
/// loopback ports, no SMTP, no relay, no rate limit.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct Builder {
    settings: Settings,
}

impl Builder {
    /// Sets the HTTP listen address of both services and the control interface.
    ///
    /// Port 0 picks a free port. Default: `127.0.0.1:0`.
    ///
    /// A server on an address beyond loopback is [`public`](Self::public).
    pub fn addr(mut self, addr: SocketAddr) -> Self {
        self.settings.addr = addr;
        self
    }

    /// Keeps all data in this directory, which is created if it does not exist.
    ///
    /// One server at a time can use a data directory. On Unix, only its owner can
    /// read the directory and the files in it.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.location = Location::Directory(directory.into());
        self
    }

    /// Keeps all data in memory. This is the default.
    pub fn in_memory(mut self) -> Self {
        self.settings.location = Location::Memory;
        self
    }

    /// Sets whether a new database gets seed data. Default: `true`.
    ///
    /// The seed data is the organization `Sandbox` with the keys `mk_test_sandbox`
    /// and `sk_test_sandbox`, and the verified domain `sandbox.test`. A server that
    /// is [`public`](Self::public) or listens beyond loopback never seeds. See
    /// `docs/control-interface.md#seeds`.
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

    /// Sets the upstream DNS server for names outside the built-in zone.
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
    /// if the server offers it, or `smtps://…` for TLS from the start. Without a
    /// relay, no mail leaves the machine. With one, the magic recipients (such as
    /// `bounced@example.test`) still stay local.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRelay`] if the URL is not a valid relay URL. The error does
    /// not repeat the URL, because it may hold a password.
    pub fn relay(mut self, url: &str) -> Result<Self, InvalidRelay> {
        self.settings.relay = Some(RelayTarget::parse(url)?);
        Ok(self)
    }

    /// Sets whether a message is sent again if the relay broke off after it had all of it,
    /// without a reply. Default: `false`.
    ///
    /// Such a message may or may not have been accepted. By default its recipients stay
    /// `sent`, and `detail.reason` says why; sent again, it may arrive twice.
    pub fn relay_again(mut self, again: bool) -> Self {
        self.settings.relay_again = again;
        self
    }

    /// Adds a host name under which clients reach this server, such as `sandbox` in a
    /// network of containers. Call it once per name.
    ///
    /// Requests for other names cannot use the control interface or the seeded keys: a
    /// name that an attacker controls could point to this machine (DNS rebinding).
    /// `localhost` and IP addresses need not be named.
    pub fn host(mut self, name: &str) -> Self {
        self.settings.hosts.push(name.to_ascii_lowercase());
        self
    }

    /// Accepts incoming mail for verified domains over SMTP on this listen address.
    ///
    /// Port 0 picks a free port. Default: no SMTP listener.
    pub fn smtp(mut self, addr: SocketAddr) -> Self {
        self.settings.smtp = Some(addr);
        self
    }

    /// Sets the certificate chain and the private key, both PEM-encoded, that the
    /// SMTP listener uses for `STARTTLS`.
    ///
    /// Default: a self-signed certificate for `localhost`, generated at each start.
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

    /// Sets whether untrusted clients may reach the server. Default: `false`.
    ///
    /// A public server has no seed data, rejects the seeded keys, and delivers
    /// webhooks to `https` URLs with public addresses only. Its control interface
    /// requires [`Server::control_token`]. A server that listens beyond loopback is
    /// always public.
    pub fn public(mut self, public: bool) -> Self {
        self.settings.public = public;
        self
    }

    /// Sets whether [`find_running`](crate::find_running) can find this server.
    /// Default: `true`.
    ///
    /// Disable it for a server that stops again in a moment and that other processes
    /// should not start to use.
    pub fn discoverable(mut self, discoverable: bool) -> Self {
        self.settings.discoverable = discoverable;
        self
    }

    /// Limits the requests per second of each API key, at least 1. Default: no limit.
    ///
    /// Requests over the limit get status 429 with `Retry-After`.
    pub fn rate_limit(mut self, requests_per_second: u32) -> Self {
        self.settings.rate_limit = Some(requests_per_second.max(1));
        self
    }

    /// Sets how long a stop waits for requests and webhook deliveries in progress.
    /// Default: ten seconds, in real time.
    ///
    /// The next start on the same data directory repeats the deliveries that a stop
    /// interrupts.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.settings.limits.stop_timeout = timeout;
        self
    }

    /// Sets how long a client may pause within a request body before it gets
    /// status 408. Default: ten seconds, in real time.
    pub fn body_idle_timeout(mut self, timeout: Duration) -> Self {
        self.settings.limits.body_idle_timeout = timeout;
        self
    }

    /// Sets how long a client may take to send the request line and the headers,
    /// including the time that the connection is idle before. Default: thirty
    /// seconds, in real time.
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.settings.limits.header_timeout = timeout;
        self
    }

    /// Limits the size of the database, in bytes. Default: no limit.
    ///
    /// When the database is full, requests that store something get status 507, as
    /// on a full disk, until data is deleted.
    pub fn max_database_size(mut self, bytes: u64) -> Self {
        self.settings.limits.max_database_bytes = Some(bytes);
        self
    }

    /// Sets how long a client may leave a response unread, over HTTP and SMTP, before its
    /// connection is closed. Default: sixty seconds, in real time.
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.settings.limits.write_timeout = timeout;
        self
    }

    /// Applies a compatibility setting `NAME=VALUE`, such as `create-status=200`.
    ///
    /// Where the services' reference is silent, the server has to choose: whether a
    /// create operation returns 201 or 200, for example. A compatibility setting
    /// selects the other choice, so that you can test a client against both. Call it
    /// once per setting. `docs/undocumented/README.md` lists the settings.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidSetting`] if the name or the value is unknown. The message
    /// lists the valid ones.
    pub fn compatibility(mut self, setting: &str) -> Result<Self, InvalidSetting> {
        self.settings.compatibility.set(setting)?;
        Ok(self)
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

/// The reason why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another server uses the data directory. Use that server, stop it, or choose
    /// another directory.
    #[error("another server is running on {}{}", .directory.display(), at(.running.as_ref()))]
    InUse {
        /// The data directory.
        directory: PathBuf,
        /// The other server, or `None` if it is still starting or is not
        /// [discoverable](Builder::discoverable).
        running: Option<RunningServer>,
    },
    /// The data directory cannot be used. Check that it is writable.
    #[error("cannot use the data directory {}", .directory.display())]
    Directory {
        /// The data directory.
        directory: PathBuf,
        /// The underlying error.
        source: std::io::Error,
    },
    /// A newer version wrote the database. It was not changed.
    #[error(
        "the database was written by a newer version of svc and was not changed; \
         update svc, or use another data directory"
    )]
    NewerDatabase,
    /// The database cannot be opened. The message contains the reason.
    #[error("cannot open the database: {0}")]
    Database(String),
    /// An address is already in use, or does not belong to this machine.
    #[error("cannot listen on {addr} for {what}")]
    Listen {
        /// The listen address.
        addr: SocketAddr,
        /// The protocol: `http`, `dns` or `smtp`.
        what: &'static str,
        /// The underlying error.
        source: std::io::Error,
    },
}

fn at(running: Option<&RunningServer>) -> String {
    running.map(|running| format!(" at {}", running.base_url())).unwrap_or_default()
}

async fn start(mut settings: Settings) -> Result<Server, StartError> {
    raise_descriptor_limit();
    // Whoever can reach the machine can reach the server.
    settings.public |= !settings.addr.ip().is_loopback();
    let data_dir = match &settings.location {
        Location::Memory => None,
        Location::Directory(directory) => Some(lock(directory).await?),
    };
    let location = settings.location.clone();
    let opened = tokio::task::spawn_blocking(move || Store::open(&location)).await;
    let (store, connection) = match opened {
        Ok(opened) => opened.map_err(|error| match error {
            OpenError::Newer { .. } => StartError::NewerDatabase,
            OpenError::Sqlite(error) => sqlite(&error),
            OpenError::Read { source, .. } => StartError::Database(source.to_string()),
        })?,
        Err(error) => return Err(StartError::Database(error.to_string())),
    };
    if let Some(bytes) = settings.limits.max_database_bytes {
        store::limit_size(&connection, bytes).map_err(|error| sqlite(&error))?;
    }
    let mode = meta::clock(&connection).map_err(|error| sqlite(&error))?;
    let clock = Arc::new(Clock::new(mode.unwrap_or(ClockMode::Running { offset: 0 })));
    store::restore_clock_and_ids(&connection, &clock).map_err(|error| sqlite(&error))?;

    let cannot_listen = |what, addr| move |source| StartError::Listen { addr, what, source };
    let (addr, dns_addr) = (settings.addr, settings.dns);
    let listener = listen::bind(addr).map_err(cannot_listen("http", addr))?;
    let addr = listener.local_addr().map_err(cannot_listen("http", addr))?;
    settings.seed &= !settings.is_exposed();
    let zone = Arc::new(Zone::new());
    let dns = DnsServer::start(dns_addr, Arc::clone(&zone))
        .await
        .map_err(cannot_listen("dns", dns_addr))?;

    let policy = if settings.public { Policy::Public } else { Policy::Development };
    let (handle, commands) = EngineHandle::new();
    let control_token = settings.public.then(random_hex::<24>).transpose();
    let mail = match settings.smtp {
        Some(addr) => Some(TcpListener::bind(addr).await.map_err(cannot_listen("smtp", addr))?),
        None => None,
    };
    let smtp = mail.as_ref().and_then(|listener| listener.local_addr().ok());
    let addresses = Addresses { http: addr, dns: dns.address(), smtp };
    let (store, verified, webhooks, metrics, stop) =
        (Arc::new(store), Arc::default(), Arc::default(), Arc::default(), Arc::default());
    let resolver = Arc::new(Resolver::new(Arc::clone(&zone), settings.resolver));
    let delivery = Arc::new(Delivery {
        store: Arc::clone(&store),
        clock: Arc::clone(&clock),
        webhooks: Arc::clone(&webhooks),
        verified: Arc::clone(&verified),
        resolver: Arc::clone(&resolver),
        metrics: Arc::clone(&metrics),
        stop: Arc::clone(&stop),
        outbound: Outbound::new(policy),
        unrecorded: Default::default(),
        relay_again: settings.relay_again,
        relay: settings.relay.clone().map(Relay::new),
        is_exposed: settings.is_exposed(),
    });
    let app = Arc::new(App {
        store,
        clock: Arc::clone(&clock),
        keys: Arc::default(),
        webhooks,
        faults: Arc::default(),
        zone,
        verified,
        resolver,
        metrics,
        activity: Arc::default(),
        stop,
        delivery,
        engine: handle,
        rate_limits: std::sync::Mutex::default(),
        bodies: Arc::new(Semaphore::new(BODY_BUDGET)),
        addresses: OnceLock::from(addresses.clone()),
        control_token: control_token.map_err(|error| database(&error))?,
        settings,
    });
    app.store.start(connection, clock).map_err(|error| StartError::Database(error.to_string()))?;
    let due = load(&app).await.map_err(|error| database(&error))?;

    let engine = engine::start(&app.delivery, app.settings.limits.stop_timeout, commands, due);
    let smtp = mail.map(|listener| tokio::spawn(smtp::run(mail_server(&app), listener)));
    let web = tokio::spawn(listen::run(Arc::clone(&app), listener, routes::router(&app)));
    if let Some(data_dir) = data_dir.as_ref().filter(|_| app.settings.discoverable) {
        data_dir.publish(&addresses).map_err(|source| StartError::Directory {
            directory: data_dir.path().to_owned(),
            source,
        })?;
    }
    tracing::info!(http = %addresses.http, dns = %addresses.dns, smtp = addresses.smtp.map(tracing::field::display), "ready");
    let tasks = Tasks { web, engine, smtp, _dns: dns, _data_dir: data_dir };
    Ok(Server { app, addresses, tasks: Some(tasks) })
}

/// Raises the process's soft limit of open files to its hard limit, at most 65 536: every
/// connection, delivery and reader takes a descriptor, and the usual soft limit is 1024.
fn raise_descriptor_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        const WANTED: u64 = 65_536;
        let mut limit = getrlimit(Resource::Nofile);
        let wanted = limit.maximum.unwrap_or(WANTED).min(WANTED);
        if limit.current.is_some_and(|current| current < wanted) {
            limit.current = Some(wanted);
            if let Err(error) = setrlimit(Resource::Nofile, limit) {
                tracing::warn!(%error, "cannot raise the limit of open files");
            }
        }
    }
}

async fn lock(directory: &std::path::Path) -> Result<DataDir, StartError> {
    DataDir::lock(directory).await.map_err(|error| match error {
        DataDirError::InUse(running) => {
            StartError::InUse { directory: directory.to_owned(), running }
        }
        DataDirError::Io(source) => {
            StartError::Directory { directory: directory.to_owned(), source }
        }
    })
}

fn mail_server(app: &App) -> MailServer {
    MailServer {
        store: Arc::clone(&app.store),
        clock: Arc::clone(&app.clock),
        webhooks: Arc::clone(&app.webhooks),
        resolver: Arc::clone(&app.resolver),
        activity: Arc::clone(&app.activity),
        stop: Arc::clone(&app.stop),
        certificate: app.settings.smtp_certificate.clone(),
        transfers: Arc::new(Semaphore::new(smtp::TRANSFER_BUDGET)),
        write_timeout: app.settings.limits.write_timeout,
    }
}

/// Seeds a new database, loads what the server keeps in memory, and returns the workers
/// with pending work, with the time when the first is due.
async fn load(app: &Shared) -> Result<Vec<(Worker, Millis)>, ApiError> {
    let context = Arc::clone(app);
    app.store
        .write(move |tx| {
            let is_new = meta::is_new(tx)?;
            if is_new && context.settings.seed {
                seed::create(tx, &context)?;
            }
            context.keys.load(tx.connection())?;
            if context.settings.is_exposed() {
                // An earlier start on loopback may have seeded these keys.
                store::keys::SEEDED.into_iter().for_each(|key| context.keys.reject(key));
            }
            deliveries::fail_interrupted(tx)?;
            context.webhooks.load(tx.connection())?;
            context.faults.load(tx.connection(), parse_definition)?;
            context.verified.load(tx.connection())?;
            context.zone.clear();
            for (owner, record) in dns_records::all(tx.connection())? {
                context.zone.publish(&owner, record.kind, &record.name, Data::from(&record));
            }
            let mut due = deliveries::next_by_webhook(tx.connection())?;
            let relay = relay_queue::first(tx.connection())?;
            due.extend(relay.map(|(_, at)| (Worker::Relay, at)));
            due.extend(local_deliveries::next(tx.connection())?);
            Ok(due)
        })
        .await
}

fn sqlite(error: &rusqlite::Error) -> StartError {
    use rusqlite::ErrorCode::{DiskFull, SystemIoFailure};
    StartError::Database(match error.sqlite_error_code() {
        // On a disk that is completely full, SQLite reports an I/O failure.
        Some(DiskFull | SystemIoFailure) => format!("{error} (is the disk full?)"),
        _ => error.to_string(),
    })
}

fn database(error: &ApiError) -> StartError {
    StartError::Database(error.message().to_owned())
}
