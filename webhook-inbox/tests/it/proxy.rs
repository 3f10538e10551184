//! Stands before PostgreSQL as a network does: it delays what it passes on, or forgets connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

pub(crate) struct Proxy {
    directory: TempDir,
    /// How often connections were forgotten.
    forgotten: Arc<AtomicUsize>,
}

impl Proxy {
    /// A proxy for this server that delays each direction.
    pub(crate) fn start(config: &Config, delay: Duration) -> Self {
        let [Host::Unix(server)] = config.get_hosts() else {
            panic!("one Unix socket")
        };
        let server = server.join(".s.PGSQL.5432");
        let proxy = Self {
            directory: TempDir::with_prefix("proxy").unwrap(),
            forgotten: Arc::default(),
        };
        let listener = UnixListener::bind(proxy.directory.path().join(".s.PGSQL.5432")).unwrap();
        let forgotten = proxy.forgotten.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let server = UnixStream::connect(&server).await.unwrap();
                let (client_read, client_write) = client.into_split();
                let (server_read, server_write) = server.into_split();
                for (from, to) in [(client_read, server_write), (server_read, client_write)] {
                    tokio::spawn(pass_on(from, to, delay, forgotten.clone()));
                }
            }
        });
        proxy
    }

    /// The settings of a database behind the proxy.
    pub(crate) fn config(&self, of: &Config) -> Config {
        let mut config = Config::new();
        config.host_path(self.directory.path()).user("svc");
        config.dbname(of.get_dbname().unwrap());
        config
    }

    /// Nothing passes any more on the connections that are open. They stay so.
    pub(crate) fn forget_connections(&self) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay: Duration,
    forgotten: Arc<AtomicUsize>,
) {
    let opened = forgotten.load(Ordering::SeqCst);
    let (sender, mut held) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((at, bytes)) = held.recv().await {
            sleep_until(at).await;
            if forgotten.load(Ordering::SeqCst) != opened {
                std::future::pending::<()>().await;
            }
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let at = Instant::now() + delay;
        if sender.send((at, buffer[..read].to_vec())).is_err() {
            return;
        }
    }
}
