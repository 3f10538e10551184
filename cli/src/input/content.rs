//! `TEXT|@file|-`: content from the command line, a file, or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Mutex;

use crate::failure::{Failure, Kind};
use crate::output::Printer;

/// What no input comes near; an endless one does not take all memory.
const LIMIT: u64 = 256 << 20;

/// Reads files and, once, standard input.
#[derive(Debug, Default)]
pub struct Inputs {
    stdin_used_by: Mutex<Option<String>>,
}

impl Inputs {
    /// The text that an option's value stands for; `@@` begins a text with `@`.
    pub fn text(&self, printer: &Printer, option: &str, value: &str) -> Result<String, Failure> {
        let bytes = match value.strip_prefix('@') {
            Some(literal) if literal.starts_with('@') => return Ok(literal.to_owned()),
            Some(path) => file(option, Path::new(path))?,
            None if value == "-" => self.stdin(printer, option)?,
            None => return Ok(value.to_owned()),
        };
        String::from_utf8(bytes)
            .map_err(|_| Failure::input(format!("{option}: the content is not UTF-8 text")))
    }

    /// The bytes of a file named without `@`, or of standard input for `-`.
    pub fn bytes(&self, printer: &Printer, what: &str, path: &Path) -> Result<Vec<u8>, Failure> {
        if path.as_os_str() == "-" { self.stdin(printer, what) } else { file(what, path) }
    }

    /// Everything that standard input holds. It can be read only once.
    pub fn stdin(&self, printer: &Printer, option: &str) -> Result<Vec<u8>, Failure> {
        {
            let mut used = self.stdin_used_by.lock().expect("nothing panics while it is held");
            if let Some(first) = used.as_deref() {
                return Err(Failure::usage(format!(
                    "standard input can be read only once, and {first} reads it already"
                )));
            }
            *used = Some(option.to_owned());
        }
        if printer.stdin_is_terminal() {
            printer.note(&format!("{option}: type the content, end with Ctrl-D"));
        }
        whole(io::stdin().lock())
            .map_err(|error| Failure::input(format!("{option}: standard input: {error}")))
    }
}

/// Names the file in what is wrong with its content.
pub fn in_file(path: &Path, mut failure: Failure) -> Failure {
    if failure.kind() == Kind::InvalidInput {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin { "standard input".into() } else { path.to_string_lossy() };
        let message = format!("{name}: {}", failure.details().message);
        failure.details_mut().message = message;
    }
    failure
}

fn file(option: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    File::open(path)
        .and_then(whole)
        .map_err(|error| Failure::input(format!("{option}: {}: {error}", path.display())))
}

fn whole(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::other("it is larger than 256 MiB"));
    }
    Ok(bytes)
}
