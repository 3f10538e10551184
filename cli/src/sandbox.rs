//! The sandbox: the reference server, either one that already runs for the data directory, on it or in
//! memory, or one inside this process.
//!
//! If several commands run at once, one of them serves all. Each of the others holds a lease, an
//! HTTP response that stays open, and the serving command exits only after all leases are closed.
//! If the serving command exits while another one connects, the other one starts its own server.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use svc_reference_server::client::{Client, Health};
use svc_reference_server::{Builder, Network, RunningServer, Server, StartError, find_running};
use svc_sdk::{Dialect, EmailClient, Secret, Service};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::failure::{Failure, with_causes};
use crate::input::address;
use crate::settings::{Settings, Sourced, is_unknown};

/// The port of the sandbox, unless an option says otherwise.
pub const PORT: u16 = 4080;
/// How long a server may take to tell that it is there.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for finding a server or becoming one.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Finds the server of a data directory, in it or in memory.
pub fn find(dir: &Path) -> Option<RunningServer> {
    find_running(dir).or_else(|| find_running(in_memory_dir(dir)))
}

/// Whether this user could see that a server runs on a data directory.
pub fn is_readable(dir: &Path) -> bool {
    let denied = std::io::ErrorKind::PermissionDenied;
    let opened = File::open(dir.join("svc.db"));
    !opened.is_err_and(|error| error.kind() == denied)
}

/// Where a server with `--in-memory`, which uses no data directory, is announced.
pub fn in_memory_dir(dir: &Path) -> PathBuf {
    dir.join("in-memory")
}

/// Where a server listens that no data directory tells of.
pub fn usual_url(settings: &Settings) -> Result<String, Failure> {
    let addr = settings.variable("SVC_SANDBOX_ADDR")?;
    let addr = addr.and_then(|addr| address::parse_listen(&addr.value).ok());
    let port = addr.map_or(PORT, |addr| addr.port());
    let ip = addr.map(|addr| addr.ip()).filter(|ip| !ip.is_unspecified());
    Ok(format!(
        "http://{}",
        SocketAddr::new(ip.unwrap_or(Ipv4Addr::LOCALHOST.into()), port)
    ))
}

/// The URL of the server of this container, which may belong to another user: where the environment
/// says how a server listens, that is the one that is meant. A data directory that this user can
/// read and that has data comes first.
pub async fn beside(settings: &Settings) -> Result<Option<Sourced<String>>, Failure> {
    if File::open(settings.sandbox_dir.join("svc.db")).is_ok() {
        return Ok(None);
    }
    for name in ["SVC_SANDBOX_ADDR", "SVC_SANDBOX_NETWORK"] {
        if let Some(Sourced { source, .. }) = settings.variable(name)? {
            let value = usual_url(settings)?;
            let found = tokio::time::timeout(PROBE_TIMEOUT, health(&value)).await;
            let is_there = found.is_ok_and(|health| health.is_ok());
            return Ok(is_there.then_some(Sourced { value, source }));
        }
    }
    Ok(None)
}

/// Sets the keys of the seeded organization and the control token that the environment names.
pub fn seeded(mut builder: Builder, settings: &Settings) -> Result<Builder, Failure> {
    let key = |name| {
        let Some(Sourced { value, source }) = settings.variable(name)? else {
            return Ok(None);
        };
        if !value.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem = "a key has only printable ASCII characters, and no spaces";
            return Err(Failure::usage(format!("{source}: {problem}")));
        }
        Ok(Some(value))
    };

    let email = key("SVC_SANDBOX_EMAIL_KEY")?;
    let extraction = key("SVC_SANDBOX_EXTRACTION_KEY")?;
    if email.is_some() && email == extraction {
        let problem = "SVC_SANDBOX_EMAIL_KEY and SVC_SANDBOX_EXTRACTION_KEY are the same";
        return Err(Failure::usage(problem).hint("each key is for one service"));
    }

    if let Some(key) = email {
        builder = builder.email_key(key);
    }
    if let Some(key) = extraction {
        builder = builder.extraction_key(key);
    }
    Ok(match settings.variable("SVC_SANDBOX_CONTROL_TOKEN")? {
        Some(token) => builder.control_token(token.value),
        None => builder,
    })
}

/// A server inside this command. In a container, its data directory may be a volume.
fn embedded(settings: &Settings) -> Result<Builder, Failure> {
    let network = settings.variable("SVC_SANDBOX_NETWORK")?;
    let network = network.and_then(|network| network.value.parse().ok());
    let trusted = network.is_some_and(|network: Network| network == Network::Trusted);
    let builder = Server::builder().addr(([127, 0, 0, 1], 0).into());
    let builder = builder.data_dir(&settings.sandbox_dir);
    seeded(
        if trusted {
            builder.network(Network::Trusted)
        } else {
            builder
        },
        settings,
    )
}

/// Why no server could start on a data directory.
pub fn cannot_start(dir: &Path, error: &StartError) -> Failure {
    let failure = Failure::other(format!("cannot start the sandbox: {}", with_causes(error)));
    failure.hint(if is_unknown(dir) {
        "set HOME or SVC_SANDBOX_DIR, or keep nothing: SVC_SANDBOX_IN_MEMORY=true".to_owned()
    } else {
        format!(
            "check that {} can write to {}; or choose another directory (SVC_SANDBOX_DIR), or keep \
         nothing: SVC_SANDBOX_IN_MEMORY=true",
            user(),
            dir.display()
        )
    })
}

#[cfg(unix)]
fn user() -> String {
    match rustix::process::getuid().as_raw() {
        0 => "root".to_owned(),
        id => format!("the user with ID {id}"),
    }
}

#[cfg(not(unix))]
fn user() -> String {
    "this user".to_owned()
}

/// The sandbox of this run.
pub struct Sandbox {
    url: String,
    control_token: Option<Secret>,
    keys: [Option<Secret>; 2],
    dialect: Dialect,
    hold: Mutex<Option<Hold>>,
}

enum Hold {
    /// The server runs inside this process.
    Own(Box<Server>),
    /// Another process serves, and keeps running while this connection is open.
    Lease(#[expect(dead_code, reason = "kept open, not read")] TcpStream),
}

impl Sandbox {
    /// The base URL of the server that runs, if there is one.
    pub async fn running_url(settings: &Settings) -> Result<Option<String>, Failure> {
        Ok(match (elsewhere(settings)?, find(&settings.sandbox_dir)) {
            (Some(url), _) => Some(url.value),
            (None, Some(server)) => Some(server.base_url()),
            (None, None) => beside(settings).await?.map(|url| url.value),
        })
    }

    /// Connects to the server of SVC_SANDBOX_URL or of a data directory, or starts one in this
    /// process.
    pub async fn attach(settings: &Settings) -> Result<Self, Failure> {
        let dir = &settings.sandbox_dir;
        if let Some(url) = elsewhere(settings)? {
            return Self::at(&url, settings).await;
        }

        let deadline = Instant::now() + ATTACH_TIMEOUT;
        loop {
            if let Some(server) = find(dir)
                && let Ok(Some(lease)) = lease(&server).await
                && let Ok(Health { dialect, .. }) = health(&server.base_url()).await
            {
                return Ok(Self::running(&server, dialect, lease));
            }
            if let Some(url) = beside(settings).await? {
                return Self::at(&url, settings).await;
            }
            match embedded(settings)?.start().await {
                Ok(server) => return Ok(Self::own(server)),
                // Another server is starting or shutting down.
                Err(StartError::InUse { .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Err(error) => return Err(cannot_start(dir, &error)),
            }
        }
    }

    /// Connects to a server elsewhere, such as in another container. It must be a sandbox:
    /// nothing of this run may reach a live service.
    async fn at(url: &Sourced<String>, settings: &Settings) -> Result<Self, Failure> {
        let Sourced { value, source } = url;
        let health = health(value).await.map_err(|failure| {
            let why = &failure.message;
            Failure::other(format!("{source}: no sandbox responds at {value}: {why}"))
                .code("not_running")
        })?;
        let secret = |name| {
            Ok::<_, Failure>(
                settings
                    .variable(name)?
                    .map(|found| Secret::new(found.value)),
            )
        };

        Ok(Self {
            url: value.clone(),
            control_token: secret("SVC_SANDBOX_CONTROL_TOKEN")?,
            keys: [
                secret("SVC_SANDBOX_EMAIL_KEY")?,
                secret("SVC_SANDBOX_EXTRACTION_KEY")?,
            ],
            dialect: health.dialect,
            hold: Mutex::new(None),
        })
    }

    fn own(server: Server) -> Self {
        Self {
            url: server.base_url(),
            control_token: server.control_token().map(Secret::new),
            keys: server
                .seeded_keys()
                .map_or([None, None], |(email, extraction)| {
                    [Some(email.clone()), Some(extraction.clone())]
                }),
            dialect: Dialect::default(),
            hold: Mutex::new(Some(Hold::Own(Box::new(server)))),
        }
    }

    fn running(server: &RunningServer, dialect: Dialect, lease: TcpStream) -> Self {
        Self {
            url: server.base_url(),
            control_token: server.control_token().map(Secret::new),
            keys: [server.email_key(), server.extraction_key()].map(|key| key.map(Secret::new)),
            dialect,
            hold: Mutex::new(Some(Hold::Lease(lease))),
        }
    }

    /// The dialect that the server speaks, whatever that of the profile is.
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// The token that the control interface of a public server requires.
    pub fn control_token(&self) -> Option<&Secret> {
        self.control_token.as_ref()
    }

    /// The key of the seeded organization for a service, if the server seeds.
    pub fn key(&self, service: Service) -> Option<&Secret> {
        self.keys[usize::from(service != Service::Email)].as_ref()
    }

    /// Whether the server has issued a key. The key stays in this process: hashes are compared.
    pub async fn has_issued(&self, key: &str) -> Result<bool, svc_sdk::Error> {
        let hash = hex::encode(Sha256::digest(key));
        let token = self
            .control_token
            .clone()
            .unwrap_or_else(|| Secret::new("none"));
        let client = Client::with_token(&self.url, token)?;
        for organization in client.organizations().await? {
            let keys = client.of(organization.id).keys().await?;
            if keys
                .iter()
                .any(|known| known.sha256.as_deref() == Some(&*hash))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether no server was running, so that this command started one of its own.
    pub async fn is_own(&self) -> bool {
        matches!(&*self.hold.lock().await, Some(Hold::Own(_)))
    }

    /// The base URL of both services and of the control interface.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Releases the sandbox. A server in this process first finishes the work that is due and
    /// waits for the leases of other commands.
    pub async fn finish(&self) {
        if let Some(Hold::Own(server)) = self.hold.lock().await.take() {
            server.stop_when_idle().await;
        }
    }
}

/// The server that SVC_SANDBOX_URL names.
fn elsewhere(settings: &Settings) -> Result<Option<Sourced<String>>, Failure> {
    let url = settings.variable("SVC_SANDBOX_URL")?;
    Ok(url.map(|Sourced { value, source }| Sourced {
        value: value.trim_end_matches('/').to_owned(),
        source,
    }))
}

async fn health(url: &str) -> Result<Health, Failure> {
    let http = EmailClient::builder(url, "none").no_proxy().build()?;
    let request = Client::from_http(http).health();
    Ok((request.decode)(&request.call.retries(0).await?)?)
}

/// Requests a lease: the server keeps running while the connection is open. `None` if the
/// server is shutting down.
async fn lease(server: &RunningServer) -> std::io::Result<Option<TcpStream>> {
    let host = server.http;
    let mut stream = TcpStream::connect(host).await?;
    let token = server
        .control_token()
        .map(|token| format!("Authorization: Bearer {token}\r\n"));
    let token = token.unwrap_or_default();
    let request = format!("GET /_sandbox/lease HTTP/1.1\r\nHost: {host}\r\n{token}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    let mut buffer = [0; 512];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&buffer[..read]);
    }

    Ok(head.starts_with(b"HTTP/1.1 200").then_some(stream))
}
