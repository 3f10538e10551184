//! The keys of each profile (`credentials.toml`), each with the base URL that it was stored for. The
//! file has mode 0600.

use std::path::{Path, PathBuf};

use svc_sdk::Service;
use toml_edit::{DocumentMut, value};

use super::Key;
use super::files::{names, read, remove, table_of, write};
use crate::failure::Failure;

/// `credentials.toml`: the keys of each profile, mode 0600.
pub struct Credentials {
    path: PathBuf,
    document: DocumentMut,
}

impl Credentials {
    /// Reads the file. A missing file is empty; a file that other users can read is an error.
    pub fn load(path: PathBuf) -> Result<Self, Failure> {
        refuse_if_others_can_read(&path)?;
        let document = read(&path)?;
        Ok(Self { path, document })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all profiles with a key.
    pub fn names(&self) -> Vec<String> {
        names(&self.document)
    }

    /// A profile's key for a service.
    pub fn key(&self, profile: &str, service: Service) -> Result<Option<Key>, Failure> {
        self.document
            .get("profiles")
            .and_then(|all| all.get(profile)?.get(entry(service)))
            .map(|item| {
                Key::parse(
                    item.as_str().unwrap_or_default(),
                    &format!("{}: {} of profile `{profile}`", self.path.display(), entry(service)),
                )
            })
            .transpose()
    }

    /// The base URL that a profile's key for a service was stored for. Files that were written by
    /// hand may lack it.
    pub fn url(&self, profile: &str, service: Service) -> Option<&str> {
        self.document.get("profiles")?.get(profile)?.get(url_entry(service))?.as_str()
    }

    /// Whether a profile's key for a service is in the system's keyring.
    pub fn in_keyring(&self, profile: &str, service: Service) -> bool {
        let all = self.document.get("profiles");
        let location = all.and_then(|all| all.get(profile)?.get(location_entry(service))?.as_str());
        location == Some(KEYRING)
    }

    /// Stores a profile's key for a service at this base URL.
    pub fn set(&mut self, profile: &str, service: Service, url: &str, key: &Key) {
        self.forget(profile, service);
        let table = table_of(&mut self.document, profile);
        table[entry(service)] = value(key.expose());
        table[url_entry(service)] = value(url);
    }

    /// Records that a profile's key for a service at this base URL is in the system's keyring.
    pub fn set_in_keyring(&mut self, profile: &str, service: Service, url: &str) {
        self.forget(profile, service);
        let table = table_of(&mut self.document, profile);
        table[location_entry(service)] = value(KEYRING);
        table[url_entry(service)] = value(url);
    }

    /// Removes a profile's key for a service, or its location. Returns whether there was one.
    pub fn forget(&mut self, profile: &str, service: Service) -> bool {
        let all = self.document.get_mut("profiles");
        all.and_then(|all| all.get_mut(profile)?.as_table_like_mut()).is_some_and(|table| {
            let key = table.remove(entry(service));
            let location = table.remove(location_entry(service));
            table.remove(url_entry(service));
            key.is_some() || location.is_some()
        })
    }

    /// Removes all keys of a profile. Returns whether there were any.
    pub fn remove(&mut self, profile: &str) -> bool {
        remove(&mut self.document, profile)
    }

    /// Writes the file with mode 0600.
    pub fn save(&self) -> Result<(), Failure> {
        write(&self.path, &self.document)
    }
}

const fn entry(service: Service) -> &'static str {
    match service {
        Service::Email => "email_key",
        _ => "extraction_key",
    }
}

/// The entry with the base URL that a key was stored for.
const fn url_entry(service: Service) -> &'static str {
    match service {
        Service::Email => "email_key_url",
        _ => "extraction_key_url",
    }
}

/// The entry that says where a key is stored that is not in the file.
const fn location_entry(service: Service) -> &'static str {
    match service {
        Service::Email => "email_key_in",
        _ => "extraction_key_in",
    }
}

const KEYRING: &str = "keyring";

#[cfg(unix)]
fn refuse_if_others_can_read(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    if metadata.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(Failure::input(format!(
        "{}: other users can access this file, which contains keys",
        path.display()
    ))
    .hint(format!("chmod 600 {}", path.display())))
}

#[cfg(not(unix))]
fn refuse_if_others_can_read(_path: &Path) -> Result<(), Failure> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn credentials_are_private_to_their_owner() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("svc/credentials.toml");
        let mut credentials = Credentials::load(path.clone()).expect("empty");
        let key = Key::parse("mk_test_x", "a test").expect("a key");
        credentials.set("default", Service::Email, "http://x", &key);
        credentials.save().expect("saved");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let again = Credentials::load(path.clone()).expect("read");
        assert_eq!(again.key("default", Service::Email).expect("a key"), Some(key));
        assert_eq!(again.key("default", Service::Extraction).expect("none"), None);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        let refused = Credentials::load(path).err().expect("refused");
        assert!(refused.details().hint.as_deref().is_some_and(|hint| hint.starts_with("chmod")));
    }

    #[test]
    fn a_key_is_either_in_the_file_or_in_the_keyring() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut credentials = Credentials::load(dir.path().join("c.toml")).expect("empty");
        let key = Key::parse("mk_test_x", "a test").expect("a key");
        let stored = |credentials: &Credentials| {
            let key = credentials.key("a", Service::Email).expect("read");
            (key.is_some(), credentials.in_keyring("a", Service::Email))
        };
        credentials.set("a", Service::Email, "http://x", &key);
        assert_eq!(stored(&credentials), (true, false));
        credentials.set_in_keyring("a", Service::Email, "http://x");
        assert_eq!(stored(&credentials), (false, true));
        credentials.set("a", Service::Email, "http://x", &key);
        assert_eq!(stored(&credentials), (true, false));
        credentials.set_in_keyring("a", Service::Email, "http://x");
        assert!(credentials.forget("a", Service::Email));
        assert_eq!(stored(&credentials), (false, false));
    }

    #[test]
    fn errors_in_files_do_not_quote_their_content() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("credentials.toml");
        write(&path, &DocumentMut::new()).expect("written");
        fs::write(&path, "[profiles.a]\nemail_key = sk_live_secret\n").expect("written");
        let error = Credentials::load(path).err().expect("refused");
        let message = &error.details().message;
        assert!(message.contains("line 2") && !message.contains("secret"), "{message}");
    }
}
