//! Attachments from memory or from a file, see
//! <https://github.com/svc-tools/svc/blob/main/docs/email-service/emails.md#attachments>.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::ser::{Error as _, SerializeStruct};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A file attached to an email.
///
/// Attachments from a path are not held in memory: they are read, encoded and sent in chunks. If no content type is set, the service detects it.
///
/// ```
/// use svc_sdk::email::Attachment;
///
/// let note = Attachment::from_bytes("note.txt", "hello").content_type("text/plain");
/// assert_eq!(note.filename, "note.txt");
/// ```
/// Attachments are equal if name, type and content are equal; of a file, its path and length.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Attachment {
    /// The file name that recipients see.
    pub filename: String,
    /// The MIME type. If `None`, the service detects it.
    pub content_type: Option<String>,
    source: Source,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Source {
    /// Already Base64; sent unmodified.
    Encoded(Arc<str>),
    Bytes(Bytes),
    Path(PathSource),
}

/// A file and the length that it had when the attachment was created.
#[derive(Clone, PartialEq)]
pub(crate) struct PathSource {
    path: Arc<Path>,
    length: u64,
}

impl Attachment {
    /// Creates an attachment from bytes in memory.
    pub fn from_bytes(filename: impl Into<String>, content: impl Into<Bytes>) -> Self {
        Self::new(filename, Source::Bytes(content.into()))
    }

    /// Creates an attachment from content that is already Base64. It is sent unmodified.
    pub fn from_base64(filename: impl Into<String>, content: impl Into<String>) -> Self {
        Self::new(filename, Source::Encoded(content.into().into()))
    }

    /// Creates an attachment from a file, named like the file. The file is opened when the
    /// email is sent, and again for each retry; its length must not change meanwhile.
    ///
    /// # Errors
    ///
    /// If the metadata of the file cannot be read, or it is not a regular file.
    pub fn from_path(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let filename = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self::new(
            filename,
            Source::Path(PathSource { path: path.into(), length: metadata.len() }),
        ))
    }

    fn new(filename: impl Into<String>, source: Source) -> Self {
        Self { filename: filename.into(), content_type: None, source }
    }

    /// Sets the file name.
    #[must_use]
    pub fn filename(mut self, filename: impl Into<String>) -> Self {
        self.filename = filename.into();
        self
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Guesses the MIME type from the file extension, if none is set and the extension is a
    /// common one.
    #[must_use]
    pub fn guess_content_type(mut self) -> Self {
        if self.content_type.is_none() {
            self.content_type = guess(&self.filename).map(str::to_owned);
        }
        self
    }

    /// Length of the content in bytes before Base64 encoding. For
    /// [`from_base64`](Self::from_base64), the length of the Base64 text.
    pub fn content_length(&self) -> u64 {
        match &self.source {
            Source::Encoded(text) => text.len() as u64,
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Path(source) => source.length,
        }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }
}

/// Why a file cannot be sent.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum AttachmentProblem {
    #[error("cannot be read")]
    Io(#[source] Arc<io::Error>),
    #[error("has changed its length since the request was built")]
    Changed,
    #[error("reading it was cancelled")]
    Cancelled,
}

impl From<io::Error> for AttachmentProblem {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl From<AttachmentProblem> for io::Error {
    fn from(problem: AttachmentProblem) -> Self {
        match problem {
            AttachmentProblem::Io(error) => Self::new(error.kind(), error),
            other => Self::other(other),
        }
    }
}

impl PathSource {
    pub(crate) fn encoded_length(&self) -> u64 {
        self.length.div_ceil(3).saturating_mul(4)
    }

    /// Opens the file. May block.
    pub(crate) fn open(&self) -> Result<Chunks, AttachmentProblem> {
        Ok(Chunks { file: File::open(&self.path)?, left: self.length })
    }
}

/// A file that is read and encoded in chunks.
pub(crate) struct Chunks {
    file: File,
    left: u64,
}

/// A multiple of three, so that only the last chunk is padded.
const CHUNK_SIZE: u64 = 96 * 1024;

impl Chunks {
    /// Reads and encodes the next chunk; `None` at the end. May block. The last chunk is
    /// returned only if the file ends there, so that a changed file never looks complete.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<Bytes>, AttachmentProblem> {
        let wanted = self.left.min(CHUNK_SIZE);
        self.left -= wanted;
        // At the end, ask for a byte that must not exist.
        let limit = if self.left == 0 { wanted + 1 } else { wanted };
        let mut content = Vec::with_capacity(limit as usize);
        (&mut self.file).take(limit).read_to_end(&mut content)?;
        match content.len() as u64 == wanted {
            true if wanted == 0 => Ok(None),
            true => Ok(Some(base64_simd::STANDARD.encode_to_string(&content).into())),
            false => Err(AttachmentProblem::Changed),
        }
    }
}

fn guess(filename: &str) -> Option<&'static str> {
    let (_, ending) = filename.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "pdf" => "application/pdf",
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "ics" => "text/calendar",
        "json" => "application/json",
        "xml" => "application/xml",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "eml" => "message/rfc822",
        "doc" => "application/msword",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xls" => "application/vnd.ms-excel",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        _ => return None,
    })
}

/// Holds the encoded content in memory. `Emails::send` does not if it comes from a path.
impl Serialize for Attachment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let content = match &self.source {
            Source::Encoded(text) => text.to_string(),
            Source::Bytes(bytes) => base64_simd::STANDARD.encode_to_string(bytes),
            Source::Path(source) => {
                let content = std::fs::read(&source.path).map_err(S::Error::custom)?;
                base64_simd::STANDARD.encode_to_string(&content)
            }
        };
        let fields = if self.content_type.is_some() { 3 } else { 2 };
        let mut object = serializer.serialize_struct("Attachment", fields)?;
        object.serialize_field("filename", &self.filename)?;
        object.serialize_field("content", &content)?;
        if let Some(content_type) = &self.content_type {
            object.serialize_field("contentType", content_type)?;
        }
        object.end()
    }
}

/// Deserializes the documented JSON object, with its content in Base64. Another field is an
/// error, because it could not be sent.
impl<'de> Deserialize<'de> for Attachment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Object {
            filename: String,
            content: String,
            content_type: Option<String>,
        }
        let object = Object::deserialize(deserializer)?;
        let attachment = Self::from_base64(object.filename, object.content);
        Ok(Self { content_type: object.content_type, ..attachment })
    }
}

/// Omits the file name and the content.
impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("length", &self.content_length())
            .field("content_type", &self.content_type)
            .finish_non_exhaustive()
    }
}
