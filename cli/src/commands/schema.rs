//! The `svc schema` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;

/// Print the JSON Schema of commands: input, output and errors
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc schema
  svc schema emails send --jq .input.required

Scope: none")]
pub struct Schema {
    /// Command, such as `emails send` [default: all]
    #[arg(value_name = "COMMAND", add = Values::Command.candidates())]
    command: Vec<String>,
}

impl Schema {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let path = self.command.join(" ");
        let described = describe::all();
        if path.is_empty() {
            return context.out.value(&described.into());
        }
        let one = described.into_iter().find(|command| command["command"] == path.as_str());
        let one = one.ok_or_else(|| {
            Failure::input(format!("unknown command `svc {path}`"))
                .hint("list the commands: svc schema --jq '.[].command'")
        })?;
        context.out.value(&one)
    }
}

mod describe;
mod output;
