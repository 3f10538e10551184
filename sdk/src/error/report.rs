//! `ErrorReport`: the code, the message, the invalid fields and the scope that the body of an error
//! response names, in any common format; `ErrorReport::from_object` lists them. A body in no known
//! format gives a report with its text, or an empty one, but no error. Codes and names of fields
//! reach `Display` only if they look like identifiers: a service may put private content there.
//! `error/response.rs` finds the kind of the error.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::kind::InvalidInput;
use crate::decode::parse_value;
use crate::fields::{find, letters, plain};
use crate::names::debug_fields;
use crate::scope::Scope;
use crate::words::WORDS;

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
        Self {
            field: field.into(),
            message: message.into(),
        }
    }

    /// The field's name for `Display` of the error.
    pub(crate) fn shown(&self) -> Option<&str> {
        Some(self.field.as_str()).filter(|name| is_identifier(name, b"_-.[]/"))
    }
}

impl From<&InvalidInput> for FieldProblem {
    fn from(invalid: &InvalidInput) -> Self {
        Self {
            field: invalid.field.to_string(),
            message: invalid.problem.to_string(),
        }
    }
}

/// Formats as the field and the message, which may quote the field's value: show it to the
/// user, but keep it out of logs.
impl std::fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

debug_fields!(FieldProblem: field);

/// How many characters of a text of the service are kept.
const MAX_SHOWN: usize = 4000;

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
    /// The code for `Display` and `Debug`.
    pub(crate) fn shown_code(&self) -> Option<&str> {
        self.code
            .as_deref()
            .filter(|code| is_identifier(code, b"_-."))
    }

    pub(crate) fn read(body: &Bytes) -> Self {
        match parse_value(body) {
            Ok(Value::Object(object)) => Self::from_object(&object),
            Ok(Value::String(text)) => Self::from_text(&text),
            Ok(Value::Array(items)) if items.iter().any(Value::is_object) => {
                Self::from_object(&Map::from_iter([("errors".to_owned(), items.into())]))
            }
            _ => Self::from_text(&String::from_utf8_lossy(body)),
        }
    }

    /// Makes the report fit to be shown: without the key of the request, which a service may repeat, and
    /// with the beginning of long texts only.
    pub(crate) fn clean(&mut self, key: &str) {
        let texts = self.code.iter_mut().chain(&mut self.message);
        let fields = self.fields.iter_mut();
        for text in texts.chain(fields.flat_map(|it| [&mut it.field, &mut it.message])) {
            // A shorter key could be a part of any word.
            if key.len() >= 8 && text.contains(key) {
                *text = text.replace(key, "***");
            }
            if let Some((end, _)) = text.char_indices().nth(MAX_SHOWN) {
                text.truncate(end);
                text.push('…');
            }
        }
    }

    /// Reads `{error:{code,message}}`, `{error:"…"}`, `{code,message}`, `{message}`, problem details
    /// (RFC 9457), and lists of errors: code and message are those of the innermost object.
    pub(crate) fn from_object(object: &Map<String, Value>) -> Self {
        let inner = object.get("error").and_then(Value::as_object);
        let first = ["errors", "error", "detail"].iter().find_map(|name| {
            object
                .get(*name)?
                .as_array()?
                .iter()
                .find_map(Value::as_object)
        });
        let reported = || [inner, Some(object), first].into_iter().flatten();
        let mut report = Self {
            code: reported().find_map(|each| first_text(each, &WORDS.error_codes)),
            message: inner.and_then(|inner| first_text(inner, &WORDS.error_messages)),
            ..Self::default()
        };
        let (error, messages) = WORDS.error_messages.split_last().unwrap_or((&"error", &[]));
        report.message = report.message.or_else(|| first_text(object, messages));
        // In `{"error": "invalid_scope", "error_description": "…"}` the error is the code.
        let error = first_text(object, &[error]).filter(|_| inner.is_none());
        match report.message {
            None => report.message = error,
            Some(_) => report.code = report.code.or(error),
        }
        // The last segment of a problem's type URI serves as the code.
        report.code = report.code.or_else(|| {
            let kind = reported().find_map(|each| first_text(each, &["type"]))?;
            let code = kind.rsplit(['/', ':', '#']).next().unwrap_or_default();
            (!code.is_empty() && code != "blank").then(|| code.to_owned())
        });
        for holder in [inner, Some(object)].into_iter().flatten() {
            report.read_details(holder);
            match holder.get("details") {
                Some(Value::Object(details)) => report.read_details(details),
                Some(Value::Array(items)) => report.add_fields(items),
                _ => {}
            }
        }

        let details = inner
            .unwrap_or(object)
            .get("details")
            .or_else(|| object.get("details"));
        report.detect_scope_mention(details);
        report
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

    /// Reads the scope and the fields that an object names.
    fn read_details(&mut self, holder: &Map<String, Value>) {
        for key in [
            "required_scope",
            "requiredScope",
            "required_scopes",
            "scope",
            "scopes",
        ] {
            let Some(value) = holder.get(key) else {
                continue;
            };
            let text = value
                .as_str()
                .or_else(|| value.as_array()?.first()?.as_str());
            let named = text.and_then(|text| text.parse().ok());
            self.about_scope |= named.is_some() || key.starts_with("required");
            self.named_scope = self.named_scope.or(named);
        }
        for &key in &WORDS.error_fields {
            match holder.get(key) {
                Some(Value::Array(items)) => self.add_fields(items),
                // `detail` may also be an object of something else.
                Some(Value::Object(items)) if matches!(key, "fields" | "errors") => {
                    self.fields.extend(items.iter().map(|(field, value)| {
                        let message = text(value).unwrap_or_else(|| value.to_string());
                        FieldProblem {
                            field: field.clone(),
                            message,
                        }
                    }));
                }
                _ => {}
            }
        }
    }

    fn add_fields(&mut self, items: &[Value]) {
        for item in items.iter().filter_map(Value::as_object) {
            let field = WORDS
                .field_names
                .iter()
                .find_map(|name| field_name(item.get(*name)?));
            let message = || first_text(item, &WORDS.error_messages).unwrap_or_default();
            let problem = field.map(|field| FieldProblem {
                field,
                message: message(),
            });
            self.fields
                .extend(problem.filter(|problem| !self.fields.contains(problem)));
        }
    }

    /// Whether it says that the sender of an email, or its domain, may not be used.
    pub(super) fn is_about_sender(&self) -> bool {
        self.says(&WORDS.senders) && self.says(&WORDS.unverified)
    }

    /// Whether the code or the message has one of these words, whose letters alone count.
    pub(super) fn says(&self, words: &[&str]) -> bool {
        let texts = [&self.code, &self.message].into_iter().flatten();
        texts
            .map(|text| letters(text))
            .any(|text| words.iter().any(|word| text.contains(word)))
    }

    /// A 403 is about a scope if its code, message or details speak of a scope or a permission.
    fn detect_scope_mention(&mut self, details: Option<&Value>) {
        let details = details.map(Value::to_string);
        let texts = match self.code.as_deref() {
            // Its message may speak of a permission to send from the domain.
            Some("domain_not_verified") => [None; 3],
            code => [code, self.message.as_deref(), details.as_deref()],
        };
        self.about_scope |= texts.into_iter().flatten().any(|text| {
            let text = text.to_ascii_lowercase();
            let names_scope =
                |scope: &Scope| scope.as_str().contains(':') && text.contains(scope.as_str());
            let is_restricted_key = text.contains("restricted") && text.contains("key");
            is_restricted_key
                || ["scope", "permission"]
                    .iter()
                    .any(|word| text.contains(word))
                || Scope::ALL.iter().any(names_scope)
        });
    }
}

/// Whether a text looks like an identifier. A service may put private content into its place, which
/// must not reach logs.
fn is_identifier(text: &str, signs: &[u8]) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || signs.contains(&b))
}

/// The name of a field: a text, a path such as `["body", "to", 0]`, or a JSON:API source.
fn field_name(value: &Value) -> Option<String> {
    match value {
        Value::Array(path) => {
            let skipped = usize::from(path.len() > 1 && path[0] == "body");
            let mut name = String::new();
            for part in &path[skipped..] {
                match part {
                    Value::String(part) if name.is_empty() => name.push_str(part),
                    Value::String(part) => name.extend([".", part]),
                    Value::Number(index) => name.push_str(&format!("[{index}]")),
                    _ => {}
                }
            }
            Some(name).filter(|name| !name.is_empty())
        }
        Value::Object(source) => {
            let pointer = first_text(source, &["pointer", "parameter"])?;
            let pointer = pointer.trim_start_matches('/');
            let pointer = pointer.strip_prefix("data/").unwrap_or(pointer);
            Some(
                pointer
                    .strip_prefix("attributes/")
                    .unwrap_or(pointer)
                    .replace('/', "."),
            )
        }
        other => text(other),
    }
}

/// The first of these fields, in any case, that says something.
fn first_text(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| {
        let (_, value) = find(object, &[&plain(key)])?;
        text(value)
    })
}

/// A text or a number; the texts of a list, or the messages of its objects, as one.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => {
            let texts = items.iter().filter_map(|item| match item {
                Value::Object(item) => first_text(item, &WORDS.error_messages),
                other => text(other),
            });
            let texts: Vec<String> = texts.collect();
            (!texts.is_empty()).then(|| texts.join("; "))
        }
        _ => None,
    }
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
        assert_eq!(
            read(r#"{"error":{"code":"a","message":"b"}}"#),
            pair("a", "b")
        );
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
        assert_eq!(
            read(r#"{"detail":[{"loc":["body","to",0],"msg":"b"}]}"#),
            pair("", "b")
        );
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
        let to = FieldProblem {
            field: "to".into(),
            message: "too many".into(),
        };
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
        let report = |code: &str| ErrorReport {
            code: Some(code.into()),
            ..Default::default()
        };
        assert_eq!(report("not_found").shown_code(), Some("not_found"));
        assert_eq!(report("Dear Ada, hello").shown_code(), None);
    }
}
