//! `Renderer` fills the placeholders of an email with the values of a row, with minijinja.
//! `Renderer::new` takes the email with its templates and fails on an invalid one; `render` takes a
//! row and an address, and fails on a missing value. Templates and values come from users: only
//! values in HTML are escaped, none may add a line to a header, and a template has limits of steps
//! and depth (`check_tags`), because the engine itself can use up the stack.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, merge_maps};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use regex_lite::Regex;
use serde_json::{Map, Value};
use svc_sdk::email::Email;

use crate::failure::Failure;
use crate::input::html;

/// Characters that stay as they are in a value within a URL.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Options that set parts of the email. Only the values in the HTML are escaped.
const HTML: &str = "--html";
const UNSUBSCRIBE: &str = "--unsubscribe";

/// Steps of the template engine for one part, so that no template runs forever.
const MAX_STEPS: u64 = 200_000;
/// Maximum size of one placeholder or tag, in bytes, and number of `elif`: the engine takes stack for
/// each level of an expression, and each `elif` is a level.
const MAX_TAG: usize = 1024;
const MAX_ELIF: usize = 500;

/// Renders the email of a row.
pub struct Renderer {
    /// Without recipients.
    email: Email,
    has_unsubscribe: bool,
    templates: Environment<'static>,
    /// The text that is made of the HTML, if that is constant.
    text_of_html: Option<String>,
    /// The names that the placeholders use.
    used: BTreeSet<String>,
}

impl Renderer {
    /// Renders an email whose texts may contain placeholders such as `{{ first_name }}`, with the
    /// address at which a recipient unsubscribes.
    pub fn new(mut email: Email, unsubscribe: Option<&str>) -> Result<Self, Failure> {
        let mut templates = Environment::new();
        // Without debug mode, an error does not name the missing value.
        templates.set_debug(true);
        // Only a condition may ask for a missing value.
        templates.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        templates.set_auto_escape_callback(|name| match name {
            HTML => AutoEscape::Html,
            _ => AutoEscape::None,
        });
        if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
            templates.set_syntax(syntax);
        }
        templates.set_fuel(Some(MAX_STEPS));
        let parts = parts(&mut email).map(|(option, text)| (option, text.clone()));
        let unsubscribe = unsubscribe.map(|url| (UNSUBSCRIBE.to_owned(), url.to_owned()));
        let has_unsubscribe = unsubscribe.is_some();
        for (option, text) in parts.chain(unsubscribe) {
            check_tags(&text)
                .map_err(|problem| Failure::input(format!("{option}: {problem}")).hint(HINT))?;
            let failed = |error: minijinja::Error| {
                let line = error.line().unwrap_or(1);
                let detail = error.detail().unwrap_or("not a valid template").to_owned();
                Failure::input(format!("{option}: line {line}: {detail}")).hint(HINT)
            };
            templates
                .add_template_owned(option.clone(), text)
                .map_err(failed)?;
        }

        let is_constant =
            |text: &&String| !["{{", "{%", "{#"].iter().any(|mark| text.contains(mark));
        let text_of_html = email
            .html
            .as_ref()
            .filter(is_constant)
            .map(|it| html::to_text(it));
        let variables = templates
            .templates()
            .flat_map(|(_, it)| it.undeclared_variables(true));
        let used = variables.filter_map(|path| {
            let name = path.strip_prefix("row.").unwrap_or(&path);
            name.split('.').next().map(str::to_owned)
        });
        let used = used.collect();
        Ok(Self {
            email,
            has_unsubscribe,
            templates,
            text_of_html,
            used,
        })
    }

    /// Whether the email of a row may depend on the value of this name.
    pub fn uses(&self, name: &str) -> bool {
        self.email.template_id.is_some() || self.used.contains(name)
    }

    /// The names of values that the placeholders use, in alphabetical order.
    pub fn used(&self) -> impl Iterator<Item = &str> {
        self.used.iter().map(String::as_str)
    }

    /// The email with these values to this address. The error names the part and the missing value.
    pub fn render(&self, row: &Map<String, Value>, to: &str) -> Result<Email, String> {
        let values = with_row(row);
        let mut email = self.email.clone();
        for (option, text) in parts(&mut email) {
            *text = self.part(&option, &values)?;
            let is_body = [HTML, "--text"].contains(&option.as_str());
            if !is_body && text.chars().any(char::is_control) {
                return Err(format!("{option}: a value contains a line end"));
            }
        }

        email.to = vec![to.to_owned()];
        if let (Some(html), None, None) = (&email.html, &email.text, &email.template_id) {
            let text = self.text_of_html.clone();
            email.text = Some(text.unwrap_or_else(|| html::to_text(html)));
        }
        if email.template_id.is_some() {
            email.variables = row.clone();
        }
        if self.has_unsubscribe {
            let encode = |(name, value): (&String, _)| (name.clone(), encoded(value));
            let url = self.part(UNSUBSCRIBE, &with_row(&row.iter().map(encode).collect()))?;
            let is_url = url::Url::parse(&url).is_ok_and(|url| url.scheme() == "https");
            if !is_url || url.contains(|c: char| c.is_whitespace() || "<>,".contains(c)) {
                return Err("--unsubscribe: not a valid https URL".to_owned());
            }
            email
                .headers
                .insert("List-Unsubscribe".to_owned(), format!("<{url}>").into());
            let one_click = "List-Unsubscribe=One-Click";
            email
                .headers
                .insert("List-Unsubscribe-Post".to_owned(), one_click.into());
        }

        Ok(email)
    }

    fn part(&self, option: &str, values: &minijinja::Value) -> Result<String, String> {
        let template = self.templates.get_template(option);
        template
            .and_then(|template| template.render(values))
            .map_err(|error| {
                let line = error
                    .line()
                    .map(|line| format!("line {line}: "))
                    .unwrap_or_default();
                let missing = error.detail().and_then(undefined_name);
                match missing {
                    Some(column) => format!("{option}: {line}the row has no `{column}`"),
                    None => format!("{option}: {line}{}", error.kind()),
                }
            })
    }
}

const HINT: &str = "a placeholder is {{ column }}; write {{ '{{' }} for two braces in the text";

/// Checks that no placeholder takes the whole stack.
fn check_tags(text: &str) -> Result<(), String> {
    for found in TAG.captures_iter(text) {
        let [tag, unclosed] = [1, 2].map(|group| found.get(group));
        let (tag, problem) = match (tag.filter(|tag| tag.len() > MAX_TAG), unclosed) {
            (Some(tag), _) => (tag, format!("has more than {MAX_TAG} bytes")),
            (None, Some(tag)) => (
                tag,
                "is not closed, or has braces outside of quotes".to_owned(),
            ),
            (None, None) => continue,
        };
        let line = text[..tag.start()].matches('\n').count() + 1;
        return Err(format!("line {line}: a placeholder {problem}"));
    }
    if text.matches("elif").count() > MAX_ELIF {
        Err(format!("more than {MAX_ELIF} elif"))
    } else {
        Ok(())
    }
}

/// A comment, raw text, a tag, or the beginning of one that is not closed, or has braces outside of
/// strings. Ends where the engine ends it.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    let only = |word| format!(r"\{{%[-+]?[ \t\r\n\f]*{word}[ \t\r\n\f]*[-+]?%\}}");
    let raw = only("raw");
    let end = only("endraw");
    let code = r#"(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"'{}])*?"#;
    let pattern = format!(
        r"(?s)\{{#.*?(?:#\}}|\z)|{raw}.*?(?:{end}|\z)|(\{{\{{{code}\}}\}}|\{{%{code}%\}})|(\{{[{{%])"
    );
    Regex::new(&pattern).expect("a valid pattern")
});

/// The texts with placeholders, by the options that set them.
fn parts(email: &mut Email) -> impl Iterator<Item = (String, &mut String)> {
    let Email {
        from,
        subject,
        html,
        text,
        headers,
        tags,
        ..
    } = email;
    let texts = [("--from", Some(from)), ("--subject", Some(subject))];
    let texts = texts
        .into_iter()
        .chain([(HTML, html.as_mut()), ("--text", text.as_mut())]);
    let texts = texts.filter_map(|(option, text)| Some((option.to_owned(), text?)));
    let headers = headers
        .iter_mut()
        .map(|(name, value)| (format!("--header {name}"), value));
    let tags = tags
        .iter_mut()
        .map(|(name, value)| (format!("--tag {name}"), value));
    texts.chain(
        headers
            .chain(tags)
            .filter_map(|(option, value)| match value {
                Value::String(text) => Some((option, text)),
                _ => None,
            }),
    )
}

/// The values of a row, and all of them as `row`, for columns whose name is not an identifier. A
/// column named `row` wins.
fn with_row(values: &Map<String, Value>) -> minijinja::Value {
    let values = minijinja::Value::from(Serde(values));
    merge_maps([context! { row => values.clone() }, values])
}

fn encoded(value: &Value) -> Value {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    utf8_percent_encode(&text, UNRESERVED).to_string().into()
}

/// Extracts the name from a message of minijinja: `` `user.name` is undefined``.
fn undefined_name(detail: &str) -> Option<&str> {
    let (before, _) = detail.split_once("` is undefined")?;
    before.rsplit_once('`').map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn email() -> Email {
        let mut email = Email::default();
        (email.from, email.subject) = ("a@b.test".to_owned(), "Hi {{ name }}".to_owned());
        email
    }

    fn render(email: Email, values: Value) -> Result<Email, String> {
        Renderer::new(email, None)
            .expect("valid")
            .render(&row(values), "c@d.test")
    }

    fn row(values: Value) -> Map<String, Value> {
        let Value::Object(values) = values else {
            panic!("an object")
        };
        values
    }

    #[test]
    fn only_html_is_escaped() {
        let email = email()
            .html("<p>{{ name }}</p>\n")
            .tag("who", "{{ row['Full Name'] }}")
            .header("X-Who", "{{ name|upper }}");
        let url = "https://x.test/u/{{ name }}?f={{ row['Full Name'] }}";
        let renderer = Renderer::new(email, Some(url)).expect("valid");
        let row = row(json!({"name": "A & <B>", "Full Name": "F &"}));
        let email = renderer.render(&row, "c@d.test").expect("valid");
        assert_eq!(email.subject, "Hi A & <B>");
        assert_eq!(email.html.as_deref(), Some("<p>A &amp; &lt;B&gt;</p>\n"));
        assert_eq!(email.text.as_deref(), Some("A & <B>"));
        assert_eq!(
            (&email.tags["who"], &email.headers["X-Who"]),
            (&json!("F &"), &json!("A & <B>"))
        );
        assert_eq!(
            email.headers["List-Unsubscribe"],
            "<https://x.test/u/A%20%26%20%3CB%3E?f=F%20%26>"
        );
        assert_eq!(
            email.headers["List-Unsubscribe-Post"],
            "List-Unsubscribe=One-Click"
        );
    }

    #[test]
    fn a_missing_value_or_a_line_end_is_an_error_of_the_row() {
        let error = |values| render(email(), values).expect_err("refused");
        assert_eq!(error(json!({})), "--subject: line 1: the row has no `name`");
        assert!(error(json!({"name": "x\r\nBcc: e@f.test"})).contains("line end"));
        let with_subject = |subject: &str, values| {
            let mut email = email();
            email.subject = subject.to_owned();
            render(email, values).expect("valid").subject
        };

        assert_eq!(
            with_subject("Hi {{ name|default('there') }}", json!({})),
            "Hi there"
        );
        let condition = "{% if name %}Hi {{ name }}{% elif not row.plan %}Hi{% endif %}";
        let subject = |values| with_subject(condition, values);
        assert_eq!(subject(json!({})), "Hi");
        assert_eq!(subject(json!({"name": "Ada"})), "Hi Ada");
    }

    #[test]
    fn an_invalid_placeholder_is_refused_with_its_option() {
        let email = email().text("Hi\n{{ name");
        let failure = Renderer::new(email, None).err().expect("refused");
        assert!(
            failure.message.starts_with("--text: line 2: "),
            "{failure:?}"
        );
    }

    /// Otherwise the time would grow with the square of the size.
    #[test]
    fn an_unclosed_comment_or_raw_text_is_one_match() {
        for text in ["{# {{ a }} {{ b }}", "{% raw %} {{ a }} {{ b }}"] {
            assert_eq!(TAG.captures_iter(text).count(), 1, "{text}");
        }
    }

    /// Some of them ended the process.
    #[test]
    fn a_placeholder_of_thousands_of_levels_is_refused() {
        let deep = |before: &str| format!("\n{{{{ {before}{}1 }}}}", "-".repeat(10_000));
        let long = "has more than 1024 bytes";
        for (text, line, problem) in [
            (deep(""), 2, long),
            (deep("'}}' ~ "), 2, long),
            (deep("'\\'}}' ~ "), 2, long),
            (
                deep("{'a': {'b': 1}} or "),
                2,
                "is not closed, or has braces outside of quotes",
            ),
            (format!("{{# ' #}}{}", deep("")), 2, long),
            (
                format!("{{% raw %}}endraw {{{{ ' {{% endraw %}}{}", deep("'}}' ~ ")),
                2,
                long,
            ),
            (format!("{{{{ name{} }}}}", ".b".repeat(10_000)), 1, long),
            (
                format!("{{% if 1{} %}}{{% endif %}}", "+1".repeat(10_000)),
                1,
                long,
            ),
        ] {
            let failure = Renderer::new(email().text(text), None)
                .err()
                .expect("refused");
            let expected = format!("--text: line {line}: a placeholder {problem}");
            assert_eq!(failure.message, expected);
        }

        let elif = |count| format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(count));
        assert!(Renderer::new(email().text(elif(501)), None).is_err());
        for text in [
            format!("{{{{ {}name }}}}", "-".repeat(1000)),
            elif(500),
            format!("{}{{{{ name }}}} {{", "-".repeat(10_000)),
            "{# ' #}{% raw %}{{ ' {% endraw %}{{ '{{' }} {{ \"}}\" }}".to_owned(),
        ] {
            assert!(Renderer::new(email().text(text), None).is_ok());
        }
    }

    #[test]
    fn a_template_of_the_service_gets_the_values() {
        let values = json!({"name": "Ada", "n": 3});
        let email = render(email().template("welcome"), values).expect("valid");
        assert_eq!(email.template_id.as_deref(), Some("welcome"));
        assert_eq!(
            Value::Object(email.variables),
            json!({"name": "Ada", "n": 3})
        );
    }
}
