//! Reads values of the form `TEXT|@file|-`, and files. Paths are relative to the directory of the run,
//! and standard input is read at most once, by one option. Content is limited, except from `open`,
//! whose readers take it piece by piece. A text that is the name of a file is refused. If the name
//! of a missing file may be a key or secret itself, the error does not repeat it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::Run;
use crate::command_line::shell_quoted;
use crate::failure::Failure;
use crate::input::file::{LIMIT, TOO_LARGE, read_all};
use crate::output::Stdin;
use crate::path_in_json::from_bytes;
use crate::private_files;

impl Run {
    /// The text of an option's value. `@@` escapes a text that starts with `@`. A file name without `@` is
    /// refused.
    pub fn text(&self, option: &str, value: impl AsRef<OsStr>) -> Result<String, Failure> {
        let value = value.as_ref();
        let bytes = match value.to_str() {
            Some(text) => {
                refuse_file_name(option, text, &self.settings.env.cwd)?;
                match text.strip_prefix('@') {
                    Some(literal) if literal.starts_with('@') => return Ok(literal.to_owned()),
                    // As curl spells it.
                    Some("-") => self.stdin(option)?,
                    Some(path) => self.file(option, Path::new(path))?,
                    None if text == "-" => self.stdin(option)?,
                    None => return Ok(text.to_owned()),
                }
            }
            // The name of a file need not be UTF-8.
            None => match value.as_encoded_bytes().strip_prefix(b"@") {
                Some(path) => self.file(option, &from_bytes(path.to_vec()))?,
                None => return Err(Failure::usage(format!("{option}: the text is not UTF-8"))),
            },
        };
        let mut text = String::from_utf8(bytes)
            .map_err(|_| Failure::input(format!("{option}: the content is not UTF-8 text")))?;
        // Some editors mark UTF-8 with a byte order mark.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        Ok(text)
    }

    /// The bytes of a file, or of standard input for `-`.
    pub fn bytes(&self, what: &str, path: &Path) -> Result<Vec<u8>, Failure> {
        if path.as_os_str() == "-" {
            self.stdin(what)
        } else {
            self.file(what, path)
        }
    }

    /// The bytes of a file with a key, or of standard input for `-`. Warns if other users can
    /// read the file.
    pub fn private_bytes(&self, what: &str, path: &Path) -> Result<Vec<u8>, Failure> {
        if path.as_os_str() != "-" && private_files::is_open_to_others(&self.settings.path(path)) {
            let shown = path.display().to_string();
            let quoted = shell_quoted(&shown);
            self.out.warning(&format!(
                "{what}: other users can read {shown}; restrict it: chmod 600 {quoted}"
            ));
        }
        self.bytes(what, path)
    }

    /// A file of any size, or standard input for `-`.
    pub fn open(&self, path: &Path) -> Result<Box<dyn Read + Send>, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Box::new(self.stdin_stream("FILE")?));
        }
        match File::open(self.settings.path(path)) {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => Err(Failure::input(format!("{}: {error}", path.display()))),
        }
    }

    /// A copy of a file, or of standard input for `-`, that can be read several times, whatever happens
    /// to the original. It has no name, and ends with the process.
    pub fn copy(&self, path: &Path) -> Result<File, Failure> {
        let mut copy = tempfile::tempfile()?;
        let mut original = self.open(path)?.take(LIMIT + 1);

        let failed = |error: io::Error| Failure::input(format!("{}: {error}", path.display()));
        if io::copy(&mut original, &mut copy).map_err(failed)? > LIMIT {
            return Err(failed(io::Error::other(TOO_LARGE)));
        }
        Ok(copy)
    }

    /// The bytes of standard input.
    pub fn stdin(&self, option: &str) -> Result<Vec<u8>, Failure> {
        read_all(self.stdin_stream(option)?)
            .map_err(|error| Failure::input(format!("{option}: standard input: {error}")))
    }

    fn stdin_stream(&self, option: &str) -> Result<Stdin, Failure> {
        if let Some(first) = self.stdin_reader.get() {
            return Err(Failure::usage(format!(
                "standard input can be read only once, and {first} already reads it"
            )));
        }

        let _ = self.stdin_reader.set(option.to_owned());
        if self.out.stdin_is_terminal() {
            self.out.note(&format!(
                "{option}: type the content and end it with Ctrl-D"
            ));
        }
        Ok(self.out.streams().stdin())
    }

    fn file(&self, option: &str, path: &Path) -> Result<Vec<u8>, Failure> {
        let found = self.settings.path(path);
        File::open(&found).and_then(read_all).map_err(|error| {
            if is_probably_secret(option, path, &found) {
                Failure::input(format!("{option}: no file has this name")).hint(format!(
                    "give the path of a file that contains it: {option} PATH"
                ))
            } else {
                Failure::input(format!("{option}: {}: {error}", path.display()))
            }
        })
    }
}

/// Whether a missing file's name may be the key or secret itself, which errors never show.
fn is_probably_secret(option: &str, path: &Path, found: &Path) -> bool {
    let takes_secret = option == "--key-file" || option.ends_with("secret-file");
    let name = path.to_string_lossy();
    takes_secret && !found.exists() && name.len() >= 16 && !name.contains(['/', '\\', '.'])
}

/// The endings of a single word that is probably the name of a file, wherever that is.
const EXTENSIONS: [&str; 5] = [".html", ".htm", ".txt", ".md", ".json"];

/// Refuses the value of a `TEXT|@FILE|-` option that names a file, where `@` was probably
/// forgotten: the recipients would get the name instead of the content.
fn refuse_file_name(option: &str, value: &str, cwd: &Path) -> Result<(), Failure> {
    let is_word = !value.contains(char::is_whitespace) && !value.contains("://");
    let lower = value.to_lowercase();
    let has_extension = is_word
        && EXTENSIONS
            .iter()
            .any(|extension| lower.ends_with(extension));
    if value.starts_with(['@', '-']) || !(has_extension || cwd.join(value).is_file()) {
        return Ok(());
    }

    let file = format!("@{value}");
    Err(Failure::usage(format!(
        "{option}: `{value}` is the name of a file, not its content"
    ))
    .hint(format!(
        "send the content: {option} {}\nor the name itself, from standard input: {option} -",
        shell_quoted(&file)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_told_from_texts() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("a letter.html"), "x").expect("written");
        std::fs::write(dir.path().join("a.html"), "x").expect("written");
        let refused = |value| refuse_file_name("--html", value, dir.path());
        for text in [
            "",
            "-",
            "@a.html",
            "Hello.",
            "a.html\n",
            "/start",
            "<p>Hi</p>",
            "https://a.test/b.html",
        ] {
            assert!(refused(text).is_ok(), "{text}");
        }

        assert!(
            refused("elsewhere/B.HTML").is_err(),
            "it does not exist here"
        );
        let refused = refused("a letter.html").expect_err("refused");
        let hint = refused.hint.as_deref();
        let expected = "send the content: --html '@a letter.html'\n\
                        or the name itself, from standard input: --html -";
        assert_eq!(hint, Some(expected));
    }
}
