//! The points that the documents leave open and that a run of the server can
//! choose otherwise, so that a client's tolerance meets a real peer
//! (`docs/undocumented/README.md`).

use http::HeaderName;

/// One choice for every switchable point; the default is the server's own.
#[derive(Clone, Debug)]
pub(crate) struct Switches {
    pub(crate) created_status: CreatedStatus,
    pub(crate) lists: Wrapping,
    pub(crate) errors: ErrorShape,
    pub(crate) idempotency: Idempotency,
    pub(crate) resources: Wrapping,
    pub(crate) failed_error: FailedError,
    pub(crate) key_header: HeaderName,
    pub(crate) contact_pages: ContactPages,
    pub(crate) test_field: String,
}

/// `docs/undocumented/both-services.md#create-status`: the status of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreatedStatus {
    /// 201, and 202 for an accepted email.
    Created,
    /// 200 for all.
    Ok,
}

/// `docs/undocumented/both-services.md#list-shape` and `docs/undocumented/both-services.md#resource-shape`: what stands alone or inside `{"data": …}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    Bare,
    Wrapped,
}

/// `docs/undocumented/both-services.md#error-format`: the shape of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorShape {
    /// `{error: {code, message, details}}`
    Nested,
    /// RFC 9457 problem details.
    Problem,
    /// `{code, message, details}`
    Flat,
    /// Plain text.
    Text,
}

/// `docs/undocumented/both-services.md#idempotency`: whether `Idempotency-Key` is honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idempotency {
    Honoured,
    Ignored,
}

/// `docs/undocumented/extraction-service.md#extraction-error`: the type of `data.error` in `extraction.failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedError {
    Object,
    Text,
}

/// `docs/undocumented/email-service.md#contact-pages`: the shape and the counting of the contacts' pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContactPages {
    Object,
    /// The bare array.
    Array,
    /// The object, its first page numbered 0.
    ZeroBased,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            created_status: CreatedStatus::Created,
            lists: Wrapping::Bare,
            errors: ErrorShape::Nested,
            idempotency: Idempotency::Honoured,
            resources: Wrapping::Bare,
            failed_error: FailedError::Object,
            key_header: http::header::AUTHORIZATION,
            contact_pages: ContactPages::Object,
            test_field: "statusCode".to_owned(),
        }
    }
}

/// A `POINT=CHOICE` that names no switch or no choice of it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSwitch(String);

impl Switches {
    /// Takes one `POINT=CHOICE`, such as `create-status=200`.
    pub(crate) fn set(&mut self, text: &str) -> Result<(), InvalidSwitch> {
        let Some((point, choice)) = text.split_once('=') else {
            return Err(InvalidSwitch(format!(
                "`{text}` is not a NAME=VALUE setting, such as create-status=200"
            )));
        };
        let no_choice = |choices: &str| {
            Err(InvalidSwitch(format!("`{choice}` is not a value of {point}; use {choices}")))
        };
        match (point.to_ascii_lowercase().as_str(), choice) {
            ("create-status", "200") => self.created_status = CreatedStatus::Ok,
            ("create-status", _) => return no_choice("200"),
            ("list-shape", "wrapped") => self.lists = Wrapping::Wrapped,
            ("error-format", "problem") => self.errors = ErrorShape::Problem,
            ("error-format", "flat") => self.errors = ErrorShape::Flat,
            ("error-format", "text") => self.errors = ErrorShape::Text,
            ("error-format", _) => return no_choice("problem, flat, text"),
            ("idempotency", "ignored") => self.idempotency = Idempotency::Ignored,
            ("idempotency", _) => return no_choice("ignored"),
            ("resource-shape", "wrapped") => self.resources = Wrapping::Wrapped,
            ("list-shape" | "resource-shape", _) => return no_choice("wrapped"),
            ("extraction-error", "string") => self.failed_error = FailedError::Text,
            ("extraction-error", _) => return no_choice("string"),
            ("key-header", name) => match HeaderName::try_from(name) {
                Ok(name) => self.key_header = name,
                Err(_) => return no_choice("the name of a header"),
            },
            ("contact-pages", "array") => self.contact_pages = ContactPages::Array,
            ("contact-pages", "zero-based") => self.contact_pages = ContactPages::ZeroBased,
            ("contact-pages", _) => return no_choice("array, zero-based"),
            ("test-status-field", "") => return no_choice("the name of a field"),
            // What the answer holds beside the status.
            ("test-status-field", "durationMs" | "error") => {
                return no_choice("the name of a field that the answer does not have already");
            }
            ("test-status-field", field) => field.clone_into(&mut self.test_field),
            _ => {
                return Err(InvalidSwitch(format!(
                    "unknown setting `{point}`; known settings: create-status, list-shape, error-format, \
                     idempotency, resource-shape, extraction-error, key-header, contact-pages, \
                     test-status-field"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_taken() {
        let mut switches = Switches::default();
        for text in [
            "create-status=200",
            "list-shape=wrapped",
            "error-format=problem",
            "error-format=flat",
            "error-format=text",
            "idempotency=ignored",
            "resource-shape=wrapped",
            "extraction-error=string",
            "key-header=X-Api-Key",
            "contact-pages=array",
            "contact-pages=zero-based",
            "test-status-field=code",
            "CREATE-STATUS=200",
        ] {
            switches.set(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        assert_eq!(switches.key_header, "x-api-key");
        assert_eq!(switches.test_field, "code");
    }

    #[test]
    fn anything_else_is_refused_with_what_there_is() {
        let mut switches = Switches::default();
        let refused =
            |switches: &mut Switches, text: &str| switches.set(text).expect_err(text).to_string();
        assert_eq!(
            refused(&mut switches, "error-format=xml"),
            "`xml` is not a value of error-format; use problem, flat, text"
        );
        assert_eq!(
            refused(&mut switches, "create-status"),
            "`create-status` is not a NAME=VALUE setting, such as create-status=200"
        );
        assert!(refused(&mut switches, "colour=1").contains("create-status, list-shape"));
        assert!(refused(&mut switches, "key-header=a b").contains("name of a header"));
        for taken in ["test-status-field=durationMs", "test-status-field=error"] {
            assert!(refused(&mut switches, taken).contains("does not have already"), "{taken}");
        }
        assert_eq!(switches.test_field, "statusCode");
    }
}
