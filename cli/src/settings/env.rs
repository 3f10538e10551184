//! The process environment, and the file of `--env-file`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use svc_sdk::Service;

use super::guard::{self, Guard};
use super::table;
use crate::failure::Failure;
use crate::process::Process;
use crate::zone::Zone;

/// A snapshot of environment variables, and of what else a run takes from its process.
#[derive(Clone, Default)]
pub struct Env {
    /// The directory of relative paths.
    pub cwd: PathBuf,
    pub zone: Zone,
    /// Whether signals to this process concern the run.
    pub signals: bool,
    variables: HashMap<String, String>,
    /// The same as they are, because a path need not be UTF-8.
    raw: Vec<(OsString, OsString)>,
}

impl Env {
    /// The environment of a process.
    pub fn of(process: &Process) -> Self {
        Self {
            cwd: process.cwd.clone(),
            zone: process.zone,
            signals: process.signals,
            ..Self::with(process.env.clone())
        }
    }

    fn with(raw: Vec<(OsString, OsString)>) -> Self {
        // A value that is not UTF-8 is kept, so that it is rejected as a URL or key. Dropping it would
        // silently fall back to the profile.
        let lossy = |text: &OsString| text.to_string_lossy().into_owned();
        let variables = raw
            .iter()
            .map(|(name, value)| (lossy(name), lossy(value)))
            .collect();
        Self {
            variables,
            raw,
            ..Self::default()
        }
    }

    /// All variables.
    pub fn all(&self) -> Vec<(OsString, OsString)> {
        self.raw.clone()
    }

    /// The value of a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_or_empty(name).filter(|value| !value.is_empty())
    }

    /// The value of a variable that is set, even if it is empty.
    pub fn get_or_empty(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The variables that begin as those of svc, but are not, in order.
    pub fn unknown(&self) -> Vec<&str> {
        let names = self.variables.keys().map(String::as_str);
        let mut names = names
            .filter(|name| name.starts_with("SVC_"))
            .collect::<Vec<_>>();
        names.retain(|name| !table::variables().any(|known| known == *name));
        names.sort_unstable();
        names
    }

    /// Refuses a variable that was probably meant to be another one: with `SVC_SANBOX=1`, an email
    /// would reach its recipient.
    pub fn refuse_misspelled(&self) -> Result<(), Failure> {
        let misspelled = self.unknown().into_iter().find_map(|name| {
            let distance = |known: &&str| strsim::damerau_levenshtein(name, known);
            let meant = table::variables().min_by_key(distance)?;
            (distance(&meant) <= 2).then_some((name, meant))
        });
        match misspelled {
            None => Ok(()),
            Some((name, _)) if Guard::is_meant_by(name) => Err(guard::misspelled(name)),
            Some((name, meant)) => Err(Failure::usage(format!(
                "{name} is not a variable of svc: did you mean {meant}?"
            ))
            .code("misspelled_variable")
            .hint(format!("rename it, or unset it: unset {name}"))),
        }
    }

    /// The value of a variable as a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let is_set = |(known, path): &&(OsString, OsString)| known == name && !path.is_empty();
        self.raw
            .iter()
            .rev()
            .find(is_set)
            .map(|(_, path)| self.cwd.join(path))
    }

    /// Reads a file of `NAME=value` lines, with comments, `export` and quotes as in a shell.
    pub fn from_file(path: &Path, cwd: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(cwd.join(path))
            .map_err(|error| Failure::input(format!("--env-file: {}: {error}", path.display())))?;
        let mut variables = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // Do not quote the line: it may contain a key.
            let wrong = |problem| {
                let (path, line) = (path.display(), number + 1);
                Failure::input(format!("--env-file: {path}: line {line} {problem}"))
            };
            let pair = line.strip_prefix("export ").unwrap_or(line).split_once('=');
            let (name, value) = pair.ok_or_else(|| wrong("is not a NAME=value line"))?;
            let value = unquoted(value.trim()).ok_or_else(|| wrong("has an unclosed quote"))?;
            variables.push((name.trim().into(), value.into()));
        }
        Ok(Self::with(variables))
    }
}

/// The value without its quotes or a comment. `None`: a quote is not closed.
fn unquoted(value: &str) -> Option<String> {
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => quoted(&value[1..], quote),
        _ => Some(
            value
                .split_once(" #")
                .map_or(value, |(value, _)| value.trim_end())
                .to_owned(),
        ),
    }
}

/// The text up to the closing quote. What follows, such as a comment, is ignored. Between double
/// quotes, a backslash escapes a quote.
fn quoted(text: &str, quote: char) -> Option<String> {
    let mut inner = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if quote == '"' && rest.peek() == Some(&quote) => inner.extend(rest.next()),
            c if c == quote => return Some(inner),
            c => inner.push(c),
        }
    }
    None
}

/// The option and the environment variable that set a service's base URL.
pub const fn url_setting_names(service: Service) -> &'static str {
    match service {
        Service::Email => "--email-url or SVC_EMAIL_URL",
        _ => "--extraction-url or SVC_EXTRACTION_URL",
    }
}

/// The environment variables with a service's key, and with the file that contains it.
pub const fn key_variables(service: Service) -> [&'static str; 2] {
    match service {
        Service::Email => ["SVC_EMAIL_KEY", "SVC_EMAIL_KEY_FILE"],
        _ => ["SVC_EXTRACTION_KEY", "SVC_EXTRACTION_KEY_FILE"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<const N: usize> From<[(&str, &str); N]> for Env {
        fn from(pairs: [(&str, &str); N]) -> Self {
            Self::with(
                pairs
                    .map(|(name, value)| (name.into(), value.into()))
                    .to_vec(),
            )
        }
    }

    #[test]
    fn reads_shell_syntax() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(".env");
        std::fs::write(
            &path,
            "# comment\nexport SVC_A=one # not this\nSVC_B='a # b'\nSVC_C=\"x=y\"\n\n",
        )
        .expect("written");
        let env = Env::from_file(&path, Path::new("")).expect("read");
        assert_eq!(env.get("SVC_A"), Some("one"));
        assert_eq!(env.get("SVC_B"), Some("a # b"));
        assert_eq!(env.get("SVC_C"), Some("x=y"));
    }

    #[test]
    fn malformed_lines_are_reported_by_number_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(".env");
        for line in [
            "sk_live_secret",
            "KEY=\"sk_live_secret",
            "KEY='sk_live_secret # x",
        ] {
            std::fs::write(&path, format!("A=b\n{line}\n")).expect("written");
            let refused = Env::from_file(&path, Path::new("")).err().expect("refused");
            let message = &refused.details().message;
            assert!(
                message.contains("line 2") && !message.contains("secret"),
                "{message}"
            );
        }
    }
}
