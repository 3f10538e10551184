//! The table of all settings. Parsing, `config show`, `config set`, the manual and the book follow it.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum as _;
use serde_json::{Value as Json, json};
use toml_edit::Item;

use crate::input::{duration, switch};
use crate::output::Format;

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// The name in `config show`, and of the entry in a profile.
    pub name: &'static str,
    /// The environment variable, if there is one.
    pub variable: Option<&'static str>,
    kind: Kind,
    /// Whether a profile may have it.
    pub in_profile: bool,
    /// Whether the sandbox ignores it, because it is about a live service.
    pub live_only: bool,
    default: Option<&'static str>,
    /// The value in the example of a profile.
    example: &'static str,
    /// What it is, as a noun phrase.
    pub help: &'static str,
}

/// How a text is read.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Path,
    Flag,
    Number,
    Duration,
    List,
    Format,
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    Text(String),
    Path(PathBuf),
    Flag(bool),
    Number(u32),
    Duration(Duration),
    List(Vec<String>),
}

const fn setting(name: &'static str, kind: Kind, help: &'static str) -> Setting {
    Setting {
        name,
        variable: None,
        kind,
        in_profile: true,
        live_only: false,
        default: None,
        example: "",
        help,
    }
}

impl Setting {
    const fn variable(self, name: &'static str) -> Self {
        Self { variable: Some(name), ..self }
    }

    const fn not_in_profiles(self) -> Self {
        Self { in_profile: false, ..self }
    }

    /// Of a live service, with its value in the example of a profile.
    const fn live(self, example: &'static str) -> Self {
        Self { live_only: true, example, ..self }
    }

    const fn example(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }
}

/// Every setting, in the order of `config show`. The keys of the services are in files of their own.
pub static SETTINGS: [Setting; 23] = [
    setting("profile", Kind::Text, "profile, as --profile")
        .variable("SVC_PROFILE")
        .not_in_profiles(),
    setting("sandbox", Kind::Flag, "selects the sandbox, as --sandbox does")
        .variable("SVC_SANDBOX")
        .not_in_profiles()
        .or("false"),
    setting("email_url", Kind::Text, "base URL of the email service")
        .variable("SVC_EMAIL_URL")
        .live("\"https://mail.example.com\""),
    setting("extraction_url", Kind::Text, "base URL of the extraction service")
        .variable("SVC_EXTRACTION_URL")
        .live("\"https://extract.example.com\""),
    setting("output", Kind::Format, "output format, as --output")
        .variable("SVC_OUTPUT")
        .example("\"json\""),
    setting("timeout", Kind::Duration, "time limit over all attempts, as --timeout")
        .or("30s")
        .example("\"30s\""),
    setting("retries", Kind::Number, "maximum number of retries, as --retries")
        .or("2")
        .example("2"),
    setting("ca_bundle", Kind::Path, "PEM file with trusted CA certificates")
        .variable("SSL_CERT_FILE")
        .example("\"/etc/company.pem\""),
    setting("allow_recipients", Kind::List, "addresses and domains that may get emails")
        .variable("SVC_ALLOW_RECIPIENTS")
        .example("[\"@example.com\", \"me@x.test\"]"),
    setting("redirect_recipients", Kind::Text, "address that gets all emails instead")
        .variable("SVC_REDIRECT_RECIPIENTS")
        .example("\"me@x.test\""),
    setting("max_recipients_per_run", Kind::Number, "maximum number of recipients of a run")
        .variable("SVC_MAX_RECIPIENTS_PER_RUN")
        .example("100"),
    setting("max_recipients_per_hour", Kind::Number, "maximum number of recipients of an hour")
        .variable("SVC_MAX_RECIPIENTS_PER_HOUR")
        .example("500"),
    setting("organization", Kind::Text, "refuse keys of other organizations").live("\"org_019a\""),
    setting("key_header", Kind::Text, "header with the email service's key").live("\"X-Api-Key\""),
    setting("key_prefix", Kind::Text, "prefix of the key").live("\"Token \""),
    setting("batch_key", Kind::Text, "batch body {\"emails\": [...]}, not an array")
        .live("\"emails\""),
    setting("event_header", Kind::Text, "header with the event of a delivery").live("\"X-Event\""),
    setting("first_page", Kind::Number, "number of the first page").live("0"),
    setting("insecure_webhooks", Kind::Flag, "allow plain http webhook URLs")
        .or("false")
        .live("true"),
    setting("local_checks", Kind::Flag, "false leaves limits to the service")
        .or("true")
        .live("false"),
    setting("honors_idempotency_key", Kind::Flag, "retry requests with an idempotency key")
        .or("false")
        .live("true"),
    setting("bulk_retention", Kind::Duration, "how long svc bulk keeps ended jobs")
        .variable("SVC_BULK_RETENTION")
        .or("30d")
        .example("\"7d\""),
    // The last, because a URL may hold a password, and `config show` leaves it out.
    setting("bulk_queue", Kind::Text, "Redis server of svc bulk, as --queue")
        .variable("SVC_BULK_QUEUE")
        .not_in_profiles(),
];

/// Variables of `svc` that are not settings, with their meaning.
pub const OTHER_VARIABLES: [(&str, &str); 6] = [
    ("SVC_EMAIL_KEY, SVC_EXTRACTION_KEY", "API keys of the services"),
    ("SVC_EMAIL_KEY_FILE, SVC_EXTRACTION_KEY_FILE", "files with the API keys"),
    ("SVC_SANDBOX_DIR", "data directory of the sandbox"),
    ("SVC_SANDBOX_EMAIL_KEY, SVC_SANDBOX_EXTRACTION_KEY", "keys of the sandbox"),
    ("SVC_SANDBOX_CONTROL_TOKEN", "token of the sandbox's control interface"),
    ("SVC_COMPLETE_TIMEOUT", "time limit of a service for shell completion"),
];

/// Variables for the options of `svc sandbox serve`, and those that the completion scripts set.
const UNLISTED: [&str; 21] = [
    "SVC_SANDBOX_ADDR",
    "SVC_SANDBOX_DNS",
    "SVC_SANDBOX_IN_MEMORY",
    "SVC_SANDBOX_KEEP",
    "SVC_SANDBOX_LOG_FORMAT",
    "SVC_SANDBOX_NETWORK",
    "SVC_SANDBOX_NO_SEED",
    "SVC_SANDBOX_PUBLIC_URL",
    "SVC_SANDBOX_RATE_LIMIT",
    "SVC_SANDBOX_RELAY",
    "SVC_SANDBOX_RELAY_AGAIN",
    "SVC_SANDBOX_RESOLVER",
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

/// Every variable whose name begins with `SVC_`.
pub fn variables() -> impl Iterator<Item = &'static str> {
    let others = OTHER_VARIABLES.iter().flat_map(|(names, _)| names.split(", "));
    let settings = SETTINGS.iter().filter_map(|setting| setting.variable);
    settings.chain(others).chain(UNLISTED).filter(|name| name.starts_with("SVC_"))
}

/// The settings of a profile.
pub fn profile_settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.in_profile)
}

/// A profile with every setting, for the help.
pub fn example_profile() -> String {
    let mut text = "  [profiles.staging]\n".to_owned();
    for Setting { name, example, help, .. } in profile_settings() {
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
    /// The value without any source.
    pub fn default_value(&self) -> Option<SettingValue> {
        self.default.and_then(|text| self.parse(text).ok())
    }

    /// Reads a value. The error says what is wrong with the text.
    pub fn parse(&self, text: &str) -> Result<SettingValue, String> {
        let not = |what: &str| format!("`{text}` is not {what}");
        Ok(match self.kind {
            Kind::Text => SettingValue::Text(text.to_owned()),
            Kind::Path => SettingValue::Path(text.into()),
            Kind::Flag => {
                SettingValue::Flag(switch::parse(text).ok_or_else(|| not("true or false"))?)
            }
            Kind::Number => {
                let number = text.trim().parse().map_err(|_| not("a number"))?;
                SettingValue::Number(number)
            }
            Kind::Duration => SettingValue::Duration(duration::parse_limit(text)?),
            Kind::List => {
                let parts = text.split(|c: char| c == ',' || c.is_whitespace());
                let parts = parts.filter(|part| !part.is_empty()).map(str::to_owned);
                SettingValue::List(parts.collect())
            }
            Kind::Format => {
                let names = Format::value_variants().iter().filter(|it| !it.is_of_dns_records());
                let names = names.filter_map(Format::to_possible_value);
                let names = names.map(|value| value.get_name().to_owned()).collect::<Vec<_>>();
                let known = names.iter().find(|name| *name == text);
                let known = known
                    .ok_or_else(|| not(&format!("an output format: use {}", names.join(", "))))?;
                SettingValue::Text(known.clone())
            }
        })
    }

    /// Reads an entry of a profile. The error completes a sentence about the entry.
    pub(super) fn parse_item(&self, item: &Item) -> Result<SettingValue, String> {
        let texts = |item: &Item| {
            let list = item.as_array()?.iter();
            list.map(|each| each.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        match (self.kind, item.as_str()) {
            (Kind::List, _) => {
                texts(item).map(SettingValue::List).ok_or_else(|| "is not a list of strings".into())
            }
            (Kind::Flag, _) => {
                item.as_bool().map(SettingValue::Flag).ok_or_else(|| "is not true or false".into())
            }
            (Kind::Number, _) => {
                let number = item.as_integer().and_then(|number| u32::try_from(number).ok());
                number
                    .map(SettingValue::Number)
                    .ok_or_else(|| "is not a non-negative integer".into())
            }
            (_, Some(text)) => self.parse(text).map_err(|problem| format!(": {problem}")),
            (_, None) => Err("is not a string".into()),
        }
    }
}

impl SettingValue {
    /// As `config show` prints it.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Text(text) => json!(text),
            Self::Path(path) => json!(path.display().to_string()),
            Self::Flag(flag) => json!(flag),
            Self::Number(number) => json!(number),
            Self::Duration(duration) => json!(seconds(*duration)),
            Self::List(list) => json!(list),
        }
    }

    /// As an entry of a profile.
    pub(super) fn to_item(&self) -> Item {
        match self {
            Self::Text(text) => toml_edit::value(text),
            Self::Path(path) => toml_edit::value(path.display().to_string()),
            Self::Flag(flag) => toml_edit::value(*flag),
            Self::Number(number) => toml_edit::value(i64::from(*number)),
            Self::Duration(duration) => toml_edit::value(seconds(*duration)),
            Self::List(list) => toml_edit::value(list.iter().collect::<toml_edit::Array>()),
        }
    }

    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn into_path(self) -> Option<PathBuf> {
        match self {
            Self::Path(path) => Some(path),
            _ => None,
        }
    }

    pub(super) fn into_flag(self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    pub(super) fn into_number(self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn into_duration(self) -> Option<Duration> {
        match self {
            Self::Duration(duration) => Some(duration),
            _ => None,
        }
    }

    pub(super) fn into_list(self) -> Option<Vec<String>> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }
}

fn seconds(duration: Duration) -> String {
    const DAY: u128 = 86_400_000;
    match duration.as_millis() {
        days if days > 0 && days % DAY == 0 => format!("{}d", days / DAY),
        millis => format!("{}s", millis as f64 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_a_profile_is_valid_and_fits_80_columns() {
        let text = example_profile();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let document = text.parse::<toml_edit::DocumentMut>().expect("TOML");
        for setting in profile_settings() {
            let item = document["profiles"]["staging"].get(setting.name).expect(setting.name);
            let value = setting.parse_item(item).expect(setting.name);
            assert_eq!(setting.parse_item(&value.to_item()), Ok(value));
        }
        assert!(SETTINGS.iter().all(|s| s.default.is_none() || s.default_value().is_some()));
    }

    #[test]
    fn booleans_are_read_without_regard_to_case() {
        let sandbox = &SETTINGS[1];
        for (text, flag) in [("False", false), ("OFF", false), ("No", false), ("0", false)] {
            assert_eq!(sandbox.parse(text), Ok(SettingValue::Flag(flag)), "{text}");
        }
        for text in ["1", "TRUE", "Yes", "on"] {
            assert_eq!(sandbox.parse(text), Ok(SettingValue::Flag(true)), "{text}");
        }
        assert!(sandbox.parse("maybe").is_err());
    }
}
