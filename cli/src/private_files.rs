//! Private files: readable by their owner only (mode 0600), replaced as a whole, and locked.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use uuid::Uuid;

/// Creates a new file. One that exists is an error.
pub fn create_new(path: &Path) -> io::Result<File> {
    options().write(true).create_new(true).open(path)
}

/// Opens a file to add to its end, and creates it if it is missing.
pub fn append(path: &Path) -> io::Result<File> {
    options().append(true).create(true).open(path)
}

/// Replaces a file, so that a crash leaves either the old or the new content.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    // Write through a symbolic link, for example into a dotfiles repository.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    write_beside(path, content, |new| fs::rename(new, path))
}

/// Creates a file with its content, unless it exists. Of several processes that do so at once, one
/// decides about the content.
pub fn create_once(path: &Path, content: &[u8]) -> io::Result<()> {
    write_beside(path, content, |new| match fs::hard_link(new, path) {
        Ok(()) => fs::remove_file(new),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::remove_file(new),
        // Some file systems have no hard links.
        Err(_) => fs::rename(new, path),
    })
}

/// Writes a new file beside the one of this path, and lets `place` bring it there.
fn write_beside(
    path: &Path,
    content: &[u8],
    place: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        create_dir(parent)?;
    }
    // A name that no other process and no process before a crash has used.
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", Uuid::new_v4().simple()));
    let new = Path::new(&new);
    let written = create_new(new).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()?;
        place(new)
    });
    if written.is_err() {
        let _ = fs::remove_file(new);
    }
    written
}

/// Creates a directory and its parents with mode 0700.
pub fn create_dir(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Locks a file until the handle is dropped, so that processes change what belongs to it one after
/// the other. Some network file systems do not support locks; there it does nothing.
pub fn lock(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        create_dir(parent)?;
    }
    let file = append(path)?;
    let _ = file.lock();
    Ok(file)
}

/// Whether other users can access this regular file. A pipe has no other readers.
#[cfg(unix)]
pub fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
pub fn is_open_to_others(_: &Path) -> bool {
    false
}

fn options() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whatever_a_crash_has_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("new/config.toml");
        replace(&path, b"one").expect("written");
        // What earlier versions left behind, in a container where process ids repeat.
        let leftover = path.with_extension(format!("toml.{}", std::process::id()));
        fs::write(leftover, "half").expect("written");
        replace(&path, b"two").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(
            fs::read_dir(dir.path().join("new")).expect("read").count(),
            2
        );
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_and_list() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/b");
        replace(&path, b"one").expect("written");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&dir.path().join("a"))), (0o600, 0o700));
    }
}
