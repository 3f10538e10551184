//! Parses error response bodies, in any of the common formats.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::kind::InvalidInput;
use crate::decode::parse_value;
use crate::scope::Scope;

/// A problem that the service reported about one field of the request.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldProblem {
    /// The field's name, as given by the service.
    pub field: String,
    /// The service's message. It may quote the field's value.
    pub message: String,
}

impl FieldProblem {
    /// Creates a problem, for example for a test.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// The field's name for `Display` of the error, if it looks like one. A service may put private
    /// content into it, which must not reach logs.
    pub(crate) fn shown(&self) -> Option<&str> {
        let is_part = |b: u8| {
            b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'[' | b']' | b'/')
        };
        let name = self.field.as_str();
        (!name.is_empty() && name.len() <= 64 && name.bytes().all(is_part)).then_some(name)
    }
}

impl From<&InvalidInput> for FieldProblem {
    fn from(invalid: &InvalidInput) -> Self {
        Self { field: invalid.field.to_string(), message: invalid.problem.to_string() }
    }
}

/// Formats as the field and the message, which may quote the field's value: show it to the
/// user, but keep it out of logs.
impl std::fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Omits the message, which may quote the field's value.
impl std::fmt::Debug for FieldProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FieldProblem").field("field", &self.field).finish_non_exhaustive()
    }
}

#[derive(Clone, Default)]
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

impl ErrorReport {
    pub(crate) fn read(body: &Bytes) -> Self {
        match parse_value(body) {
            Ok(Value::Object(object)) => Self::from_object(&object),
            Ok(Value::String(text)) => Self::from_text(&text),
            Ok(Value::Array(items)) if items.iter().any(Value::is_object) => {
                Self::from_object(&[("errors".to_owned(), items.into())].into_iter().collect())
            }
            _ => Self::from_text(&String::from_utf8_lossy(body)),
        }
    }

    /// Tries, in this order: `{error:{code,message}}`, `{error:"…"}`, `{errors:[…]}`,
    /// `{code,message}`, `{message}`, problem details (RFC 9457), `{detail:[…]}`.
    pub(crate) fn from_object(object: &Map<String, Value>) -> Self {
        let mut report = Self::default();
        match object.get("error") {
            Some(Value::Object(error)) => {
                report.code =
                    first_text(error, &CODES).or_else(|| first_text(error, &["type", "name"]));
                report.message = first_text(error, &MESSAGES);
                report.read_details(error);
            }
            Some(Value::String(error)) if !error.is_empty() => {
                // In `{"error": "invalid_scope", "error_description": "…"}` the error is
                // the code.
                report.code = first_text(object, &CODES);
                let described = first_text(object, &MESSAGES[..MESSAGES.len() - 1]);
                match described.or_else(|| joined(object.get("message"))) {
                    Some(message) => {
                        report.code.get_or_insert_with(|| error.clone());
                        report.message = Some(message);
                    }
                    None => report.message = Some(error.clone()),
                }
            }
            _ => {
                report.code = first_text(object, &CODES).or_else(|| {
                    // The last segment of a problem's type URI serves as the code.
                    let kind = first_text(object, &["type"])?;
                    let code = kind.rsplit(['/', ':', '#']).next().unwrap_or_default();
                    (!code.is_empty() && code != "blank").then(|| code.to_owned())
                });
                report.message = first_text(object, &MESSAGES);
            }
        }
        report.read_details(object);
        for name in ["errors", "error", "detail", "message"] {
            report.read_items(object.get(name));
        }
        let nested = object.get("error").and_then(|error| error.get("details"));
        report.detect_scope_mention(nested.or_else(|| object.get("details")));
        report
    }

    /// Takes the code and the message of a list of errors, if there are none yet: of JSON:API
    /// (`code`, `title`, `detail`), of web frameworks (`msg`), or plain texts.
    fn read_items(&mut self, items: Option<&Value>) {
        let Some(Value::Array(items)) = items else { return };
        if let Some(first) = items.iter().find_map(Value::as_object) {
            self.code = self.code.take().or_else(|| first_text(first, &CODES));
        }
        if self.message.is_none() {
            let texts = items.iter().filter_map(|item| match item {
                Value::String(text) => Some(text.clone()),
                Value::Object(item) => first_text(item, &MESSAGES),
                _ => None,
            });
            let texts: Vec<String> = texts.collect();
            self.message = (!texts.is_empty()).then(|| texts.join("; "));
        }
    }

    fn from_text(text: &str) -> Self {
        let text = text.trim();
        let mut report = Self::default();
        if !text.is_empty() && !text.starts_with('<') {
            report.message = Some(text.to_owned());
        }
        report.detect_scope_mention(None);
        report
    }

    fn read_details(&mut self, object: &Map<String, Value>) {
        let details = object.get("details");
        for holder in [Some(object), details.and_then(Value::as_object)].into_iter().flatten() {
            for key in ["required_scope", "requiredScope", "required_scopes", "scope", "scopes"] {
                let Some(value) = holder.get(key) else { continue };
                let text = match value {
                    Value::Array(items) => items.first().and_then(Value::as_str),
                    other => other.as_str(),
                };
                let named = text.and_then(|text| text.parse().ok());
                self.about_scope |= named.is_some() || key.starts_with("required");
                self.named_scope = self.named_scope.or(named);
            }
            for key in FIELD_LISTS {
                match holder.get(key) {
                    Some(Value::Array(items)) => self.add_fields(items),
                    // `detail` may also be an object of something else.
                    Some(Value::Object(items)) if matches!(key, "fields" | "errors") => {
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
            self.add_fields(items);
        }
    }

    fn add_fields(&mut self, items: &[Value]) {
        for problem in items.iter().filter_map(field) {
            if !self.fields.contains(&problem) {
                self.fields.push(problem);
            }
        }
    }

    /// A 403 is about a scope if its code, message or details speak of a scope or a permission.
    fn detect_scope_mention(&mut self, details: Option<&Value>) {
        let details = details.map(Value::to_string);
        let texts = [self.code.as_deref(), self.message.as_deref(), details.as_deref()];
        self.about_scope |= texts.into_iter().flatten().any(|text| {
            let text = text.to_ascii_lowercase();
            let names_scope =
                |scope: &Scope| scope.as_str().contains(':') && text.contains(scope.as_str());
            ["scope", "permission"].iter().any(|word| text.contains(word))
                || Scope::ALL.iter().any(names_scope)
        });
    }
}

/// Fields that hold a code.
const CODES: [&str; 4] = ["code", "errorCode", "error_code", "errorType"];

/// Fields that hold a message, the most specific one first; `error`, which may also hold a
/// code, is the last one.
const MESSAGES: [&str; 11] = [
    "message",
    "error_description",
    "detail",
    "errorMessage",
    "error_message",
    "msg",
    "Message",
    "description",
    "reason",
    "title",
    "error",
];

/// Fields that hold problems of individual fields.
const FIELD_LISTS: [&str; 7] =
    ["fields", "errors", "detail", "violations", "issues", "invalid_params", "invalid-params"];

/// Whether the body of a response with a success status reports a failure: `{"error": …}`,
/// `{"success": false}`, `{"ok": false}` or `{"status": "error"}`.
pub(crate) fn reports_failure(object: &Map<String, Value>) -> bool {
    let is_set = |name: &str| match object.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(_) => true,
    };
    let is_false = |name: &str| object.get(name) == Some(&Value::Bool(false));
    let status = object.get("status").and_then(Value::as_str);
    is_set("error")
        || is_set("errors")
        || is_false("success")
        || is_false("ok")
        || status.is_some_and(|status| matches!(status, "error" | "fail"))
}

fn field(item: &Value) -> Option<FieldProblem> {
    let object = item.as_object()?;
    let message = first_text(object, &MESSAGES).unwrap_or_default();
    let named = first_text(
        object,
        &["field", "path", "name", "param", "pointer", "property", "propertyPath", "location"],
    );
    let source = || {
        let source = object.get("source")?.as_object()?;
        let pointer = first_text(source, &["pointer", "parameter"])?;
        let pointer = pointer.trim_start_matches('/');
        let pointer = pointer.strip_prefix("data/").unwrap_or(pointer);
        Some(pointer.strip_prefix("attributes/").unwrap_or(pointer).replace('/', "."))
    };
    let path = || {
        let path = ["loc", "path"].iter().find_map(|name| object.get(*name)?.as_array())?;
        Some(joined_path(path)).filter(|path| !path.is_empty())
    };
    let field = named.or_else(source).or_else(path)?;
    Some(FieldProblem { field, message })
}

/// A path such as `["body", "to", 0]` as `to[0]`.
fn joined_path(path: &[Value]) -> String {
    let mut text = String::new();
    for (index, part) in path.iter().enumerate() {
        match part {
            Value::String(part) if index == 0 && part == "body" && path.len() > 1 => {}
            Value::String(part) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(part);
            }
            Value::Number(index) => text.push_str(&format!("[{index}]")),
            _ => {}
        }
    }
    text
}

/// The texts of an array as one.
fn joined(value: Option<&Value>) -> Option<String> {
    let texts: Vec<&str> = value?.as_array()?.iter().filter_map(Value::as_str).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

fn message_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(message_text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The first of these fields with a string or number value.
fn first_text(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match object.get(*key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

#[cfg(test)]
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
        assert_eq!(
            read(r#"{"errors":[{"status":"422","code":"a","title":"t","detail":"b"}]}"#),
            pair("a", "b")
        );
        assert_eq!(read(r#"{"errors":["b","c"]}"#), pair("", "b; c"));
        assert_eq!(read(r#"{"detail":[{"loc":["body","to",0],"msg":"b"}]}"#), pair("", "b"));
        assert_eq!(read(r#"{"detail":"b"}"#), pair("", "b"));
        assert_eq!(
            read(r#"{"statusCode":400,"error":"a","message":["b","c"]}"#),
            pair("a", "b; c")
        );
        assert_eq!(read(r#"{"Message":"b"}"#), pair("", "b"));
        assert_eq!(read(r#"{"status":"error","message":"b"}"#), pair("", "b"));
        assert_eq!(read(r#"[{"code":"a","message":"b"}]"#), pair("a", "b"));
    }

    #[test]
    fn detects_the_required_scope() {
        let read = |body: &'static str| ErrorReport::read(&body.into());
        let report = read(
            r#"{"error":{"code":"no","message":"no","details":{"required_scope":"emails:send"}}}"#,
        );
        assert!(report.about_scope);
        assert_eq!(report.named_scope, Some(Scope::EmailsSend));
        for about in [
            "missing permission",
            r#"{"error":{"code":"permission_denied","message":"no"}}"#,
            r#"{"message":"the key of this account lacks emails:send"}"#,
            r#"{"message":"scope missing"}"#,
            r#"{"message":"You do not have permission to send from this domain."}"#,
            r#"{"message":"Your account has no permission for this"}"#,
            r#"{"error":{"code":"forbidden","message":"no","details":{"reason":"permission"}}}"#,
        ] {
            assert!(read(about).about_scope, "{about}");
        }
        for other in [
            r#"{"error":{"code":"account_suspended","message":"Your account is suspended."}}"#,
            r#"{"error":{"code":"domain_not_verified","message":"shop.example"}}"#,
            r#"{"message":"Forbidden","scope":"account"}"#,
            "",
        ] {
            assert!(!read(other).about_scope, "{other}");
        }
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
            r#"{"detail":[{"loc":["body","to"],"msg":"too many","type":"value_error"}]}"#,
            r#"{"errors":[{"source":{"pointer":"/data/attributes/to"},"detail":"too many"}]}"#,
            r#"{"error":{"message":"v","errors":[{"location":"to","message":"too many"}]}}"#,
            r#"{"title":"v","violations":[{"propertyPath":"to","title":"too many"}]}"#,
            r#"{"title":"v","invalid-params":[{"name":"to","reason":"too many"}]}"#,
            r#"{"message":"v","issues":[{"path":["to"],"message":"too many"}]}"#,
            r#"[{"field":"to","message":"too many"}]"#,
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
