//! Attachments from memory or from a file, see
//! <https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md#attachments>.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::field_value::FieldValue;
use crate::decode::Extra;
use crate::engine::FileSource;
use crate::names::setters;

/// A file attached to an email.
///
/// Attachments from a path are not held in memory: they are read, encoded and sent in chunks. If
/// no content type is set, the service detects it. Attachments are equal if name, type and content
/// are equal; of a file, its path and length.
///
/// ```
/// use svc_sdk::email::Attachment;
///
/// let note = Attachment::from_bytes("note.txt", "hello").content_type("text/plain");
/// assert_eq!(note.filename, "note.txt");
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
#[must_use = "it has to be added to an email"]
pub struct Attachment {
    /// The file name that recipients see.
    pub filename: String,
    /// The MIME type. If `None`, the service detects it.
    pub content_type: Option<String>,
    /// Additional fields; sent as given.
    pub extra: Extra,
    pub(super) source: Source,
}

#[derive(Clone, PartialEq)]
pub(super) enum Source {
    /// Already Base64; sent unmodified.
    Encoded(Arc<str>),
    Bytes(Bytes),
    File(FileSource),
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
    /// If the metadata of the file cannot be read, or it is not a regular file. The error names the
    /// path.
    #[doc(alias = "from_file")]
    pub fn from_path(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let failed = |kind, problem: &dyn fmt::Display| {
            io::Error::new(kind, format!("{}: {problem}", path.display()))
        };
        let metadata = std::fs::metadata(path).map_err(|error| failed(error.kind(), &error))?;
        if !metadata.is_file() {
            return Err(failed(io::ErrorKind::InvalidInput, &"not a regular file"));
        }

        let filename = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let file = FileSource {
            path: path.into(),
            length: metadata.len(),
        };
        Ok(Self::new(filename, Source::File(file)))
    }

    fn new(filename: impl Into<String>, source: Source) -> Self {
        Self {
            filename: filename.into(),
            content_type: None,
            extra: Extra::default(),
            source,
        }
    }

    /// The JSON of the attachment with this content.
    pub(super) fn object(&self, content: String) -> AttachmentObject {
        AttachmentObject {
            filename: self.filename.clone(),
            content_type: self.content_type.clone(),
            extra: self.extra.clone(),
            content,
        }
    }

    /// The name of a field that is set by its own method and by `extra`.
    pub(super) fn given_twice(&self) -> Option<&str> {
        let typed = ["filename", "contentType", "content"];
        let names = self.extra.keys().map(String::as_str);
        names.into_iter().find(|name| typed.contains(name))
    }

    /// About how long its JSON is, without the content if that is a file.
    pub(super) fn json_length(&self) -> usize {
        let content = match &self.source {
            Source::Encoded(text) => text.len(),
            Source::Bytes(bytes) => bytes.len().div_ceil(3) * 4,
            Source::File(_) => 0,
        };
        256 + content
    }

    /// Length of the content in bytes before Base64 encoding. For
    /// [`from_base64`](Self::from_base64), the length of the Base64 text.
    pub fn content_length(&self) -> u64 {
        match &self.source {
            Source::Encoded(text) => text.len() as u64,
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::File(file) => file.length,
        }
    }
}

setters! {
    impl Attachment;

    /// Sets the file name.
    filename(filename: impl Into<String>) { filename = filename.into() }

    /// Sets the MIME type.
    content_type(content_type: impl Into<String>) { content_type = Some(content_type.into()) }

    /// Adds a field that this type does not model, such as the content id of an image in the HTML.
    /// It is sent as given.
    ///
    /// ```
    /// use svc_sdk::email::{Attachment, Email};
    ///
    /// let logo = Attachment::from_bytes("logo.png", "…").extra("contentId", "logo");
    /// let email = Email::new("hello@shop.example", "ada@example.com", "Hi")
    ///     .html(r#"<img src="cid:logo" alt="">"#)
    ///     .attachment(logo);
    /// ```
    extra(name: impl Into<String>, value: impl Into<FieldValue>) {
        extra.0.insert(name.into(), value.into().into())
    }
}

/// Holds the encoded content in memory. `Emails::send` does not if it comes from a path.
impl Serialize for Attachment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let content = match &self.source {
            Source::Encoded(text) => text.to_string(),
            Source::Bytes(bytes) => base64_simd::STANDARD.encode_to_string(bytes),
            Source::File(file) => {
                let content = std::fs::read(&file.path).map_err(S::Error::custom)?;
                base64_simd::STANDARD.encode_to_string(&content)
            }
        };
        self.object(content).serialize(serializer)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttachmentObject {
    filename: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(flatten)]
    extra: Extra,
    /// The last field, so that a file can take the place of an empty content.
    content: String,
}

/// Deserializes the documented JSON object, with its content in Base64.
impl<'de> Deserialize<'de> for Attachment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = AttachmentObject::deserialize(deserializer)?;
        let attachment = Self::from_base64(object.filename, object.content);
        Ok(Self {
            content_type: object.content_type,
            extra: object.extra,
            ..attachment
        })
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
