//! The `svc help` command.

use clap::Args;
use clap::error::ErrorKind;

use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::of;
use crate::usage;

/// Print the help of a command
#[derive(Args, Debug)]
#[command(add = local(of::<String>))]
#[command(after_long_help = "\
  svc help
  svc help emails send")]
pub struct Help {
    /// Command, such as `emails send` [default: svc itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Help {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let command = self.command.iter().map(String::as_str);
        let words = ["svc"].into_iter().chain(command).chain(["--help"]);
        let help = match (context.tree)().try_get_matches_from(words) {
            Err(error) if error.kind() == ErrorKind::DisplayHelp => error,
            Err(error) => return Err(usage::failure(&error)),
            Ok(_) => return Err(Failure::usage("this command has no help")),
        };
        if context.out.has_explicit_format() && !context.out.is_table() {
            return context.out.value(&help.to_string());
        }
        context.out.clap(&help)
    }
}
