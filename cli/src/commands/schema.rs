//! `svc schema`.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;

/// Print as JSON Schema what commands take, answer, and fail with
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc schema
  svc schema emails send --jq .input.required

Scope: none")]
pub struct Schema {
    /// One command, such as `emails send`; all of them without it
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
            Failure::input(format!("there is no command `svc {path}`"))
                .hint("svc schema --jq '.[].command' lists them")
        })?;
        context.out.value(&one)
    }
}

mod answers;
mod describe;
