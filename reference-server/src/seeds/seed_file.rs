//! [`SeedFile`]: what a server has from its start, as TOML. `SeedFile::parse` checks the syntax and
//! the names and types of fields; their values are checked by the rules of each resource, when
//! `seed_rules.rs` applies the file in one transaction. Then `mistake` finds the line of a field
//! that was refused. An `InvalidSeed` repeats no value, which may be a secret.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_sdk::Dialect;
use toml::de::{DeTable, DeValue};

use crate::keys::key_wire::{KeyMode, KeyService};
use crate::model::{Failure, typed};
use crate::organizations::organization_wire::NewOrganizationWebhook;

/// The content of a seed file.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedFile {
    /// How the services behave where their reference is silent.
    #[serde(default, skip_serializing_if = "Dialect::is_empty")]
    pub(crate) dialect: Dialect,
    #[serde(default)]
    pub(crate) organizations: Vec<SeedOrganization>,
    /// The source, for the lines of mistakes.
    #[serde(skip)]
    text: String,
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedOrganization {
    pub(crate) name: String,
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
    pub(crate) webhooks: Vec<NewOrganizationWebhook>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedKey {
    pub(crate) key: String,
    pub(crate) service: KeyService,
    /// All, if it is absent.
    pub(crate) scopes: Option<Vec<String>>,
    pub(crate) mode: Option<KeyMode>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedDomain {
    pub(crate) name: String,
    /// Whether it is; true if it is absent.
    pub(crate) verified: Option<bool>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedTemplate {
    pub(crate) id: String,
    pub(crate) subject: Option<String>,
    pub(crate) html: Option<String>,
    pub(crate) text: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedAudience {
    pub(crate) name: String,
    /// Without it, the audience with this name, or a new one.
    pub(crate) id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) contacts: Vec<SeedContact>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeedContact {
    pub(crate) email: String,
    pub(crate) name: Option<String>,
    pub(crate) topics: Option<Vec<String>>,
    pub(crate) subscribed: Option<bool>,
    pub(crate) metadata: Option<Map<String, Value>>,
}

impl SeedFile {
    /// A file with these organizations.
    pub(crate) fn of(organizations: Vec<SeedOrganization>) -> Self {
        Self {
            dialect: Dialect::default(),
            organizations,
            text: String::new(),
        }
    }

    /// The file with the comment `head`.
    pub(crate) fn write(&self, head: &str) -> Option<String> {
        Some(format!("{head}{}", toml::to_string_pretty(self).ok()?))
    }

    /// Reads a file. What it says is checked when it is applied.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidSeed> {
        let document = toml::from_str(text).map_err(|error: toml::de::Error| InvalidSeed {
            line: error.span().map_or(1, |span| line_at(text, span.start)),
            field: String::new(),
            message: error.message().to_owned(),
        })?;
        let file: Self = typed::read(document, "a field of this file", &[])
            .map_err(|error| InvalidSeed::of(text, &error))?;
        Ok(Self {
            text: text.to_owned(),
            ..file
        })
    }

    /// The mistake that an error is about, if it names a field.
    pub(crate) fn mistake(&self, error: &Failure) -> Option<InvalidSeed> {
        error.first_problem()?;
        Some(InvalidSeed::of(&self.text, error))
    }
}

/// Counts its organizations only: the rest are secrets and content.
impl fmt::Debug for SeedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeedFile")
            .field("organizations", &self.organizations.len())
            .finish()
    }
}

/// A mistake in a seed file. Nothing of the file is applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {}{message}", if .field.is_empty() { String::new() } else { format!("{field}: ") })]
#[non_exhaustive]
pub struct InvalidSeed {
    /// The line, from 1.
    pub line: usize,
    /// The path of the field, such as `organizations[0].webhooks[1].url`; empty if the file is not
    /// TOML.
    pub field: String,
    /// The problem, as a sentence.
    pub message: String,
}

impl InvalidSeed {
    fn of(text: &str, error: &Failure) -> Self {
        let (field, message) = error.first_problem().unwrap_or(("", error.message()));
        Self {
            line: line_of(text, field),
            field: field.to_owned(),
            message: message.to_owned(),
        }
    }
}

fn line_at(text: &str, position: usize) -> usize {
    text.bytes()
        .take(position)
        .filter(|&byte| byte == b'\n')
        .count()
        + 1
}

/// The line of the value at this path, or of the innermost one that is there.
fn line_of(text: &str, path: &str) -> usize {
    let Ok(document) = DeTable::parse(text) else {
        return 1;
    };

    let mut start = document.span().start;
    let mut value = &DeValue::Table(document.into_inner());
    for part in path.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
        let inner = match value {
            DeValue::Table(table) => table.get(part),
            DeValue::Array(array) => part.parse().ok().and_then(|index: usize| array.get(index)),
            _ => None,
        };
        let Some(inner) = inner else { break };
        (start, value) = (inner.span().start, inner.get_ref());
    }
    line_at(text, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_names_line_and_field_and_no_value() {
        for (text, expected) in [
            ("organizations = 1", "line 1: organizations: must be a list"),
            (
                "[[organizations]]\nname = \"A\"\n[[organizations.webhooks]]\nurl = 5\n",
                "line 4: organizations[0].webhooks[0].url: must be a string",
            ),
            (
                "[[organizations]]\nname = \"A\"\n[[organizations.webhooks]]\nurl = \"u\"\nevents = [\"email.sent\"]\nactive = \"whsec_1\"\n",
                "line 6: organizations[0].webhooks[0].active: must be a boolean",
            ),
        ] {
            let mistake = SeedFile::parse(text).expect_err("refused");
            assert_eq!(mistake.to_string(), expected);
        }

        let unknown = SeedFile::parse("[[organizations]]\nname = \"A\"\ntitle = 1\n");
        let unknown = unknown.expect_err("refused").to_string();
        assert!(
            unknown.starts_with(
                "line 3: organizations[0].title: is not a field of this file; it has name, "
            ),
            "{unknown}"
        );
        let broken = SeedFile::parse("a = 1\nb = [\n").expect_err("refused");
        assert!(broken.line >= 2 && broken.field.is_empty(), "{broken}");
    }
}
