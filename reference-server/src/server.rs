//! Starting and stopping a server.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::{Addresses, App, Shared};
use crate::clock::{Clock, ClockMode};
use crate::dns::{DnsServer, Resolver, Zone};
use crate::email::domains;
use crate::engine::{self, EngineHandle, local_delivery, relaying};
use crate::error::ApiError;
use crate::home::{Home, HomeError, Running};
use crate::keys::random_hex;
use crate::outbound::{Outbound, Policy};
use crate::relay::{InvalidRelay, Relay, RelayTarget};
use crate::settings::Settings;
use crate::smtp::{Certificate, InvalidCertificate};
use crate::store::{Location, OpenError, Store};
use crate::switches::InvalidSwitch;
use crate::{seed, smtp, web};

/// A running server. Dropped without [`stop`](Self::stop), it ends at once;
/// what was answered is on disk all the same.
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
    _home: Option<Home>,
}

impl Server {
    /// Starts one for a test: in memory, seeded, on a free loopback port.
    ///
    /// # Errors
    ///
    /// [`StartError`], as for [`Builder::start`].
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().in_memory().start().await
    }

    /// How to start one otherwise.
    pub fn builder() -> Builder {
        Builder { settings: Settings::default() }
    }

    /// Its base address, such as `http://127.0.0.1:4080`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addresses.http)
    }

    /// Where its DNS server answers, on UDP and TCP.
    pub fn dns_addr(&self) -> SocketAddr {
        self.addresses.dns
    }

    /// Every address that it answers at.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// What `/_sandbox/` asks for as a bearer token, where the server is bound
    /// beyond loopback.
    pub fn control_token(&self) -> Option<&str> {
        self.app.control_token.as_deref()
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Returns when no request is under way, nobody holds a lease, and nothing
    /// is due any more at that moment.
    pub async fn until_idle(&self) {
        self.app.until_idle().await;
    }

    /// Waits as [`until_idle`](Self::until_idle) does, then stops. Whoever asks
    /// for a lease in between either gets it, and is waited for, or is refused.
    pub async fn stop_when_idle(self) {
        self.app.close_when_idle().await;
        self.stop().await;
    }

    /// Stops gracefully: requests and deliveries under way end, within ten
    /// seconds; the rest is kept in the database.
    pub async fn stop(mut self) {
        self.app.stopping.send_replace(true);
        if let Some(tasks) = self.tasks.take() {
            for task in [tasks.web, tasks.engine].into_iter().chain(tasks.smtp) {
                if let Err(error) = task.await {
                    tracing::error!(%error, "a part of the server ended badly");
                }
            }
            if let Some(relay) = &self.app.relay {
                relay.close().await;
            }
            let app = Arc::clone(&self.app);
            let closed = tokio::task::spawn_blocking(move || app.store.close());
            if let Err(error) = closed.await {
                tracing::error!(%error, "the database did not close");
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.app.stopping.send_replace(true);
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

/// Options of a server; see [`Server::builder`]. In memory, seeded, on free
/// loopback ports, unless told otherwise.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    settings: Settings,
}

impl Builder {
    /// The address for both services; port 0 takes a free one.
    pub fn addr(mut self, addr: SocketAddr) -> Self {
        self.settings.addr = addr;
        self
    }

    /// Keeps everything in this directory.
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.location = Location::Directory(directory.into());
        self
    }

    /// Keeps everything in memory and leaves no file behind.
    pub fn in_memory(mut self) -> Self {
        self.settings.location = Location::Memory;
        self
    }

    /// Whether the organization `Sandbox` is there from the start.
    pub fn seed(mut self, seed: bool) -> Self {
        self.settings.seed = seed;
        self
    }

    /// The address of the built-in DNS server; port 0 takes a free one.
    pub fn dns(mut self, addr: SocketAddr) -> Self {
        self.settings.dns = addr;
        self
    }

    /// The DNS server to ask for names that the built-in zone does not have,
    /// instead of the system's.
    pub fn resolver(mut self, addr: SocketAddr) -> Self {
        self.settings.resolver = Some(addr);
        self
    }

    /// Sends mail out to a real SMTP server, such as
    /// `smtp://user:password@mail.example.com:587` (`STARTTLS` where it is
    /// offered) or `smtps://…` (TLS from the start); without it nothing leaves
    /// the machine. Magic recipients stay here all the same.
    ///
    /// # Errors
    ///
    /// Where the text is no such address. The error does not repeat it.
    pub fn relay(mut self, url: &str) -> Result<Self, InvalidRelay> {
        self.settings.relay = Some(RelayTarget::parse(url)?);
        Ok(self)
    }

    /// Takes mail for verified domains over SMTP at this address; port 0 takes
    /// a free one. Without it no SMTP is spoken.
    pub fn smtp(mut self, addr: SocketAddr) -> Self {
        self.settings.smtp = Some(addr);
        self
    }

    /// What the SMTP listener's `STARTTLS` encrypts with: a certificate with its
    /// chain and its key, both in PEM form. Without it the listener makes one for
    /// `localhost` that it signs itself, anew at each start.
    ///
    /// # Errors
    ///
    /// Where either is none, or they do not belong together.
    pub fn smtp_certificate(
        mut self,
        chain_pem: &[u8],
        key_pem: &[u8],
    ) -> Result<Self, InvalidCertificate> {
        self.settings.smtp_certificate = Some(Certificate::from_pem(chain_pem, key_pem)?);
        Ok(self)
    }

    /// Open to others: no seeds, webhooks to public https targets only.
    pub fn public(mut self, public: bool) -> Self {
        self.settings.public = public;
        self
    }

    /// Whether [`running`](crate::running) finds it, which it does unless told
    /// otherwise: a server that will end in a moment has no use for guests.
    pub fn announced(mut self, announced: bool) -> Self {
        self.settings.announced = announced;
        self
    }

    /// Requests a second for each key; more are answered 429.
    pub fn rate_limit(mut self, requests_a_second: u32) -> Self {
        self.settings.rate_limit = Some(requests_a_second.max(1));
        self
    }

    /// How long a body may pause before the request is answered 408; ten seconds
    /// of real time unless set.
    pub fn body_timeout(mut self, pause: Duration) -> Self {
        self.settings.limits.body_pause = pause;
        self
    }

    /// How long a request's head may take, the idle time before it included;
    /// thirty seconds of real time unless set.
    pub fn head_timeout(mut self, time: Duration) -> Self {
        self.settings.limits.head_time = time;
        self
    }

    /// How large the database may grow; beyond it requests are answered 507, as
    /// on a full disk, until something was deleted.
    pub fn database_limit(mut self, bytes: u64) -> Self {
        self.settings.limits.database_bytes = Some(bytes);
        self
    }

    /// Chooses otherwise at a point that the documents leave open, such as
    /// `create-status=200`.
    ///
    /// # Errors
    ///
    /// Where there is no such point or no such choice; it says which there are.
    pub fn set(mut self, point_and_choice: &str) -> Result<Self, InvalidSwitch> {
        self.settings.switches.set(point_and_choice)?;
        Ok(self)
    }

    /// Starts the server; it is ready when this returns.
    ///
    /// # Errors
    ///
    /// [`StartError`] says what is in the way: another server on the same data
    /// directory, an address that is taken, a database of a newer version.
    pub async fn start(self) -> Result<Server, StartError> {
        start(self.settings).await
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Another server runs on the data directory: use that one.
    #[error("another server runs on {}{}", .directory.display(), at(.running.as_ref()))]
    InUse {
        /// The data directory.
        directory: PathBuf,
        /// The other server; `None` while it is just starting.
        running: Option<Running>,
    },
    /// The data directory cannot be used: check that it can be written.
    #[error("cannot use the data directory {}", .directory.display())]
    Directory {
        /// The data directory.
        directory: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The database is of a newer version, and was left as it is.
    #[error(
        "the database was written by a newer version of svc and left as it is; \
         update this one, or give it another data directory"
    )]
    NewerDatabase,
    /// The database cannot be opened.
    #[error("cannot open the database: {0}")]
    Database(String),
    /// An address is taken, or is none of this machine.
    #[error("cannot listen on {addr} for {what}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What was to be offered there: `http`, `dns`, `smtp`.
        what: &'static str,
        /// What went wrong.
        source: std::io::Error,
    },
}

fn at(running: Option<&Running>) -> String {
    running.map(|running| format!(", at {}", running.base_url())).unwrap_or_default()
}

async fn start(mut settings: Settings) -> Result<Server, StartError> {
    let home = match &settings.location {
        Location::Memory => None,
        Location::Directory(directory) => Some(take(directory).await?),
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
    if let Some(bytes) = settings.limits.database_bytes {
        crate::store::limit_size(&connection, bytes).map_err(|error| sqlite(&error))?;
    }
    let mode =
        crate::store::find(&connection, "SELECT value FROM meta WHERE key = 'clock'", [], |row| {
            row.get::<_, String>(0)
        });
    let mode = mode.map_err(|error| sqlite(&error))?;
    let mode = mode.as_deref().and_then(ClockMode::from_text);
    let clock = Arc::new(Clock::new(mode.unwrap_or(ClockMode::Running { offset: 0 })));
    crate::store::restore_clock_and_ids(&connection, &clock).map_err(|error| sqlite(&error))?;

    let listen = |what, addr| move |source| StartError::Listen { addr, what, source };
    let (addr, dns_addr) = (settings.addr, settings.dns);
    let listener = web::listen::bind(addr).map_err(listen("http", addr))?;
    let addr = listener.local_addr().map_err(listen("http", addr))?;
    settings.seed &= !settings.is_open();
    let zone = Arc::new(Zone::new());
    let dns =
        DnsServer::start(dns_addr, Arc::clone(&zone)).await.map_err(listen("dns", dns_addr))?;

    let policy = if settings.public { Policy::Public } else { Policy::Development };
    let (handle, commands) = EngineHandle::new();
    let control_token = (!addr.ip().is_loopback()).then(random_hex::<24>).transpose();
    let mail = match settings.smtp {
        Some(addr) => Some(TcpListener::bind(addr).await.map_err(listen("smtp", addr))?),
        None => None,
    };
    let smtp = mail.as_ref().and_then(|listener| listener.local_addr().ok());
    let addresses = Addresses { http: addr, dns: dns.address(), smtp };
    let app = Arc::new(App {
        store,
        clock: Arc::clone(&clock),
        keys: Arc::default(),
        webhooks: Arc::default(),
        engine: handle,
        outbound: Outbound::new(policy),
        relay: settings.relay.clone().map(Relay::new),
        resolver: Resolver::new(Arc::clone(&zone), settings.resolver),
        zone,
        verified: Default::default(),
        rates: std::sync::Mutex::default(),
        faults: Default::default(),
        metrics: Default::default(),
        activity: Default::default(),
        addresses: OnceLock::from(addresses.clone()),
        control_token: control_token.map_err(|error| database(&error))?,
        stopping: watch::Sender::new(false),
        settings,
    });
    app.store.start(connection, clock).map_err(|error| StartError::Database(error.to_string()))?;
    let due = load(&app).await.map_err(|error| database(&error))?;

    let engine = engine::start(&app, commands, due);
    let smtp = mail.map(|listener| tokio::spawn(smtp::run(Arc::clone(&app), listener)));
    let web = tokio::spawn(web::listen::run(Arc::clone(&app), listener, web::router(&app)));
    if let Some(home) = home.as_ref().filter(|_| app.settings.announced) {
        home.announce(&addresses).map_err(|source| StartError::Directory {
            directory: home.directory().to_owned(),
            source,
        })?;
    }
    tracing::info!(http = %addresses.http, dns = %addresses.dns, smtp = addresses.smtp.map(tracing::field::display), "ready");
    let tasks = Tasks { web, engine, smtp, _dns: dns, _home: home };
    Ok(Server { app, addresses, tasks: Some(tasks) })
}

async fn take(directory: &std::path::Path) -> Result<Home, StartError> {
    Home::take(directory).await.map_err(|error| match error {
        HomeError::Taken(running) => StartError::InUse { directory: directory.to_owned(), running },
        HomeError::Io(source) => StartError::Directory { directory: directory.to_owned(), source },
    })
}

/// Plants the seeds at the first start, reads what is kept in memory, and finds
/// the deliveries that are still to come.
async fn load(app: &Shared) -> Result<Vec<(String, i64)>, ApiError> {
    let context = Arc::clone(app);
    app.store
        .write(move |tx| {
            let first = tx.find("SELECT 1 FROM meta WHERE key = 'planted'", [], |_| Ok(()))?.is_none();
            if first {
                tx.execute("INSERT INTO meta VALUES ('planted', '1')", [])?;
            }
            if first && context.settings.seed {
                seed::plant(tx, &context)?;
            }
            context.keys.load(tx.connection())?;
            if context.settings.is_open() {
                // Planted at an earlier start, on loopback.
                seed::KEYS.into_iter().for_each(|known| context.keys.disregard(known));
            }
            context.webhooks.load(tx.connection())?;
            context.faults.load(tx.connection())?;
            domains::load_zone(tx.connection(), &context)?;
            let mut statement = tx.statement(
                "SELECT webhook, MIN(due_at) FROM delivery WHERE due_at IS NOT NULL GROUP BY webhook",
            )?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let mut due = rows.collect::<rusqlite::Result<Vec<_>>>()?;
            due.extend(relaying::next_due(tx.connection())?);
            due.extend(local_delivery::next_due(tx.connection())?);
            Ok(due)
        })
        .await
}

fn sqlite(error: &rusqlite::Error) -> StartError {
    use rusqlite::ErrorCode::{DiskFull, SystemIoFailure};
    StartError::Database(match error.sqlite_error_code() {
        // A disk without any room at all is a failing one to SQLite.
        Some(DiskFull | SystemIoFailure) => format!("{error}: is its disk full?"),
        _ => error.to_string(),
    })
}

fn database(error: &ApiError) -> StartError {
    StartError::Database(error.message().to_owned())
}
