//! The trait of all groups and commands of the tree.

use clap::{Arg, ArgAction, Command};

use crate::command_spec::{CommandSpec, Effect};

/// The last line of the short help of every command.
const GLOBAL_OPTIONS: &str =
    "Global options: --sandbox, --profile, --json, --jq, --dry-run, …; see svc --help";

/// The heading of the examples.
pub const EXAMPLES: &str = "Examples:\n  ";

/// The help of a command: what it is called with comes before its options.
const EXAMPLES_FIRST: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// The option of commands that are about one organization of the sandbox.
pub const ORGANIZATION: &str = "organization";

/// The option of commands that create something.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The display order of `--help`: after the options of the command.
const LAST: usize = 1000;

/// Declares the commands of a group: each variant is a command with a `run` method, or a group,
/// which has the attribute `#[command(subcommand)]`.
macro_rules! group {
    (
        $(#[$attribute_of_all:meta])*
        pub enum Command { $($(#[$attribute:meta])* $name:ident($command:ty),)* }
    ) => {
        #[derive(clap::Subcommand, Debug)]
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
    };
}

/// Adds to a command, which is called as `path`, and to all below it, `--help`, the heading of its
/// examples, an example if it has none, the scope that it needs, and the hidden names that users of
/// other programs type: `ls`, `rm`, `show`.
pub fn complete(command: Command, path: &str) -> Command {
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::Help)
        .display_order(LAST)
        // The short help of a group lists only its commands, so that it fits a screen.
        .hide_short_help(command.has_subcommands())
        .help("Print help (see more with '--help')")
        .long_help("Print help (see a summary with '-h')");
    let mut command = command
        .after_help(GLOBAL_OPTIONS)
        .disable_help_flag(true)
        .arg(help);
    if let Some(spec) = command.get::<CommandSpec>().cloned() {
        if spec.is_of_organization {
            let organization = Arg::new(ORGANIZATION)
                .long(ORGANIZATION)
                .value_name("NAME|ID")
                .help("Organization, by name or id [default: Sandbox]");
            command = command.arg(organization);
        }
        if spec.effect == Effect::Creates {
            let key = Arg::new(IDEMPOTENCY_KEY)
                .long(IDEMPOTENCY_KEY)
                .value_name("KEY")
                .hide_short_help(true)
                .help("Idempotency-Key header of the request");
            command = command.arg(key);
        }
        let examples = command.get_after_long_help().map(ToString::to_string);
        let examples = examples.unwrap_or_else(|| path.to_owned());
        command = command
            .before_long_help(format!("{EXAMPLES}{examples}"))
            .after_long_help(format!("Scope: {}", spec.scope()))
            .help_template(EXAMPLES_FIRST);
    }

    // A flag that is given twice is given.
    let command = command.mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => {
            let id = arg.get_id().clone();
            arg.overrides_with(id)
        }
        _ => arg,
    });
    let has = |name| command.find_subcommand(name).is_some();
    let has_show = has("show");
    let has_both = has("delete") && has("remove");
    command.mut_subcommands(|command| {
        let path = format!("{path} {}", command.get_name());
        let command = match command.get_name() {
            "list" => command.alias("ls"),
            "delete" if !has_both => command.aliases(["rm", "remove"]),
            "remove" if !has_both => command.aliases(["rm", "delete"]),
            "delete" | "remove" => command.alias("rm"),
            "get" if !has_show => command.alias("show"),
            _ => command,
        };
        complete(command, &path)
    })
}
