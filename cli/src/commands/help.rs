//! The `svc help` command.

use clap::Args;
use serde_json::json;

use crate::app;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;

/// Print the help of a command
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc help
  svc help emails send

Scope: none (works offline)")]
pub struct Help {
    /// Command, such as `emails send` [default: svc itself]
    #[arg(value_name = "COMMAND", add = Values::Command.candidates())]
    command: Vec<String>,
}

impl Help {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let help = app::long_help(&self.command)?;
        if context.out.has_explicit_format() && !context.out.is_table() {
            let path = self.command.join(" ");
            return context.out.value(&json!({"command": path, "text": help.to_string()}));
        }
        context.out.clap(&help)
    }
}
