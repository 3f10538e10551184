//! Saves the attachments of a message.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use svc_reference_server::client::{Client, MessageAttachment};

use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::output::{Column, View};

/// Table columns of a saved attachment.
const VIEW: View = View(&[
    Column::text("PATH", "/path"),
    Column::number("BYTES", "/size"),
    Column::text("TYPE", "/contentType"),
]);

/// A saved file, with --attachments.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Saved<'a> {
    path: String,
    filename: Option<&'a str>,
    content_type: &'a str,
    size: usize,
}

pub(super) async fn save(
    context: &Context,
    client: &Client,
    id: &str,
    directory: &Path,
) -> Result<(), Failure> {
    let message = control::send(context, client.message(id)).await?;
    let failed = |error: io::Error| {
        Failure::other(format!("cannot save to {}: {error}", directory.display()))
    };
    let folder = context.settings.path(directory);
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let mut saved = Vec::new();
    for (attachment, number) in message.attachments.iter().zip(1..) {
        let bytes = control::read(context, client.attachment(id, number)).await?;
        let (path, mut file) = create(&folder, &file_name(attachment, number)).map_err(failed)?;
        let path = directory.join(path.file_name().unwrap_or_default());
        file.write_all(&bytes).map_err(failed)?;
        saved.push(Saved {
            path: path.display().to_string(),
            filename: attachment.filename.as_deref(),
            content_type: &attachment.content_type,
            size: bytes.len(),
        });
    }

    context
        .out
        .list(&saved, VIEW, "the message has no attachments")
}

/// Creates a file, with a number if there is one with this name.
fn create(directory: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
        _ => (name, String::new()),
    };
    let mut path = directory.join(name);
    for number in 2.. {
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                path = directory.join(format!("{stem} ({number}){extension}"));
            }
            opened => return opened.map(|file| (path, file)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// The last bytes of a name, which keep the extension. The file systems in use allow 255.
const MAX: usize = 200;

/// A name within the directory: the sender chose the name of the attachment.
fn file_name(attachment: &MessageAttachment, number: usize) -> String {
    let name = attachment.filename.as_deref().unwrap_or_default();
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let is_safe = |letter: &char| !letter.is_control() && !"<>:\"|?*".contains(*letter);
    let name: String = name.chars().filter(is_safe).collect();
    let start = (name.len().saturating_sub(MAX)..).find(|at| name.is_char_boundary(*at));
    match name[start.unwrap_or_default()..].trim_matches(['.', ' ']) {
        "" => format!("attachment-{number}"),
        name => name.to_owned(),
    }
}
