//! The data directory: locked by the server that uses it, with a file that tells
//! other processes where that server listens.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Network;
use crate::model::addresses::reachable;

/// A server that is running on a data directory, returned by [`find_running`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunningServer {
    /// The HTTP listen address, such as `127.0.0.1:4080`.
    pub http: SocketAddr,
    /// The listen address of the DNS server.
    pub dns: SocketAddr,
    /// The listen address for SMTP, if the server accepts mail.
    pub smtp: Option<SocketAddr>,
    /// The process ID.
    pub pid: u32,
    // The file has them, and its owner alone can read it.
    #[serde(default, skip_serializing)]
    pub(crate) control_token: Option<Hidden>,
    #[serde(default, skip_serializing)]
    pub(crate) email_key: Option<Hidden>,
    #[serde(default, skip_serializing)]
    pub(crate) extraction_key: Option<Hidden>,
}

/// A secret that no message shows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Hidden(pub(crate) String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

impl RunningServer {
    /// The token that the control interface requires as `Authorization: Bearer TOKEN`, if it requires a
    /// token. Serialization leaves it out.
    pub fn control_token(&self) -> Option<&str> {
        self.control_token.as_ref().map(|token| token.0.as_str())
    }

    /// The email key of the seeded organization, if there is one. Serialization leaves it out.
    pub fn email_key(&self) -> Option<&str> {
        self.email_key.as_ref().map(|key| key.0.as_str())
    }

    /// The extraction key of the seeded organization, if there is one. Serialization leaves it
    /// out.
    pub fn extraction_key(&self) -> Option<&str> {
        self.extraction_key.as_ref().map(|key| key.0.as_str())
    }

    /// The base URL at which this machine reaches the server, such as `http://127.0.0.1:4080`,
    /// without a trailing slash.
    pub fn base_url(&self) -> String {
        format!("http://{}", reachable(self.http))
    }
}

/// Finds the server that is running on this data directory.
///
/// The lookup relies on a file lock, which the system releases when the process
/// ends, so it does not report a server that was killed. Returns `None` if no
/// server is running, if it is still starting, or if it is that of another user.
pub fn find_running(data_dir: impl AsRef<Path>) -> Option<RunningServer> {
    let directory = data_dir.as_ref();
    let path = directory.join(LOCK_FILE);
    check_regular(&path).ok()?;
    let file = File::open(path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read_server_file(directory),
        Ok(()) => {
            let _ = file.unlock();
            None
        }
        Err(TryLockError::Error(_)) => None,
    }
}

const LOCK_FILE: &str = "server.lock";
const SERVER_FILE: &str = "server.json";

/// A locked data directory. The lock ends when this value is dropped or the
/// process ends.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    lock: File,
    published: Option<RunningServer>,
}

/// Why a data directory could not be locked.
#[derive(Debug)]
pub(crate) enum DataDirError {
    InUse(Option<RunningServer>),
    Io(std::io::Error),
}

impl DataDir {
    /// Locks the directory, and creates it if it does not exist. In a trusted network, others may
    /// own it or write to it, as is usual for the volumes of containers.
    pub(crate) async fn lock(directory: &Path, network: Network) -> Result<Self, DataDirError> {
        create_private_dir(directory).map_err(DataDirError::Io)?;
        match check_owner(directory) {
            Err(error) if network == Network::Trusted => {
                tracing::warn!(directory = %directory.display(), reason = %error, "the data directory is not private");
            }
            checked => checked.map_err(DataDirError::Io)?,
        }

        let lock = create_private_file(&directory.join(LOCK_FILE)).map_err(DataDirError::Io)?;
        // `find_running` in another process also holds the lock for a moment.
        for _ in 0..10 {
            match lock.try_lock() {
                Ok(()) => {
                    let _ = std::fs::remove_file(directory.join(SERVER_FILE));
                    return Ok(Self {
                        path: directory.to_owned(),
                        lock,
                        published: None,
                    });
                }
                Err(TryLockError::WouldBlock) => match read_server_file(directory) {
                    Some(running) => return Err(DataDirError::InUse(Some(running))),
                    None => tokio::time::sleep(Duration::from_millis(20)).await,
                },
                Err(TryLockError::Error(error)) => return Err(DataDirError::Io(error)),
            }
        }
        Err(DataDirError::InUse(None))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the server's addresses and secrets, so that [`find_running`] finds them. The file is
    /// replaced atomically.
    pub(crate) fn publish(&mut self, running: &RunningServer) -> std::io::Result<()> {
        self.published = Some(running.clone());
        let new = self.path.join("server.json.new");
        // One that a server left that was killed.
        let _ = std::fs::remove_file(&new);
        let RunningServer {
            control_token,
            email_key,
            extraction_key,
            ..
        } = running;
        let mut file = serde_json::to_value(running)?;
        file["control_token"] = serde_json::to_value(control_token)?;
        file["email_key"] = serde_json::to_value(email_key)?;
        file["extraction_key"] = serde_json::to_value(extraction_key)?;
        create_private_file(&new)?.write_all(file.to_string().as_bytes())?;
        std::fs::rename(new, self.path.join(SERVER_FILE))
    }
}

impl Drop for DataDir {
    /// Closing the lock would not do: a process that the application is just starting has it
    /// open, too, for a moment.
    fn drop(&mut self) {
        // Another server has written it if this one's directory was removed.
        if read_server_file(&self.path) == self.published {
            let _ = std::fs::remove_file(self.path.join(SERVER_FILE));
        }
        let _ = self.lock.unlock();
    }
}

fn read_server_file(directory: &Path) -> Option<RunningServer> {
    let path = directory.join(SERVER_FILE);
    check_regular(&path).ok()?;
    if !is_own(&path) {
        return None;
    }
    let text = std::fs::read(path).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Returns an error if there is something else: a link, or a pipe that would never be opened.
fn check_regular(path: &Path) -> std::io::Result<()> {
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        let message = format!("{} is not a regular file; remove it", path.display());
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            message,
        ));
    }
    Ok(())
}

/// Returns an error if the directory belongs to another user, or if other users may write to it:
/// they could replace the database. An empty one, such as a fresh temporary
/// directory, is made private.
#[cfg(unix)]
fn check_owner(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    let owner = std::fs::metadata(directory)?.uid();
    let user = rustix::process::geteuid();
    if !is_trusted(owner, user.as_raw()) {
        let user = user.as_raw();
        let message = format!(
            "it belongs to another user (uid {owner}, the server runs as uid {user}); run the \
             server as its owner, run `chown {user}`, or use another directory"
        );
        return Err(std::io::Error::new(
            std::io::ErrorKind::PermissionDenied,
            message,
        ));
    }

    let mut permissions = std::fs::metadata(directory)?.permissions();
    let mode = permissions.mode() & 0o777;
    if mode & 0o022 == 0 {
        return Ok(());
    }
    if std::fs::read_dir(directory)?.next().is_none() {
        permissions.set_mode(0o700);
        if std::fs::set_permissions(directory, permissions).is_ok() {
            return Ok(());
        }
    }

    let message = format!(
        "other users may write to it (mode {mode:03o}); run `chmod go-w`, or use another directory"
    );
    Err(std::io::Error::new(
        std::io::ErrorKind::PermissionDenied,
        message,
    ))
}

/// Whether files of this owner are as safe as those of the user. The administrator can read and
/// write everything anyway.
#[cfg(unix)]
fn is_trusted(owner: u32, user: u32) -> bool {
    owner == user || owner == 0
}

/// Whether a file was written by a server of this user, or of the administrator: emails and keys would
/// go to whatever another user announces. The directory of a container may well be that of others.
#[cfg(unix)]
fn is_own(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::geteuid().as_raw();
    std::fs::metadata(file).is_ok_and(|file| is_trusted(file.uid(), user))
}

#[cfg(not(unix))]
fn is_own(_: &Path) -> bool {
    true
}

#[cfg(not(unix))]
fn check_owner(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Creates a directory that only its owner can read: the database holds emails and
/// secrets.
fn create_private_dir(directory: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Creates the file if it does not exist, and makes it readable by its owner only.
/// SQLite gives its journal files the permissions of the database file.
pub(crate) fn create_private_file(path: &Path) -> std::io::Result<File> {
    check_regular(path)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
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
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_released_while_a_process_being_started_has_the_lock_open() {
        let directory = tempfile::tempdir().unwrap();
        let first = DataDir::lock(directory.path(), Network::Loopback)
            .await
            .unwrap();
        let _inherited = first.lock.try_clone().unwrap();
        drop(first);
        DataDir::lock(directory.path(), Network::Loopback)
            .await
            .unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_of_another_user_is_refused() {
        for (owner, user, expected) in [
            (1000, 1000, true),
            (0, 1000, true),
            (0, 0, true),
            (1001, 1000, false),
            (1000, 0, false),
        ] {
            assert_eq!(is_trusted(owner, user), expected, "{owner} and {user}");
        }

        let directory = tempfile::tempdir().unwrap();
        check_owner(directory.path()).unwrap();
        // Only the administrator can give a directory away.
        if std::os::unix::fs::chown(directory.path(), Some(12_345), None).is_ok() {
            let error = check_owner(directory.path()).unwrap_err().to_string();
            assert!(
                error.contains("belongs to another user (uid 12345"),
                "{error}"
            );
        }
    }

    /// It would get this user's emails.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_server_that_another_user_announces_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        let mut data_dir = DataDir::lock(directory.path(), Network::Loopback)
            .await
            .unwrap();
        let http = SocketAddr::from(([127, 0, 0, 1], 4080));
        let running = RunningServer {
            http,
            dns: http,
            smtp: None,
            pid: 1,
            control_token: None,
            email_key: None,
            extraction_key: None,
        };
        data_dir.publish(&running).unwrap();
        // The volume of a container may be that of another user.
        let _ = std::os::unix::fs::chown(directory.path(), Some(12_345), None);
        assert_eq!(find_running(directory.path()), Some(running));

        let file = directory.path().join(SERVER_FILE);
        if std::os::unix::fs::chown(file, Some(12_345), None).is_ok() {
            assert_eq!(find_running(directory.path()), None);
        }
    }
}
