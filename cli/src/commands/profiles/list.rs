//! The `svc profiles list` command.

use clap::Args;
use serde_json::{Value, json};
use svc_sdk::Service;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

const VIEW: View = View(&[
    Column::text("NAME", "/name"),
    Column::new("ACTIVE", "/active", Show::Flag),
    Column::id("EMAIL URL", "/email_url"),
    Column::text("EMAIL KEY", "/email_key"),
    Column::id("EXTRACTION URL", "/extraction_url"),
    Column::text("EXTRACTION KEY", "/extraction_key"),
    Column::id("ORGANIZATION", "/organization").droppable(),
]);

/// List all profiles
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc profiles list

Scope: none (works offline)")]
pub struct List {}

impl List {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let profiles = context.settings.profiles()?;
        let credentials = context.settings.credentials()?;
        let mut names = profiles.names();
        names.extend(credentials.names());
        names.sort();
        names.dedup();
        let items = names
            .iter()
            .map(|name| {
                let profile = profiles.get(name)?.unwrap_or_default();
                let key = |service| {
                    if credentials.in_keyring(name, service) {
                        return Ok(Some("(in the system's keyring)".to_owned()));
                    }
                    Ok::<_, Failure>(credentials.key(name, service)?.map(|key| key.to_string()))
                };
                Ok(json!({
                    "name": name,
                    "active": *name == context.settings.profile.value,
                    "email_url": profile.email_url,
                    "email_key": key(Service::Email)?,
                    "extraction_url": profile.extraction_url,
                    "extraction_key": key(Service::Extraction)?,
                    "organization": profile.organization,
                }))
            })
            .collect::<Result<Vec<Value>, Failure>>()?;
        context.out.list(&items, VIEW, "no profiles; create one: svc login")
    }
}
