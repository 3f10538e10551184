//! Email templates: an undefined variable is an error
//! (`docs/undocumented/services.md#templates`).

use std::sync::LazyLock;

use bytes::{BufMut as _, BytesMut};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use regex_lite::Regex;
use serde_json::Value;

use crate::model::error::ApiError;
use crate::runtime::limit::Permit;

/// Renders the template of a part of an email: `subject`, `text` or `html`, which alone escapes values. A
/// variable that is undefined or `null` is an error.
pub(crate) fn render(
    part: &str,
    template: &str,
    variables: &Value,
) -> Result<String, TemplateError> {
    let joins = check_tags(template)?;
    let size = text_size(variables);
    if size > MAX_VARIABLES {
        return Err(TemplateError::VariablesTooLarge);
    }
    let mut environment = ENVIRONMENT.clone();
    // A step can read all variables, and each `~` of its tag can copy them.
    let read = (if template.contains("range") {
        MAX_VARIABLES
    } else {
        size
    }) * (1 + joins);
    environment.set_fuel(Some(MAX_STEPS.min(MAX_BYTES_READ / read as u64)));
    let compiled = environment
        .template_from_named_str(part, template)
        .map_err(|error| TemplateError::from(&error))?;
    let mut output = BytesMut::new().limit(MAX_OUTPUT).writer();
    let variables = minijinja::Value::from(Serde(without_nulls(variables)));
    compiled
        .render_captured_to(variables, &mut output)
        .map_err(|error| TemplateError::from(&error))?;
    let output = output.into_inner().into_inner();
    // The engine writes `&str` pieces.
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// Renders a part of an email, if the template has it. Returns 422 if that is not possible.
pub(crate) fn render_part(
    part: &str,
    template: Option<&str>,
    variables: &Value,
) -> Result<Option<String>, ApiError> {
    let rendered = template.map(|template| render(part, template, variables));
    rendered.transpose().map_err(|error| {
        let field = match error {
            TemplateError::Unknown { .. } => "templateId",
            _ => "variables",
        };
        ApiError::field(field, error.to_string())
    })
}

/// Checks the syntax of a template without rendering it.
pub(crate) fn check(part: &str, template: &str) -> Result<(), TemplateError> {
    check_tags(template)?;
    ENVIRONMENT
        .template_from_named_str(part, template)
        .map(drop)
        .map_err(|error| TemplateError::from(&error))
}

/// Runs work on templates on a thread with a large stack, because nested expressions take stack.
/// The thread keeps the permit until the work has ended, even if the client has disconnected.
pub(crate) async fn run<T: Send + 'static>(
    permit: Permit,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("svc-template".to_owned())
        .stack_size(STACK);
    let spawned = thread.spawn(move || {
        let _permit = permit;
        // The receiver is gone if the client disconnected.
        let _ = sender.send(work());
    });
    spawned.map_err(ApiError::internal)?;
    receiver
        .await
        .unwrap_or_else(|_| Err(ApiError::internal("the rendering of a template panicked")))
}

/// Stack of the threads that render, in bytes. It is reserved, not used, until it is needed.
const STACK: usize = 64 << 20;

/// Why a template cannot be rendered. Contains names of variables and line numbers, but
/// no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("the template variable {0} has no value")]
    MissingVariable(String),
    #[error("the template has a syntax error, or braces within a tag, on line {line}")]
    Syntax { line: usize },
    #[error("the template uses an unknown filter, test or function on line {line}: {name}")]
    Unknown { line: usize, name: String },
    #[error("the template has more than {MAX_SIZE} bytes, or more than {MAX_ELIF} elif")]
    TooLarge,
    #[error(
        "the template is not supported on line {line}: a tag has at most {MAX_TAG} bytes and \
         {MAX_JOINS} times ~, + or -, and no *; the statements are if, raw, and for with a variable"
    )]
    Refused { line: usize },
    #[error("the variables have more than {MAX_VARIABLES} bytes")]
    VariablesTooLarge,
    #[error(
        "the template exceeds a limit: {MAX_STEPS} steps, fewer with large variables, or \
         {MAX_OUTPUT} bytes of output"
    )]
    LimitExceeded,
    #[error("the template cannot be rendered with these variables: error on line {line}")]
    Failed { line: usize },
}

impl From<&Error> for TemplateError {
    fn from(error: &Error) -> Self {
        let line = error.line().unwrap_or(1);
        match error.kind() {
            ErrorKind::OutOfFuel | ErrorKind::WriteFailure => Self::LimitExceeded,
            ErrorKind::SyntaxError => Self::Syntax { line },
            ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction => {
                Self::Unknown {
                    line,
                    name: error.detail().unwrap_or_default().to_owned(),
                }
            }
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

/// Maximum size of the variables of an email with a template, in bytes of their texts
/// and 32 for each value.
const MAX_VARIABLES: usize = 1024 * 1024;
/// Maximum number of steps times the bytes that one step can read.
const MAX_BYTES_READ: u64 = 6_000_000_000;

fn text_size(value: &Value) -> usize {
    32 + match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(text_size).sum(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| key.len() + text_size(value))
            .sum(),
        _ => 0,
    }
}

/// Maximum size of one part of a template, in bytes.
const MAX_SIZE: usize = 256 * 1024;
/// Maximum size of one tag, such as `{{ name }}`, in bytes.
const MAX_TAG: usize = 1024;
/// Maximum number of `elif`, each of which nests the next one.
const MAX_ELIF: usize = 100;
/// Maximum number of `~`, `+` and `-` in one tag.
const MAX_JOINS: usize = 20;

/// Checks that no template can take all memory or the whole stack: the engine counts steps, but not
/// bytes. A value could only grow without bound if a template could bind a name to a larger value
/// again and again. Returns the largest number of `~` and `+` in a tag.
fn check_tags(template: &str) -> Result<usize, TemplateError> {
    if template.len() > MAX_SIZE {
        return Err(TemplateError::TooLarge);
    }
    let (mut most, mut elifs) = (0, 0);
    for found in TAG.captures_iter(template) {
        let [value, statement, unclosed] = [1, 2, 3].map(|group| found.get(group));
        let Some(tag) = value.or(statement).or(unclosed) else {
            continue;
        };
        let line = || template[..tag.start()].matches('\n').count() + 1;
        if unclosed.is_some() {
            return Err(TemplateError::Syntax { line: line() });
        }
        let code = STRING.replace_all(tag.as_str(), "");
        let mut words = code
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty());
        let word = words.next().filter(|_| statement.is_some());
        elifs += usize::from(word == Some("elif"));
        let is_supported = match word {
            None | Some("if" | "elif" | "else" | "endif" | "endfor") => true,
            Some("for") => !code.contains(['~', '+', '[']) && words.all(|it| it != "recursive"),
            Some(_) => false,
        };
        let count = |wanted: &[char]| code.matches(wanted).count();
        let joins = count(&['~', '+']);
        let is_small = tag.len() <= MAX_TAG && joins <= MAX_JOINS && count(&['-']) <= MAX_JOINS;
        if !is_supported || !is_small || code.contains('*') {
            return Err(TemplateError::Refused { line: line() });
        }
        most = most.max(joins);
    }
    if elifs > MAX_ELIF {
        Err(TemplateError::TooLarge)
    } else {
        Ok(most)
    }
}

/// A comment, raw text, or a tag: one with a value, a statement, or the beginning of one that is not
/// closed, or has braces outside of strings. Ends where the engine ends it.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    let only = |word| format!(r"\{{%[-+]?[ \t\r\n\f]*{word}[ \t\r\n\f]*[-+]?%\}}");
    let (raw, end) = (only("raw"), only("endraw"));
    let code = format!(r#"(?:{STRING_LITERAL}|[^"'{{}}])*?"#);
    let pattern = format!(
        r"(?s)\{{#.*?(?:#\}}|\z)|{raw}.*?(?:{end}|\z)|(\{{\{{{code}\}}\}})|(\{{%{code}%\}})|(\{{[{{%])"
    );
    Regex::new(&pattern).expect("a valid pattern")
});

const STRING_LITERAL: &str = r#""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"#;

static STRING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(&format!("(?s){STRING_LITERAL}")).expect("a valid pattern"));

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    // It prints the state of the engine.
    environment.remove_global("debug");
    // Without debug mode, an error does not name the undefined variable.
    environment.set_debug(true);
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|name| {
        if name == "html" {
            AutoEscape::Html
        } else {
            AutoEscape::None
        }
    });
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_recursion_limit(50);
    for name in ["namespace", "dict", "cycler", "joiner"] {
        environment.remove_global(name);
    }
    // These make values that are much larger than those that they read, or one for each item.
    for name in [
        "attr",
        "batch",
        "chain",
        "format",
        "groupby",
        "indent",
        "map",
        "pprint",
        "reject",
        "rejectattr",
        "replace",
        "select",
        "selectattr",
        "slice",
        "zip",
    ] {
        environment.remove_filter(name);
    }
    environment.add_filter("join", join);
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

/// Like the filter of the engine, but makes no text that is larger than all variables may be.
fn join(list: &minijinja::Value, between: Option<&str>) -> Result<String, Error> {
    let mut joined = String::new();
    for (index, item) in list.try_iter()?.enumerate() {
        if index > 0 {
            joined.push_str(between.unwrap_or_default());
        }
        joined.push_str(&item.to_string());
        if joined.len() > MAX_VARIABLES {
            return Err(Error::new(
                ErrorKind::OutOfFuel,
                "the joined text is too large",
            ));
        }
    }
    Ok(joined)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Otherwise the time would grow with the square of the size.
    #[test]
    fn an_unclosed_comment_or_raw_text_is_one_match() {
        for text in ["{# {{ a }} {{ b }}", "{% raw %} {{ a }} {{ b }}"] {
            assert_eq!(TAG.captures_iter(text).count(), 1, "{text}");
        }
    }

    #[test]
    fn escapes_values_only_in_html() {
        let variables = json!({"name": "<Ada & \"Co\">", "n": 3, "list": [1, 2]});
        let render = |part, text| render(part, text, &variables).expect("renders");
        let template = "Hi {{ name }}: {{ n }}{% for x in list %}, {{ x }}{% endfor %}\n";
        assert_eq!(render("text", template), "Hi <Ada & \"Co\">: 3, 1, 2\n");
        assert_eq!(render("subject", template), "Hi <Ada & \"Co\">: 3, 1, 2\n");
        assert_eq!(
            render("html", template),
            "Hi &lt;Ada &amp; &quot;Co&quot;&gt;: 3, 1, 2\n"
        );
        assert_eq!(
            render("html", "{{ name|upper }}"),
            "&lt;ADA &amp; &quot;CO&quot;&gt;"
        );
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
            let error = render("text", template, &variables).expect_err(template);
            assert_eq!(
                error,
                TemplateError::MissingVariable(name.to_owned()),
                "{template}"
            );
        }
        let defaulted = "{{ nobody|default('you') }}{% if x is defined %}x{% endif %}";
        assert_eq!(render("text", defaulted, &variables), Ok("you".to_owned()));
        assert_eq!(render("text", "plain", &json!({})), Ok("plain".to_owned()));
    }

    #[test]
    fn errors_contain_line_numbers_but_no_values() {
        assert_eq!(
            check("html", "a\n{% if %}"),
            Err(TemplateError::Syntax { line: 2 })
        );
        assert_eq!(check("html", "{{ fine }}"), Ok(()));
        let error = render("text", "{{ x|nope }}", &json!({"x": 1})).expect_err("unknown filter");
        let name = "filter nope is unknown".to_owned();
        assert_eq!(error, TemplateError::Unknown { line: 1, name });
        let error = render("text", "\n{{ secret + 1 }}", &json!({"secret": "s3cret"}));
        assert_eq!(error, Err(TemplateError::Failed { line: 2 }));
        let include = render("text", "{% include '/etc/passwd' %}", &json!({}));
        assert_eq!(include, Err(TemplateError::Refused { line: 1 }));
    }

    #[test]
    fn limits_expensive_templates() {
        for template in [
            "{% for a in range(100001) %}x{% endfor %}",
            "{% for a in range(999) %}{{ big }}{% endfor %}",
        ] {
            let big = json!({"big": "x".repeat(1_000_000)});
            let error = render("text", template, &big).expect_err(template);
            assert!(
                matches!(
                    error,
                    TemplateError::LimitExceeded | TemplateError::Failed { .. }
                ),
                "{error}"
            );
        }
        // Exceeds only the limit on steps.
        let steps = "{% for a in range(999) %}{% for b in range(999) %}{% endfor %}{% endfor %}";
        assert_eq!(
            render("text", steps, &json!({})),
            Err(TemplateError::LimitExceeded)
        );
    }

    /// Each of these took all memory or the whole stack.
    #[test]
    fn refuses_templates_that_grow_without_bound() {
        let doubling = "{% set a = a ~ a %}".repeat(40);
        let captured = "{% set a %}{{ a }}{{ a }}{% endset %}".repeat(40);
        let replaced = format!("{{{{ a{} }}}}", "|replace('x', 'xxxxxxxx')".repeat(30));
        let signs = format!("{{{{ {}1 }}}}", "-".repeat(8_000));
        let sums = format!("{{{{ 1{} }}}}", "+1".repeat(300));
        let elifs = format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(1_500));
        let attributes = format!("{{{{ a{} }}}}", ".b".repeat(100_000));
        for template in [
            doubling.as_str(),
            &captured,
            &replaced,
            &signs,
            &sums,
            &elifs,
            &attributes,
            "{% for a in [a, a] %}{% for a in [a, a] %}x{% endfor %}{% endfor %}",
            "{% set b = [a, a] %}{{ b }}",
            "{% with b = a * 100000000 %}{{ b }}{% endwith %}",
            "{{ ('x' * 100000000)|list }}",
            "{% filter upper %}x{% endfilter %}",
            "{% for a in [1] recursive %}{{ loop([1, 2]) }}{{ loop([1, 2]) }}{% endfor %}",
            "{{ [1, 2]|map('join', 'x')|list }}",
            "{{ range(99999)|join('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') }}",
            "{{ a|indent(1000000000) }}",
            "{{ '%1000000000d'|format(1) }}",
            "{{ [1]|batch(1000000000, 'x') }}",
            // What looks like the end of a tag or of raw text, and is none.
            "{{ '}}' * 9 }}",
            "{{ {'a': {'b': 1}} * 9 }}",
            "{% raw %}endraw {{ ' {% endraw %}{{ '}}' * 9 }}",
            "{% raw %}{%\u{b}endraw %}{{ ' {% endraw %}{{ '}}' * 9 }}",
            "{# {{ ' #}{{ '}}' * 9 }}",
        ] {
            let result = render("text", template, &json!({"a": "xxxxxxxx"}));
            assert!(
                result.is_err(),
                "{}: {:?}",
                &template[..template.len().min(80)],
                result.map(|text| text.len())
            );
        }
        let steps = "{% for i in list %}{{ list|join }}{% endfor %}";
        let long = json!({"list": vec!["x".repeat(100); 5_000]});
        assert_eq!(
            render("text", steps, &long),
            Err(TemplateError::LimitExceeded)
        );
        let many = json!({"list": vec![0; 100_000]});
        assert_eq!(
            render("text", "x", &many),
            Err(TemplateError::VariablesTooLarge)
        );
        assert_eq!(
            check("text", &"x".repeat(300_000)),
            Err(TemplateError::TooLarge)
        );
    }

    /// Each test is a few steps to the engine, and reads hundreds of kilobytes.
    #[test]
    fn ends_work_on_large_values() {
        let big = "x ".repeat(250_000);
        let variables = json!({"big": big});
        for test in ["'y' in big", "(big ~ big ~ 'a') == (big ~ big ~ 'b')"] {
            let template = format!(
                "{{% for i in range(999) %}}{{% for j in range(999) %}}{{% if {test} %}}{{% endif %}}{{% endfor %}}{{% endfor %}}"
            );
            let result = render("text", &template, &variables);
            assert_eq!(result, Err(TemplateError::LimitExceeded), "{test}");
        }
    }

    /// A newsletter with a table of a thousand rows.
    #[test]
    fn renders_a_large_newsletter() {
        let rows: Vec<Value> = (0..1_000)
            .map(|n| json!({"name": format!("Item {n} with some text"), "price": n, "url": "https://shop.test/x"}))
            .collect();
        let variables = json!({"rows": rows, "intro": "<p>Hello</p>".repeat(1_000)});
        let template = "{{ intro|safe }}{% for row in rows|sort(attribute='name') %}<a href=\"{{ row.url }}\">{{ row.name|title|escape }}</a> {{ row.price|round }}{% if loop.index0 in [1, 2] %}!{% endif %}{% endfor %}";
        let html = render("html", template, &variables).expect("rendered");
        assert_eq!(html.matches("<a href").count(), 1_000);
    }

    #[test]
    fn supports_what_emails_need() {
        let variables =
            json!({"price": 2, "count": 3, "names": ["a", "b"], "user": {"name": "Ada"}});
        for (template, expected) in [
            ("{{ (price + count)|round }}", "5"),
            ("Hi {{ user.name|default('you') ~ '!' }}", "Hi Ada!"),
            (
                "{% for x in names %}{{ loop.index }}{{ x }}{% endfor %}",
                "1a2b",
            ),
            (
                "{% for x in names if x != 'a' %}{{ x }}{% else %}-{% endfor %}",
                "b",
            ),
            (
                "{% if count > 1 and not user.age is defined %}{{ names|join(', ') }}{% endif %}",
                "a, b",
            ),
            ("{{ user.name|upper }} {# ~ * #} 2 * 3 ~", "ADA  2 * 3 ~"),
            ("{{ names|join('-') }}{{ names|first|capitalize }}", "a-bA"),
            (
                "{% for k, v in user|items %}{{ k }}{{ v }}{% endfor %}{{ names|length }}",
                "nameAda2",
            ),
            (
                "{{ names|sort(reverse=true)|join }}{% for i in range(1, 4) %}{{ i }}{% endfor %}",
                "ba123",
            ),
            (
                "{% raw %}{{ a ~ }}{% endraw %}{{ names[0] }}{{ '}}' }}",
                "{{ a ~ }}a}}",
            ),
        ] {
            assert_eq!(
                render("text", template, &variables).as_deref(),
                Ok(expected),
                "{template}"
            );
        }
    }
}
