//! [`Server`] puts the parts together, starts and stops them. `start` takes the `Settings` of the
//! `Builder`, locks the data directory, opens the database, binds all addresses, applies the seeds,
//! and only then accepts requests. `stop` ends in the opposite order: tasks get `stop_timeout`,
//! then the database completes what was submitted, and at last the directory is unlocked. Requests
//! go on in `routes.rs`, due work in `engine.rs`, mail in `smtp.rs`.

mod builder;
pub(crate) mod organization;
mod start_error;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chrono::{DateTime, Utc};
use svc_sdk::Secret;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use builder::{Builder, InvalidUrl};
pub use start_error::StartError;

use crate::app::{App, Shared};
use crate::domains::domain_rows;
use crate::faults::fault_rows;
use crate::http::listen;
use crate::http::request_log::RequestLog;
use crate::jobs::EngineHandle;
use crate::keys::key_rows::{self, random_hex};
use crate::mail::dns::{self, Resolver, Zone};
use crate::mail::relay::Relay;
use crate::model::addresses::reachable;
use crate::model::{Addresses, Failure, Network, Timestamp};
use crate::net::outbound::Outbound;
use crate::retention::retention_rules;
use crate::runtime::limit::Limit;
use crate::seeds::seed_rules;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::data_dir::{DataDir, DataDirError, Hidden, RunningServer};
use crate::{engine, routes, smtp};

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
    tasks: Option<Tasks>,
}

/// Aborted when they are dropped.
struct Tasks {
    /// HTTP, SMTP and the engine.
    running: JoinSet<()>,
    dns: JoinSet<()>,
    data_dir: Option<DataDir>,
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
        Builder {
            settings: Settings::default(),
        }
    }

    /// The base URL of both services and of the control interface, such as
    /// `http://127.0.0.1:4080`, without a trailing slash: the address at which this machine
    /// reaches the server.
    pub fn base_url(&self) -> String {
        format!("http://{}", reachable(self.app.addresses.http))
    }

    /// The base URL for clients elsewhere: [`Builder::public_url`], else
    /// [`base_url`](Self::base_url).
    pub fn public_url(&self) -> String {
        self.app.settings.base_url(self.app.addresses.http)
    }

    /// The time of the server's clock.
    pub fn now(&self) -> DateTime<Utc> {
        Timestamp::from(self.app.clock.now()).into()
    }

    /// All addresses that the server listens on.
    pub fn addresses(&self) -> &Addresses {
        &self.app.addresses
    }

    /// The bearer token that the control interface requires.
    ///
    /// `None` if it requires none: in every network but [`Network::Public`], unless
    /// [`Builder::control_token`] set one.
    pub fn control_token(&self) -> Option<&str> {
        self.app.settings.control_token.as_ref().map(Secret::expose)
    }

    /// The email key and the extraction key of the seeded organization, if the server seeds.
    pub fn seeded_keys(&self) -> Option<(&Secret, &Secret)> {
        let settings = &self.app.settings;
        settings
            .seed
            .then_some((&settings.email_key, &settings.extraction_key))
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
    /// Waits at most one second, in real time, for requests and deliveries in progress, and then
    /// aborts them; what they have given to the database is completed, however long it takes. A
    /// delivery that was aborted does not count as an attempt. Pending work stays in the database;
    /// a server that starts again on the same data directory continues with it.
    pub async fn stop(mut self) {
        self.app.stop.request();
        let Some(tasks) = self.tasks.take() else {
            return;
        };

        tracing::info!("stopping");
        let Tasks {
            mut running,
            dns,
            data_dir,
        } = tasks;
        let ended = async {
            while let Some(ended) = running.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "a server task failed");
                }
            }
        };
        if timeout(self.app.settings.limits.stop_timeout, ended)
            .await
            .is_err()
        {
            tracing::warn!(
                "stopping with work in progress: requests are cut, deliveries go on at the next start"
            );
            running.shutdown().await;
        }

        drop(dns);
        close(Arc::clone(&self.app.store), data_dir).await;
        tracing::info!("stopped");
    }
}

/// Completes what was submitted to the database, closes it, and unlocks the data directory. Has a
/// thread of its own: the blocking threads of the runtime may all be busy.
async fn close(store: Arc<Store>, data_dir: Option<DataDir>) {
    let (closed, wait) = oneshot::channel();
    let closing = std::thread::Builder::new().spawn(move || {
        store.close();
        drop((data_dir, closed));
    });
    if let Err(error) = closing {
        tracing::error!(%error, "cannot wait for the database");
    }
    // Fails when the thread has ended.
    let _: Result<(), _> = wait.await;
}

impl Drop for Server {
    fn drop(&mut self) {
        self.app.stop.request();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.app.addresses)
            .finish_non_exhaustive()
    }
}

async fn start(mut settings: Settings) -> Result<Server, StartError> {
    raise_descriptor_limit();
    let addr = match (settings.addr, settings.network) {
        (Some(addr), Network::Loopback) if !addr.ip().is_loopback() => {
            return Err(StartError::BeyondLoopback { addr });
        }
        (Some(addr), _) => addr,
        (None, network) => SocketAddr::new(network.default_ip().ok_or(StartError::NoAddress)?, 0),
    };
    let mut data_dir = match (&settings.data_dir, &settings.announce_in) {
        (Some(directory), _) => Some(lock(directory, settings.network).await?),
        (None, Some(directory)) => DataDir::lock(directory, settings.network).await.ok(),
        (None, None) => None,
    };
    let directory = settings.data_dir.clone();
    let max_bytes = settings.limits.max_database_bytes;
    let dialect = settings.dialect.clone();
    let open = move || Store::open(directory.as_deref(), max_bytes, dialect);
    let (store, clock) = match tokio::task::spawn_blocking(open).await {
        Ok(opened) => opened.map_err(|error| StartError::Database(error.to_string()))?,
        Err(error) => return Err(StartError::Database(error.to_string())),
    };
    let cannot_listen = |what, addr| move |source| StartError::Listen { addr, what, source };
    let dns_addr = settings.dns;
    let listener = TcpListener::bind(addr)
        .await
        .map_err(cannot_listen("http", addr))?;
    let addr = listener.local_addr().map_err(cannot_listen("http", addr))?;
    settings.seed &= !settings.is_exposed();
    let zone = Arc::new(Zone::new());
    let (dns_addr, dns) = dns::start(dns_addr, Arc::clone(&zone))
        .await
        .map_err(cannot_listen("dns", dns_addr))?;

    let (handle, commands) = EngineHandle::new();
    if settings.is_exposed() && settings.control_token.is_none() {
        let token = random_hex::<24>().map_err(|error| database(&error))?;
        settings.control_token = Some(token.into());
    }
    let mail = match settings.smtp {
        Some(addr) => {
            let mut bound = TcpListener::bind(addr).await;
            if settings.smtp_may_move && bound.is_err() {
                bound = TcpListener::bind(SocketAddr::new(addr.ip(), 0)).await;
            }
            Some(bound.map_err(cannot_listen("smtp", addr))?)
        }
        None => None,
    };
    let smtp = mail
        .as_ref()
        .and_then(|listener| listener.local_addr().ok());
    let app = Arc::new(App {
        store: Arc::new(store),
        clock,
        has_faults: AtomicBool::default(),
        resolver: Resolver::new(Arc::clone(&zone), settings.resolver),
        zone,
        outbound: Outbound::new(settings.network, settings.resolver),
        relay: (settings.relay.clone()).map(|to| Relay::new(to, settings.relay_to.clone())),
        set_aside: AtomicU64::new(0),
        activity: Arc::default(),
        stop: Arc::default(),
        engine: handle,
        requests: RequestLog::default(),
        paid_until: std::sync::Mutex::default(),
        templates: Limit::new(MAX_TEMPLATES),
        addresses: Addresses {
            http: addr,
            dns: dns_addr,
            smtp,
        },
        settings,
    });
    load(&app).await?;

    let mut running = JoinSet::new();
    running.spawn(engine::run_jobs(Arc::clone(&app), commands));
    running.spawn(retention_rules::run(Arc::clone(&app)));
    running.spawn(listen::run(
        Arc::clone(&app),
        listener,
        routes::router(&app),
    ));
    if let Some(listener) = mail {
        running.spawn(smtp::run(Arc::clone(&app), listener));
    }
    if let Some(data_dir) = &mut data_dir {
        data_dir
            .publish(&running_server(&app))
            .map_err(|source| StartError::Directory {
                directory: data_dir.path().to_owned(),
                source,
            })?;
    }

    let Addresses {
        http,
        dns: names,
        smtp,
    } = &app.addresses;
    tracing::info!(network = %app.settings.network, %http, dns = %names, smtp = smtp.map(tracing::field::display), "ready");
    if app.clock.is_frozen() {
        let now = Timestamp::from(app.clock.now());
        tracing::warn!(%now, "the clock is frozen: resume it, or reset the server");
    }
    Ok(Server {
        app,
        tasks: Some(Tasks {
            running,
            dns,
            data_dir,
        }),
    })
}

/// Maximum number of templates that are rendered or checked at the same time.
const MAX_TEMPLATES: usize = 8;

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

/// The content of the file in the data directory, for the same user.
fn running_server(app: &App) -> RunningServer {
    let settings = &app.settings;
    let hidden = |secret: &Secret| Hidden(secret.expose().to_owned());
    let Addresses { http, dns, smtp } = app.addresses;
    RunningServer {
        http,
        dns,
        smtp,
        pid: std::process::id(),
        control_token: settings.control_token.as_ref().map(hidden),
        email_key: settings.seed.then(|| hidden(&settings.email_key)),
        extraction_key: settings.seed.then(|| hidden(&settings.extraction_key)),
    }
}

async fn lock(directory: &std::path::Path, network: Network) -> Result<DataDir, StartError> {
    DataDir::lock(directory, network)
        .await
        .map_err(|error| match error {
            DataDirError::InUse(running) => StartError::InUse {
                directory: directory.to_owned(),
                running,
            },
            DataDirError::Io(source) => StartError::Directory {
                directory: directory.to_owned(),
                source,
            },
        })
}

/// Applies the seeds, and loads what the server keeps in memory.
async fn load(app: &Shared) -> Result<(), StartError> {
    let context = Arc::clone(app);
    let loaded = app
        .store
        .write(move |tx| {
            seed_rules::start(tx, &context)?;
            key_rows::load(tx)?;
            context
                .has_faults
                .store(fault_rows::exist(tx.reader())?, Ordering::SeqCst);
            context.zone.set(&domain_rows::all_records(tx.reader())?);
            Ok(())
        })
        .await;
    loaded.map_err(|error| {
        let mistake = app
            .settings
            .seed_file
            .as_ref()
            .and_then(|file| file.mistake(&error));
        mistake.map_or_else(|| database(&error), StartError::Seed)
    })
}

fn database(error: &Failure) -> StartError {
    StartError::Database(error.message().to_owned())
}
