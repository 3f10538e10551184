//! Files, and standard input in place of one.

use std::io::{self, Read};
use std::path::Path;

use crate::failure::{Failure, Kind};

/// Maximum input size, in bytes, so that an endless input does not exhaust memory.
pub const LIMIT: u64 = 256 << 20;

pub const TOO_LARGE: &str = "larger than 256 MiB";

/// Prefixes the message of invalid input with the name of its file.
pub fn in_file(path: &Path, mut failure: Failure) -> Failure {
    if failure.kind() == Kind::InvalidInput {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin {
            "standard input".into()
        } else {
            path.to_string_lossy()
        };
        let message = format!("{name}: {}", failure.message);
        failure.message = message;
    }
    failure
}

/// Reads all, up to a limit.
pub fn read_all(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::other(TOO_LARGE));
    }
    Ok(bytes)
}
