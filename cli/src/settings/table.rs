//! The table of all settings (`SETTINGS`): name, variable, type, default, and whether a profile may
//! have it. Resolving, `config show`, `config set`, the manual and the book follow it, so a setting
//! is declared here and nowhere else. `Setting::parse` reads a value from text, `parse_item` from a
//! profile. `variables` lists every `SVC_` variable; one that is missing here is reported to users
//! as unknown.

use std::time::Duration;

use clap::ValueEnum as _;
use serde_json::Value as Json;
use svc_sdk::RecipientGuard;
use toml_edit::{Item, Value};

use super::dialect;
use crate::input::{duration, program, switch};
use crate::output::Format;

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// The name in `config show`, and of the entry in a profile.
    pub name: &'static str,
    /// The environment variable, if there is one.
    pub variable: Option<&'static str>,
    kind: Kind,
    /// Whether the sandbox ignores it, because it is about a live service.
    pub live_only: bool,
    default: Option<&'static str>,
    /// The value in the example of a profile; empty for a setting that no profile may have.
    example: &'static str,
    /// What it is, as a noun phrase.
    pub help: &'static str,
}

/// What a client of `svc mcp` may do: reading, which is always allowed, and what a person allows.
pub const MCP_GROUPS: [&str; 7] = [
    "look", "send", "contacts", "domains", "webhooks", "delete", "sandbox",
];

/// Says what is wrong with a text.
type Check = fn(&str) -> Result<(), String>;

/// How a text is read.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Checked(Check),
    /// Texts, of which each is checked.
    List(Check),
    Flag,
    Number,
    Duration,
    Format,
    /// A table with an entry for each point.
    Dialect,
}

const fn setting(name: &'static str, kind: Kind, help: &'static str) -> Setting {
    Setting {
        name,
        variable: None,
        kind,
        live_only: false,
        default: None,
        example: "",
        help,
    }
}

impl Setting {
    const fn variable(self, name: &'static str) -> Self {
        Self {
            variable: Some(name),
            ..self
        }
    }

    /// Of a live service, with its value in the example of a profile.
    const fn live(self, example: &'static str) -> Self {
        Self {
            live_only: true,
            example,
            ..self
        }
    }

    const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    const fn or(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }
}

/// How long a bulk job that has ended keeps its addresses from another one.
pub const RECENT: Duration = Duration::from_secs(20 * 60 * 60);

/// Every setting, in the order of `config show`, after the two that decide about the others. The keys
/// of the services are in files of their own.
pub static SETTINGS: [Setting; 19] = [
    setting("profile", Kind::Text, "profile, as --profile").variable("SVC_PROFILE"),
    setting(
        "sandbox",
        Kind::Flag,
        "selects the sandbox, as --sandbox does",
    )
    .variable("SVC_SANDBOX")
    .or("false"),
    setting("email_url", Kind::Text, "base URL of the email service")
        .variable("SVC_EMAIL_URL")
        .live("\"https://mail.example.com\""),
    setting(
        "extraction_url",
        Kind::Text,
        "base URL of the extraction service",
    )
    .variable("SVC_EXTRACTION_URL")
    .live("\"https://extract.example.com\""),
    setting("output", Kind::Format, "output format, as --output")
        .variable("SVC_OUTPUT")
        .example("\"json\""),
    setting(
        "timeout",
        Kind::Duration,
        "time limit over all attempts, as --timeout",
    )
    .or("30s")
    .example("\"30s\""),
    setting(
        "retries",
        Kind::Number,
        "maximum number of retries, as --retries",
    )
    .or("2")
    .example("2"),
    setting(
        "ca_bundle",
        Kind::Text,
        "PEM file with trusted CA certificates",
    )
    .variable("SSL_CERT_FILE")
    .example("\"/etc/company.pem\""),
    setting(
        "allow_recipients",
        Kind::List(rule),
        "addresses and domains that may get emails",
    )
    .variable("SVC_ALLOW_RECIPIENTS")
    .example("[\"@example.com\", \"me@x.test\"]"),
    setting(
        "redirect_recipients",
        Kind::Checked(address),
        "address that gets all emails instead",
    )
    .variable("SVC_REDIRECT_RECIPIENTS")
    .example("\"me@x.test\""),
    setting(
        "max_recipients_per_run",
        Kind::Number,
        "maximum number of recipients of a run",
    )
    .variable("SVC_MAX_RECIPIENTS_PER_RUN")
    .example("100"),
    setting(
        "organization",
        Kind::Text,
        "refuse keys of other organizations",
    )
    .live("\"org_019a\""),
    setting(
        "email_key_command",
        Kind::Checked(command),
        "command that prints the key of the email service",
    )
    .live("\"pass show svc/email\""),
    setting(
        "extraction_key_command",
        Kind::Checked(command),
        "command that prints the key of the extraction service",
    )
    .live("\"op read op://work/svc/key\""),
    setting(
        "dialect",
        Kind::Dialect,
        "how the service behaves where its reference is silent",
    )
    .live("{ key-scheme = \"token\" }"),
    setting(
        "mcp_policy",
        Kind::List(group),
        "groups that svc mcp opens beside reading",
    )
    .live("[\"send\", \"contacts\"]"),
    setting(
        "bulk_retention",
        Kind::Duration,
        "how long svc bulk keeps ended jobs",
    )
    .variable("SVC_BULK_RETENTION")
    .or("30d")
    .example("\"7d\""),
    setting(
        "bulk_memory",
        Kind::Duration,
        "how long svc bulk remembers who got the emails of removed jobs",
    )
    .variable("SVC_BULK_MEMORY")
    .or("395d")
    .example("\"90d\""),
    // The last, because a URL may hold a password, and `config show` leaves it out.
    setting(
        "bulk_ledger",
        Kind::Text,
        "PostgreSQL database of svc bulk, as --ledger",
    )
    .variable("SVC_BULK_LEDGER"),
];

/// Variables of `svc` that are not settings, with their meaning.
pub const OTHER_VARIABLES: [(&str, &str); 8] = [
    (
        "SVC_EMAIL_KEY, SVC_EXTRACTION_KEY",
        "API keys of the services",
    ),
    (
        "SVC_EMAIL_KEY_FILE, SVC_EXTRACTION_KEY_FILE",
        "files with the API keys",
    ),
    ("SVC_SANDBOX_DIR", "data directory of the sandbox"),
    ("SVC_SANDBOX_URL", "base URL of a sandbox elsewhere"),
    (
        "SVC_SANDBOX_EMAIL_KEY, SVC_SANDBOX_EXTRACTION_KEY",
        "keys of the sandbox",
    ),
    (
        "SVC_SANDBOX_CONTROL_TOKEN",
        "token of the sandbox's control interface",
    ),
    ("SVC_MCP_TOKEN", "bearer token of svc mcp --listen"),
    (
        "SVC_COMPLETE_TIMEOUT",
        "time limit of a service for shell completion",
    ),
];

/// Variables for the options of `svc sandbox serve`, and those that the completion scripts set.
const UNLISTED: [&str; 24] = [
    "SVC_SANDBOX_ADDR",
    "SVC_SANDBOX_ALLOW_HOST",
    "SVC_SANDBOX_DNS",
    "SVC_SANDBOX_IN_MEMORY",
    "SVC_SANDBOX_KEEP",
    "SVC_SANDBOX_KEEP_FOR",
    "SVC_SANDBOX_LIKE",
    "SVC_SANDBOX_LOG_FORMAT",
    "SVC_SANDBOX_NETWORK",
    "SVC_SANDBOX_NO_SEED",
    "SVC_SANDBOX_PUBLIC_URL",
    "SVC_SANDBOX_RATE_LIMIT",
    "SVC_SANDBOX_RELAY",
    "SVC_SANDBOX_RESOLVER",
    SANDBOX_RUN,
    "SVC_SANDBOX_SEED",
    "SVC_SANDBOX_SET",
    "SVC_SANDBOX_SMTP",
    "SVC_SANDBOX_SMTP_CERT_FILE",
    "SVC_SANDBOX_SMTP_KEY_FILE",
    "SVC_SANDBOX_UNTIL_STDIN_CLOSES",
    "SVC_COMPLETE",
    "SVC_COMPLETE_TYPE",
    "SVC_COMPLETE_COLUMNS",
];

/// A word of its own for each run of `svc sandbox exec`, which is a new service for bulk sending.
pub const SANDBOX_RUN: &str = "SVC_SANDBOX_RUN";

/// Every variable whose name begins with `SVC_`.
pub fn variables() -> impl Iterator<Item = &'static str> {
    let others = OTHER_VARIABLES
        .iter()
        .flat_map(|(names, _)| names.split(", "));
    let settings = SETTINGS.iter().filter_map(|setting| setting.variable);
    settings
        .chain(others)
        .chain(UNLISTED)
        .filter(|name| name.starts_with("SVC_"))
}

/// The settings of a profile.
pub fn profile_settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.in_profile())
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
        let entry = format!("{name} = {example}");
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
        !self.example.is_empty()
    }

    /// The value without any source.
    pub(super) fn default_value(&self) -> Option<Json> {
        self.default.and_then(|text| self.parse(text).ok())
    }

    /// Reads a value. The error says what is wrong with the text.
    pub fn parse(&self, text: &str) -> Result<Json, String> {
        let not = |what: &str| format!("`{text}` is not {what}");
        Ok(match self.kind {
            Kind::Text => text.into(),
            Kind::Flag => switch::parse(text)
                .ok_or_else(|| not("true or false"))?
                .into(),
            Kind::Number => text
                .trim()
                .parse::<u32>()
                .map_err(|_| not("a number"))?
                .into(),
            Kind::Duration if self.name == "bulk_retention" && duration::parse(text)? < RECENT => {
                let why = "for which a job keeps its people from a second email";
                return Err(format!("`{text}` is shorter than 20h, {why}"));
            }
            Kind::Duration => duration::limit(text)?.into(),
            Kind::Checked(check) => check(text).map(|()| text.into())?,
            Kind::Dialect => dialect::to_json(&dialect::from_text(text)?),
            Kind::List(check) => {
                let parts = text.split(|c: char| c == ',' || c.is_whitespace());
                let parts = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>();
                parts.iter().try_for_each(|part| check(part))?;
                parts.into()
            }
            Kind::Format => {
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
        if matches!(self.kind, Kind::Dialect) {
            let table = item.as_table_like().ok_or(" has the wrong type")?;
            let read = dialect::from_table(table).map_err(|problem| format!(": {problem}"))?;
            return Ok(dialect::to_json(&read));
        }
        let text = match item {
            Item::Value(Value::Array(list)) if matches!(self.kind, Kind::List(_)) => {
                list.iter().map(text).collect::<Vec<_>>().join(",")
            }
            Item::Value(value) if value.is_str() || !matches!(self.kind, Kind::Text) => text(value),
            _ => return Err(" has the wrong type".to_owned()),
        };
        self.parse(&text).map_err(|problem| format!(": {problem}"))
    }
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

fn command(text: &str) -> Result<(), String> {
    program::words(text).map(drop)
}

fn group(text: &str) -> Result<(), String> {
    match MCP_GROUPS.contains(&text) {
        true => Ok(()),
        false => Err(format!(
            "`{text}` is not a group: use {}",
            MCP_GROUPS.join(", ")
        )),
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
            SETTINGS
                .iter()
                .all(|s| s.default.is_none() || s.default_value().is_some())
        );
    }

    #[test]
    fn booleans_are_read_without_regard_to_case() {
        let sandbox = &SETTINGS[1];
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
