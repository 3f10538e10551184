//! `Env`: the environment of a run, or the file of `--env-file`, as a snapshot. Values that are not
//! UTF-8 are kept, so that they are refused, and do not silently fall back to the profile. A
//! variable that is probably a misspelled one of `svc` is refused, too: with `SVC_SANBOX=1`, an
//! email would reach its recipient. The grammar of the file accepts only what all programs read
//! alike. `resolve.rs` applies the precedence.

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
        // Names are upper case: a guard that is not must not be ignored.
        let guard_in_lower_case = self.variables.keys().map(String::as_str).find(|name| {
            let is_other_case = !name.starts_with("SVC_");
            is_other_case && name.to_uppercase().starts_with("SVC_") && Guard::is_meant_by(name)
        });
        if let Some(name) = guard_in_lower_case {
            return Err(guard::misspelled(name));
        }

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

    /// Reads the file of `--env-file`, see `docs/commands/README.md#environment-files`.
    pub fn from_file(path: &Path, cwd: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let bytes = std::fs::read(cwd.join(path))
            .map_err(|error| Failure::input(format!("--env-file: {shown}: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|_| {
            Failure::usage(format!("--env-file: {shown}: the file is not UTF-8 text"))
                .hint("save it as UTF-8; in PowerShell: Out-File -Encoding utf8")
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut variables = Vec::new();
        for (index, line) in text.split('\n').enumerate() {
            let line = line.strip_suffix('\r').unwrap_or(line);
            // Without the line itself: it may contain a key.
            let variable = read_line(line).map_err(|problem| {
                let number = index + 1;
                Failure::usage(format!("--env-file: {shown}: line {number} {problem}"))
                    .hint("write NAME=value, NAME=\"value\" or export NAME=value")
            })?;
            variables.extend(variable);
        }

        Ok(Self::with(variables))
    }
}

/// Lower-case names that programs know beside those in capitals.
const LOWER_CASE_NAMES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

/// Reads a line of an environment file. `None` for an empty line and a comment. The error completes a
/// sentence about the line.
fn read_line(line: &str) -> Result<Option<(OsString, OsString)>, &'static str> {
    let line = line.trim_matches(' ');
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }

    let line = match line.strip_prefix("export ") {
        Some(rest) => rest.trim_start_matches(' '),
        None => line,
    };
    let (name, value) = line.split_once('=').ok_or("is not NAME=value")?;
    if !is_name(name) {
        return Err(
            "is not NAME=value: a name has capitals, digits and _, and no space or tab beside it",
        );
    }

    let value = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => quoted(&value[1..], quote)?,
        _ => unquoted(value)?.to_owned(),
    };
    if value.contains(|c: char| c.is_control() && c != '\t') {
        return Err("has a control character");
    }

    Ok(Some((name.into(), value.into())))
}

fn is_name(name: &str) -> bool {
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let starts_with_digit = name.starts_with(|first: char| first.is_ascii_digit());
    let is_capitals = !name.is_empty() && !starts_with_digit && name.bytes().all(is_capital);
    is_capitals || LOWER_CASE_NAMES.contains(&name)
}

/// A value without quotes, up to a comment after white space.
fn unquoted(value: &str) -> Result<&str, &'static str> {
    let comment = value
        .match_indices('#')
        .map(|(at, _)| at)
        .find(|at| *at == 0 || value[..*at].ends_with([' ', '\t']));
    let value = match comment {
        Some(0) => "",
        Some(at) => value[..at].trim_end_matches([' ', '\t']),
        None => value,
    };
    // Programs read these differently: white space that cannot be seen, and quotes of a part.
    if value.starts_with(' ') {
        return Err("has a space after =; write NAME=value");
    }
    if value.contains('\t') {
        return Err("has a tab; put the value in quotes");
    }
    if value.contains(['"', '\'']) {
        return Err("has a quote within its value; put the whole value in quotes");
    }

    Ok(value)
}

/// The text up to the closing quote, which only a comment may follow. As in a shell, a backslash
/// between double quotes escapes a quote, a dollar sign, a backtick or a backslash.
fn quoted(text: &str, quote: char) -> Result<String, &'static str> {
    let mut inner = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == quote {
            let after = rest.as_str();
            let comment = after.trim_start_matches([' ', '\t']);
            let is_comment = comment.starts_with('#') && comment.len() < after.len();
            return if comment.is_empty() || is_comment {
                Ok(inner)
            } else {
                Err("has text after the closing quote")
            };
        }
        let escaped = rest.clone().next().filter(|_| c == '\\' && quote == '"');
        match escaped {
            Some(next @ ('"' | '\\' | '$' | '`')) => {
                inner.push(next);
                rest.next();
            }
            _ => inner.push(c),
        }
    }
    Err("has no closing quote")
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

    fn read(content: impl AsRef<[u8]>) -> Result<Env, Failure> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(".env");
        std::fs::write(&path, content).expect("written");
        Env::from_file(&path, Path::new(""))
    }

    #[test]
    fn an_environment_file_has_marks_line_ends_exports_quotes_and_comments() {
        for (line, value) in [
            ("SVC_A=one", "one"),
            ("\u{feff}SVC_A=one", "one"),
            ("SVC_A=one\r", "one"),
            ("  export   SVC_A=one  ", "one"),
            ("SVC_A=one # not this", "one"),
            ("SVC_A=one\t# not this", "one"),
            ("SVC_A=# not this", ""),
            ("SVC_A=one#two", "one#two"),
            ("SVC_A=@a.test, b@b.test", "@a.test, b@b.test"),
            ("SVC_A=x=y", "x=y"),
            ("SVC_A=", ""),
            ("SVC_A='a # b'", "a # b"),
            ("SVC_A='a\tb\\'  # not this", "a\tb\\"),
            (r#"SVC_A="a\"b\\" # not this"#, r#"a"b\"#),
            (r#"SVC_A="C:\new\$x""#, r"C:\new$x"),
        ] {
            let content = format!("{line}\n# comment\n   \nSVC_B=last");
            let env = read(content).unwrap_or_else(|failure| panic!("{line:?}: {failure:?}"));
            assert_eq!(env.get_or_empty("SVC_A"), Some(value), "{line:?}");
            assert_eq!(env.get("SVC_B"), Some("last"), "{line:?}");
        }
        let both = read("SVC_A=one\nSVC_A=two\nno_proxy=x.test").expect("read");
        assert_eq!(
            (both.get("SVC_A"), both.get("no_proxy")),
            (Some("two"), Some("x.test"))
        );
    }

    #[test]
    fn any_other_line_is_wrong_usage_and_reported_by_number_only() {
        for line in [
            "sk_live_secret",
            "KEY=\"sk_live_secret",
            "KEY='sk_live_secret # x",
            "KEY='sk_live_secret'x",
            "KEY='sk_live_secret'#x",
            "KEY=sk_live'secret'",
            "set KEY=sk_live_secret",
            "setx KEY sk_live_secret",
            "$env:KEY=sk_live_secret",
            "$env:KEY = 'sk_live_secret'",
            "key=sk_live_secret",
            "Key=sk_live_secret",
            "KEY =sk_live_secret",
            "KEY= sk_live_secret",
            "KEY: sk_live_secret",
            "\tKEY=sk_live_secret",
            "KEY\t=sk_live_secret",
            "export\tKEY=sk_live_secret",
            "KEY=sk_live_\tsecret",
            "KEY=sk_live_secret\t",
            "\u{a0}KEY=sk_live_secret",
            "\u{feff}KEY=sk_live_secret",
            "1KEY=sk_live_secret",
            "=sk_live_secret",
            "KEY=a\rOTHER=sk_live_secret",
            "KEY=sk_live_secret\0",
            "export KEY",
            "unset KEY",
        ] {
            let refused = read(format!("A=b\n{line}\nC=d\n")).err();
            let refused = refused.unwrap_or_else(|| panic!("{line:?} is read"));
            let message = &refused.message;
            assert!(message.contains("line 2"), "{line:?}: {message}");
            assert!(!message.contains("secret"), "{line:?}: {message}");
            assert_eq!(refused.kind(), crate::failure::Kind::Usage);
        }
        let utf16 = read(b"\xff\xfeA\0=\0b\0").err().expect("refused");
        assert!(utf16.message.contains("not UTF-8"), "{utf16:?}");
    }
}
