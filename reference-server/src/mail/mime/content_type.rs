//! Content types of attachments: validation and detection.

/// Detects the content type from the file name.
pub(crate) fn detect(filename: &str) -> &'static str {
    mime_guess::from_path(filename)
        .first_raw()
        .unwrap_or("application/octet-stream")
}

/// Validates a given content type: `type/subtype` with optional parameters. The problem reads after
/// the field's name.
pub(crate) fn check_content_type(text: &str) -> Result<(), &'static str> {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let (kind, subtype) = essence.split_once('/').unwrap_or_default();
    let printable = text.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
    if !is_token(kind) || !is_token(subtype) || !printable || text.len() > 255 {
        return Err("is not a content type: write type/subtype");
    }
    // Mail clients would parse the file's content as parts of the message.
    if kind.eq_ignore_ascii_case("multipart") {
        return Err("must not be a multipart type");
    }

    Ok(())
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`{|}~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_by_name() {
        for (name, kind) in [
            ("report.pdf", "application/pdf"),
            ("REPORT.PDF", "application/pdf"),
            ("data.csv", "text/csv"),
            ("invite.ics", "text/calendar"),
            ("report", "application/octet-stream"),
        ] {
            assert_eq!(detect(name), kind, "{name}");
        }
    }

    #[test]
    fn validates_given_types() {
        for good in [
            "text/plain",
            "text/csv; charset=iso-8859-1",
            "application/vnd.a+json",
            "A/B",
        ] {
            assert_eq!(check_content_type(good), Ok(()), "{good}");
        }

        for bad in [
            "",
            "text",
            "text/",
            "/x",
            "text/pl ain",
            "text/plain\r\nX: y",
            "tëxt/plain",
        ] {
            let problem = check_content_type(bad).expect_err(bad);
            assert_eq!(
                problem, "is not a content type: write type/subtype",
                "{bad:?}"
            );
        }

        let multipart = check_content_type("multipart/mixed; boundary=x");
        assert_eq!(multipart, Err("must not be a multipart type"));
    }
}
