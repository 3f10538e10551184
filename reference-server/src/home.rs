//! A server's hold on its data directory: a locked file, and beside it where
//! the server can be reached, so that others find it.

use std::fs::{File, OpenOptions, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::app::Addresses;

/// A server that runs on a data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Running {
    /// Where it answers, such as `127.0.0.1:4080`.
    pub http: SocketAddr,
    /// Its DNS server.
    pub dns: SocketAddr,
    /// Its SMTP listener, where it has one.
    pub smtp: Option<SocketAddr>,
    /// Its process.
    pub pid: u32,
}

impl Running {
    /// Its base address, such as `http://127.0.0.1:4080`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.http)
    }
}

/// The server that runs on this data directory, if there is one.
///
/// Asks the lock and not the process table, so a server that was killed is not
/// found. Answers `None` too while a server is just starting.
pub fn running(data_dir: impl AsRef<Path>) -> Option<Running> {
    let directory = data_dir.as_ref();
    let file = File::open(directory.join(LOCK)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read(directory),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

const LOCK: &str = "server.lock";
const ADDRESS: &str = "server.json";

/// The hold itself; it ends with its holder, however that ends.
#[derive(Debug)]
pub(crate) struct Home {
    directory: PathBuf,
    _lock: File,
    announced: OnceLock<Running>,
}

/// Why a data directory cannot be had.
#[derive(Debug)]
pub(crate) enum HomeError {
    Taken(Option<Running>),
    Io(std::io::Error),
}

impl Home {
    /// Takes the directory, making it where there is none.
    pub(crate) async fn take(directory: &Path) -> Result<Self, HomeError> {
        create_private(directory).map_err(HomeError::Io)?;
        let path = directory.join(LOCK);
        keep_private(&path).map_err(HomeError::Io)?;
        let lock = OpenOptions::new().read(true).write(true).open(path).map_err(HomeError::Io)?;
        // Somebody who only asks who is there holds the lock for a moment.
        for _ in 0..10 {
            match lock.try_lock() {
                Ok(()) => {
                    let _ = std::fs::remove_file(directory.join(ADDRESS));
                    return Ok(Self {
                        directory: directory.to_owned(),
                        _lock: lock,
                        announced: OnceLock::new(),
                    });
                }
                Err(TryLockError::WouldBlock) => match read(directory) {
                    Some(running) => return Err(HomeError::Taken(Some(running))),
                    None => tokio::time::sleep(Duration::from_millis(20)).await,
                },
                Err(TryLockError::Error(error)) => return Err(HomeError::Io(error)),
            }
        }
        Err(HomeError::Taken(None))
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Says where the server is, all at once.
    pub(crate) fn announce(&self, addresses: &Addresses) -> std::io::Result<()> {
        let running = Running {
            http: addresses.http,
            dns: addresses.dns,
            smtp: addresses.smtp,
            pid: std::process::id(),
        };
        let new = self.directory.join("server.json.new");
        keep_private(&new)?;
        std::fs::write(&new, serde_json::to_vec(&running)?)?;
        std::fs::rename(new, self.directory.join(ADDRESS))?;
        let _ = self.announced.set(running);
        Ok(())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // The directory may have been replaced under a server that was stopping.
        if read(&self.directory).is_some_and(|running| Some(&running) == self.announced.get()) {
            let _ = std::fs::remove_file(self.directory.join(ADDRESS));
        }
    }
}

fn read(directory: &Path) -> Option<Running> {
    serde_json::from_slice(&std::fs::read(directory.join(ADDRESS)).ok()?).ok()
}

/// The database holds emails and secrets: for its owner only.
fn create_private(directory: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Makes the file where there is none; for its owner only. SQLite gives what it
/// puts beside the database the permissions of the database.
pub(crate) fn keep_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mut permissions = file.metadata()?.permissions();
        if permissions.mode() & 0o077 != 0 {
            permissions.set_mode(0o600);
            file.set_permissions(permissions)?;
        }
    }
    drop(file);
    Ok(())
}
