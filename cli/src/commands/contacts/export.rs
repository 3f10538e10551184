//! The `svc contacts export` command.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::{Map, Value};
use svc_sdk::Operation::ContactsList;

use super::import::rows::{EXPORT_HEADER, is_ignored, topics_cell};
use crate::command_spec::reads;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names};
use crate::output::{self, Format, Items, one_line};
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
        if context.settings.dry_run {
            let list = async |id: &str| context.call(client.contacts().list(id), "").await;
            let names = Names::Audience(&client);
            return names::with_id(context, names, &self.audience, list).await.map(drop);
        }
        let mut items = Items::new(&context.out, &EXPORT_HEADER);
        let (mut count, mut left_out) = (0_u64, BTreeSet::new());
        names::each_contact(context, &client, &self.audience, self.page_size, |contact| {
            count += 1;
            let mut value = output::to_value(&contact);
            if items.are_lines {
                left_out.extend(value.as_object().into_iter().flat_map(not_in_csv));
                value["topics"] = topics_cell(&contact.topics).into();
                value["metadata"] = match contact.metadata.is_empty() {
                    true => Value::Null,
                    false => contact.metadata.into(),
                };
            }
            items.push(&value)
        })
        .await?;
        let is_document = !items.are_lines && context.out.format() != Format::Ndjson;
        items.finish()?;
        if is_document {
            return Ok(());
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

/// The fields that CSV leaves out, except those that only the service can set.
fn not_in_csv(contact: &Map<String, Value>) -> impl Iterator<Item = String> {
    let keys = contact.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key);
    let keys = keys.filter(|key| !EXPORT_HEADER.contains(&key.as_str()) && !is_ignored(key));
    keys.cloned()
}
