//! Reads values of the form `TEXT|@file|-`, and files. `Inputs` belongs to one run: paths are
//! relative to its directory, and standard input is read at most once, by one option. Content is
//! limited to `LIMIT`, except from `open` and `stdin_stream`, whose readers take it piece by piece.
//! If the name of a missing file may be a key or secret itself, the error does not repeat it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::command_line::shell_quoted;
use crate::failure::{Failure, Kind};
use crate::output::{Printer, Stdin};
use crate::private;

/// Maximum input size, in bytes, so that an endless input does not exhaust memory.
const LIMIT: u64 = 256 << 20;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Reads files, and standard input at most once.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The directory of relative paths.
    cwd: PathBuf,
    stdin_used_by: Mutex<Option<String>>,
}

impl Inputs {
    /// Reads files relative to a directory.
    pub fn new(cwd: PathBuf) -> Self {
        Self {
            cwd,
            ..Self::default()
        }
    }

    /// The text of an option's value. `@@` escapes a text that starts with `@`.
    pub fn text(&self, printer: &Printer, option: &str, value: &str) -> Result<String, Failure> {
        let bytes = match value.strip_prefix('@') {
            Some(literal) if literal.starts_with('@') => return Ok(literal.to_owned()),
            Some(path) => self.file(option, Path::new(path))?,
            None if value == "-" => self.stdin(printer, option)?,
            None => return Ok(value.to_owned()),
        };
        let mut text = String::from_utf8(bytes)
            .map_err(|_| Failure::input(format!("{option}: the content is not UTF-8 text")))?;
        // Some editors mark UTF-8 with it.
        if text.starts_with(BYTE_ORDER_MARK) {
            text.remove(0);
        }
        Ok(text)
    }

    /// The bytes of a file, or of standard input for `-`.
    pub fn bytes(&self, printer: &Printer, what: &str, path: &Path) -> Result<Vec<u8>, Failure> {
        if path.as_os_str() == "-" {
            self.stdin(printer, what)
        } else {
            self.file(what, path)
        }
    }

    /// The bytes of a file with a key, or of standard input for `-`. Warns if other users can
    /// read the file.
    pub fn private(&self, printer: &Printer, what: &str, path: &Path) -> Result<Vec<u8>, Failure> {
        if path.as_os_str() != "-" && private::is_open_to_others(&self.cwd.join(path)) {
            let shown = path.display().to_string();
            let quoted = shell_quoted(&shown);
            printer.warning(&format!(
                "{what}: other users can read {shown}; restrict it: chmod 600 {quoted}"
            ));
        }
        self.bytes(printer, what, path)
    }

    /// The bytes of standard input, which can be read only once.
    pub fn stdin(&self, printer: &Printer, option: &str) -> Result<Vec<u8>, Failure> {
        read_all(self.stdin_stream(printer, option)?)
            .map_err(|error| Failure::input(format!("{option}: standard input: {error}")))
    }

    /// As [`stdin`](Self::stdin), for content of any size.
    pub fn stdin_stream(&self, printer: &Printer, option: &str) -> Result<Stdin, Failure> {
        {
            let mut used = self
                .stdin_used_by
                .lock()
                .expect("nothing panics while it is held");
            if let Some(first) = used.as_deref() {
                return Err(Failure::usage(format!(
                    "standard input can be read only once, and {first} already reads it"
                )));
            }
            *used = Some(option.to_owned());
        }
        if printer.stdin_is_terminal() {
            printer.note(&format!(
                "{option}: type the content and end it with Ctrl-D"
            ));
        }
        Ok(printer.streams().stdin())
    }

    /// A file of any size, or standard input for `-`.
    pub fn open(&self, printer: &Printer, path: &Path) -> Result<Box<dyn Read + Send>, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Box::new(self.stdin_stream(printer, "FILE")?));
        }
        let file = File::open(self.cwd.join(path));
        Ok(Box::new(file.map_err(|error| {
            Failure::input(format!("{}: {error}", path.display()))
        })?))
    }

    fn file(&self, option: &str, path: &Path) -> Result<Vec<u8>, Failure> {
        let found = self.cwd.join(path);
        File::open(&found).and_then(read_all).map_err(|error| {
            match is_probably_secret(option, path, &found) {
                true => Failure::input(format!("{option}: no file has this name")).hint(format!(
                    "give the path of a file that contains it: {option} PATH"
                )),
                false => Failure::input(format!("{option}: {}: {error}", path.display())),
            }
        })
    }
}

/// Prefixes the message of invalid input with the name of its file.
pub fn in_file(path: &Path, mut failure: Failure) -> Failure {
    if failure.kind() == Kind::InvalidInput {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin {
            "standard input".into()
        } else {
            path.to_string_lossy()
        };
        let message = format!("{name}: {}", failure.details().message);
        failure.details_mut().message = message;
    }
    failure
}

/// Whether a missing file's name may be the key or secret itself, which errors never show.
fn is_probably_secret(option: &str, path: &Path, found: &Path) -> bool {
    let takes_secret = option == "--key-file" || option.ends_with("secret-file");
    let name = path.to_string_lossy();
    takes_secret && !found.exists() && name.len() >= 16 && !name.contains(['/', '\\', '.'])
}

/// Reads all, up to a limit.
pub fn read_all(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::other("larger than 256 MiB"));
    }
    Ok(bytes)
}
