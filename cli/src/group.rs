//! Groups of commands. clap adds the commands of a group, and the arguments of a command, only when
//! it parses them: to build the whole tree takes longer than the rest of a short run.

use clap::{Arg, ArgAction, Command};

/// The last line of the short help of every command.
const GLOBAL_OPTIONS: &str =
    "Global options: --sandbox, --profile, --json, --jq, --dry-run, …; see svc --help";

/// The display order of `--help`: after the options of the command.
const LAST: usize = 1000;

/// Declares the commands of a group: each variant is a command with a `run` method, or a group,
/// which is described where it is a variant. The group is clap's `Args` of its own variant.
macro_rules! group {
    (
        $(#[$attribute_of_all:meta])*
        pub enum Command { $($(#[$attribute:meta])* $name:ident($command:ty),)* }
    ) => {
        #[derive(clap::Subcommand, Debug)]
        #[command(defer = true)]
        $(#[$attribute_of_all])*
        pub enum Command { $($(#[$attribute])* $name($command),)* }

        impl Command {
            pub async fn run(
                self,
                context: &$crate::context::Context,
            ) -> Result<(), $crate::failure::Failure> {
                match self {
                    $(Self::$name(command) => command.run(context).await,)*
                }
            }
        }

        impl clap::Args for Command {
            fn augment_args(group: clap::Command) -> clap::Command {
                $crate::group::complete(<Self as clap::Subcommand>::augment_subcommands(group))
            }

            fn augment_args_for_update(group: clap::Command) -> clap::Command {
                Self::augment_args(group)
            }
        }
    };
}

/// Completes a group that has its commands.
pub fn complete(group: Command) -> Command {
    with_aliases(group)
        .subcommand_required(true)
        .arg_required_else_help(true)
        // The short help of a group lists only its commands, so that it fits a screen.
        .mut_arg("help", |help| help.hide_short_help(true))
        .mut_subcommands(|command| described(with_help_first(command)))
}

/// Adds `--help`, and [`GLOBAL_OPTIONS`] to the short help.
pub fn with_help(command: Command) -> Command {
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::Help)
        .help("Print help (see more with '--help')")
        .long_help("Print help (see a summary with '-h')");
    command.after_help(GLOBAL_OPTIONS).disable_help_flag(true).arg(help)
}

/// Adds `--help` to a command whose arguments are added later.
pub fn with_help_first(command: Command) -> Command {
    with_help(command).mut_arg("help", |help| help.display_order(LAST))
}

/// Adds the description that the group lists. That of a command is written with its arguments.
pub fn described(command: Command) -> Command {
    if command.get_about().is_some() {
        return command;
    }
    let mut built = command.clone();
    built.build();
    match built.get_about() {
        Some(about) => command.about(about.clone()),
        None => command,
    }
}

/// Adds the hidden names of commands that users of other programs type: `ls`, `rm`, `show`.
fn with_aliases(group: Command) -> Command {
    let has_show = group.find_subcommand("show").is_some();
    group.mut_subcommands(|command| match command.get_name() {
        "list" => command.alias("ls"),
        "delete" | "remove" => command.alias("rm"),
        "get" if !has_show => command.alias("show"),
        _ => command,
    })
}
