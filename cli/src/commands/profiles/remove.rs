//! The `svc profiles remove` command.

use clap::Args;
use serde_json::json;
use svc_sdk::Service;

use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::keyring;
use crate::settings::unknown_profile;

/// Remove a profile and its stored keys
///
/// The keys stay valid. Revoke them in the service's dashboard.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc profiles remove staging --yes

Scope: none (works offline)")]
pub struct Remove {
    /// Profile name
    #[arg(add = Values::Profile.candidates())]
    name: String,
}

impl Remove {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let settings = &context.settings;
        let known = settings.profiles()?.names().contains(&self.name)
            || settings.credentials()?.names().contains(&self.name);
        if !known {
            return Err(unknown_profile(&self.name));
        }
        confirm(context, &format!("Remove profile `{}` and its keys?", self.name)).await?;
        let _lock = settings.lock()?;
        let (mut profiles, mut credentials) = (settings.profiles()?, settings.credentials()?);
        for service in [Service::Email, Service::Extraction] {
            if credentials.in_keyring(&self.name, service) {
                keyring::forget(&self.name, service, settings.keyring_timeout())?;
            }
        }
        if credentials.remove(&self.name) {
            credentials.save()?;
        }
        let mut changed = profiles.remove(&self.name);
        if profiles.active() == Some(&self.name) {
            profiles.clear_active();
            changed = true;
        }
        if changed {
            profiles.save()?;
        }
        let sentence = format!("removed profile `{}`", self.name);
        context.out.done(&sentence, &json!({"profile": self.name, "removed": true}))
    }
}
