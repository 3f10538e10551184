//! The email of a job: its parts with placeholders, and how a row fills them.

use std::collections::HashSet;
use std::path::Path;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, merge_maps};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_sdk::email::{Attachment, Email};

use crate::failure::Failure;
use crate::input::html;

/// The email of a job. Texts may contain placeholders such as `{{ first_name }}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub from: String,
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reply_to: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<(String, String)>,
    /// A template of the service, which gets the values of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The address with which a recipient unsubscribes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsubscribe: Option<String>,
    /// When the service is to send the emails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<File>,
}

/// An attachment, the same for every row. Its content is a file of the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct File {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// Characters that stay as they are in a value within a URL.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The parts of the email by their names. Only the values in `html` are escaped for HTML.
const HTML: &str = "html";
const UNSUBSCRIBE: &str = "unsubscribe";

/// Steps of the template engine for one part, so that no template runs forever.
const MAX_STEPS: u64 = 200_000;

/// Renders the email of a row.
pub struct Renderer {
    message: Message,
    templates: Environment<'static>,
    /// The text that is made of the HTML, if that is constant.
    text_of_html: Option<String>,
    attachments: Vec<Attachment>,
    /// The names that the placeholders use.
    used: HashSet<String>,
}

impl Renderer {
    pub fn new(message: &Message, attachments: Vec<Attachment>) -> Result<Self, Failure> {
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
        for (name, text) in message.parts() {
            let failed = |error: minijinja::Error| {
                let line = error.line().unwrap_or(1);
                let detail = error.detail().unwrap_or("not a valid template").to_owned();
                Failure::input(format!("{}: line {line}: {detail}", option(&name))).hint(
                    "a placeholder is {{ column }}; write {{ '{{' }} for two braces in the text",
                )
            };
            templates.add_template_owned(name.clone(), text.to_owned()).map_err(failed)?;
        }
        let is_constant =
            |text: &&String| !["{{", "{%", "{#"].iter().any(|mark| text.contains(mark));
        let text_of_html = message.html.as_ref().filter(is_constant).map(|it| html::to_text(it));
        let variables = templates.templates().flat_map(|(_, it)| it.undeclared_variables(true));
        let used = variables.filter_map(|path| {
            let name = path.strip_prefix("row.").unwrap_or(&path);
            name.split('.').next().map(str::to_owned)
        });
        let (used, message) = (used.collect(), message.clone());
        Ok(Self { message, templates, text_of_html, attachments, used })
    }

    /// Whether the email of a row may depend on the value of this name.
    pub fn uses(&self, name: &str) -> bool {
        self.message.template.is_some() || self.used.contains(name)
    }

    /// The email with these values to this address. The error names the part and the missing value.
    pub fn render(&self, row: &Map<String, Value>, to: &str) -> Result<Email, String> {
        let values = with_row(row);
        let text = |name: &str| self.part(name, &values);
        let line = |name: &str| {
            let text = text(name)?;
            match text.chars().any(char::is_control) {
                true => Err(format!("{}: a value contains a line end", option(name))),
                false => Ok(text),
            }
        };
        let message = &self.message;
        let mut email = Email::new(line("from")?, to, line("subject")?);
        email.html = message.html.as_ref().map(|_| text(HTML)).transpose()?;
        email.text = match (&message.text, &email.html) {
            (Some(_), _) => Some(text("text")?),
            (None, Some(html)) if message.template.is_none() => {
                Some(self.text_of_html.clone().unwrap_or_else(|| html::to_text(html)))
            }
            (None, _) => None,
        };
        email.reply_to.clone_from(&message.reply_to);
        for (name, _) in &message.headers {
            email.headers.insert(name.clone(), line(&header(name))?.into());
        }
        for (name, _) in &message.tags {
            email.tags.insert(name.clone(), line(&tag(name))?.into());
        }
        if message.unsubscribe.is_some() {
            let encode = |(name, value): (&String, _)| (name.clone(), encoded(value));
            let url = self.part(UNSUBSCRIBE, &with_row(&row.iter().map(encode).collect()))?;
            let is_url = url::Url::parse(&url).is_ok_and(|url| url.scheme() == "https");
            if !is_url || url.contains(|c: char| c.is_whitespace() || "<>,".contains(c)) {
                return Err("--unsubscribe: not a valid https URL".to_owned());
            }
            email.headers.insert("List-Unsubscribe".to_owned(), format!("<{url}>").into());
            let one_click = "List-Unsubscribe=One-Click";
            email.headers.insert("List-Unsubscribe-Post".to_owned(), one_click.into());
        }
        if let Some(template) = &message.template {
            email.template_id = Some(template.clone());
            email.variables = row.clone();
        }
        email.scheduled_at = message.scheduled_at.clone().map(Into::into);
        email.attachments.clone_from(&self.attachments);
        Ok(email)
    }

    fn part(&self, name: &str, values: &minijinja::Value) -> Result<String, String> {
        let template = self.templates.get_template(name);
        template.and_then(|template| template.render(values)).map_err(|error| {
            let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
            let missing = error.detail().and_then(undefined_name);
            match missing {
                Some(column) => format!("{}: {line}the row has no `{column}`", option(name)),
                None => format!("{}: {line}{}", option(name), error.kind()),
            }
        })
    }
}

impl Message {
    /// Whether it is the same email, whenever it is sent.
    pub fn is_same(&self, other: &Self) -> bool {
        let without_time = |message: &Self| Self { scheduled_at: None, ..message.clone() };
        without_time(self) == without_time(other)
    }

    fn parts(&self) -> Vec<(String, &str)> {
        let mut parts = vec![("from".to_owned(), self.from.as_str())];
        parts.push(("subject".to_owned(), &self.subject));
        for (name, text) in
            [(HTML, &self.html), ("text", &self.text), (UNSUBSCRIBE, &self.unsubscribe)]
        {
            parts.extend(text.as_deref().map(|text| (name.to_owned(), text)));
        }
        parts.extend(self.headers.iter().map(|(name, text)| (header(name), text.as_str())));
        parts.extend(self.tags.iter().map(|(name, text)| (tag(name), text.as_str())));
        parts
    }
}

impl File {
    /// The attachment with the content of this copy.
    pub fn open(&self, copy: &Path) -> Result<Attachment, Failure> {
        let attachment = Attachment::from_path(copy)
            .map_err(|error| Failure::input(format!("--attach: {}: {error}", copy.display())))?;
        Ok(self.named(attachment))
    }

    /// The attachment with this content.
    pub fn with_content(&self, content: Vec<u8>) -> Attachment {
        self.named(Attachment::from_bytes(self.name.as_str(), content))
    }

    fn named(&self, attachment: Attachment) -> Attachment {
        let attachment = attachment.filename(self.name.as_str());
        match &self.content_type {
            Some(content_type) => attachment.content_type(content_type.as_str()),
            None => attachment,
        }
    }
}

fn header(name: &str) -> String {
    format!("header {name}")
}

fn tag(name: &str) -> String {
    format!("tag {name}")
}

/// The option that sets a part.
fn option(part: &str) -> String {
    format!("--{part}")
}

/// The values of a row, and all of them as `row`, for columns whose name is not an identifier. A
/// column named `row` wins.
fn with_row(values: &Map<String, Value>) -> minijinja::Value {
    let values = minijinja::Value::from(Serde(values));
    merge_maps([context! { row => values.clone() }, values])
}

fn encoded(value: &Value) -> Value {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
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

    fn message() -> Message {
        serde_json::from_value(json!({"from": "a@b.test", "subject": "Hi {{ name }}"}))
            .expect("a message")
    }

    fn row(values: Value) -> Map<String, Value> {
        let Value::Object(values) = values else { panic!("an object") };
        values
    }

    #[test]
    fn only_html_is_escaped() {
        let mut message = message();
        message.html = Some("<p>{{ name }}</p>\n".to_owned());
        message.tags = vec![("who".to_owned(), "{{ row['Full Name'] }}".to_owned())];
        message.headers = vec![("X-Who".to_owned(), "{{ name|upper }}".to_owned())];
        message.unsubscribe =
            Some("https://x.test/u/{{ name }}?f={{ row['Full Name'] }}".to_owned());
        let row = row(json!({"name": "A & <B>", "Full Name": "F &"}));
        let email = Renderer::new(&message, Vec::new())
            .expect("valid")
            .render(&row, "c@d.test")
            .expect("valid");
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
        assert_eq!(email.headers["List-Unsubscribe-Post"], "List-Unsubscribe=One-Click");
    }

    #[test]
    fn a_missing_value_or_a_line_end_is_an_error_of_the_row() {
        let renderer = Renderer::new(&message(), Vec::new()).expect("valid");
        let error = |values| renderer.render(&row(values), "c@d.test").expect_err("refused");
        assert_eq!(error(json!({})), "--subject: line 1: the row has no `name`");
        assert!(error(json!({"name": "x\r\nBcc: e@f.test"})).contains("line end"));
        let mut message = message();
        message.subject = "Hi {{ name|default('there') }}".to_owned();
        let renderer = Renderer::new(&message, Vec::new()).expect("valid");
        let email = renderer.render(&row(json!({})), "c@d.test").expect("valid");
        assert_eq!(email.subject, "Hi there");
        let condition = "{% if name %}Hi {{ name }}{% elif not row.plan %}Hi{% endif %}";
        message.subject = condition.to_owned();
        let renderer = Renderer::new(&message, Vec::new()).expect("valid");
        let subject = |values| renderer.render(&row(values), "c@d.test").expect("valid").subject;
        assert_eq!(subject(json!({})), "Hi");
        assert_eq!(subject(json!({"name": "Ada"})), "Hi Ada");
    }

    #[test]
    fn an_invalid_placeholder_is_refused_with_its_option() {
        let mut message = message();
        message.text = Some("Hi\n{{ name".to_owned());
        let failure = Renderer::new(&message, Vec::new()).err().expect("refused");
        assert!(failure.details().message.starts_with("--text: line 2: "), "{failure:?}");
    }

    #[test]
    fn a_template_of_the_service_gets_the_values() {
        let mut message = message();
        message.subject = "Hi".to_owned();
        message.template = Some("welcome".to_owned());
        let row = row(json!({"name": "Ada", "n": 3}));
        let email = Renderer::new(&message, Vec::new())
            .expect("valid")
            .render(&row, "c@d.test")
            .expect("valid");
        assert_eq!(email.template_id.as_deref(), Some("welcome"));
        assert_eq!(Value::Object(email.variables), json!({"name": "Ada", "n": 3}));
    }
}
