//! Attachments from memory, from a file, or from any source that can be reopened
//! (`docs/email-service/emails.md#attachments`).

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::ser::{Error as _, SerializeStruct};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A file attached to an email.
///
/// Attachments from a path or an opener are not held in memory: they are read, encoded and
/// sent in chunks. If no content type is set, the service detects it.
///
/// ```
/// use svc_sdk::email::Attachment;
///
/// let note = Attachment::from_bytes("note.txt", "hello").content_type("text/plain");
/// assert_eq!(note.filename, "note.txt");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Attachment {
    /// The file name that recipients see.
    pub filename: String,
    /// The MIME type. If `None`, the service detects it.
    pub content_type: Option<String>,
    source: Source,
}

#[derive(Clone)]
pub(crate) enum Source {
    /// Already Base64; sent unmodified.
    Encoded(Bytes),
    Bytes(Bytes),
    Path(PathBuf, u64),
    Opener(Opener, u64),
}

type Opener = Arc<dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send + Sync>;

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
    /// email is sent, and again for each retry.
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
        Ok(Self::new(filename, Source::Path(path.to_owned(), metadata.len())))
    }

    /// Creates an attachment from a source that can be opened repeatedly and yields exactly
    /// `length` bytes each time. `open` and the reader may block; they run on a thread for
    /// blocking operations.
    ///
    /// ```
    /// use std::io::{Cursor, Read};
    /// use svc_sdk::email::Attachment;
    ///
    /// // For example a part of a large object in a store.
    /// let open = || Ok(Cursor::new("a report").take(8));
    /// let report = Attachment::from_opener("report.txt", 8, open);
    /// assert_eq!(report.content_length(), 8);
    /// ```
    pub fn from_opener<F, R>(filename: impl Into<String>, length: u64, open: F) -> Self
    where
        F: Fn() -> io::Result<R> + Send + Sync + 'static,
        R: Read + Send + 'static,
    {
        let open: Opener = Arc::new(move || Ok(Box::new(open()?)));
        Self::new(filename, Source::Opener(open, length))
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
        self.source.length()
    }

    #[cfg(feature = "client")]
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    fn encoded(&self) -> io::Result<String> {
        let content = match &self.source {
            Source::Encoded(text) => return Ok(String::from_utf8_lossy(text).into_owned()),
            Source::Bytes(bytes) => bytes.clone(),
            Source::Path(..) | Source::Opener(..) => {
                let mut content = Vec::new();
                self.source.open()?.read_to_end(&mut content)?;
                content.into()
            }
        };
        Ok(base64_simd::STANDARD.encode_to_string(&content))
    }
}

impl Source {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Encoded(bytes) | Self::Bytes(bytes) => bytes.len() as u64,
            Self::Path(_, length) | Self::Opener(_, length) => *length,
        }
    }

    pub(crate) fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        match self {
            Self::Encoded(bytes) | Self::Bytes(bytes) => {
                Ok(Box::new(io::Cursor::new(bytes.clone())))
            }
            Self::Path(path, _) => Ok(Box::new(File::open(path)?)),
            Self::Opener(open, _) => open(),
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

/// Holds the encoded content in memory. `Emails::send` streams it instead.
impl Serialize for Attachment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let content = self.encoded().map_err(S::Error::custom)?;
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

/// Attachments are equal if name, type and source are equal: the same bytes, the same path
/// and length, or the same opener (a clone, not a second closure).
impl PartialEq for Attachment {
    fn eq(&self, other: &Self) -> bool {
        self.filename == other.filename
            && self.content_type == other.content_type
            && match (&self.source, &other.source) {
                (Source::Encoded(a), Source::Encoded(b)) | (Source::Bytes(a), Source::Bytes(b)) => {
                    a == b
                }
                (Source::Path(a, a_length), Source::Path(b, b_length)) => {
                    a == b && a_length == b_length
                }
                (Source::Opener(a, a_length), Source::Opener(b, b_length)) => {
                    Arc::ptr_eq(a, b) && a_length == b_length
                }
                _ => false,
            }
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
