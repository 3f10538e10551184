//! Parses `--attach PATH[;name=N][;type=MIME]`.

use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use serde::{Deserialize, Serialize};
use svc_sdk::email::Attachment;

/// An attachment: its source, and what it is in the email.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// The file with the content, or `-` for standard input.
    pub path: PathBuf,
    pub file: AttachedFile,
}

/// An attachment as it stands in the email.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedFile {
    pub name: String,
    /// The MIME type. Without one, the service detects it.
    pub content_type: Option<String>,
}

impl AttachedFile {
    /// Names an attachment, and sets its type.
    pub fn describe(&self, attachment: Attachment) -> Attachment {
        let attachment = attachment.filename(self.name.as_str());
        match &self.content_type {
            Some(content_type) => attachment.content_type(content_type.as_str()),
            None => attachment,
        }
    }
}

/// The value parser of the option. A value that is not UTF-8 is a path without `;` parts.
pub fn parser() -> impl TypedValueParser<Value = Attach> {
    OsStringValueParser::new().try_map(|value| match value.into_string() {
        Ok(text) => parse(&text),
        Err(path) => {
            let path = PathBuf::from(path);
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            Ok(Attach {
                path,
                file: AttachedFile {
                    name,
                    content_type: None,
                },
            })
        }
    })
}

fn parse(text: &str) -> Result<Attach, String> {
    let mut path = text;
    let mut name = None;
    let mut content_type = None;
    // Parse from the end, because a path may contain semicolons.
    while let Some((rest, last)) = path.rsplit_once(';')
        && let Some((key @ ("name" | "type"), value)) = last.split_once('=')
    {
        if key == "type" && !value.contains('/') {
            return Err(format!(
                "`{value}` is not a MIME type such as application/pdf"
            ));
        }
        let part = if key == "name" {
            &mut name
        } else {
            &mut content_type
        };
        if part.replace(value.to_owned()).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
        path = rest;
    }

    if path.is_empty() {
        return Err("the path is missing: use PATH[;name=N][;type=MIME]".to_owned());
    }

    let own_name = Path::new(path).file_name().filter(|_| path != "-");
    let own_name = own_name.map(|name| name.to_string_lossy().into_owned());
    let name = name.or(own_name).ok_or_else(|| match path {
        "-" => "an attachment from standard input needs a name: -;name=N".to_owned(),
        path => format!("`{path}` has no file name: add ;name=N"),
    })?;
    Ok(Attach {
        path: path.into(),
        file: AttachedFile { name, content_type },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, name: &str, content_type: Option<&str>) -> Attach {
        let content_type = content_type.map(Into::into);
        let file = AttachedFile {
            name: name.into(),
            content_type,
        };
        Attach {
            path: path.into(),
            file,
        }
    }

    #[test]
    fn name_and_type_are_optional_and_in_any_order() {
        assert_eq!(parse("a/b.pdf"), Ok(file("a/b.pdf", "b.pdf", None)));
        assert_eq!(
            parse("x;type=text/csv;name=r.csv"),
            Ok(file("x", "r.csv", Some("text/csv")))
        );
        assert_eq!(
            parse("odd;name.txt"),
            Ok(file("odd;name.txt", "odd;name.txt", None))
        );
    }

    #[test]
    fn standard_input_needs_a_name() {
        assert_eq!(parse("-;name=r.txt"), Ok(file("-", "r.txt", None)));
        assert!(parse("-").is_err());
    }

    #[test]
    fn rejects_malformed_values() {
        for text in ["", ";name=x", "a;name=x;name=y", "a;type=pdf", "/"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
