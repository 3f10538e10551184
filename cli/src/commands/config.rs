//! The `svc config` commands: settings and their sources.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use svc_sdk::Service;

use crate::commands::doctor::unknown_entries;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Format, View};
use crate::settings::{Sourced, guard};
use crate::urls::without_password;

group! {
    pub enum Command {
        Show(Show),
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
#[command(after_long_help = "\
Examples:
  svc config show
  svc config show --profile staging \\
      --jq '.[] | select(.setting == \"email_url\") | .value'

A profile is a table in config.toml (see `svc config path`). `svc login` creates it; edit the file
to change it. A profile also holds client settings, and compatibility settings for points that
the service's reference leaves open. SVC_ALLOW_RECIPIENTS, SVC_REDIRECT_RECIPIENTS,
SVC_MAX_RECIPIENTS_PER_RUN and SVC_MAX_RECIPIENTS_PER_HOUR replace the settings about recipients:

  [profiles.staging]
  email_url = \"https://mail.example.com\"
  extraction_url = \"https://extract.example.com\"
  organization = \"org_019a\"        # refuse keys of other organizations
  output = \"json\"
  timeout = \"30s\"
  retries = 2
  ca_bundle = \"/etc/company.pem\"
  key_header = \"X-Api-Key\"         # header with the email service's key
  key_prefix = \"Token \"            # prefix of the key
  batch_key = \"emails\"             # batch body {\"emails\": [...]}, not an array
  event_header = \"X-Event\"         # header with the event of a delivery
  first_page = 0                   # number of the first page
  insecure_webhooks = true         # allow plain http webhook URLs
  local_checks = false             # leave limits to the service
  honors_idempotency_key = true   # retry requests with an idempotency key
  allow_recipients = [\"@example.com\", \"me@x.test\"]  # refuse other recipients
  redirect_recipients = \"me@x.test\"  # send all emails to this address
  max_recipients_per_run = 100
  max_recipients_per_hour = 500

Scope: none (works offline)")]
pub struct Show {}

impl Show {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        let mut rows = vec![
            row("profile", Some(&settings.profile)),
            Row::new("sandbox", settings.sandbox, settings.sandbox_from.to_string()),
        ];
        for (service, url, key) in [
            (Service::Email, "email_url", "email_key"),
            (Service::Extraction, "extraction_url", "extraction_key"),
        ] {
            if settings.sandbox {
                rows.push(Row::new(url, "the sandbox", "sandbox"));
                rows.push(Row::new(key, "the sandbox's", "sandbox"));
                continue;
            }
            let base_url = settings.url(service).map(|url| Sourced {
                value: without_password(&url.value),
                source: url.source.clone(),
            });
            rows.push(row(url, base_url.as_ref()));
            rows.push(match &settings.key_file {
                Some(path) => Row::new(key, path.display().to_string(), "--key-file"),
                // Opening the keyring may prompt, so a masked key is not worth it.
                None if settings.is_in_keyring(service)? => {
                    Row::new(key, "(in the system's keyring)", "profile")
                }
                None => {
                    let stored = settings
                        .stored_key(service)?
                        .map(|key| Sourced { value: key.value.to_string(), source: key.source });
                    row(key, stored.as_ref())
                }
            });
        }
        let format = settings
            .format
            .as_ref()
            .map(|format| Sourced { value: name(format.value), source: format.source.clone() });
        let seconds = |millis: u128| format!("{}s", millis as f64 / 1000.0);
        let timeout = Sourced {
            value: seconds(settings.timeout.value.as_millis()),
            source: settings.timeout.source.clone(),
        };
        let bundle = settings.ca_bundle.as_ref().map(|bundle| Sourced {
            value: bundle.value.display().to_string(),
            source: bundle.source.clone(),
        });
        rows.push(row("output", format.as_ref()));
        rows.push(row("timeout", Some(&timeout)));
        rows.push(row("retries", Some(&settings.retries)));
        rows.push(row("ca_bundle", bundle.as_ref()));
        let guard = &settings.guard;
        rows.push(row(guard::ALLOW.0, guard.allow.as_ref()));
        rows.push(row(guard::REDIRECT.0, guard.redirect.as_ref()));
        rows.push(row(guard::PER_RUN.0, guard.max_per_run.as_ref()));
        rows.push(row(guard::PER_HOUR.0, guard.max_per_hour.as_ref()));
        rows.extend(compatibility(context));
        if context.out.is_table() {
            rows.retain(|row| !row.value.is_null());
        }
        let unknown = unknown_entries(settings);
        if !context.out.is_table() {
            rows.extend(unknown.iter().map(|(entry, _)| Row::new(entry, Value::Null, "unknown")));
        }
        context.out.list(&rows, VIEW, "")?;
        for (entry, meant) in unknown {
            let meant = meant.map(|meant| format!("; {meant}")).unwrap_or_default();
            context.out.warning(&format!("{entry} is unknown and has no effect{meant}"));
        }
        Ok(())
    }
}

/// The profile's compatibility settings.
fn compatibility(context: &Context) -> Vec<Row> {
    let settings = &context.settings.compatibility;
    let entry = |setting: &str, value: Value, default: bool| {
        Row::new(setting, value, if default { "default" } else { "profile" })
    };
    if context.settings.sandbox {
        return Vec::new();
    }
    vec![
        entry(
            "organization",
            json!(context.settings.organization),
            context.settings.organization.is_none(),
        ),
        entry("key_header", json!(settings.key_header), settings.key_header.is_none()),
        entry("key_prefix", json!(settings.key_prefix), settings.key_prefix.is_none()),
        entry("batch_key", json!(settings.batch_key), settings.batch_key.is_none()),
        entry("event_header", json!(settings.event_header), settings.event_header.is_none()),
        entry("first_page", json!(settings.first_page), settings.first_page.is_none()),
        entry("insecure_webhooks", json!(settings.insecure_webhooks), !settings.insecure_webhooks),
        entry("local_checks", json!(!settings.local_checks_off), !settings.local_checks_off),
        entry(
            "honors_idempotency_key",
            json!(settings.honors_idempotency_key),
            !settings.honors_idempotency_key,
        ),
    ]
}

/// A setting with its source.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Row {
    setting: String,
    value: Value,
    from: String,
}

impl Row {
    fn new(setting: &str, value: impl Into<Value>, from: impl Into<String>) -> Self {
        Self { setting: setting.to_owned(), value: value.into(), from: from.into() }
    }
}

fn row<T: Serialize>(setting: &str, value: Option<&Sourced<T>>) -> Row {
    match value {
        Some(value) => Row::new(setting, json!(value.value), value.source.to_string()),
        None => Row::new(setting, Value::Null, "default"),
    }
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Table => "table",
        Format::Json => "json",
        Format::Ndjson => "ndjson",
        Format::Yaml => "yaml",
        Format::Csv => "csv",
    }
}

/// Print the paths of the configuration, credentials and data
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc config path
  $EDITOR \"$(svc config path --jq .config)\"

Scope: none (works offline)")]
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
        };
        context.out.one(&paths, crate::context::PLAIN)
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Paths {
    config: String,
    credentials: String,
    data: String,
    sandbox: String,
}
