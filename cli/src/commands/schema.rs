//! The `svc schema` command.

use clap::Args;
use serde_json::Value;

use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::{any_of, command, list};
use crate::suggest;

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
        let (group, others): (Vec<_>, Vec<_>) = described
            .into_iter()
            .partition(|command| name(command).starts_with(&prefix));
        if !group.is_empty() {
            return context.out.value(&group);
        }

        let known = others.iter().map(name).collect::<Vec<_>>();
        let hint = match suggest::nearest(&path, known.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean: svc schema {meant}"),
            None => "list the commands: svc schema --jq '.[].command'".to_owned(),
        };
        Err(Failure::input(format!("unknown command `svc {path}`")).hint(hint))
    }
}

pub(super) mod describe;
