//! `svc profiles list`.

use clap::Args;
use serde_json::{Value, json};
use svc_sdk::Service;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

const VIEW: View = View(&[
    Column::text("NAME", "/name"),
    Column::new("ACTIVE", "/active", Show::Flag),
    Column::text("EMAIL URL", "/email_url"),
    Column::text("EMAIL KEY", "/email_key"),
    Column::text("EXTRACTION URL", "/extraction_url"),
    Column::text("EXTRACTION KEY", "/extraction_key"),
    Column::text("ORGANIZATION", "/organization").droppable(),
]);

/// List the profiles
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc profiles list

Scope: none; nothing leaves this machine")]
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
                let said = profiles.get(name)?.unwrap_or_default();
                let key = |service| {
                    if credentials.in_keyring(name, service) {
                        return Ok(Some("(in the system's keyring)".to_owned()));
                    }
                    Ok::<_, Failure>(credentials.key(name, service)?.map(|key| key.to_string()))
                };
                Ok(json!({
                    "name": name,
                    "active": *name == context.settings.profile.value,
                    "email_url": said.email_url,
                    "email_key": key(Service::Email)?,
                    "extraction_url": said.extraction_url,
                    "extraction_key": key(Service::Extraction)?,
                    "organization": said.organization,
                }))
            })
            .collect::<Result<Vec<Value>, Failure>>()?;
        context.out.list(&items, VIEW, "no profile yet; make one: svc login")
    }
}
