//! The connection to Redis, which is made again when it is lost.

use std::io;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, FromRedisValue, Pipeline, RedisError};
use tokio::time::{Instant, sleep};

/// How long to wait for a server that restarts. After that, a worker ends.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long to wait between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Clone)]
pub(crate) struct Connection(ConnectionManager);

impl Connection {
    pub(crate) async fn open(url: &str, ca_pem: Option<&[u8]>) -> io::Result<Self> {
        let client = match url.starts_with("rediss:") {
            true => with_tls(url, ca_pem)?,
            false => Client::open(url).map_err(|_| not_a_url())?,
        };
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_max_delay(Duration::from_millis(500))
            .set_connection_timeout(Some(Duration::from_secs(5)))
            .set_response_timeout(Some(Duration::from_secs(10)));
        ConnectionManager::new_with_config(client, config)
            .await
            .map(Self)
            .map_err(failed)
    }

    /// Runs a command that may be repeated, until Redis responds.
    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> io::Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            match command.query_async(&mut self.0.clone()).await {
                Err(error) if is_temporary(&error) && Instant::now() < end => sleep(PAUSE).await,
                result => return result.map_err(failed),
            }
        }
    }

    /// Runs a command once.
    pub(crate) async fn once<T: FromRedisValue>(&self, command: &Cmd) -> io::Result<T> {
        command
            .query_async(&mut self.0.clone())
            .await
            .map_err(failed)
    }

    pub(crate) async fn pipeline(&self, commands: Pipeline) -> io::Result<()> {
        commands
            .query_async(&mut self.0.clone())
            .await
            .map_err(failed)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

fn no_provider() -> io::Error {
    let problem = "rediss:// needs the crypto provider of the process: at the start of the program, \
                   call `rustls::crypto::ring::default_provider().install_default()`, or the \
                   same of `aws_lc_rs`";
    io::Error::new(io::ErrorKind::Unsupported, problem)
}

fn not_a_url() -> io::Error {
    let problem = "not a URL such as redis://:PASSWORD@HOST:6379/0 or rediss://HOST";
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

fn with_tls(url: &str, ca_pem: Option<&[u8]>) -> io::Result<Client> {
    // `redis` uses the crypto provider of the process, and panics without one.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(no_provider());
    }
    let root_cert = ca_pem.map(<[u8]>::to_vec);
    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert,
    };
    Client::build_with_tls(url, certificates).map_err(|error| match error.kind() {
        redis::ErrorKind::InvalidClientConfig => not_a_url(),
        _ => failed(error),
    })
}

/// Whether the server is starting, or cannot be reached.
fn is_temporary(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_connection_dropped()
        || error.is_timeout()
        || matches!(
            error.code(),
            Some("LOADING" | "BUSY" | "TRYAGAIN" | "MASTERDOWN")
        )
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn failed(error: RedisError) -> io::Error {
    io::Error::other(format!("Redis: {error}"))
}
