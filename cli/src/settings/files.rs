//! The two files of `svc login`, `config.toml` and `credentials.toml`: each has a table of every
//! profile. Changes keep comments and unknown entries.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use svc_sdk::Service;
use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::table::{Setting, profile_settings, to_item};
use super::{Guard, Key};
use crate::command_line::shell_quoted;
use crate::failure::Failure;
use crate::private_files;
use crate::suggest::nearest;

/// The name of the profile that is used by default.
pub const DEFAULT_PROFILE: &str = "default";

/// A file with named profiles.
#[derive(Debug)]
pub struct ProfileFile {
    path: PathBuf,
    document: DocumentMut,
}

impl ProfileFile {
    /// Reads a file. A missing one is empty.
    fn load(path: PathBuf) -> Result<Self, Failure> {
        let document = read(&path)?;
        Ok(Self { path, document })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all profiles.
    pub fn names(&self) -> Vec<String> {
        let all = self.document.get("profiles").and_then(Item::as_table_like);
        all.into_iter()
            .flat_map(|all| all.iter())
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    /// Whether a profile exists.
    pub fn exists(&self, profile: &str) -> bool {
        self.profile(profile).is_some()
    }

    /// A text of a profile, such as a base URL.
    pub fn text(&self, profile: &str, entry: &str) -> Option<&str> {
        self.profile(profile)?.get(entry)?.as_str()
    }

    fn profile(&self, name: &str) -> Option<&dyn TableLike> {
        self.document.get("profiles")?.get(name)?.as_table_like()
    }

    /// Sets an entry of a profile, and creates the profile if necessary.
    pub fn set(&mut self, profile: &str, entry: &str, value: impl Into<Json>) {
        let all = self.document.entry("profiles").or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        });
        let table = &mut all[profile];
        if table.is_none() {
            *table = Item::Table(Table::new());
        }
        table[entry] = to_item(&value.into());
    }

    /// Removes an entry of a profile. Returns whether there was one.
    pub fn unset(&mut self, profile: &str, entry: &str) -> bool {
        let all = self.document.get_mut("profiles");
        let table = all.and_then(|all| all.get_mut(profile)?.as_table_like_mut());
        table.is_some_and(|table| table.remove(entry).is_some())
    }

    /// Removes a profile. Returns whether it existed.
    pub fn remove(&mut self, profile: &str) -> bool {
        let all = self
            .document
            .get_mut("profiles")
            .and_then(Item::as_table_like_mut);
        all.is_some_and(|all| all.remove(profile).is_some())
    }

    /// Writes the file, which only its owner can read.
    pub fn save(&self) -> Result<(), Failure> {
        private_files::replace(&self.path, self.document.to_string().as_bytes())
            .map_err(|error| failed(&self.path, &error))
    }
}

/// `config.toml`: base URLs and other settings. It contains no secrets.
impl ProfileFile {
    pub(super) fn config(directory: &Path) -> Result<Self, Failure> {
        Self::load(directory.join("config.toml"))
    }

    /// The profile to use by default, if one was chosen.
    pub fn active(&self) -> Option<&str> {
        self.document.get("profile").and_then(Item::as_str)
    }

    /// Sets the profile to use by default.
    pub fn set_active(&mut self, name: Option<&str>) {
        match name {
            Some(name) => self.document["profile"] = toml_edit::value(name),
            None => drop(self.document.remove("profile")),
        }
    }

    /// The recipient guard of a profile.
    pub fn guard(&self, profile: &str) -> Result<Guard, Failure> {
        let mut parts = serde_json::Map::new();
        for setting in profile_settings() {
            let value = self.value(profile, setting)?;
            parts.extend(value.map(|value| (setting.name.to_owned(), value)));
        }
        serde_json::from_value(parts.into()).map_err(|error| Failure::other(error.to_string()))
    }

    /// A setting of a profile, if it has it.
    pub(super) fn value(&self, name: &str, setting: &Setting) -> Result<Option<Json>, Failure> {
        let Some(item) = self
            .profile(name)
            .and_then(|profile| profile.get(setting.name))
        else {
            return Ok(None);
        };
        setting.parse_item(item).map(Some).map_err(|problem| {
            let path = self.path.display();
            let entry = setting.name;
            Failure::input(format!("{path}: profile `{name}`: `{entry}`{problem}"))
                .hint("correct the entry in this file, or remove it")
        })
    }

    /// The entries that svc does not know.
    pub(super) fn unknown_entries(&self) -> Vec<UnknownEntry> {
        let known = || profile_settings().map(|setting| setting.name);
        let top = self.document.iter().map(|(key, _)| key);
        let top = top.filter(|key| !matches!(*key, "profile" | "profiles"));
        let top = top.map(|name| UnknownEntry {
            name: name.to_owned(),
            shown: format!("`{name}` in config.toml"),
            meant: nearest(name, known())
                .map(|meant| format!("{meant} belongs in a profile: [profiles.NAME]")),
            profile: None,
        });
        let mut unknown = top.collect::<Vec<_>>();
        for profile in self.names() {
            let keys = self
                .profile(&profile)
                .into_iter()
                .flat_map(|table| table.iter());
            let keys = keys
                .map(|(key, _)| key)
                .filter(|key| !known().any(|known| known == *key));
            unknown.extend(keys.map(|name| UnknownEntry {
                name: name.to_owned(),
                shown: format!("`{name}` in profile `{profile}`"),
                meant: nearest(name, known()).map(|meant| format!("did you mean {meant}?")),
                profile: Some(profile.clone()),
            }));
        }

        unknown
    }
}

/// An entry of `config.toml` that svc does not know.
#[derive(Clone, Debug)]
pub struct UnknownEntry {
    pub(super) name: String,
    /// The entry and where it is.
    pub shown: String,
    /// The name that was probably meant.
    pub meant: Option<String>,
    profile: Option<String>,
}

impl UnknownEntry {
    /// Whether a run with this profile would use it.
    pub(super) fn is_of(&self, profile: &str) -> bool {
        self.profile.as_ref().is_none_or(|of| of == profile)
    }
}

/// `credentials.toml`: the keys of each profile, each with the base URL that it was stored for.
impl ProfileFile {
    /// Reads the file, which other users must not be able to read.
    pub(super) fn credentials(directory: &Path) -> Result<Self, Failure> {
        let path = directory.join("credentials.toml");
        if private_files::is_open_to_others(&path) {
            let shown = path.display().to_string();
            let problem = "other users can access this file, which contains keys";
            return Err(Failure::input(format!("{shown}: {problem}"))
                .hint(format!("chmod 600 {}", shell_quoted(&shown))));
        }
        Self::load(path)
    }

    /// A profile's key for a service.
    pub fn key(&self, profile: &str, service: Service) -> Result<Option<Key>, Failure> {
        let entry = format!("{service}_key");
        let item = self
            .profile(profile)
            .and_then(|profile| profile.get(&entry));
        let key = item.map(|item| {
            let origin = format!("{}: {entry} of profile `{profile}`", self.path.display());
            Key::parse(item.as_str().unwrap_or_default(), &origin)
        });
        key.transpose()
    }

    /// The base URL that a profile's key for a service was stored for. Files that were written by
    /// hand may lack it.
    pub fn key_url(&self, profile: &str, service: Service) -> Option<&str> {
        self.text(profile, &format!("{service}_key_url"))
    }

    /// Stores a profile's key for a service at this base URL.
    pub fn set_key(&mut self, profile: &str, service: Service, url: &str, key: &Key) {
        self.set(profile, &format!("{service}_key"), key.expose());
        self.set(profile, &format!("{service}_key_url"), url);
    }

    /// Removes a profile's key for a service. Returns whether there was one.
    pub fn forget(&mut self, profile: &str, service: Service) -> bool {
        self.unset(profile, &format!("{service}_key_url"));
        self.unset(profile, &format!("{service}_key"))
    }
}

fn read(path: &Path) -> Result<DocumentMut, Failure> {
    let Some(text) = read_if_present(path)? else {
        return Ok(DocumentMut::new());
    };

    // Do not use the parser's message: it quotes the line, which may contain a key.
    let invalid = |problem: &str| {
        Failure::input(format!("{}: {problem}", path.display()))
            .hint("correct it in an editor, or move the file away and set it up again: svc login")
    };

    let document = text.parse::<DocumentMut>().map_err(|error| {
        let line = error
            .span()
            .map_or(0, |span| text[..span.start].matches('\n').count());
        invalid(&format!("line {} is not TOML", line + 1))
    })?;
    match shape_error(&document) {
        Some(problem) => Err(invalid(problem)),
        None => Ok(document),
    }
}

/// Reads a settings file. Below an unknown home directory there is none.
fn read_if_present(path: &Path) -> Result<Option<String>, Failure> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(Failure::input(format!("{}: {error}", path.display()))),
    }
}

/// Finds an entry of the wrong type, which would make the file unusable.
fn shape_error(document: &DocumentMut) -> Option<&'static str> {
    if document.get("profile").is_some_and(|item| !item.is_str()) {
        return Some("`profile` is the name of the default profile; a profile is [profiles.NAME]");
    }
    let all = document.get("profiles")?.as_table_like();
    let is_right = all.is_some_and(|all| all.iter().all(|(_, profile)| profile.is_table_like()));
    (!is_right).then_some("`profiles` has only tables: [profiles.NAME]")
}

/// Locks the files until the handle is dropped, so that concurrent commands do not overwrite each
/// other's changes.
pub(super) fn lock(dir: &Path) -> Result<fs::File, Failure> {
    let path = dir.join("lock");
    private_files::lock(&path).map_err(|error| failed(&path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::other(format!("{}: {error}", path.display()))
        .hint("nothing was stored; check the disk, and whether you may write there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_entries_and_comments_are_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("svc/config.toml");
        fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        let before =
            "# mine\nfuture = [1, 2]\n\n[profiles.a]\nemail_url = \"http://x\" # why\nnew = 1\n";
        fs::write(&path, before).expect("written");
        let mut profiles = ProfileFile::load(path.clone()).expect("read");
        profiles.set("b", "email_url", "http://y");
        profiles.set_active(Some("b"));
        profiles.save().expect("saved");
        let after = fs::read_to_string(&path).expect("read");
        for line in [
            "# mine",
            "future = [1, 2]",
            "email_url = \"http://x\" # why",
            "new = 1",
        ] {
            assert!(after.contains(line), "{after}");
        }

        let again = ProfileFile::load(path).expect("read");
        assert_eq!(again.active(), Some("b"));
        assert_eq!(again.names(), ["a", "b"]);
    }

    #[cfg(unix)]
    #[test]
    fn credentials_are_private_to_their_owner() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().join("svc");
        let path = dir.join("credentials.toml");
        let mut credentials = ProfileFile::credentials(&dir).expect("empty");
        let key = Key::parse("mk_test_x", "a test").expect("a key");
        credentials.set_key("default", Service::Email, "http://x", &key);
        credentials.save().expect("saved");
        assert_eq!(
            fs::metadata(&path).expect("there").permissions().mode() & 0o777,
            0o600
        );
        let again = ProfileFile::credentials(&dir).expect("read");
        assert_eq!(
            again.key("default", Service::Email).expect("a key"),
            Some(key)
        );
        assert_eq!(
            again.key("default", Service::Extraction).expect("none"),
            None
        );

        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        let refused = ProfileFile::credentials(&dir).expect_err("refused");
        assert!(
            refused
                .hint
                .as_deref()
                .is_some_and(|hint| hint.starts_with("chmod"))
        );
    }

    #[test]
    fn a_key_goes_with_its_base_url() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut credentials = ProfileFile::credentials(dir.path()).expect("empty");
        let key = Key::parse("mk_test_x", "a test").expect("a key");
        credentials.set_key("a", Service::Email, "http://x", &key);
        assert!(
            credentials
                .key("a", Service::Email)
                .expect("read")
                .is_some()
        );
        assert!(credentials.forget("a", Service::Email));
        assert!(
            credentials
                .key("a", Service::Email)
                .expect("read")
                .is_none()
        );
        assert_eq!(credentials.key_url("a", Service::Email), None);
        assert!(!credentials.forget("a", Service::Email));
    }

    #[test]
    fn errors_in_files_do_not_quote_their_content() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("credentials.toml");
        private_files::replace(&path, b"[profiles.a]\nemail_key = sk_live_secret\n")
            .expect("written");
        let error = ProfileFile::credentials(dir.path()).expect_err("refused");
        let message = &error.message;
        assert!(
            message.contains("line 2") && !message.contains("secret"),
            "{message}"
        );
    }
}
