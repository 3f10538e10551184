//! Profiles (`config.toml`) on disk, and how both files are read and written. Changes keep comments
//! and unknown entries.

use std::fs;
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use super::table::{Setting, SettingValue, profile_settings};
use crate::failure::Failure;
use crate::private;

/// The name of the profile that is used by default.
pub const DEFAULT_PROFILE: &str = "default";

/// `config.toml`: named sets of base URLs and other settings. It contains no secrets.
#[derive(Debug)]
pub struct Profiles {
    path: PathBuf,
    document: DocumentMut,
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

    /// Whether a profile exists.
    pub fn exists(&self, name: &str) -> bool {
        self.profile(name).is_some()
    }

    /// A setting of a profile, if it has it.
    pub fn value(&self, name: &str, setting: &Setting) -> Result<Option<SettingValue>, Failure> {
        let Some(item) = self.profile(name).and_then(|profile| profile.get(setting.name)) else {
            return Ok(None);
        };
        setting.parse_item(item).map(Some).map_err(|problem| {
            let space = if problem.starts_with(':') { "" } else { " " };
            Failure::input(format!(
                "{}: profile `{name}`: `{}`{space}{problem}",
                self.path.display(),
                setting.name
            ))
            .hint("correct the entry in this file, or remove it")
        })
    }

    /// A text of a profile, such as a base URL.
    pub fn text(&self, name: &str, entry: &str) -> Option<String> {
        self.profile(name)?.get(entry)?.as_str().map(str::to_owned)
    }

    fn profile(&self, name: &str) -> Option<&dyn TableLike> {
        self.document.get("profiles")?.get(name)?.as_table_like()
    }

    /// The entries that svc does not know, each with its profile, if it is in one.
    pub fn unknown_entries(&self) -> Vec<(Option<String>, String)> {
        let top = self.document.iter().map(|(key, _)| key);
        let top = top.filter(|key| !matches!(*key, "profile" | "profiles"));
        let mut unknown = top.map(|key| (None, key.to_owned())).collect::<Vec<_>>();
        for name in self.names() {
            let table = self.document["profiles"].get(&name).and_then(Item::as_table_like);
            let keys = table.into_iter().flat_map(|table| table.iter().map(|(key, _)| key));
            let keys = keys.filter(|key| !profile_settings().any(|setting| setting.name == *key));
            unknown.extend(keys.map(|key| (Some(name.clone()), key.to_owned())));
        }
        unknown
    }

    /// Sets a string of a profile, and creates the profile if necessary.
    pub fn set(&mut self, profile: &str, key: &str, text: &str) {
        table_of(&mut self.document, profile)[key] = value(text);
    }

    /// Sets a setting of a profile, and creates the profile if necessary.
    pub fn set_value(&mut self, profile: &str, setting: &Setting, value: &SettingValue) {
        table_of(&mut self.document, profile)[setting.name] = value.to_item();
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
pub(super) fn lock(dir: &Path) -> Result<fs::File, Failure> {
    let path = dir.join("lock");
    private::lock(&path).map_err(|error| failed(&path, &error))
}

pub(super) fn write(path: &Path, document: &DocumentMut) -> Result<(), Failure> {
    private::replace(path, document.to_string().as_bytes()).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::other(format!("{}: {error}", path.display()))
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
