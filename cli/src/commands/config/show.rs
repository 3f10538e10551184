//! `svc config show`.

use clap::Args;
use serde_json::{Value, json};
use svc_sdk::Service;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Format, View};
use crate::settings::Sourced;

const VIEW: View = View(&[
    Column::text("SETTING", "/setting"),
    Column::text("VALUE", "/value"),
    Column::text("FROM", "/from"),
]);

/// Show every setting and where it came from, keys masked
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc config show
  svc config show --profile staging --jq '.[] | select(.setting == \"email_url\") | .value'

A profile is a table of the file that `svc config path` names. It holds addresses, and what a
service has chosen otherwise than the documents; `svc login` makes it, an editor changes it:

  [profiles.staging]
  email_url = \"https://mail.example.com\"
  extraction_url = \"https://extract.example.com\"
  organization = \"org_019a\"        # keys of another one are refused
  output = \"json\"
  timeout = \"30s\"
  retries = 2
  ca_bundle = \"/etc/company.pem\"
  key_header = \"X-Api-Key\"         # carries the email service's key
  key_prefix = \"Token \"            # stands before the key
  batch_key = \"emails\"             # a batch is {\"emails\": [...]}, no bare array
  event_header = \"X-Event\"         # names the event of a delivery
  first_page = 0                   # the number of the first page
  insecure_webhooks = true         # webhook addresses may be plain http
  local_checks = false             # leaves the documents' limits to the service
  honours_idempotency_key = true   # what has one may be repeated

Scope: none; nothing leaves this machine")]
pub struct Show {}

impl Show {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        let mut rows = vec![
            row("profile", Some(&settings.profile)),
            json!({"setting": "sandbox", "value": settings.sandbox, "from": settings.sandbox_from.to_string()}),
        ];
        for (service, url, key) in [
            (Service::Email, "email_url", "email_key"),
            (Service::Extraction, "extraction_url", "extraction_key"),
        ] {
            if settings.sandbox {
                rows.push(json!({"setting": url, "value": "the sandbox", "from": "sandbox"}));
                rows.push(json!({"setting": key, "value": "the sandbox's", "from": "sandbox"}));
                continue;
            }
            let address = settings.url(service).map(|url| Sourced {
                value: without_password(&url.value),
                source: url.source.clone(),
            });
            rows.push(row(url, address.as_ref()));
            rows.push(match &settings.key_file {
                Some(path) => {
                    let path = path.display().to_string();
                    json!({"setting": key, "value": path, "from": "--key-file"})
                }
                // Nobody's keyring is opened to show a masked key.
                None if settings.is_in_keyring(service)? => {
                    json!({"setting": key, "value": "(in the system's keyring)", "from": "profile"})
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
        rows.extend(wire(context));
        if context.out.is_table() {
            rows.retain(|row| !row["value"].is_null());
        }
        context.out.list(&rows, VIEW, "")
    }
}

/// What a live service chose otherwise, as the profile says.
fn wire(context: &Context) -> Vec<Value> {
    let wire = &context.settings.compatibility;
    let said = |setting: &str, value: Value, default: bool| {
        let from = if default { "default" } else { "profile" };
        json!({"setting": setting, "value": value, "from": from})
    };
    if context.settings.sandbox {
        return Vec::new();
    }
    vec![
        said(
            "organization",
            json!(context.settings.organization),
            context.settings.organization.is_none(),
        ),
        said("key_header", json!(wire.key_header), wire.key_header.is_none()),
        said("key_prefix", json!(wire.key_prefix), wire.key_prefix.is_none()),
        said("batch_key", json!(wire.batch_key), wire.batch_key.is_none()),
        said("event_header", json!(wire.event_header), wire.event_header.is_none()),
        said("first_page", json!(wire.first_page), wire.first_page.is_none()),
        said("insecure_webhooks", json!(wire.insecure_webhooks), !wire.insecure_webhooks),
        said("local_checks", json!(!wire.local_checks_off), !wire.local_checks_off),
        said(
            "honours_idempotency_key",
            json!(wire.honours_idempotency_key),
            !wire.honours_idempotency_key,
        ),
    ]
}

/// No address may hold a password; one that does is refused where it is used.
fn without_password(address: &str) -> String {
    match url::Url::parse(address) {
        Ok(mut url) if url.password().is_some() => {
            let _ = url.set_password(Some("***"));
            url.to_string()
        }
        _ => address.to_owned(),
    }
}

fn row<T: serde::Serialize>(setting: &str, value: Option<&Sourced<T>>) -> Value {
    match value {
        Some(value) => {
            json!({"setting": setting, "value": value.value, "from": value.source.to_string()})
        }
        None => json!({"setting": setting, "value": null, "from": "default"}),
    }
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Table => "table",
        Format::Json => "json",
        Format::Ndjson => "ndjson",
        Format::Yaml => "yaml",
    }
}
