//! Ledgers in both databases.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use svc_bulk::Ledger;
use svc_bulk::deadpool_postgres::{Manager, Pool};
use tempfile::TempDir;
use tokio_postgres::{Config, NoTls};

use crate::server::Server;

pub(crate) trait Databases {
    /// A ledger without sends.
    async fn ledger(&self) -> Ledger;

    /// Short, and long enough for a worker under load.
    fn lease(&self) -> Duration;
}

pub(crate) struct Sqlite {
    directory: TempDir,
    count: AtomicU32,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        Self::below(std::env::temp_dir())
    }

    /// Without a disk, for tests that commit very often: no commit waits for it.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() {
            Self::below(memory)
        } else {
            Self::new()
        }
    }

    fn below(directory: impl AsRef<Path>) -> Self {
        Self {
            directory: TempDir::new_in(directory).unwrap(),
            count: AtomicU32::new(0),
        }
    }
}

impl Databases for Sqlite {
    async fn ledger(&self) -> Ledger {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.path().join(format!("{number}.db"));
        Ledger::sqlite(path).await.unwrap()
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(80)
    }
}

/// One database, whose sends have nothing in common.
pub(crate) struct Postgres(pub(crate) Server);

impl Postgres {
    /// `None` if no server is wanted, or installed.
    pub(crate) fn start() -> Option<Self> {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(Server::own()).map(Self)
    }
}

impl Databases for Postgres {
    async fn ledger(&self) -> Ledger {
        Ledger::postgres(pool(self.0.database().await))
            .await
            .unwrap()
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(400)
    }
}

pub(crate) fn pool(config: Config) -> Pool {
    let manager = Manager::new(config, NoTls);
    Pool::builder(manager).max_size(8).build().unwrap()
}
