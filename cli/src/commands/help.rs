//! The `svc help` command.

use std::ffi::OsString;

use clap::Args;
use clap::error::ErrorKind;
use schemars::JsonSchema;
use serde::Serialize;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::usage;

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
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let help = long_help(&self.command)?;
        if context.out.has_explicit_format() && !context.out.is_table() {
            let output = Output { command: self.command.join(" "), text: help.to_string() };
            return context.out.value(&output);
        }
        context.out.clap(&help)
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Output {
    command: String,
    text: String,
}

/// The long help of the command at a path such as `["emails", "send"]`, as clap's "error".
fn long_help(path: &[String]) -> Result<clap::Error, Failure> {
    let tree = crate::command();
    let mut level = &tree;
    for (index, name) in path.iter().enumerate() {
        match level.find_subcommand(name) {
            Some(found) => level = found,
            None if level.has_subcommands() => break,
            None => {
                let words = path[..index].join(" ");
                return Err(Failure::usage(format!("`svc {words}` has no subcommand `{name}`"))
                    .hint(format!("svc help {words}")));
            }
        }
    }
    let words = ["svc"].into_iter().chain(path.iter().map(String::as_str)).chain(["--help"]);
    let words = words.map(OsString::from).collect::<Vec<_>>();
    match tree.clone().try_get_matches_from(&words) {
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Ok(error),
        Err(error) => Err(usage::failure(&error, &tree, &words)),
        Ok(_) => Err(Failure::usage(format!("unknown command `svc {}`", path.join(" ")))),
    }
}
