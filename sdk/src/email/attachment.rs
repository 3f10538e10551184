//! Attachments: from memory, from a file, from any source that can be opened
//! again (`docs/email-service/emails.md#attachments`).

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::ser::{Error as _, SerializeStruct};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A file that goes along with an email.
///
/// What comes from a path or a source is never held whole: it is read, encoded
/// and sent piece by piece. The content type is left to the service unless one
/// is given or guessing is asked for.
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
    /// The file's name.
    pub filename: String,
    /// The MIME type; the service detects it where none is given.
    pub content_type: Option<String>,
    source: Source,
}

#[derive(Clone)]
pub(crate) enum Source {
    /// Base64 already, passed on as it is.
    Encoded(Bytes),
    Bytes(Bytes),
    Path(PathBuf, u64),
    Opener(Opener, u64),
}

type Opener = Arc<dyn Fn() -> io::Result<Box<dyn Read + Send>> + Send + Sync>;

impl Attachment {
    /// Content that is in memory.
    pub fn from_bytes(filename: impl Into<String>, content: impl Into<Bytes>) -> Self {
        Self::new(filename, Source::Bytes(content.into()))
    }

    /// Content that is Base64 already; it is passed on as it is.
    pub fn from_base64(filename: impl Into<String>, content: impl Into<String>) -> Self {
        Self::new(filename, Source::Encoded(content.into().into()))
    }

    /// A file, under its own name. It is opened when the email is sent, and
    /// again for a retry.
    ///
    /// # Errors
    ///
    /// When the file's length cannot be found out, or it is no regular file.
    pub fn from_path(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let filename = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self::new(filename, Source::Path(path.to_owned(), metadata.len())))
    }

    /// Anything that can be opened again and again and gives exactly `length`
    /// bytes each time. It is opened and read on a thread that may block.
    ///
    /// ```
    /// use std::io::{Cursor, Read};
    /// use svc_sdk::email::Attachment;
    ///
    /// // A part of something that is large, or not in memory at all.
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

    /// Another name than the file's own.
    #[must_use]
    pub fn filename(mut self, filename: impl Into<String>) -> Self {
        self.filename = filename.into();
        self
    }

    /// The MIME type.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Guesses the MIME type from the name's ending, where none is given and
    /// the ending is a common one.
    #[must_use]
    pub fn guess_content_type(mut self) -> Self {
        if self.content_type.is_none() {
            self.content_type = guess(&self.filename).map(str::to_owned);
        }
        self
    }

    /// The length of the content, in bytes before encoding; for Base64 given
    /// as such, the length of that text.
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

/// Reads and encodes the content in memory; a client's `send` streams it.
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

/// Takes the documented object, its content in Base64.
impl<'de> Deserialize<'de> for Attachment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
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

/// Shows the length and no content.
impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("length", &self.content_length())
            .field("content_type", &self.content_type)
            .finish_non_exhaustive()
    }
}
