//! The `svc schema` command.

use clap::Args;
use serde_json::Value;

use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::{any_of, command, list};

/// Print the JSON Schema of commands: input, output and errors
#[derive(Args, Debug)]
#[command(add = local(|| any_of(&[|| list(command), command])))]
#[command(after_long_help = "\
  svc schema
  svc schema emails
  svc schema emails send --jq .input.required")]
pub struct Schema {
    /// Command, such as `emails send`, or group [default: all]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Schema {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let path = self.command.join(" ");
        let described = describe::all(&mut (context.tree)());
        if path.is_empty() {
            return context.out.value(&described);
        }
        let name = |command: &Value| command["command"].as_str().unwrap_or_default().to_owned();
        if let Some(one) = described.iter().find(|command| name(command) == path) {
            return context.out.value(one);
        }
        let prefix = format!("{path} ");
        let of_group = |command: &&Value| name(command).starts_with(&prefix);
        let group = described.iter().filter(of_group).collect::<Vec<_>>();
        if !group.is_empty() {
            return context.out.value(&group);
        }
        Err(Failure::input(format!("unknown command `svc {path}`"))
            .hint("list the commands: svc schema --jq '.[].command'"))
    }
}

pub(super) mod describe;
