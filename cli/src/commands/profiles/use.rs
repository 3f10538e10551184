//! `svc profiles use`.

use clap::Args;
use serde_json::json;

use crate::command_line::shell_quoted;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::{Failure, Kind};

/// Make a profile the one that is used where none is named
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc profiles use staging

Scope: none; nothing leaves this machine")]
pub struct Use {
    /// The profile's name
    #[arg(add = Values::Profile.candidates())]
    name: String,
}

impl Use {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let _held = context.settings.lock()?;
        let mut profiles = context.settings.profiles()?;
        let known = profiles.names().contains(&self.name)
            || context.settings.credentials()?.names().contains(&self.name);
        if !known {
            return Err(unknown(&self.name));
        }
        profiles.set_active(&self.name);
        profiles.save()?;
        let sentence = format!("profile `{}` is used from now on", self.name);
        context.out.done(&sentence, &json!({"profile": self.name}))
    }
}

/// There is no such profile.
pub fn unknown(name: &str) -> Failure {
    Failure::new(Kind::InvalidInput, format!("there is no profile `{name}`"))
        .code("unknown_profile")
        .hint(format!(
            "svc profiles list shows them; svc login --profile {} makes it",
            shell_quoted(name)
        ))
}
