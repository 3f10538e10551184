//! Compatibility settings (`--set NAME=VALUE`): where the services' reference is
//! silent, each one selects a choice other than the server's default, so that
//! clients can be tested against both. `docs/undocumented/README.md` lists them.

use http::HeaderName;
use serde::de::Error as _;
use serde::de::value::{Error, MapDeserializer};
use serde::{Deserialize, Deserializer};

/// The value of every compatibility setting. A setting cannot select the default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Compatibility {
    /// `docs/undocumented/README.md#create-status`
    pub(crate) create_status: CreateStatus,
    /// `docs/undocumented/README.md#list-shape`
    pub(crate) list_shape: Wrapping,
    /// `docs/undocumented/README.md#error-format`
    pub(crate) error_format: ErrorFormat,
    /// `docs/undocumented/README.md#idempotency`
    pub(crate) idempotency: Idempotency,
    /// `docs/undocumented/README.md#resource-shape`
    pub(crate) resource_shape: Wrapping,
    /// `docs/undocumented/services.md#extraction-error`
    pub(crate) extraction_error: ExtractionErrorType,
    /// `docs/undocumented/services.md#key-header`
    #[serde(deserialize_with = "header_name")]
    pub(crate) key_header: HeaderName,
    /// `docs/undocumented/services.md#contact-pages`
    pub(crate) contact_pages: ContactPages,
    /// `docs/undocumented/services.md#webhook-test`
    #[serde(deserialize_with = "field_name")]
    pub(crate) test_status_field: String,
    /// `docs/undocumented/README.md#unknown-request-fields`
    pub(crate) unknown_fields: UnknownFields,
    /// The settings so far, by name.
    #[serde(skip)]
    given: Vec<(String, String)>,
}

/// The status of a successful create operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum CreateStatus {
    /// 201, and 202 for an accepted email.
    #[serde(skip)]
    Created,
    /// 200 for all.
    #[serde(rename = "200")]
    Ok,
}

/// Whether a resource or a list is wrapped in `{"data": …}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wrapping {
    #[serde(skip)]
    Bare,
    Wrapped,
}

/// The format of an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ErrorFormat {
    /// `{error: {code, message, details}}`
    #[serde(skip)]
    Nested,
    /// Problem details (RFC 9457).
    Problem,
    /// `{code, message, details}`
    Flat,
    /// Plain text.
    Text,
}

/// Whether the server honors `Idempotency-Key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Idempotency {
    #[serde(skip)]
    Honored,
    Ignored,
}

/// The type of `data.error` in `extraction.failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExtractionErrorType {
    #[serde(skip)]
    Object,
    String,
}

/// The shape and the numbering of contact pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ContactPages {
    /// An object with the page and its metadata; the first page is 1.
    #[serde(skip)]
    Object,
    /// A bare array; the first page is 1.
    Array,
    /// An object; the first page is 0.
    ZeroBased,
}

/// What happens to a request with fields that are not documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UnknownFields {
    #[serde(skip)]
    Ignored,
    Refused,
}

/// The numbers that the settings have as open points.
const NUMBERS: [(&str, &str); 10] = [
    ("b1", "create-status"),
    ("b2", "list-shape"),
    ("b4", "error-format"),
    ("b9", "idempotency"),
    ("b14", "resource-shape"),
    ("b15", "unknown-fields"),
    ("x3", "extraction-error"),
    ("e1", "key-header"),
    ("e16", "contact-pages"),
    ("e21", "test-status-field"),
];

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
            unknown_fields: UnknownFields::Ignored,
            given: Vec::new(),
        }
    }
}

fn header_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HeaderName, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(|_| D::Error::custom("expected the name of a header"))
}

fn field_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match String::deserialize(deserializer)? {
        // The other fields of the response.
        name if ["", "durationMs", "error"].contains(&name.as_str()) => Err(D::Error::custom(
            "expected the name of a field that the response does not already have",
        )),
        name => Ok(name),
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
        let mut given = self.given.clone();
        let name = name.to_ascii_lowercase();
        let numbered = NUMBERS.iter().find(|(number, _)| *number == name);
        let name = numbered.map_or(name, |(_, name)| (*name).to_owned());
        given.retain(|(known, _)| *known != name);
        given.push((name.clone(), value.to_owned()));
        let all = given.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let read = Self::deserialize(MapDeserializer::<_, Error>::new(all));
        *self = read.map_err(|error| {
            let text = error.to_string();
            let valid = text.split_once("expected ").map_or("", |(_, valid)| valid);
            let valid = valid.trim_start_matches("one of ").replace('`', "").replace(" or ", ", ");
            InvalidSetting(match text.starts_with("unknown field") {
                true => format!("unknown setting `{name}`; known settings: {valid}"),
                false => format!("invalid value `{value}` for {name}; valid values: {valid}"),
            })
        })?;
        self.given = given;
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
            "B15=refused",
        ] {
            compatibility.set(setting).unwrap_or_else(|error| panic!("{setting}: {error}"));
        }
        assert_eq!(compatibility.unknown_fields, UnknownFields::Refused);
        for (number, _) in NUMBERS {
            let error =
                compatibility.set(&format!("{number}=a b")).map_err(|error| error.to_string());
            assert!(!error.is_err_and(|error| error.starts_with("unknown")), "{number}");
        }
        compatibility.set("e21=code").expect("a valid setting");
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
