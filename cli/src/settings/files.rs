//! Profiles (`config.toml`) on disk, and how both files are read and written. Changes keep comments
//! and unknown entries.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml_edit::{DocumentMut, Item, Table, value};

use super::guard::{self, GuardValues};
use crate::failure::Failure;
use crate::input::duration;

/// The name of the profile that is used by default.
pub const DEFAULT_PROFILE: &str = "default";

/// `config.toml`: named sets of base URLs and other settings. It contains no secrets.
#[derive(Debug)]
pub struct Profiles {
    path: PathBuf,
    document: DocumentMut,
}

/// Compatibility settings, for points that the email service's reference leaves open
/// (`docs/undocumented/email-service.md`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compatibility {
    /// The header that carries the email service's key (`#key-header`).
    pub key_header: Option<String>,
    /// The text before the key in that header.
    pub key_prefix: Option<String>,
    /// The member that holds the emails of a batch (`#batch-body`). `None`: a bare array.
    pub batch_key: Option<String>,
    /// The header that names the event of a webhook delivery (`#delivery-payload`).
    pub event_header: Option<String>,
    /// The number of the first page of contacts (`#contact-pages`).
    pub first_page: Option<u32>,
    /// Whether webhook URLs may be plain http (`#webhook-urls`).
    pub insecure_webhooks: bool,
    /// Whether to skip the local checks of the documented limits.
    pub local_checks_off: bool,
    /// Whether the service honors `Idempotency-Key`.
    pub honors_idempotency_key: bool,
}

/// The entries of a profile.
pub const PROFILE_ENTRIES: [&str; 19] = [
    "email_url",
    "extraction_url",
    "organization",
    "output",
    "timeout",
    "retries",
    "ca_bundle",
    "key_header",
    "key_prefix",
    "batch_key",
    "event_header",
    "first_page",
    "insecure_webhooks",
    "local_checks",
    "honors_idempotency_key",
    guard::ALLOW.0,
    guard::REDIRECT.0,
    guard::PER_RUN.0,
    guard::PER_HOUR.0,
];

/// The settings of a profile.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub email_url: Option<String>,
    pub extraction_url: Option<String>,
    pub organization: Option<String>,
    pub output: Option<String>,
    pub timeout: Option<Duration>,
    pub retries: Option<u32>,
    pub ca_bundle: Option<PathBuf>,
    pub guard: GuardValues,
    pub compatibility: Compatibility,
}

impl Profiles {
    /// Reads the file. A missing file is empty.
    pub fn load(path: PathBuf) -> Result<Self, Failure> {
        let document = read(&path)?;
        Ok(Self { path, document })
    }

    /// The profile to use by default, if one was chosen.
    pub fn active(&self) -> Option<&str> {
        self.document.get("profile").and_then(Item::as_str)
    }

    /// Sets the profile to use by default.
    pub fn set_active(&mut self, name: &str) {
        self.document["profile"] = value(name);
    }

    /// Unsets the profile to use by default.
    pub fn clear_active(&mut self) {
        self.document.remove("profile");
    }

    /// The names of all profiles.
    pub fn names(&self) -> Vec<String> {
        names(&self.document)
    }

    /// The settings of a profile. `None` if it does not exist.
    pub fn get(&self, name: &str) -> Result<Option<Profile>, Failure> {
        let Some(table) = self.document.get("profiles").and_then(|all| all.get(name)) else {
            return Ok(None);
        };
        let invalid = |problem: String| {
            Failure::input(format!("{}: profile `{name}`: {problem}", self.path.display()))
                .hint("correct the entry in this file, or remove it")
        };
        let wrong = |key: &str, expected: &str| invalid(format!("`{key}` is not {expected}"));
        let text = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(item) => {
                item.as_str().map(|s| Some(s.to_owned())).ok_or_else(|| wrong(key, "a string"))
            }
        };
        let flag = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(item) => item.as_bool().map(Some).ok_or_else(|| wrong(key, "true or false")),
        };
        let number = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(item) => item
                .as_integer()
                .and_then(|number| u32::try_from(number).ok())
                .map(Some)
                .ok_or_else(|| wrong(key, "a non-negative integer")),
        };
        let texts = |key: &str| match table.get(key) {
            None => Ok(None),
            Some(item) => item
                .as_array()
                .and_then(|list| list.iter().map(|each| each.as_str().map(str::to_owned)).collect())
                .map(Some)
                .ok_or_else(|| wrong(key, "a list of strings")),
        };
        let timeout = text("timeout")?
            .map(|text| duration::parse_limit(&text))
            .transpose()
            .map_err(|problem| invalid(format!("`timeout`: {problem}")))?;
        Ok(Some(Profile {
            email_url: text("email_url")?,
            extraction_url: text("extraction_url")?,
            organization: text("organization")?,
            output: text("output")?,
            timeout,
            retries: number("retries")?,
            ca_bundle: text("ca_bundle")?.map(PathBuf::from),
            guard: GuardValues {
                allow: texts(guard::ALLOW.0)?,
                redirect: text(guard::REDIRECT.0)?,
                max_per_run: number(guard::PER_RUN.0)?,
                max_per_hour: number(guard::PER_HOUR.0)?,
            },
            compatibility: Compatibility {
                key_header: text("key_header")?,
                key_prefix: text("key_prefix")?,
                batch_key: text("batch_key")?,
                event_header: text("event_header")?,
                first_page: number("first_page")?,
                insecure_webhooks: flag("insecure_webhooks")?.unwrap_or(false),
                local_checks_off: !flag("local_checks")?.unwrap_or(true),
                honors_idempotency_key: flag("honors_idempotency_key")?.unwrap_or(false),
            },
        }))
    }

    /// The entries that svc does not know, each with its profile, if it is in one.
    pub fn unknown_entries(&self) -> Vec<(Option<String>, String)> {
        let top = self.document.iter().map(|(key, _)| key);
        let top = top.filter(|key| !matches!(*key, "profile" | "profiles"));
        let mut unknown = top.map(|key| (None, key.to_owned())).collect::<Vec<_>>();
        for name in self.names() {
            let table = self.document["profiles"].get(&name).and_then(Item::as_table_like);
            let keys = table.into_iter().flat_map(|table| table.iter().map(|(key, _)| key));
            let keys = keys.filter(|key| !PROFILE_ENTRIES.contains(key));
            unknown.extend(keys.map(|key| (Some(name.clone()), key.to_owned())));
        }
        unknown
    }

    /// Sets a string of a profile, and creates the profile if necessary.
    pub fn set(&mut self, profile: &str, key: &str, text: &str) {
        table_of(&mut self.document, profile)[key] = value(text);
    }

    /// Removes a profile. Returns whether it existed.
    pub fn remove(&mut self, profile: &str) -> bool {
        remove(&mut self.document, profile)
    }

    /// Writes the file.
    pub fn save(&self) -> Result<(), Failure> {
        write(&self.path, &self.document)
    }
}

pub(super) fn names(document: &DocumentMut) -> Vec<String> {
    document
        .get("profiles")
        .and_then(Item::as_table_like)
        .map(|all| all.iter().map(|(name, _)| name.to_owned()).collect())
        .unwrap_or_default()
}

pub(super) fn table_of<'a>(document: &'a mut DocumentMut, profile: &str) -> &'a mut Item {
    let all = document.entry("profiles").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let table = &mut all[profile];
    if table.is_none() {
        *table = Item::Table(Table::new());
    }
    table
}

pub(super) fn remove(document: &mut DocumentMut, profile: &str) -> bool {
    document
        .get_mut("profiles")
        .and_then(Item::as_table_like_mut)
        .is_some_and(|all| all.remove(profile).is_some())
}

pub(super) fn read(path: &Path) -> Result<DocumentMut, Failure> {
    match fs::read_to_string(path) {
        // Do not use the parser's message: it quotes the line, which may contain a key.
        Ok(text) => {
            let invalid = |problem: String| {
                Failure::input(format!("{}: {problem}", path.display())).hint(
                    "correct it in an editor, or move the file away and set it up again: svc login",
                )
            };
            let document = text.parse::<DocumentMut>().map_err(|error| {
                let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count());
                invalid(format!("line {} is not TOML", line + 1))
            })?;
            match shape_error(&document) {
                Some(problem) => Err(invalid(problem)),
                None => Ok(document),
            }
        }
        Err(error) if is_absent(&error) => Ok(DocumentMut::new()),
        Err(error) => Err(Failure::input(format!("{}: {error}", path.display()))),
    }
}

/// Finds an entry of the wrong type, which would make the file unusable.
fn shape_error(document: &DocumentMut) -> Option<String> {
    match document.get("profile") {
        Some(item) if item.is_table_like() => {
            return Some(
                "`profile` is the name of the default profile; write [profiles.NAME], not [profile.NAME]"
                    .to_owned(),
            );
        }
        Some(item) if !item.is_str() => return Some("`profile` is not a string".to_owned()),
        _ => {}
    }
    let all = document.get("profiles")?;
    let Some(all) = all.as_table_like() else {
        return Some("`profiles` is not a table".to_owned());
    };
    let (name, _) = all.iter().find(|(_, profile)| !profile.is_table_like())?;
    Some(format!("profile `{name}` is not a table"))
}

/// Locks the files until the handle is dropped, so that concurrent commands do not overwrite each
/// other's changes.
pub fn lock(dir: &Path) -> Result<fs::File, Failure> {
    let path = dir.join("lock");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let file = create_private_dir(dir)
        .and_then(|()| options.open(&path))
        .map_err(|error| Failure::other(format!("{}: {error}", path.display())))?;
    // Some network file systems do not support locks; continue without one.
    let _ = file.lock();
    Ok(file)
}

/// Writes a new file and renames it, so that a crash leaves either the old or the new content.
pub(super) fn write(path: &Path, document: &DocumentMut) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::other(format!("{}: {error}", path.display()));
    // Write through a symbolic link, for example into a dotfiles repository.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if let Some(parent) = path.parent() {
        create_private_dir(parent).map_err(failed)?;
    }
    let temporary = path.with_extension(format!("toml.{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let written = options.open(&temporary).and_then(|mut file| {
        file.write_all(document.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(failed)
}

/// Creates a directory and its parents with mode 0700.
pub(crate) fn create_private_dir(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Whether there is no such file. Below an unknown home directory there is none.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
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
        let mut profiles = Profiles::load(path.clone()).expect("read");
        profiles.set("b", "email_url", "http://y");
        profiles.set_active("b");
        profiles.save().expect("saved");
        let after = fs::read_to_string(&path).expect("read");
        for line in ["# mine", "future = [1, 2]", "email_url = \"http://x\" # why", "new = 1"] {
            assert!(after.contains(line), "{after}");
        }
        let again = Profiles::load(path).expect("read");
        assert_eq!(again.active(), Some("b"));
        assert_eq!(again.names(), ["a", "b"]);
    }
}
