//! Email templates: an undefined variable is an error
//! (`docs/undocumented/services.md#templates`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use bytes::{BufMut as _, BytesMut};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Serde, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value;

use crate::model::error::Failure;
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
    limit_filters(&mut environment);
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
) -> Result<Option<String>, Failure> {
    let rendered = template.map(|template| render(part, template, variables));
    rendered.transpose().map_err(|error| {
        let field = match error {
            TemplateError::Unknown { .. } => "templateId",
            _ => "variables",
        };
        Failure::field(field, error.to_string())
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
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("svc-template".to_owned())
        .stack_size(STACK);
    let spawned = thread.spawn(move || {
        let _permit = permit;
        // The receiver is gone if the client disconnected.
        let _ = sender.send(work());
    });
    spawned.map_err(Failure::internal)?;
    receiver
        .await
        .unwrap_or_else(|_| Err(Failure::internal("the rendering of a template panicked")))
}

/// Stack of the threads that render, in bytes. It is reserved, not used, until it is needed.
const STACK: usize = 64 << 20;

/// Why a template cannot be rendered. Contains names of variables and line numbers, but
/// no values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("the template variable {0} has no value")]
    MissingVariable(String),
    #[error("the template has a syntax error on line {line}")]
    Syntax { line: usize },
    #[error("the template uses an unknown filter, test or function on line {line}: {name}")]
    Unknown { line: usize, name: String },
    #[error("the template has more than {MAX_SIZE} bytes, or more than {MAX_ELIF} elif")]
    TooLarge,
    #[error(
        "the template is not supported on line {line}: a tag has at most {MAX_TAG} bytes and \
         {MAX_JOINS} signs such as ~ and +, all statements together {MAX_NAMED_JOINS}, and there are at \
         most {MAX_NAMED} set and with, and no macro, call, filter block or recursive loop"
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

/// Maximum size of one part of a template, and of one tag of it, in bytes.
const MAX_SIZE: usize = 256 * 1024;
const MAX_TAG: usize = 2 * 1024;
/// Maximum number of `elif`, each of which nests the next one.
const MAX_ELIF: usize = 100;
/// Maximum number of signs that join values in one tag: each can double a value.
const MAX_JOINS: usize = 20;
/// Maximum number of `set` and `with`, and of the joins in all statements: they give a value a name.
const MAX_NAMED: usize = 20;
const MAX_NAMED_JOINS: usize = 5;

/// Checks what the engine has no limit for: it counts steps, and neither the bytes of values nor the
/// depth of expressions. Returns the largest number of joins in a tag.
fn check_tags(template: &str) -> Result<usize, TemplateError> {
    if template.len() > MAX_SIZE || template.matches("elif").count() > MAX_ELIF {
        return Err(TemplateError::TooLarge);
    }

    let mut most = 0;
    let mut named = 0;
    let mut named_joins = 0;
    for (begin, _) in template.match_indices(['{']) {
        let Some(tag) = Tag::at(&template[begin..]) else {
            continue;
        };
        most = most.max(tag.joins);
        if tag.is_statement {
            named += usize::from(matches!(tag.word, "set" | "with"));
            named_joins += tag.joins;
        }
        let is_refused = tag.is_refused() || named > MAX_NAMED || named_joins > MAX_NAMED_JOINS;
        if is_refused {
            let line = template[..begin].matches('\n').count() + 1;
            return Err(TemplateError::Refused { line });
        }
    }

    Ok(most)
}

/// A tag, or the part of one up to where a string in it looks like the beginning of another one.
struct Tag<'a> {
    code: &'a str,
    word: &'a str,
    is_statement: bool,
    joins: usize,
}

impl<'a> Tag<'a> {
    /// The tag at the beginning of a text.
    fn at(text: &'a str) -> Option<Self> {
        let is_value = text.starts_with("{{");
        if !is_value && !text.starts_with("{%") {
            return None;
        }

        let rest = &text[2..];
        let next = [rest.find("{{"), rest.find("{%")]
            .into_iter()
            .flatten()
            .min();
        let rest = &rest[..next.unwrap_or(rest.len())];
        let code = &rest[..rest.rfind(['%', '}']).unwrap_or(rest.len())];
        Some(Self {
            code,
            word: code
                .split(|c: char| !c.is_alphanumeric())
                .find(|word| !word.is_empty())
                .unwrap_or_default(),
            is_statement: !is_value || code.contains('%'),
            joins: code.matches(['~', '+', '*']).count(),
        })
    }

    fn is_refused(&self) -> bool {
        let Self { code, word, .. } = self;
        // A block that becomes a value, or that calls itself.
        let is_block = match *word {
            "macro" | "call" | "filter" => true,
            "set" => !code.contains('='),
            "for" => code.contains("recursive"),
            _ => false,
        };
        self.is_statement && is_block
            || self.joins > MAX_JOINS
            || code.matches('-').count() > MAX_JOINS
            || code.len() > MAX_TAG
    }
}

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
    // These make values that are much larger than those that they read.
    for name in [
        "batch", "chain", "format", "indent", "pprint", "slice", "zip",
    ] {
        environment.remove_filter(name);
    }
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

/// The filters that read a value whole, some of them one character at a time: a step that takes much
/// longer than others.
const READERS: [&str; 14] = [
    "capitalize",
    "list",
    "lower",
    "lines",
    "reverse",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "unique",
    "upper",
    "urlencode",
];

/// Maximum number of bytes that these filters read in one rendering.
const MAX_FILTERED: usize = 64 << 20;

/// Limits the text that filters read and make in one rendering.
fn limit_filters(environment: &mut Environment<'_>) {
    let filtered = Arc::<AtomicUsize>::default();
    for name in READERS {
        let filtered = Arc::clone(&filtered);
        environment.add_filter(name, move |args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            let value = args.first();
            let size = match value.and_then(minijinja::Value::as_str) {
                Some(text) => text.len(),
                None => value.and_then(minijinja::Value::len).unwrap_or(1) * 32,
            };
            if filtered.fetch_add(size, Ordering::Relaxed) > MAX_FILTERED {
                let message = "the filters read too much";
                return Err(Error::new(ErrorKind::OutOfFuel, message));
            }
            ENVIRONMENT.empty_state().apply_filter(name, &args)
        });
    }

    let made = Arc::<Made>::default();
    let of_join = Arc::clone(&made);
    environment.add_filter(
        "join",
        move |list: minijinja::Value, between: Option<String>| {
            of_join.join(&list, &between.unwrap_or_default())
        },
    );
    environment.add_filter("replace", move |text: String, from: String, to: String| {
        made.replace(&text, &from, &to)
    });
}

/// How many bytes of text the filters have made.
#[derive(Default)]
struct Made(AtomicUsize);

/// Maximum number of bytes of text that filters make in one rendering.
const MAX_MADE: usize = 16 << 20;

impl Made {
    fn add(&self, bytes: usize) -> Result<(), Error> {
        let before = self.0.fetch_add(bytes.min(MAX_MADE), Ordering::Relaxed);
        if before.saturating_add(bytes) <= MAX_MADE {
            return Ok(());
        }
        let message = "the filters make too much text";
        Err(Error::new(ErrorKind::OutOfFuel, message))
    }

    fn join(&self, list: &minijinja::Value, between: &str) -> Result<String, Error> {
        let mut joined = String::new();
        for (index, item) in list.try_iter()?.enumerate() {
            let item = item.to_string();
            self.add(between.len() + item.len())?;
            if index > 0 {
                joined.push_str(between);
            }
            joined.push_str(&item);
        }
        Ok(joined)
    }

    fn replace(&self, text: &str, from: &str, to: &str) -> Result<String, Error> {
        let added = text.matches(from).count().saturating_mul(to.len());
        self.add(text.len().saturating_add(added))?;
        Ok(text.replace(from, to))
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
        assert_eq!(include, Err(TemplateError::Syntax { line: 1 }));
    }

    #[test]
    fn limits_expensive_templates() {
        for template in [
            "{% for a in range(100001) %}x{% endfor %}",
            "{% for a in range(999) %}{{ big }}{% endfor %}",
            "{% for a in range(2000) %}{{ big|list|length }}{% endfor %}",
            "{% for a in range(2000) %}{% if big|title == 1 %}{% endif %}{% endfor %}",
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
        let hidden = "{% set a = '{{ %}' ~ a ~ a %}".repeat(40);
        let captured = "{% set a %}{{ a }}{{ a }}{% endset %}".repeat(40);
        let replaced = format!("{{{{ a{} }}}}", "|replace('x', 'xxxxxxxx')".repeat(30));
        let signs = format!("{{{{ {}1 }}}}", "-".repeat(8_000));
        let sums = format!("{{{{ 1{} }}}}", "+1".repeat(300));
        let elifs = format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(1_500));
        let attributes = format!("{{{{ a{} }}}}", ".b".repeat(100_000));
        let lists = "{% set b = a|list %}".repeat(1_000);
        for template in [
            doubling.as_str(),
            &hidden,
            &captured,
            &replaced,
            &signs,
            &sums,
            &elifs,
            &attributes,
            &lists,
            "{% macro m(a) %}{{ m(a ~ a) }}{% endmacro %}{{ m('x') }}",
            "{% with b = a * 1000000000 %}{{ b }}{% endwith %}",
            "{% filter upper %}x{% endfilter %}",
            "{% for a in [1] recursive %}{{ loop([1, 2]) }}{{ loop([1, 2]) }}{% endfor %}",
            "{{ range(99999)|map('replace', '1', 'x' * 10000)|list }}",
            "{{ a|indent(1000000000) }}",
            "{{ '%1000000000d'|format(1) }}",
            "{{ [1]|batch(1000000000, 'x') }}",
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
            (
                "{% set total = price * count %}{{ total }} {{ user.name|replace('A', 'a') }}",
                "6 ada",
            ),
            ("{{ names|map('upper')|join(', ') }}", "A, B"),
        ] {
            assert_eq!(
                render("text", template, &variables).as_deref(),
                Ok(expected),
                "{template}"
            );
        }
    }
}
