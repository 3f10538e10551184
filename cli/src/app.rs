//! Runs `svc`: parses the arguments, resolves the settings, runs the command and reports failures.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use crate::advice;
use crate::command_spec::{self, CommandSpec};
use crate::commands::{Command, SECTIONS};
use crate::complete;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::{ColorChoice, Filter, Format, Printer, Streams};
use crate::settings::{Env, GlobalFlags, Settings};

/// The line that `svc --version` prints.
pub const VERSION: &str = concat!("svc ", env!("CARGO_PKG_VERSION"), "\n");

/// The last line of the short help of every command.
const GLOBAL_OPTIONS: &str =
    "Global options: --sandbox, --profile, --json, --jq, --dry-run, …; see svc --help";

/// Send email, manage audiences, domains and webhooks, and test webhook receivers
#[derive(Parser, Debug)]
#[command(
    name = "svc",
    version,
    arg_required_else_help = true,
    propagate_version = false,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_long_help = "\
Try it without an account, on a server inside this command:
  svc --sandbox emails send --from hello@sandbox.test --to ada@example.test \\
      --subject Hi --text Hello
Set up a service:
  svc login --email-url https://mail.example.com"
)]
struct Cli {
    #[command(flatten)]
    global: GlobalFlags,
    #[command(subcommand)]
    command: Command,
}

/// The whole command tree.
pub fn command() -> clap::Command {
    let tree = name_global_options(Cli::command());
    let template = root_template(&tree);
    tree.help_template(template)
}

/// Ends the short help of this command and its subcommands with [`GLOBAL_OPTIONS`].
fn name_global_options(command: clap::Command) -> clap::Command {
    command.after_help(GLOBAL_OPTIONS).mut_subcommands(name_global_options)
}

/// The help of `svc` itself, with the commands in sections.
fn root_template(tree: &clap::Command) -> String {
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in SECTIONS {
        template.push_str(&format!("\n{title}:\n"));
        for name in names {
            let about = tree.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            template.push_str(&format!("  {name:<11}  {about}\n"));
        }
    }
    template + "\nOptions:\n{options}{after-help}"
}

/// The long help of the command at a path such as `["emails", "send"]`, as clap's "error".
pub fn long_help(path: &[String]) -> Result<clap::Error, Failure> {
    let tree = command();
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
    match tree.clone().try_get_matches_from(words) {
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Ok(error),
        Err(error) => Err(usage_failure(&error)),
        Ok(_) => Err(Failure::usage(format!("unknown command `svc {}`", path.join(" ")))),
    }
}

/// Runs `svc` with the arguments, environment and streams of this process.
pub fn main() -> u8 {
    let args = std::env::args_os().collect::<Vec<_>>();
    run(&args, &Env::of_process(), Streams::of_process())
}

fn run(args: &[OsString], env: &Env, streams: Streams) -> u8 {
    if let [_, only] = args
        && (only == "--version" || only == "-V")
    {
        // Scripts ask for the version often, and it does not need the command tree.
        let printed = early_printer(args, env, streams).raw(VERSION);
        return printed.map_or_else(|failure| exit::code(failure.kind()), |()| exit::DONE);
    }
    if let Some(shell) = env.get(complete::VARIABLE) {
        complete::run(shell, args, env, streams);
        return exit::DONE;
    }
    let (cli, spec) = match parse(args) {
        Ok(parsed) => parsed,
        Err(error) => return report_clap_error(&error, args, env, streams),
    };
    let (settings, printer) = match prepare(&cli.global, env, streams) {
        Ok(prepared) => prepared,
        Err(failure) => {
            early_printer(args, env, streams).failure(&failure);
            return exit::code(failure.kind());
        }
    };
    let context = Context::new(settings, printer, spec, args);
    let result = command_spec::check(spec, &cli.global).and_then(|()| match cli.command {
        // These commands need no async runtime.
        Command::Completions(args) => args.run(&context),
        Command::Man(args) => args.run(&context),
        Command::Schema(args) => args.run(&context),
        Command::Help(args) => args.run(&context),
        Command::Version(args) => args.run(&context),
        command => {
            let runtime = runtime(spec)?;
            let result = runtime.block_on(until_interrupted(command, &context));
            // The thread of an abandoned prompt may still be reading standard input.
            runtime.shutdown_background();
            result
        }
    });
    match result {
        Ok(()) => exit::DONE,
        Err(mut failure) => {
            advice::add(&mut failure, &context);
            context.out.failure(&failure);
            exit::code(failure.kind())
        }
    }
}

async fn until_interrupted(command: Command, context: &Context) -> Result<(), Failure> {
    if command_spec::ends_by_interrupt(context.command) {
        let result = Box::pin(command.run(context)).await;
        // A second Ctrl-C skips the cleanup.
        let finished = tokio::select! {
            finished = context.finish() => finished,
            () = context.interrupted() => Ok(()),
        };
        return result.and(finished);
    }
    let work = async {
        let result = Box::pin(command.run(context)).await;
        let finished = context.finish().await;
        result.and(finished)
    };
    // The work is polled first: the handler of Ctrl-C is installed only once the work waits for
    // something other than standard input. Until then Ctrl-C ends the process by default.
    tokio::select! {
        biased;
        result = work => result,
        () = context.interrupted() => Err(context.changes.interruption()),
    }
}

/// The async runtime. It is started after parsing, so that `--version` and usage errors are fast.
fn runtime(spec: &CommandSpec) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = if spec.path == "sandbox serve" {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    builder.enable_all().build().map_err(Failure::from)
}

fn parse(args: &[OsString]) -> Result<(Cli, &'static CommandSpec), clap::Error> {
    let mut matches = command().try_get_matches_from(args)?;
    let path = command_path(&matches);
    let cli = Cli::from_arg_matches_mut(&mut matches)?;
    let spec = command_spec::find(&path).unwrap_or(&command_spec::UNKNOWN);
    Ok((cli, spec))
}

fn command_path(matches: &clap::ArgMatches) -> String {
    let mut path = String::new();
    let mut level = matches;
    while let Some((name, below)) = level.subcommand() {
        if !path.is_empty() {
            path.push(' ');
        }
        path.push_str(name);
        level = below;
    }
    path
}

fn prepare(
    flags: &GlobalFlags,
    env: &Env,
    streams: Streams,
) -> Result<(Settings, Printer), Failure> {
    let settings = Settings::resolve(flags, env)?;
    let filter = flags.jq.as_deref().map(Filter::compile).transpose()?;
    let format = settings.format.as_ref().map(|format| format.value);
    if filter.is_some() && format == Some(Format::Table) && flags.output.is_some() {
        return Err(Failure::usage("--jq filters JSON and cannot be combined with --output table"));
    }
    let format = format.filter(|format| filter.is_none() || *format != Format::Table);
    let color = settings.color;
    let color = move |is_terminal| colored(color, is_terminal);
    let printer = Printer::new(format, filter, streams, color, flags.quiet, flags.verbose);
    Ok((settings, printer))
}

fn colored(choice: ColorChoice, is_terminal: bool) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => is_terminal,
    }
}

/// Prints help and version as results. Any other clap error is a usage error, printed as an error
/// object if the output is JSON.
fn report_clap_error(error: &clap::Error, args: &[OsString], env: &Env, streams: Streams) -> u8 {
    let printer = early_printer(args, env, streams);
    let failure = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            return printer
                .clap(error)
                .map_or_else(|failure| exit::code(failure.kind()), |()| exit::DONE);
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if printer.is_table() => {
            let _ = printer.clap(error);
            return exit::USAGE;
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let group = group_of(args);
            Failure::usage("no command given").hint(format!("list the commands: svc{group} --help"))
        }
        _ => usage_failure(error),
    };
    printer.failure(&failure);
    exit::USAGE
}

/// The command group that was typed without a command, such as ` sandbox clock`.
fn group_of(args: &[OsString]) -> String {
    let mut level = &command();
    let mut path = String::new();
    let words = args.iter().skip(1).filter_map(|word| word.to_str());
    for word in words.filter(|word| !word.starts_with('-')) {
        if let Some(group) = level.find_subcommand(word) {
            path.push(' ');
            path.push_str(word);
            level = group;
        }
    }
    path
}

fn usage_failure(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n");
    let message = paragraphs.next().unwrap_or_default().trim_start_matches("error: ");
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let failure = Failure::usage(message);
    let tip = paragraphs.find_map(|rest| rest.trim().strip_prefix("tip: ").map(str::to_owned));
    match (tip, text.lines().find_map(|line| line.strip_prefix("Usage: "))) {
        (Some(tip), _) => failure.hint(tip),
        (None, Some(usage)) if error.kind() == ErrorKind::InvalidSubcommand => {
            failure.hint(commands_of(usage))
        }
        (None, Some(usage)) => failure.hint(format!("usage: {usage}")),
        (None, None) => failure,
    }
}

/// A hint that lists the known commands at the level of an unknown one.
fn commands_of(usage: &str) -> String {
    let tree = command();
    let words = usage.split(' ').skip(1).take_while(|word| !word.starts_with(['[', '<']));
    let group = words.clone().try_fold(&tree, |at, word| at.find_subcommand(word));
    let path = words.fold("svc".to_owned(), |path, word| path + " " + word);
    match group.filter(|group| group.get_name() != tree.get_name()) {
        Some(group) => {
            let names = group.get_subcommands().map(clap::Command::get_name);
            format!("commands of {path}: {}", names.collect::<Vec<_>>().join(", "))
        }
        None => format!("list the commands: {path} --help"),
    }
}

/// A printer for the time before the settings are resolved. It considers only the output options
/// in the arguments and environment.
fn early_printer(args: &[OsString], env: &Env, streams: Streams) -> Printer {
    let mut format = env.get("SVC_OUTPUT").and_then(format_named);
    let mut color = match env.get("NO_COLOR") {
        Some(_) => ColorChoice::Never,
        None if env.is_on("CLICOLOR_FORCE") => ColorChoice::Always,
        None => ColorChoice::Auto,
    };
    let args = args.iter().filter_map(|arg| arg.to_str()).collect::<Vec<_>>();
    for (index, arg) in args.iter().enumerate() {
        let next = args.get(index + 1).copied();
        match *arg {
            "--" => break,
            "--json" | "--jq" => format = Some(Format::Json),
            "-o" | "--output" => format = next.and_then(format_named).or(format),
            "--color" => color = next.and_then(color_named).unwrap_or(color),
            _ => {
                let value = arg.strip_prefix("--output=").or_else(|| arg.strip_prefix("-o"));
                format = value.map(|v| v.trim_start_matches('=')).and_then(format_named).or(format);
                if arg.starts_with("--jq=") {
                    format = Some(Format::Json);
                }
                color = arg.strip_prefix("--color=").and_then(color_named).unwrap_or(color);
            }
        }
    }
    Printer::new(format, None, streams, |is_terminal| colored(color, is_terminal), false, false)
}

fn format_named(name: &str) -> Option<Format> {
    match name {
        "table" => Some(Format::Table),
        "json" => Some(Format::Json),
        "ndjson" => Some(Format::Ndjson),
        "yaml" => Some(Format::Yaml),
        _ => None,
    }
}

fn color_named(name: &str) -> Option<ColorChoice> {
    match name {
        "always" => Some(ColorChoice::Always),
        "never" => Some(ColorChoice::Never),
        "auto" => Some(ColorChoice::Auto),
        _ => None,
    }
}
