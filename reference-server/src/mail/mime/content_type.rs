//! Content types of attachments: validation and detection.

use std::borrow::Cow;

/// Detects the content type from the file name, otherwise from the first bytes.
pub(crate) fn detect(filename: &str, content: &[u8]) -> Cow<'static, str> {
    if let Some(by_name) = mime_guess::from_path(filename).first_raw() {
        return Cow::Borrowed(by_name);
    }
    let by_content = SIGNATURES.iter().find(|(start, _)| content.starts_with(start));
    Cow::Borrowed(match by_content {
        Some((_, kind)) => kind,
        None if !content.is_empty() && is_text(content) => "text/plain",
        None => "application/octet-stream",
    })
}

/// Validates a given content type: `type/subtype` with optional parameters.
pub(crate) fn check_content_type(text: &str) -> Result<(), InvalidContentType> {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let (kind, subtype) = essence.split_once('/').ok_or(InvalidContentType::Form)?;
    let printable = text.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    if !is_token(kind) || !is_token(subtype) || !printable || text.len() > 255 {
        return Err(InvalidContentType::Form);
    }
    // Mail clients would parse the file's content as parts of the message.
    if kind.eq_ignore_ascii_case("multipart") {
        return Err(InvalidContentType::Multipart);
    }
    Ok(())
}

/// Why a content type is not allowed. Messages read after the field's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidContentType {
    #[error("is not a content type: write type/subtype")]
    Form,
    #[error("must not be a multipart type")]
    Multipart,
}

const SIGNATURES: [(&[u8], &str); 8] = [
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BEGIN:VCALENDAR", "text/calendar"),
    (b"BEGIN:VCARD", "text/vcard"),
];

fn is_text(content: &[u8]) -> bool {
    std::str::from_utf8(content)
        .is_ok_and(|text| !text.chars().any(|c| c.is_control() && !"\r\n\t\u{c}".contains(c)))
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`{|}~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_by_name_before_content() {
        for (name, content, kind) in [
            ("report.pdf", &b""[..], "application/pdf"),
            ("REPORT.PDF", b"not one", "application/pdf"),
            ("data.csv", b"a,b", "text/csv"),
            ("invite.ics", b"", "text/calendar"),
            ("report", b"%PDF-1.7", "application/pdf"),
            ("photo", b"\xff\xd8\xff\xe0", "image/jpeg"),
            ("notes", "Grüße\n".as_bytes(), "text/plain"),
            ("blob", b"\0\x01", "application/octet-stream"),
            ("empty", b"", "application/octet-stream"),
        ] {
            assert_eq!(detect(name, content), kind, "{name}");
        }
    }

    #[test]
    fn validates_given_types() {
        for good in ["text/plain", "text/csv; charset=iso-8859-1", "application/vnd.a+json", "A/B"]
        {
            assert_eq!(check_content_type(good), Ok(()), "{good}");
        }
        for bad in ["", "text", "text/", "/x", "text/pl ain", "text/plain\r\nX: y", "tëxt/plain"] {
            assert_eq!(check_content_type(bad), Err(InvalidContentType::Form), "{bad:?}");
        }
        let multipart = check_content_type("multipart/mixed; boundary=x");
        assert_eq!(multipart, Err(InvalidContentType::Multipart));
    }
}
