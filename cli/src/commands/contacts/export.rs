//! The `svc contacts export` command.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::{Map, Value};
use svc_sdk::EmailClient;
use svc_sdk::Operation::ContactsList;
use svc_sdk::email::Contact;

use super::import::rows::{EXPORT_HEADER, is_ignored, topics_cell};
use crate::command_spec::reads;
use crate::complete::Values;
use crate::contact_pages;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names};
use crate::output::{self, Format, one_line};
use crate::output_schema::{contact, list};

/// Export all contacts of an audience as CSV or NDJSON
///
/// Contacts are written page by page as they arrive. `svc contacts import` reads both formats. CSV
/// has the documented fields, and does not tell an empty name from none; NDJSON has every field.
#[derive(Args, Debug)]
#[command(add = reads(&[ContactsList], || list(contact)))]
#[command(after_long_help = "\
Examples:
  svc contacts export aud_019a > people.csv
  svc contacts export aud_019a -o ndjson | jq -r .email")]
pub struct Export {
    /// Audience id or name
    #[arg(add = Values::Audience.candidates())]
    audience: String,
    /// Contacts per page [default: 100]
    #[arg(long, value_name = "N")]
    page_size: Option<u64>,
}

impl Export {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let export = async |audience: &str| self.export(context, &client, audience).await;
        names::with_id(context, Names::Audience(&client), &self.audience, export).await
    }

    async fn export(
        &self,
        context: &Context,
        client: &EmailClient,
        audience: &str,
    ) -> Result<(), Failure> {
        if context.settings.dry_run {
            let call = client.contacts().list(audience);
            context.call(call, "").await?;
            return Ok(());
        }
        let csv = match context.out.format() {
            Format::Csv => !context.out.has_filter(),
            _ => !context.out.has_explicit_format() || context.out.is_table(),
        };
        let progress = context.out.progress("exporting");
        let (mut count, mut all) = (0_u64, Vec::new());
        let mut left_out = BTreeSet::new();
        let read = contact_pages::for_each(client, audience, self.page_size, |contact| {
            if csv && count == 0 {
                context.out.raw(&header())?;
            }
            count += 1;
            progress.set_text(format!("exported {count} contacts"));
            let value = output::to_value(&contact);
            if csv {
                left_out.extend(value.as_object().into_iter().flat_map(not_in_csv));
                return context.out.raw_data(&line(&contact)?);
            }
            match context.out.format() {
                Format::Ndjson => context.out.part(&value)?,
                _ => all.push(value),
            }
            Ok(())
        });
        read.await?;
        drop(progress);
        if csv && count == 0 {
            context.out.raw(&header())?;
        }
        if !csv && context.out.format() != Format::Ndjson {
            return context.out.value(&Value::from(all));
        }
        if !left_out.is_empty() {
            let fields = left_out.into_iter().collect::<Vec<_>>().join(", ");
            context.out.warning(&format!(
                "CSV has no column for these fields of the contacts: {}; -o ndjson has all",
                one_line(&fields)
            ));
        }
        context.out.note(&format!("exported {count} contacts"));
        Ok(())
    }
}

fn header() -> String {
    format!("{}\n", EXPORT_HEADER.join(","))
}

/// The fields that CSV leaves out, except those that only the service can set.
fn not_in_csv(contact: &Map<String, Value>) -> impl Iterator<Item = String> {
    let keys = contact.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key);
    let keys = keys.filter(|key| !EXPORT_HEADER.contains(&key.as_str()) && !is_ignored(key));
    keys.cloned()
}

fn line(contact: &Contact) -> Result<String, Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let metadata = if contact.metadata.is_empty() {
        String::new()
    } else {
        Value::Object(contact.metadata.clone()).to_string()
    };
    let failed = |error: csv::Error| Failure::other(error.to_string());
    writer
        .write_record([
            contact.id.as_str(),
            contact.email.as_deref().unwrap_or_default(),
            contact.name.as_deref().unwrap_or_default(),
            contact.subscribed.map_or("", |s| if s { "true" } else { "false" }),
            &topics_cell(&contact.topics),
            &metadata,
        ])
        .map_err(failed)?;
    let bytes = writer.into_inner().map_err(|error| Failure::other(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
