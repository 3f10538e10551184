//! The `svc config` commands: show every setting with its source, set or remove one in the profile,
//! and print the paths. What a setting is follows from `settings/table.rs`. `set` parses the value,
//! checks it together with those that limit it, such as the guard or a stored key, and only then
//! writes `config.toml`, under the lock of the settings. Keys are shown masked, and are stored by
//! `svc login` only.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::{EmailClient, Service};

use crate::command_line::shell_quoted;
use crate::command_spec::local;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::input::{duration, program};
use crate::output::{Column, View};
use crate::output_schema::of;
use crate::settings::dialect::{from_file, to_json};
use crate::settings::table::{Setting, example_profile, profile_settings};
use crate::settings::{
    ProfileFile, Source, is_same_base_url, key_command_entry, two_keys, url_entry,
};
use crate::urls::without_password;

group! {
    pub enum Command {
        Show(Show),
        Set(Set),
        Unset(Unset),
        Path(Path),
    }
}

const VIEW: View = View(&[
    Column::id("SETTING", "/setting"),
    Column::id("VALUE", "/value"),
    Column::prose("FROM", "/from"),
]);

/// Show every setting and its source; keys are masked
///
/// Precedence, highest first: option, environment variable, the file of --env-file, profile,
/// default.
#[derive(Args, Debug)]
#[command(add = local(of::<Vec<ShownSetting>>))]
#[command(after_long_help = show_help(), aliases = ["get", "list"])]
pub struct Show {
    /// Setting [default: all]
    key: Option<String>,
}

fn show_help() -> String {
    format!(
        "\
  svc config show
  svc config show --profile staging \\
      --jq '.[] | select(.setting == \"email_url\") | .value'

A profile is a table in config.toml (see `svc config path`). `svc login` creates it, and `svc config
set` changes it. A profile also holds client settings, and the dialect of the service: how it behaves
where its reference is silent:

{}
Scope: none (works offline)",
        example_profile()
    )
}

impl Show {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        let mut rows = Vec::new();
        for (setting, value) in settings
            .all()
            .filter(|(setting, _)| setting.name != "bulk_ledger")
        {
            let key = match setting.name {
                "email_url" => Some(("email_key", Service::Email)),
                "extraction_url" => Some(("extraction_key", Service::Extraction)),
                _ if settings.sandbox && setting.live_only => continue,
                _ => None,
            };
            if let Some((key, _)) = key.filter(|_| settings.sandbox) {
                rows.push(ShownSetting::new(setting.name, "the sandbox", "sandbox"));
                rows.push(ShownSetting::new(key, "the sandbox's", "sandbox"));
                continue;
            }
            let from = value
                .map_or(Source::Default, |value| value.source.clone())
                .to_string();
            let value = value.map_or(Value::Null, |value| value.value.clone());
            let url = value
                .as_str()
                .filter(|_| key.is_some())
                .map(without_password);
            rows.push(ShownSetting::new(
                setting.name,
                url.map_or(value, Value::from),
                from,
            ));
            if let Some((name, service)) = key {
                rows.push(key_row(context, name, service)?);
            }
        }

        if let Some(key) = self.key {
            rows.retain(|row| row.setting == key);
            if rows.is_empty() {
                return Err(
                    Failure::usage(format!("{key} is not a setting of this run"))
                        .hint("list them: svc config show --json"),
                );
            }
        } else if context.out.is_table() {
            rows.retain(|row| !row.value.is_null());
        } else {
            let unknown = settings.unknown_entries.iter();
            rows.extend(unknown.map(|one| ShownSetting::new(&one.shown, Value::Null, "unknown")));
        }
        context.out.list(&rows, VIEW, "")
    }
}

fn key_row(context: &Context, name: &str, service: Service) -> Result<ShownSetting, Failure> {
    let settings = &context.settings;
    Ok(match &settings.key_file {
        Some(path) => ShownSetting::new(name, path.display().to_string(), "--key-file"),
        None if settings.is_from_command(service) => {
            let from = format!("profile, {}", key_command_entry(service));
            ShownSetting::new(name, "…", from)
        }
        None => match settings.stored_key(service)? {
            Some(key) => ShownSetting::new(name, key.value.to_string(), key.source.to_string()),
            None => ShownSetting::new(name, Value::Null, "default"),
        },
    })
}

/// Change a setting of the profile
///
/// The entry is written to config.toml, whose comments and other entries are kept. Keys are stored
/// by `svc login`.
#[derive(Args, Debug)]
#[command(add = local(of::<ShownSetting>).of_new_profile())]
#[command(after_long_help = "\
  svc config set retries 5
  svc config set allow_recipients '@example.com, me@x.test' --profile staging
  svc config set dialect key-scheme=token,batch-body=emails
  svc config set --from dialect.toml

The settings are described by svc config show --help.")]
pub struct Set {
    /// Name of the setting
    #[arg(value_parser = names(), hide_possible_values = true, required_unless_present = "from")]
    key: Option<String>,
    /// Value; the items of a list are separated by commas
    ///
    /// For the dialect, POINT=CHOICE sets one point and POINT=auto resets it; the others stay.
    #[arg(allow_hyphen_values = true, required_unless_present = "from")]
    value: Option<String>,
    /// File with the dialect of the service, as svc conform saves it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "value"])]
    from: Option<PathBuf>,
}

/// A name that is not a setting, though somebody may try to set it.
const KEYS: [&str; 2] = ["email_key", "extraction_key"];

fn names() -> PossibleValuesParser {
    let settings = profile_settings().map(|setting| PossibleValue::new(setting.name));
    let keys = KEYS.map(|key| PossibleValue::new(key).hide(true));
    PossibleValuesParser::new(settings.chain(keys))
}

impl Set {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        let (key, value) = match (self.key, self.value, &self.from) {
            (Some(key), Some(value), _) => (key, value),
            (_, _, Some(file)) => ("dialect".to_owned(), dialect_of(context, file)?),
            _ => return Err(Failure::usage("name a setting and its value")),
        };
        let Some(setting) = profile_settings().find(|setting| setting.name == key) else {
            let hint =
                format!("store a key: svc login; or a command that prints it: {key}_command");
            return Err(Failure::usage(format!("{key} is not a setting")).hint(hint));
        };
        if value.trim().is_empty() {
            return Err(Failure::usage(format!("{key}: the value is empty"))
                .hint(format!("to remove the entry: svc config unset {key}")));
        }

        let mut parsed = setting
            .parse(&value)
            .map_err(|problem| Failure::usage(format!("{key}: {problem}")))?;
        if key == "dialect" && self.from.is_none() {
            let mut dialect = settings.dialect.clone();
            let choices = value
                .split(',')
                .map(str::trim)
                .filter(|choice| !choice.is_empty());
            for choice in choices {
                dialect
                    .set(choice)
                    .map_err(|problem| Failure::usage(problem.to_string()))?;
            }
            parsed = to_json(&dialect);
        }

        refuse_in_sandbox(context, setting)?;
        if [url_entry(Service::Email), url_entry(Service::Extraction)].contains(&setting.name) {
            EmailClient::builder(&value, "none").build()?;
        }
        let value = independent_of_directory(context, setting.name, &value)?.unwrap_or(parsed);
        let profile = &settings.profile.value;
        let _lock = settings.lock()?;
        let mut profiles = settings.profiles()?;
        profiles.set(profile, setting.name, value.clone());
        check_together(setting, &profiles, &settings.credentials()?, profile)
            .map_err(|problem| not_changed(&problem, profile))?;
        profiles.save()?;
        let shown = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let sentence = format!("{key} of profile `{profile}` is now {shown}");
        let row = ShownSetting {
            setting: key,
            value,
            from: "profile".to_owned(),
        };
        context.out.done(&sentence, &row)
    }
}

/// Remove a setting of the profile
///
/// The entry is removed from config.toml; its default applies again.
#[derive(Args, Debug)]
#[command(add = local(of::<ShownSetting>))]
#[command(after_long_help = "\
  svc config unset retries
  svc config unset allow_recipients --profile staging")]
pub struct Unset {
    /// Name of the setting
    key: String,
}

impl Unset {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        let known = profile_settings().find(|setting| setting.name == self.key);
        if let Some(setting) = known {
            refuse_in_sandbox(context, setting)?;
        }
        let profile = &settings.profile.value;
        let _lock = settings.lock()?;
        let mut profiles = settings.profiles()?;
        // An entry that svc does not know can be removed, too.
        let was_set = profiles.unset(profile, &self.key);
        let sentence = match (was_set, known) {
            (true, _) => format!("removed {} from profile `{profile}`", self.key),
            (false, Some(_)) => format!("profile `{profile}` has no {}", self.key),
            (false, None) => {
                return Err(Failure::usage(format!("{} is not a setting", self.key))
                    .hint("list the settings: svc config show --help"));
            }
        };
        if was_set {
            profiles.save()?;
        }
        let row = ShownSetting::new(&self.key, Value::Null, "default");
        context.out.done(&sentence, &row)
    }
}

/// With the sandbox, no setting of a live service is changed by mistake.
fn refuse_in_sandbox(context: &Context, setting: &Setting) -> Result<(), Failure> {
    if !(context.settings.sandbox && setting.live_only) {
        return Ok(());
    }
    let problem = format!("{} is a setting of live services only", setting.name);
    Err(Failure::usage(problem).hint("leave out --sandbox, or unset SVC_SANDBOX"))
}

/// The value of a setting that names a file, as it is found from any directory.
fn independent_of_directory(
    context: &Context,
    name: &str,
    value: &str,
) -> Result<Option<Value>, Failure> {
    let settings = &context.settings;
    let wrong = |problem: String| Failure::usage(format!("{name}: {problem}"));
    let absolute = match name {
        "ca_bundle" => {
            let path = settings.path(value.as_ref());
            let pem = std::fs::read(&path).map_err(|error| wrong(format!("{value}: {error}")))?;
            if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
                return Err(wrong(format!("{value} has no certificate in PEM")));
            }
            path.to_str()
                .ok_or_else(|| wrong("the directory of this run is not UTF-8".to_owned()))?
                .to_owned()
        }
        "email_key_command" | "extraction_key_command" => {
            program::absolute(value, &settings.env.cwd).map_err(wrong)?
        }
        _ => return Ok(None),
    };
    Ok(Some(absolute.into()))
}

/// Checks a new setting of a profile against those that limit it.
fn check_together(
    setting: &Setting,
    profiles: &ProfileFile,
    credentials: &ProfileFile,
    profile: &str,
) -> Result<(), Failure> {
    match setting.name {
        "allow_recipients" | "redirect_recipients" | "max_recipients_per_run" => {
            match profiles.guard(profile)?.to_sdk() {
                Some(guard) => Ok(guard.check()?),
                None => Ok(()),
            }
        }
        "bulk_memory" | "bulk_retention" => check_bulk_memory(profiles, profile),
        "email_url" | "email_key_command" => {
            check_stored_key(Service::Email, profiles, credentials, profile)
        }
        "extraction_url" | "extraction_key_command" => {
            check_stored_key(Service::Extraction, profiles, credentials, profile)
        }
        _ => Ok(()),
    }
}

/// Checks that who got the emails of a job is remembered as long as the job is kept.
fn check_bulk_memory(profiles: &ProfileFile, profile: &str) -> Result<(), Failure> {
    let duration = |name: &str| {
        let setting = profile_settings().find(|setting| setting.name == name);
        let default = setting.and_then(Setting::default_value);
        let default = default.as_ref().and_then(Value::as_str);
        let text = profiles.text(profile, name).or(default)?;
        duration::parse(text).ok()
    };
    match (duration("bulk_memory"), duration("bulk_retention")) {
        (Some(memory), Some(retention)) if memory < retention => Err(Failure::usage(
            "bulk_memory is shorter than bulk_retention, for which the job itself is kept",
        )),
        _ => Ok(()),
    }
}

/// Checks that a stored key is the only one of its service, and belongs to its base URL.
fn check_stored_key(
    service: Service,
    profiles: &ProfileFile,
    credentials: &ProfileFile,
    profile: &str,
) -> Result<(), Failure> {
    if credentials.key(profile, service)?.is_none() {
        return Ok(());
    }
    if profiles.text(profile, key_command_entry(service)).is_some() {
        return Err(two_keys(profile, service));
    }

    let url = profiles.text(profile, url_entry(service));
    let of_key = credentials.key_url(profile, service);
    match (url, of_key) {
        (Some(url), Some(of_key)) if !is_same_base_url(url, of_key) => {
            let shown = without_password(of_key);
            let name = shell_quoted(profile);
            Err(Failure::usage(format!(
                "the stored key of the {service} service belongs to {shown}"
            ))
            .hint(format!(
                "log in there: svc login --service {service} --profile {name} --{service}-url URL"
            )))
        }
        _ => Ok(()),
    }
}

/// The failure of a change that contradicts another setting.
fn not_changed(problem: &Failure, profile: &str) -> Failure {
    let message = &problem.message;
    let failure = Failure::usage(format!("profile `{profile}` was not changed: {message}"));
    match &problem.hint {
        Some(hint) if problem.kind() == Kind::Usage => failure.hint(hint.clone()),
        _ => failure.hint("see its settings: svc config show"),
    }
}

/// The dialect in a file, as the text of the setting.
fn dialect_of(context: &Context, file: &std::path::Path) -> Result<String, Failure> {
    let shown = file.display();
    let text = std::fs::read_to_string(context.settings.path(file))
        .map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    let dialect =
        from_file(&text).map_err(|problem| Failure::input(format!("{shown}: {problem}")))?;
    let choices = dialect
        .iter()
        .map(|(point, choice)| format!("{point}={choice}"));
    Ok(choices.collect::<Vec<_>>().join(","))
}

/// A setting with its source.
#[derive(Serialize, JsonSchema)]
pub struct ShownSetting {
    setting: String,
    value: Value,
    from: String,
}

impl ShownSetting {
    fn new(setting: &str, value: impl Into<Value>, from: impl Into<String>) -> Self {
        Self {
            setting: setting.to_owned(),
            value: value.into(),
            from: from.into(),
        }
    }
}

/// Print the paths of the configuration, credentials, data and state
#[derive(Args, Debug)]
#[command(add = local(of::<Paths>))]
#[command(after_long_help = "\
  svc config path
  $EDITOR \"$(svc config path --jq .config)\"")]
pub struct Path {}

impl Path {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        let shown = |path: &std::path::Path| path.display().to_string();
        let paths = Paths {
            config: shown(&settings.config_dir.join("config.toml")),
            credentials: shown(&settings.config_dir.join("credentials.toml")),
            data: shown(&settings.data_dir),
            sandbox: shown(&settings.sandbox_dir),
            state: shown(&settings.state_dir),
        };
        context.out.one(&paths, crate::context::PLAIN)
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Paths {
    config: String,
    credentials: String,
    data: String,
    sandbox: String,
    /// The ledger of svc bulk, `bulk.db`, is in it.
    state: String,
}
