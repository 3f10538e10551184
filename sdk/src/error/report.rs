//! Parses error response bodies, in any of the common formats
//! (`docs/undocumented/both-services.md#error-format`).

#[cfg(feature = "client")]
use bytes::Bytes;
#[cfg(feature = "client")]
use serde_json::{Map, Value};

#[cfg(feature = "client")]
use crate::InvalidInput;
use crate::Scope;
#[cfg(feature = "client")]
use crate::decode::parse_value;

/// A problem that the service reported about one field of the request.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldProblem {
    /// The field's name, as given by the service.
    pub field: String,
    /// The service's message. It may quote the field's value.
    pub message: String,
}

#[cfg(feature = "client")]
impl From<&InvalidInput> for FieldProblem {
    fn from(invalid: &InvalidInput) -> Self {
        Self { field: invalid.field.to_string(), message: invalid.problem.to_string() }
    }
}

/// Omits the message, which may quote the field's value.
impl std::fmt::Debug for FieldProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FieldProblem").field("field", &self.field).finish_non_exhaustive()
    }
}

#[derive(Default)]
pub(crate) struct ErrorReport {
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) fields: Vec<FieldProblem>,
    /// A scope that the response names in a field about scopes.
    pub(crate) named_scope: Option<Scope>,
    /// Whether the code, message or details mention a scope or permission.
    pub(crate) about_scope: bool,
}

impl ErrorReport {
    /// The code for `Display` and `Debug`, if it looks like an identifier. A service may
    /// put private content into this field, which must not reach logs.
    pub(crate) fn shown_code(&self) -> Option<&str> {
        self.code.as_deref().filter(|code| {
            code.len() <= 64
                && code
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        })
    }
}

#[cfg(feature = "client")]
impl ErrorReport {
    pub(crate) fn read(body: &Bytes) -> Self {
        match parse_value(body) {
            Ok(Value::Object(object)) => Self::from_object(&object),
            Ok(Value::String(text)) => Self::from_text(&text),
            _ => Self::from_text(&String::from_utf8_lossy(body)),
        }
    }

    /// Tries, in this order: `{error:{code,message}}`, `{error:"…"}`, `{code,message}`,
    /// `{message}`, problem details (RFC 9457).
    pub(crate) fn from_object(object: &Map<String, Value>) -> Self {
        let mut report = Self::default();
        match object.get("error") {
            Some(Value::Object(error)) => {
                report.code = first_text(error, &["code", "type", "name"]);
                report.message = first_text(error, &["message", "detail", "title"]);
                report.read_details(error);
            }
            Some(Value::String(error)) => {
                // In `{"error": "invalid_scope", "error_description": "…"}` the error is
                // the code.
                let described = first_text(object, &["message", "error_description", "detail"]);
                match described {
                    Some(message) => {
                        report.code = first_text(object, &["code"]).or_else(|| Some(error.clone()));
                        report.message = Some(message);
                    }
                    None => {
                        report.code = first_text(object, &["code"]);
                        report.message = Some(error.clone());
                    }
                }
            }
            _ => {
                report.code = first_text(object, &["code"]).or_else(|| {
                    // The last segment of a problem's type URI serves as the code.
                    let kind = first_text(object, &["type"])?;
                    let code = kind.rsplit(['/', ':', '#']).next().unwrap_or_default();
                    (!code.is_empty() && code != "blank").then(|| code.to_owned())
                });
                report.message = first_text(object, &["message", "detail", "title"]);
            }
        }
        report.read_details(object);
        report.detect_scope_mention();
        report
    }

    fn from_text(text: &str) -> Self {
        let text = text.trim();
        let mut report = Self::default();
        if !text.is_empty() && !text.starts_with('<') {
            report.message = Some(text.to_owned());
        }
        report.detect_scope_mention();
        report
    }

    fn read_details(&mut self, object: &Map<String, Value>) {
        let details = object.get("details");
        self.about_scope |= details.is_some_and(|details| mentions_scope(&details.to_string()));
        for holder in [Some(object), details.and_then(Value::as_object)].into_iter().flatten() {
            for key in ["required_scope", "requiredScope", "required_scopes", "scope", "scopes"] {
                let Some(value) = holder.get(key) else { continue };
                self.about_scope = true;
                let text = match value {
                    Value::Array(items) => items.first().and_then(Value::as_str),
                    other => other.as_str(),
                };
                self.named_scope = self.named_scope.or(text.and_then(|text| text.parse().ok()));
            }
            for key in ["fields", "errors"] {
                match holder.get(key) {
                    Some(Value::Array(items)) => self.fields.extend(items.iter().filter_map(field)),
                    Some(Value::Object(items)) => {
                        self.fields.extend(items.iter().map(|(name, value)| FieldProblem {
                            field: name.clone(),
                            message: message_text(value),
                        }));
                    }
                    _ => {}
                }
            }
        }
        if let Some(Value::Array(items)) = details {
            self.fields.extend(items.iter().filter_map(field));
        }
    }

    fn detect_scope_mention(&mut self) {
        let texts = [&self.code, &self.message];
        self.about_scope |= texts.into_iter().flatten().any(|text| mentions_scope(text));
    }
}

#[cfg(feature = "client")]
fn mentions_scope(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("scope") || text.contains("permission")
}

#[cfg(feature = "client")]
fn field(item: &Value) -> Option<FieldProblem> {
    let object = item.as_object()?;
    let field = first_text(object, &["field", "path", "name", "param", "pointer"])?;
    let message = first_text(object, &["message", "detail", "error"]).unwrap_or_default();
    Some(FieldProblem { field, message })
}

#[cfg(feature = "client")]
fn message_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(message_text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The first of these fields with a string or number value.
#[cfg(feature = "client")]
fn first_text(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match object.get(*key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

#[cfg(all(test, feature = "client"))]
mod tests {
    use super::*;

    fn read(body: &str) -> (Option<String>, Option<String>) {
        let report = ErrorReport::read(&Bytes::copy_from_slice(body.as_bytes()));
        (report.code, report.message)
    }

    fn pair(code: &str, message: &str) -> (Option<String>, Option<String>) {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        (text(code), text(message))
    }

    #[test]
    fn parses_every_common_error_format() {
        assert_eq!(read(r#"{"error":{"code":"a","message":"b"}}"#), pair("a", "b"));
        assert_eq!(read(r#"{"error":"b"}"#), pair("", "b"));
        assert_eq!(read(r#"{"error":"a","message":"b"}"#), pair("a", "b"));
        assert_eq!(read(r#"{"code":"a","message":"b"}"#), pair("a", "b"));
        assert_eq!(read(r#"{"code":7,"message":"b"}"#), pair("7", "b"));
        assert_eq!(read(r#"{"message":"b"}"#), pair("", "b"));
        assert_eq!(
            read(r#"{"type":"https://e.test/p/a","title":"t","detail":"b","status":422}"#),
            pair("a", "b")
        );
        assert_eq!(read(r#"{"type":"about:blank","title":"t"}"#), pair("", "t"));
        assert_eq!(read("plain words\n"), pair("", "plain words"));
        assert_eq!(read("\"b\""), pair("", "b"));
        assert_eq!(read("<html>no</html>"), pair("", ""));
        assert_eq!(read(""), pair("", ""));
        assert_eq!(read("[1]"), pair("", "[1]"));
    }

    #[test]
    fn detects_the_required_scope() {
        let read = |body: &'static str| ErrorReport::read(&body.into());
        let report = read(
            r#"{"error":{"code":"no","message":"no","details":{"required_scope":"emails:send"}}}"#,
        );
        assert!(report.about_scope);
        assert_eq!(report.named_scope, Some(Scope::EmailsSend));
        assert!(read("missing permission").about_scope);
        assert!(!read(r#"{"code":"domain_not_verified"}"#).about_scope);
    }

    #[test]
    fn collects_field_problems() {
        let fields =
            |body: &str| ErrorReport::read(&Bytes::copy_from_slice(body.as_bytes())).fields;
        let to = FieldProblem { field: "to".into(), message: "too many".into() };
        for body in [
            r#"{"error":{"code":"v","details":{"fields":[{"field":"to","message":"too many"}]}}}"#,
            r#"{"message":"v","errors":[{"path":"to","message":"too many"}]}"#,
            r#"{"message":"v","errors":{"to":["too many"]}}"#,
            r#"{"message":"v","details":[{"field":"to","message":"too many"}]}"#,
        ] {
            assert_eq!(fields(body), std::slice::from_ref(&to), "{body}");
        }
    }

    #[test]
    fn shows_only_codes_that_look_like_identifiers() {
        let report = |code: &str| ErrorReport { code: Some(code.into()), ..Default::default() };
        assert_eq!(report("not_found").shown_code(), Some("not_found"));
        assert_eq!(report("Dear Ada, hello").shown_code(), None);
    }
}
