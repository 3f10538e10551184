//! A new file for a secret that the service shows only once.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use svc_sdk::Secret;

use crate::failure::Failure;
use crate::private;

/// The file of `--secret-file`: new, with mode 0600, and empty. It is created before the service
/// creates the secret, so that no secret is lost because the file cannot be created. It is removed
/// again unless it is kept.
pub struct SecretFile {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

impl SecretFile {
    /// Creates the file. One that exists, which may hold another secret, is refused.
    pub fn create(path: &Path, cwd: &Path) -> Result<Self, Failure> {
        let full = cwd.join(path);
        match private::create_new(&full) {
            Ok(file) => Ok(Self { path: full, file, is_kept: false }),
            Err(error) => Err(refused(path, cwd, &error)),
        }
    }

    /// Stores the secret.
    pub fn store(&mut self, secret: &Secret) -> Result<(), Failure> {
        let stored = self.file.write_all(secret.expose().as_bytes());
        stored.and_then(|()| self.file.sync_all()).map_err(|error| {
            Failure::other(format!("--secret-file: {}: {error}", self.path.display()))
        })
    }

    /// Keeps the file.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn refused(path: &Path, cwd: &Path, error: &std::io::Error) -> Failure {
    if error.kind() == ErrorKind::AlreadyExists {
        return Failure::input(format!("--secret-file: {} already exists", path.display()))
            .hint("nothing was changed; name a new file");
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match directory.filter(|directory| !cwd.join(directory).is_dir()) {
        Some(missing) => Failure::input(format!(
            "--secret-file: {} is not an existing directory",
            missing.display()
        ))
        .hint("nothing was changed; create the directory, or name another file"),
        None => Failure::input(format!("--secret-file: {}: {error}", path.display()))
            .hint("nothing was changed; name another file"),
    }
}
