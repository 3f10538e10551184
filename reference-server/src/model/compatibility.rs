//! Compatibility settings (`--set NAME=VALUE`): where the services' reference is
//! silent, each one selects a choice other than the server's default, so that
//! clients can be tested against both. `docs/undocumented/README.md` lists them.

use http::HeaderName;
use http::header::AUTHORIZATION;

/// The choice for every compatibility setting. A setting cannot select the default.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
pub(crate) struct Compatibility {
    /// Create operations respond with 200, not 201 or 202
    /// (`docs/undocumented/README.md#create-status`).
    pub(crate) creates_with_200: bool,
    /// Lists are wrapped in `{"data": …}` (`docs/undocumented/README.md#list-shape`).
    pub(crate) wraps_lists: bool,
    /// `docs/undocumented/README.md#error-format`
    pub(crate) error_format: ErrorFormat,
    /// `docs/undocumented/README.md#idempotency`
    pub(crate) ignores_idempotency_keys: bool,
    /// Resources are wrapped in `{"data": …}` (`docs/undocumented/README.md#resource-shape`).
    pub(crate) wraps_resources: bool,
    /// `data.error` in `extraction.failed` is a string, not an object
    /// (`docs/undocumented/services.md#extraction-error`).
    pub(crate) extraction_error_is_string: bool,
    /// The header with the key, if not `Authorization: Bearer`
    /// (`docs/undocumented/services.md#key-header`).
    pub(crate) key_header: Option<HeaderName>,
    /// `docs/undocumented/services.md#contact-pages`
    pub(crate) contact_pages: ContactPages,
    /// If not `statusCode` (`docs/undocumented/services.md#webhook-test`).
    pub(crate) test_status_field: Option<String>,
    /// `docs/undocumented/README.md#unknown-request-fields`
    pub(crate) refuses_unknown_fields: bool,
}

/// The format of an error response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// `{error: {code, message, details}}`
    #[default]
    Nested,
    /// Problem details (RFC 9457).
    Problem,
    /// `{code, message, details}`
    Flat,
    /// Plain text.
    Text,
}

/// The shape and the numbering of contact pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ContactPages {
    /// An object with the page and its metadata; the first page is 1.
    #[default]
    Object,
    /// A bare array; the first page is 1.
    Array,
    /// An object; the first page is 0.
    ZeroBased,
}

/// The settings: the number of the open point, the name, and the valid values.
const SETTINGS: [(&str, &str, &str); 10] = [
    ("b1", "create-status", "200"),
    ("b2", "list-shape", "wrapped"),
    ("b4", "error-format", "problem, flat, text"),
    ("b9", "idempotency", "ignored"),
    ("b14", "resource-shape", "wrapped"),
    ("b15", "unknown-fields", "refused"),
    ("x3", "extraction-error", "string"),
    ("e1", "key-header", "the name of a header"),
    ("e16", "contact-pages", "array, zero-based"),
    (
        "e21",
        "test-status-field",
        "the name of a field that the response does not already have",
    ),
];

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
        let name = name.to_ascii_lowercase();
        let Some((_, name, valid)) = SETTINGS
            .iter()
            .find(|(number, known, _)| [*number, *known].contains(&name.as_str()))
        else {
            let known = SETTINGS.map(|(_, known, _)| known).join(", ");
            let message = format!("unknown setting `{name}`; known settings: {known}");
            return Err(InvalidSetting(message));
        };
        let invalid = || {
            InvalidSetting(format!(
                "invalid value `{value}` for {name}; valid values: {valid}"
            ))
        };
        match (*name, value) {
            ("create-status", "200") => self.creates_with_200 = true,
            ("list-shape", "wrapped") => self.wraps_lists = true,
            ("error-format", "problem") => self.error_format = ErrorFormat::Problem,
            ("error-format", "flat") => self.error_format = ErrorFormat::Flat,
            ("error-format", "text") => self.error_format = ErrorFormat::Text,
            ("idempotency", "ignored") => self.ignores_idempotency_keys = true,
            ("resource-shape", "wrapped") => self.wraps_resources = true,
            ("unknown-fields", "refused") => self.refuses_unknown_fields = true,
            ("extraction-error", "string") => self.extraction_error_is_string = true,
            ("key-header", header) => {
                let header: HeaderName = header.parse().map_err(|_| invalid())?;
                // `Bearer`, as without the setting.
                self.key_header = Some(header).filter(|name| *name != AUTHORIZATION);
            }
            ("contact-pages", "array") => self.contact_pages = ContactPages::Array,
            ("contact-pages", "zero-based") => self.contact_pages = ContactPages::ZeroBased,
            // The others are fields of the response.
            ("test-status-field", field) if !["", "durationMs", "error"].contains(&field) => {
                self.test_status_field = Some(field.to_owned());
            }
            _ => return Err(invalid()),
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
            "unknown-fields=refused",
            "b15=refused",
        ] {
            compatibility
                .set(setting)
                .unwrap_or_else(|error| panic!("{setting}: {error}"));
        }
        assert!(compatibility.refuses_unknown_fields);
        for (number, ..) in SETTINGS {
            let error = compatibility
                .set(&format!("{number}=a b"))
                .map_err(|error| error.to_string());
            assert!(
                !error.is_err_and(|error| error.starts_with("unknown")),
                "{number}"
            );
        }
        compatibility.set("e21=code").expect("a valid setting");
        assert_eq!(
            compatibility.key_header.as_ref().map(HeaderName::as_str),
            Some("x-api-key")
        );
        assert_eq!(compatibility.test_status_field.as_deref(), Some("code"));
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
        assert_eq!(compatibility.test_status_field, None);
    }
}
