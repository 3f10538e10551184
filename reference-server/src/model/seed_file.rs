//! [`SeedFile`]: what a server has from its start, as a TOML file says it.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_sdk::Service;
use toml::Spanned;

/// The content of a seed file.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedFile {
    #[serde(default)]
    pub(crate) organizations: Vec<SeedOrganization>,
    /// The source, for the lines of mistakes.
    #[serde(skip)]
    text: String,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedOrganization {
    pub(crate) name: Spanned<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) balance_cents: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) keys: Vec<SeedKey>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) domains: Vec<SeedDomain>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) templates: Vec<SeedTemplate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) audiences: Vec<SeedAudience>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) webhooks: Vec<SeedWebhook>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedKey {
    pub(crate) key: Spanned<String>,
    pub(crate) service: SeedService,
    /// All, if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scopes: Option<Spanned<Vec<String>>>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) mode: SeedMode,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SeedService {
    Email,
    Extraction,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SeedMode {
    #[default]
    Test,
    Live,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedDomain {
    pub(crate) name: Spanned<String>,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) verified: bool,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedTemplate {
    pub(crate) id: Spanned<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Spanned<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) html: Option<Spanned<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<Spanned<String>>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedAudience {
    pub(crate) name: Spanned<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) contacts: Vec<SeedContact>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedContact {
    pub(crate) email: Spanned<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) topics: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subscribed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Map<String, Value>>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedWebhook {
    pub(crate) url: Spanned<String>,
    /// Those of one service.
    pub(crate) events: Spanned<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Spanned<String>>,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub(crate) active: bool,
}

impl SeedOrganization {
    /// An organization with a verified domain and webhooks, each a URL, its events and its secret,
    /// that is in no file.
    pub(crate) fn with(
        name: String,
        domain: String,
        webhooks: impl Iterator<Item = (String, Vec<String>, Option<String>)>,
    ) -> Self {
        let webhooks = webhooks.map(|(url, events, secret)| SeedWebhook {
            url: unspanned(url),
            events: unspanned(events),
            secret: secret.map(unspanned),
            active: true,
        });
        Self {
            name: unspanned(name),
            balance_cents: None,
            keys: Vec::new(),
            domains: vec![SeedDomain { name: unspanned(domain), verified: true }],
            templates: Vec::new(),
            audiences: Vec::new(),
            webhooks: webhooks.collect(),
        }
    }
}

/// A value that is in no file.
pub(crate) fn unspanned<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

impl SeedWebhook {
    /// The service of the events.
    pub(crate) fn service(&self) -> Service {
        let events = self.events.get_ref();
        match events.first().is_some_and(|event| event.starts_with("extraction.")) {
            true => Service::Extraction,
            false => Service::Email,
        }
    }
}

const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_yes(value: &bool) -> bool {
    *value
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl From<SeedService> for Service {
    fn from(service: SeedService) -> Self {
        match service {
            SeedService::Email => Self::Email,
            SeedService::Extraction => Self::Extraction,
        }
    }
}

impl SeedFile {
    /// What a server has, as a file with the comment `head`.
    pub(crate) fn write(organizations: Vec<SeedOrganization>, head: &str) -> Option<String> {
        let file = Self { organizations, text: String::new() };
        Some(format!("{head}{}", toml::to_string_pretty(&file).ok()?))
    }

    /// Reads a file. What it says is checked when it is applied.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidSeed> {
        let at = |error: &toml::de::Error, field: String| InvalidSeed {
            line: error.span().map_or(1, |span| line(text, &span)),
            field,
            message: without_value(error.message()),
        };
        let document =
            toml::Deserializer::parse(text).map_err(|error| at(&error, String::new()))?;
        let parsed: Self = serde_path_to_error::deserialize(document).map_err(|error| {
            // A value with its position is a structure of its own.
            let path = error.path().to_string();
            let path = path.split(".$__").next().unwrap_or_default();
            at(error.inner(), if path == "." { String::new() } else { path.to_owned() })
        })?;
        Ok(Self { text: text.to_owned(), ..parsed })
    }

    /// A mistake in the value at this position.
    pub(crate) fn mistake(
        &self,
        span: &Range<usize>,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> InvalidSeed {
        let line = line(&self.text, span);
        InvalidSeed { line, field: field.into(), message: message.into() }
    }
}

/// Counts its organizations only: the rest are secrets and content.
impl fmt::Debug for SeedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeedFile").field("organizations", &self.organizations.len()).finish()
    }
}

/// A mistake in a seed file. Nothing of the file is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidSeed {
    /// The line, from 1.
    pub line: usize,
    /// The path of the field, such as `organizations[0].webhooks[1].url`; empty if the file is not
    /// TOML.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for InvalidSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, field, message } = self;
        match field.as_str() {
            "" => write!(f, "line {line}: {message}"),
            field => write!(f, "line {line}: {field}: {message}"),
        }
    }
}

impl std::error::Error for InvalidSeed {}

fn line(text: &str, span: &Range<usize>) -> usize {
    text.bytes().take(span.start).filter(|&byte| byte == b'\n').count() + 1
}

/// The message without the string that it quotes, which may be a secret.
fn without_value(message: &str) -> String {
    match message
        .split_once("string \"")
        .and_then(|(before, rest)| Some((before, rest.rsplit_once('"')?.1)))
    {
        Some((before, after)) => format!("{before}string{after}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_names_line_and_field_and_no_value() {
        for (text, expected) in [
            (
                "organizations = 1",
                "line 1: organizations: invalid type: integer `1`, expected a sequence",
            ),
            (
                "[[organizations]]\nname = \"A\"\n[[organizations.webhooks]]\nurl = 5\n",
                "line 4: organizations[0].webhooks[0].url: invalid type: integer `5`, expected a string",
            ),
            (
                "[[organizations]]\nname = \"A\"\n[[organizations.webhooks]]\nurl = \"u\"\nevents = [\"email.sent\"]\nactive = \"whsec_1\"\n",
                "line 6: organizations[0].webhooks[0].active: invalid type: string, expected a boolean",
            ),
        ] {
            let mistake = SeedFile::parse(text).expect_err("refused");
            assert_eq!(mistake.to_string(), expected);
        }
        let unknown = SeedFile::parse("[[organizations]]\nname = \"A\"\ntitle = 1\n");
        let unknown = unknown.expect_err("refused").to_string();
        assert!(
            unknown.starts_with("line 3: organizations[0].title: unknown field `title`"),
            "{unknown}"
        );
        let broken = SeedFile::parse("a = 1\nb = [\n").expect_err("refused");
        assert!(broken.line >= 2 && broken.field.is_empty(), "{broken}");
    }
}
