//! The table of all settings (`table.json`): name, variable, type, default, and whether a profile may
//! have it. Resolving, `config show`, `config set`, the manual and the book follow it, so a setting
//! is declared there and nowhere else. `Setting::parse` reads a value from text, `parse_item` from a
//! profile. `variables` lists every `SVC_` variable; one that is missing there is reported to users
//! as unknown.

use std::sync::LazyLock;
use std::time::Duration;

use clap::ValueEnum as _;
use serde::Deserialize;
use serde_json::Value as Json;
use svc_sdk::RecipientGuard;
use toml_edit::{Item, Value};

use super::dialect;
use crate::input::{duration, program, switch};
use crate::output::Format;

/// A setting.
#[derive(Debug, Deserialize)]
pub struct Setting {
    /// The name in `config show`, and of the entry in a profile.
    pub name: &'static str,
    /// The environment variable, if there is one.
    #[serde(borrow)]
    pub variable: Option<&'static str>,
    kind: ValueKind,
    /// Whether the sandbox ignores it, because it is about a live service.
    #[serde(default)]
    pub live_only: bool,
    #[serde(borrow)]
    default: Option<&'static str>,
    /// The value in the example of a profile. A setting without one is in no profile.
    example: Option<String>,
    /// The meaning, as a noun phrase.
    pub help: &'static str,
}

/// How a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ValueKind {
    Text,
    /// An email address.
    Address,
    /// The command line of another program.
    Command,
    /// Rules of the recipient guard.
    Recipients,
    /// Groups of `svc mcp`.
    Groups,
    Flag,
    Number,
    Duration,
    /// A duration of at least [`RECENT`].
    Retention,
    Format,
    /// A table with an entry for each point.
    Dialect,
}

/// The content of `table.json`.
#[derive(Deserialize)]
struct Tables {
    /// Every setting, in the order of `config show`, after the two that decide about the others. The keys
    /// of the services are in files of their own. `bulk_ledger` is the last, because its URL may hold a
    /// password, and `config show` leaves it out.
    settings: Vec<Setting>,
    /// Variables that are not settings, with their meaning.
    #[serde(borrow)]
    variables: Vec<(&'static str, &'static str)>,
    /// Variables for the options of `svc sandbox serve`, and those that the completion scripts set.
    #[serde(borrow)]
    unlisted: Vec<&'static str>,
}

static TABLES: LazyLock<Tables> =
    LazyLock::new(|| serde_json::from_str(include_str!("table.json")).expect("valid JSON"));

/// Every setting.
pub fn settings() -> &'static [Setting] {
    &TABLES.settings
}

/// The environment variables, with their meaning.
pub fn explained_variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    let settings = settings()
        .iter()
        .filter_map(|one| Some((one.variable?, one.help)));
    settings.chain(TABLES.variables.iter().copied())
}

/// Actions of a client of `svc mcp`: reading, which is always allowed, and those that a person allows.
pub const MCP_GROUPS: [&str; 7] = [
    "look", "send", "contacts", "domains", "webhooks", "delete", "sandbox",
];

/// How long a bulk job that has ended keeps its addresses from another one.
pub const RECENT: Duration = Duration::from_secs(20 * 60 * 60);

/// A word of its own for each run of `svc sandbox exec`, which is a new service for bulk sending.
pub const SANDBOX_RUN: &str = "SVC_SANDBOX_RUN";

/// Every variable whose name begins with `SVC_`.
pub fn variables() -> impl Iterator<Item = &'static str> {
    explained_variables()
        .flat_map(|(names, _)| names.split(", "))
        .chain(TABLES.unlisted.iter().copied())
        .filter(|name| name.starts_with("SVC_"))
}

/// The settings of a profile.
pub fn profile_settings() -> impl Iterator<Item = &'static Setting> {
    settings().iter().filter(|setting| setting.in_profile())
}

/// A profile with every setting, for the help.
pub fn example_profile() -> String {
    let mut text = "  [profiles.staging]\n".to_owned();
    for Setting {
        name,
        example,
        help,
        ..
    } in profile_settings()
    {
        let entry = format!("{name} = {}", example.as_deref().unwrap_or_default());
        // A line of the help has 80 columns.
        match entry.len() + help.len() {
            0..74 => text.push_str(&format!("  {entry:<32} # {help}\n")),
            _ => text.push_str(&format!("  # {help}:\n  {entry}\n")),
        }
    }
    text
}

impl Setting {
    /// Whether a profile may have it.
    pub(super) fn in_profile(&self) -> bool {
        self.example.is_some()
    }

    /// The value without any source.
    pub fn default_value(&self) -> Option<Json> {
        self.default.and_then(|text| self.parse(text).ok())
    }

    /// Reads a value. The error says what is wrong with the text.
    pub fn parse(&self, text: &str) -> Result<Json, String> {
        let not = |what: &str| format!("`{text}` is not {what}");
        Ok(match self.kind {
            ValueKind::Text => text.into(),
            ValueKind::Flag => switch::parse(text)
                .ok_or_else(|| not("true or false"))?
                .into(),
            ValueKind::Number => text
                .trim()
                .parse::<u32>()
                .map_err(|_| not("a number"))?
                .into(),
            ValueKind::Retention if duration::parse(text)? < RECENT => {
                let why = "for which a job keeps its people from a second email";
                return Err(format!("`{text}` is shorter than 20h, {why}"));
            }
            ValueKind::Duration | ValueKind::Retention => duration::limit(text)?.into(),
            ValueKind::Address => address(text).map(|()| text.into())?,
            ValueKind::Command => program::words(text).map(|_| text.into())?,
            ValueKind::Recipients => list(text, rule)?,
            ValueKind::Groups => list(text, group)?,
            ValueKind::Dialect => dialect::to_json(&dialect::from_text(text)?),
            ValueKind::Format => {
                let names = Format::value_variants()
                    .iter()
                    .filter(|it| !it.is_of_dns_records());
                let names = names.map(|format| format.name()).collect::<Vec<_>>();
                let known = names.iter().find(|name| *name == text).cloned();
                let problem = || not(&format!("an output format: use {}", names.join(", ")));
                known.ok_or_else(problem)?.into()
            }
        })
    }

    /// Reads an entry of a profile, as a text that has the same value. The error completes a sentence
    /// about the entry.
    pub(super) fn parse_item(&self, item: &Item) -> Result<Json, String> {
        let text = |value: &Value| match value.as_str() {
            Some(text) => text.to_owned(),
            None if let Some(number) = value.as_integer() => number.to_string(),
            // Without the comment behind it.
            None => value.clone().decorated("", "").to_string(),
        };

        if self.kind == ValueKind::Dialect {
            let table = item.as_table_like().ok_or(" has the wrong type")?;
            let read = dialect::from_table(table).map_err(|problem| format!(": {problem}"))?;
            return Ok(dialect::to_json(&read));
        }

        let text = match item {
            Item::Value(Value::Array(list))
                if matches!(self.kind, ValueKind::Recipients | ValueKind::Groups) =>
            {
                list.iter().map(text).collect::<Vec<_>>().join(",")
            }
            Item::Value(value) if value.is_str() || self.kind != ValueKind::Text => text(value),
            _ => return Err(" has the wrong type".to_owned()),
        };
        self.parse(&text).map_err(|problem| format!(": {problem}"))
    }
}

/// Texts that are separated by commas or white space, of which each is checked.
fn list(text: &str, check: fn(&str) -> Result<(), String>) -> Result<Json, String> {
    let parts = text.split(|c: char| c == ',' || c.is_whitespace());
    let parts = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>();
    parts.iter().try_for_each(|part| check(part))?;
    Ok(parts.into())
}

fn rule(text: &str) -> Result<(), String> {
    RecipientGuard::allow([text])
        .check()
        .map_err(|error| error.to_string())
}

fn address(text: &str) -> Result<(), String> {
    let guard = RecipientGuard::default().redirect_to(text);
    guard.check().map_err(|error| error.to_string())
}

fn group(text: &str) -> Result<(), String> {
    if MCP_GROUPS.contains(&text) {
        Ok(())
    } else {
        Err(format!(
            "`{text}` is not a group: use {}",
            MCP_GROUPS.join(", ")
        ))
    }
}

/// A value as an entry of a TOML file.
pub fn to_item(value: &Json) -> Item {
    match value {
        Json::Bool(flag) => toml_edit::value(*flag),
        Json::Number(number) => toml_edit::value(number.as_i64().unwrap_or_default()),
        Json::Array(list) => toml_edit::value(
            list.iter()
                .filter_map(Json::as_str)
                .collect::<toml_edit::Array>(),
        ),
        Json::Object(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(name, choice)| (name.as_str(), to_item(choice)));
            Item::Table(entries.collect())
        }
        text => toml_edit::value(text.as_str().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_a_profile_is_valid_and_fits_80_columns() {
        let text = example_profile();
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        let document = text.parse::<toml_edit::DocumentMut>().expect("TOML");
        for setting in profile_settings() {
            let item = document["profiles"]["staging"]
                .get(setting.name)
                .expect(setting.name);
            let value = setting.parse_item(item).expect(setting.name);
            assert_eq!(setting.parse_item(&to_item(&value)), Ok(value));
        }

        assert!(
            settings()
                .iter()
                .all(|s| s.default.is_none() || s.default_value().is_some())
        );
    }

    #[test]
    fn booleans_are_read_without_regard_to_case() {
        let sandbox = &settings()[1];
        for (text, flag) in [
            ("False", false),
            ("OFF", false),
            ("No", false),
            ("0", false),
        ] {
            assert_eq!(sandbox.parse(text), Ok(Json::from(flag)), "{text}");
        }

        for text in ["1", "TRUE", "Yes", "on"] {
            assert_eq!(sandbox.parse(text), Ok(Json::from(true)), "{text}");
        }

        assert!(sandbox.parse("maybe").is_err());
    }
}
