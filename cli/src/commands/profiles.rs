//! The `svc profiles` commands: list the profiles, choose the default, and remove one with its
//! keys. A profile is in two files: `config.toml` with its settings, `credentials.toml` with its
//! keys, so either may have one that the other does not. Keys are shown masked. Changes are made
//! under the lock of the settings. `svc login` creates profiles.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Service;

use crate::command_spec::local;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, View};
use crate::output_schema::of;
use crate::prepared::confirm;
use crate::settings::{key_command_entry, unknown_profile};

group! {
    pub enum Command {
        List(List),
        Use(Use),
        Remove(Remove),
    }
}

const VIEW: View = View(&[
    Column::text("NAME", "/name"),
    Column::flag("ACTIVE", "/active"),
    Column::id("EMAIL URL", "/email_url"),
    Column::text("EMAIL KEY", "/email_key"),
    Column::id("EXTRACTION URL", "/extraction_url"),
    Column::text("EXTRACTION KEY", "/extraction_key"),
    Column::id("ORGANIZATION", "/organization").droppable(),
]);

/// List all profiles
#[derive(Args, Debug)]
#[command(add = local(of::<Vec<ShownProfile>>))]
pub struct List {}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let profiles = context.settings.profiles()?;
        let credentials = context.settings.credentials()?;
        let mut names = profiles.names();
        names.extend(credentials.names());
        names.sort();
        names.dedup();
        let items = names
            .iter()
            .map(|name| {
                let key = |service| {
                    let stored = credentials.key(name, service)?.map(|key| key.to_string());
                    let entry = key_command_entry(service);
                    let by_command = profiles.text(name, entry).map(|_| BY_COMMAND.to_owned());
                    Ok::<_, Failure>(stored.or(by_command))
                };
                Ok(ShownProfile {
                    name,
                    active: *name == context.settings.profile.value,
                    email_url: profiles.text(name, "email_url"),
                    email_key: key(Service::Email)?,
                    extraction_url: profiles.text(name, "extraction_url"),
                    extraction_key: key(Service::Extraction)?,
                    organization: profiles.text(name, "organization"),
                })
            })
            .collect::<Result<Vec<_>, Failure>>()?;
        context
            .out
            .list(&items, VIEW, "no profiles; create one: svc login")
    }
}

/// Shown in place of a key that a command prints.
const BY_COMMAND: &str = "by command";

/// A profile. Its keys are masked.
#[derive(Serialize, JsonSchema)]
pub struct ShownProfile<'a> {
    name: &'a str,
    active: bool,
    email_url: Option<&'a str>,
    email_key: Option<String>,
    extraction_url: Option<&'a str>,
    extraction_key: Option<String>,
    organization: Option<&'a str>,
}

/// Make a profile the default
#[derive(Args, Debug)]
#[command(add = local(of::<DefaultProfile>))]
#[command(after_long_help = "svc profiles use staging")]
pub struct Use {
    /// Profile name
    #[arg(add = Values::Profile.candidates())]
    name: String,
}

impl Use {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let _lock = context.settings.lock()?;
        if !context.settings.has_profile(&self.name)? {
            return Err(unknown_profile(&self.name));
        }

        let mut profiles = context.settings.profiles()?;
        profiles.set_active(Some(&self.name));
        profiles.save()?;
        let sentence = format!("profile `{}` is now the default", self.name);
        context.out.done(
            &sentence,
            &DefaultProfile {
                profile: &self.name,
            },
        )
    }
}

#[derive(Serialize, JsonSchema)]
pub struct DefaultProfile<'a> {
    profile: &'a str,
}

/// Remove a profile and its stored keys
///
/// The keys stay valid. Revoke them in the service's dashboard.
#[derive(Args, Debug)]
#[command(add = local(of::<RemovedProfile>))]
#[command(after_long_help = "svc profiles remove staging --yes")]
pub struct Remove {
    /// Profile name
    #[arg(add = Values::Profile.candidates())]
    name: String,
}

impl Remove {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        if !settings.has_profile(&self.name)? {
            return Err(unknown_profile(&self.name));
        }

        confirm(
            context,
            &format!("Remove profile `{}` and its keys?", self.name),
        )
        .await?;
        let _lock = settings.lock()?;
        let mut profiles = settings.profiles()?;
        let mut credentials = settings.credentials()?;
        if credentials.remove(&self.name) {
            credentials.save()?;
        }
        let mut changed = profiles.remove(&self.name);
        if profiles.active() == Some(&self.name) {
            profiles.set_active(None);
            changed = true;
        }
        if changed {
            profiles.save()?;
        }
        let sentence = format!("removed profile `{}`", self.name);
        context.out.done(
            &sentence,
            &RemovedProfile {
                profile: &self.name,
                removed: true,
            },
        )
    }
}

#[derive(Serialize, JsonSchema)]
pub struct RemovedProfile<'a> {
    profile: &'a str,
    removed: bool,
}
