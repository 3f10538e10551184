//! A path in a file of JSON, for `#[serde(with)]`. A path need not be UTF-8; JSON is.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path as it is recorded.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Recorded {
    Text(String),
    /// The bytes of a path that is not UTF-8.
    Bytes {
        bytes: Vec<u8>,
    },
}

pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(record).serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Option<PathBuf>, D::Error> {
    let recorded = Option::<Recorded>::deserialize(input)?;
    Ok(recorded.map(|recorded| match recorded {
        Recorded::Text(text) => text.into(),
        Recorded::Bytes { bytes } => from_bytes(bytes),
    }))
}

fn record(path: &Path) -> Recorded {
    match path.to_str() {
        Some(text) => Recorded::Text(text.to_owned()),
        None => Recorded::Bytes {
            bytes: path.as_os_str().as_encoded_bytes().to_vec(),
        },
    }
}

#[cfg(unix)]
pub fn from_bytes(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    std::ffi::OsString::from_vec(bytes).into()
}

/// Elsewhere, no path can be made of bytes without unsafe code: such a file is not found again.
#[cfg(not(unix))]
pub fn from_bytes(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}
