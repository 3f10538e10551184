//! Compatibility settings (`--set NAME=VALUE`): where the services' reference is
//! silent, each one selects a choice other than the server's default, so that
//! clients can be tested against both. `docs/undocumented/README.md` lists them.

use http::HeaderName;

/// The value of every compatibility setting.
#[derive(Clone, Debug)]
pub(crate) struct Compatibility {
    /// `docs/undocumented/both-services.md#create-status`
    pub(crate) create_status: CreateStatus,
    /// `docs/undocumented/both-services.md#list-shape`
    pub(crate) list_shape: Wrapping,
    /// `docs/undocumented/both-services.md#error-format`
    pub(crate) error_format: ErrorFormat,
    /// `docs/undocumented/both-services.md#idempotency`
    pub(crate) idempotency: Idempotency,
    /// `docs/undocumented/both-services.md#resource-shape`
    pub(crate) resource_shape: Wrapping,
    /// `docs/undocumented/extraction-service.md#extraction-error`
    pub(crate) extraction_error: ExtractionErrorType,
    /// `docs/undocumented/email-service.md#key-header`
    pub(crate) key_header: HeaderName,
    /// `docs/undocumented/email-service.md#contact-pages`
    pub(crate) contact_pages: ContactPages,
    /// `docs/undocumented/email-service.md#webhook-test`
    pub(crate) test_status_field: String,
}

/// The status of a successful create operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreateStatus {
    /// 201, and 202 for an accepted email.
    Created,
    /// 200 for all.
    Ok,
}

/// Whether a resource or a list is wrapped in `{"data": …}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    Bare,
    Wrapped,
}

/// The format of an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// `{error: {code, message, details}}`
    Nested,
    /// Problem details (RFC 9457).
    Problem,
    /// `{code, message, details}`
    Flat,
    /// Plain text.
    Text,
}

/// Whether the server honors `Idempotency-Key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idempotency {
    Honored,
    Ignored,
}

/// The type of `data.error` in `extraction.failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtractionErrorType {
    Object,
    String,
}

/// The shape and the numbering of contact pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContactPages {
    /// An object with the page and its metadata; the first page is 1.
    Object,
    /// A bare array; the first page is 1.
    Array,
    /// An object; the first page is 0.
    ZeroBased,
}

impl Default for Compatibility {
    fn default() -> Self {
        Self {
            create_status: CreateStatus::Created,
            list_shape: Wrapping::Bare,
            error_format: ErrorFormat::Nested,
            idempotency: Idempotency::Honored,
            resource_shape: Wrapping::Bare,
            extraction_error: ExtractionErrorType::Object,
            key_header: http::header::AUTHORIZATION,
            contact_pages: ContactPages::Object,
            test_status_field: "statusCode".to_owned(),
        }
    }
}

/// A compatibility setting with an unknown name or value.
///
/// Returned by [`Builder::compatibility`](crate::Builder::compatibility). The message
/// lists the valid names or values.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSetting(String);

impl Compatibility {
    /// Applies one `NAME=VALUE` setting, such as `create-status=200`.
    pub(crate) fn set(&mut self, setting: &str) -> Result<(), InvalidSetting> {
        let Some((name, value)) = setting.split_once('=') else {
            return Err(InvalidSetting(format!(
                "`{setting}` is not a NAME=VALUE setting, such as create-status=200"
            )));
        };
        let invalid_value = |valid: &str| {
            Err(InvalidSetting(format!(
                "invalid value `{value}` for {name}; valid values: {valid}"
            )))
        };
        match (name.to_ascii_lowercase().as_str(), value) {
            ("create-status", "200") => self.create_status = CreateStatus::Ok,
            ("create-status", _) => return invalid_value("200"),
            ("list-shape", "wrapped") => self.list_shape = Wrapping::Wrapped,
            ("error-format", "problem") => self.error_format = ErrorFormat::Problem,
            ("error-format", "flat") => self.error_format = ErrorFormat::Flat,
            ("error-format", "text") => self.error_format = ErrorFormat::Text,
            ("error-format", _) => return invalid_value("problem, flat, text"),
            ("idempotency", "ignored") => self.idempotency = Idempotency::Ignored,
            ("idempotency", _) => return invalid_value("ignored"),
            ("resource-shape", "wrapped") => self.resource_shape = Wrapping::Wrapped,
            ("list-shape" | "resource-shape", _) => return invalid_value("wrapped"),
            ("extraction-error", "string") => {
                self.extraction_error = ExtractionErrorType::String;
            }
            ("extraction-error", _) => return invalid_value("string"),
            ("key-header", header) => match HeaderName::try_from(header) {
                Ok(header) => self.key_header = header,
                Err(_) => return invalid_value("the name of a header"),
            },
            ("contact-pages", "array") => self.contact_pages = ContactPages::Array,
            ("contact-pages", "zero-based") => self.contact_pages = ContactPages::ZeroBased,
            ("contact-pages", _) => return invalid_value("array, zero-based"),
            ("test-status-field", "") => return invalid_value("the name of a field"),
            // The other fields of the response.
            ("test-status-field", "durationMs" | "error") => {
                return invalid_value(
                    "the name of a field that the response does not already have",
                );
            }
            ("test-status-field", field) => field.clone_into(&mut self.test_status_field),
            _ => {
                return Err(InvalidSetting(format!(
                    "unknown setting `{name}`; known settings: create-status, list-shape, \
                     error-format, idempotency, resource-shape, extraction-error, key-header, \
                     contact-pages, test-status-field"
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
    fn accepts_every_documented_setting() {
        let mut compatibility = Compatibility::default();
        for setting in [
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
            compatibility.set(setting).unwrap_or_else(|error| panic!("{setting}: {error}"));
        }
        assert_eq!(compatibility.key_header, "x-api-key");
        assert_eq!(compatibility.test_status_field, "code");
    }

    #[test]
    fn rejects_unknown_settings_and_lists_the_valid_ones() {
        let mut compatibility = Compatibility::default();
        let error = |compatibility: &mut Compatibility, setting: &str| {
            compatibility.set(setting).expect_err(setting).to_string()
        };
        assert_eq!(
            error(&mut compatibility, "error-format=xml"),
            "invalid value `xml` for error-format; valid values: problem, flat, text"
        );
        assert_eq!(
            error(&mut compatibility, "create-status"),
            "`create-status` is not a NAME=VALUE setting, such as create-status=200"
        );
        assert!(error(&mut compatibility, "colour=1").contains("create-status, list-shape"));
        assert!(error(&mut compatibility, "key-header=a b").contains("name of a header"));
        for existing in ["test-status-field=durationMs", "test-status-field=error"] {
            let error = error(&mut compatibility, existing);
            assert!(error.contains("does not already have"), "{existing}");
        }
        assert_eq!(compatibility.test_status_field, "statusCode");
    }
}
