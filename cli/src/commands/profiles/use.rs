//! The `svc profiles use` command.

use clap::Args;
use serde_json::json;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::settings::unknown_profile;

/// Make a profile the default
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc profiles use staging

Scope: none (works offline)")]
pub struct Use {
    /// Profile name
    #[arg(add = Values::Profile.candidates())]
    name: String,
}

impl Use {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let _lock = context.settings.lock()?;
        let mut profiles = context.settings.profiles()?;
        let known = profiles.names().contains(&self.name)
            || context.settings.credentials()?.names().contains(&self.name);
        if !known {
            return Err(unknown_profile(&self.name));
        }
        profiles.set_active(&self.name);
        profiles.save()?;
        let sentence = format!("profile `{}` is now the default", self.name);
        context.out.done(&sentence, &json!({"profile": self.name}))
    }
}
