//! Email templates: an undefined variable is an error
//! (`docs/undocumented/email-service.md#templates`).

use std::io;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value;

/// The part of an email that a template renders. Only `Html` escapes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Subject,
    Text,
    Html,
}

impl Part {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::Text => "text",
            Self::Html => "html",
        }
    }
}

/// Renders a template. A variable that is undefined or `null` is an error.
pub(crate) fn render(
    part: Part,
    template: &str,
    variables: &Value,
) -> Result<String, TemplateError> {
    let compiled = ENVIRONMENT
        .template_from_named_str(part.as_str(), template)
        .map_err(|error| TemplateError::from(&error))?;
    let mut output = Bounded(Vec::new());
    let variables = minijinja::Value::from(Serde(without_nulls(variables)));
    compiled
        .render_captured_to(variables, &mut output)
        .map_err(|error| TemplateError::from(&error))?;
    // Cannot fail: the engine writes `&str` pieces.
    String::from_utf8(output.0).map_err(|_| TemplateError::Failed { line: 1 })
}

/// Checks the syntax of a template without rendering it.
pub(crate) fn check(part: Part, template: &str) -> Result<(), TemplateError> {
    ENVIRONMENT
        .template_from_named_str(part.as_str(), template)
        .map(drop)
        .map_err(|error| TemplateError::from(&error))
}

/// Why a template cannot be rendered. Contains names of variables and line numbers, but
/// no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("the template variable {0} has no value")]
    MissingVariable(String),
    #[error("the template has a syntax error on line {line}")]
    Syntax { line: usize },
    #[error("the template exceeds a limit: {MAX_STEPS} steps or {MAX_OUTPUT} bytes of output")]
    LimitExceeded,
    #[error("the template cannot be rendered with these variables: error on line {line}")]
    Failed { line: usize },
}

impl From<&Error> for TemplateError {
    fn from(error: &Error) -> Self {
        let line = error.line().unwrap_or(1);
        match error.kind() {
            ErrorKind::OutOfFuel | ErrorKind::WriteFailure => Self::LimitExceeded,
            ErrorKind::SyntaxError
            | ErrorKind::UnknownFilter
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownFunction => Self::Syntax { line },
            _ => match undefined_name(error) {
                Some(name) => Self::MissingVariable(name),
                None => Self::Failed { line },
            },
        }
    }
}

/// Extracts the variable from a message of minijinja: `` `user.name` is undefined``.
fn undefined_name(error: &Error) -> Option<String> {
    let (before, _) = error.detail()?.split_once("` is undefined")?;
    let (_, name) = before.rsplit_once('`')?;
    Some(name.to_owned())
}

/// Maximum steps of the template engine. A newsletter with a table of a thousand rows
/// takes 20 000.
const MAX_STEPS: u64 = 200_000;
/// Maximum size of one rendered part, in bytes.
const MAX_OUTPUT: usize = 8 * 1024 * 1024;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    // Without debug mode, an error does not name the undefined variable.
    environment.set_debug(true);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|name| {
        if name == Part::Html.as_str() { AutoEscape::Html } else { AutoEscape::None }
    });
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_recursion_limit(50);
    // With `namespace`, a loop could double a string in every step.
    environment.remove_global("namespace");
    environment
});

/// Removes null values, which minijinja would print as `none`.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// A buffer that holds at most `MAX_OUTPUT` bytes.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn escapes_values_only_in_html() {
        let variables = json!({"name": "<Ada & \"Co\">", "n": 3, "list": [1, 2]});
        let render = |part, text| render(part, text, &variables).expect("renders");
        let template = "Hi {{ name }}: {{ n }}{% for x in list %}, {{ x }}{% endfor %}\n";
        assert_eq!(render(Part::Text, template), "Hi <Ada & \"Co\">: 3, 1, 2\n");
        assert_eq!(render(Part::Subject, template), "Hi <Ada & \"Co\">: 3, 1, 2\n");
        assert_eq!(render(Part::Html, template), "Hi &lt;Ada &amp; &quot;Co&quot;&gt;: 3, 1, 2\n");
        assert_eq!(render(Part::Html, "{{ name|upper }}"), "&lt;ADA &amp; &quot;CO&quot;&gt;");
    }

    #[test]
    fn names_the_variable_without_a_value() {
        let variables = json!({"user": {"name": "Ada", "mail": null}, "nothing": null, "list": [{"name": null}]});
        for (template, name) in [
            ("Hi {{ nobody }}", "nobody"),
            ("Hi {{ user.surname }}", "user.surname"),
            ("Hi {{ user.mail }}", "user.mail"),
            ("Hi {{ nothing }}", "nothing"),
            ("{% if premium %}x{% endif %}", "premium"),
            ("{% for x in items %}x{% endfor %}", "items"),
            ("{{ a.b.c }}", "a"),
            ("{{ name|upper }}", "name"),
            ("{% for x in list %}{{ x.name }}{% endfor %}", "x.name"),
        ] {
            let error = render(Part::Text, template, &variables).expect_err(template);
            assert_eq!(error, TemplateError::MissingVariable(name.to_owned()), "{template}");
        }
        let defaulted = "{{ nobody|default('you') }}{% if x is defined %}x{% endif %}";
        assert_eq!(render(Part::Text, defaulted, &variables), Ok("you".to_owned()));
        assert_eq!(render(Part::Text, "plain", &json!({})), Ok("plain".to_owned()));
    }

    #[test]
    fn errors_contain_line_numbers_but_no_values() {
        assert_eq!(check(Part::Html, "a\n{% if %}"), Err(TemplateError::Syntax { line: 2 }));
        assert_eq!(check(Part::Html, "{{ fine }}"), Ok(()));
        let error =
            render(Part::Text, "{{ x|nope }}", &json!({"x": 1})).expect_err("unknown filter");
        assert_eq!(error, TemplateError::Syntax { line: 1 });
        let error = render(Part::Text, "\n{{ secret + 1 }}", &json!({"secret": "s3cret"}));
        assert_eq!(error, Err(TemplateError::Failed { line: 2 }));
        let include = render(Part::Text, "{% include '/etc/passwd' %}", &json!({}));
        assert_eq!(include, Err(TemplateError::Syntax { line: 1 }));
    }

    #[test]
    fn limits_expensive_templates() {
        for template in [
            "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
            "{% for a in range(9999) %}{{ big }}{% endfor %}",
            "{% for a in [1] recursive %}{{ loop([1, 2]) }}{{ loop([1, 2]) }}{% endfor %}",
        ] {
            let big = json!({"big": "x".repeat(1_000_000)});
            let error = render(Part::Text, template, &big).expect_err(template);
            assert!(
                matches!(error, TemplateError::LimitExceeded | TemplateError::Failed { .. }),
                "{error}"
            );
        }
        // Exceeds only the limit on steps.
        let steps = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        assert_eq!(render(Part::Text, steps, &json!({})), Err(TemplateError::LimitExceeded));
    }
}
