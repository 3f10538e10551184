//! One run of `svc`: parse, resolve, run, report.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use crate::advice;
use crate::command_spec::{self, CommandSpec};
use crate::commands::Command;
use crate::complete;
use crate::context::Context;
use crate::exit;
use crate::failure::Failure;
use crate::output::{ColorChoice, Filter, Format, Printer, Streams};
use crate::settings::{Env, GlobalFlags, Settings};

/// Send email, manage audiences, domains and webhooks, verify deliveries
#[derive(Parser, Debug)]
#[command(
    name = "svc",
    version,
    arg_required_else_help = true,
    propagate_version = false,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = "\
Try it without an account, on a server inside this command:
  svc --sandbox emails send --from hello@sandbox.test --to ada@example.test \\
      --subject Hi --text Hello
Set it up:
  svc login"
)]
struct Cli {
    #[command(flatten)]
    global: GlobalFlags,
    #[command(subcommand)]
    command: Command,
}

/// The whole command tree.
pub fn command() -> clap::Command {
    Cli::command()
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
        // Asked for by scripts, many times: the command tree is not needed for it.
        let said =
            early_printer(args, env, streams).raw(concat!("svc ", env!("CARGO_PKG_VERSION"), "\n"));
        return said.map_or_else(|failure| exit::code(failure.kind()), |()| exit::DONE);
    }
    if let Some(shell) = env.get(complete::VARIABLE) {
        complete::run(shell, args, env, streams);
        return exit::DONE;
    }
    let (cli, leaf) = match parse(args) {
        Ok(parsed) => parsed,
        Err(error) => return clap_said(&error, args, env, streams),
    };
    let (settings, printer) = match prepare(&cli.global, env, streams) {
        Ok(prepared) => prepared,
        Err(failure) => {
            early_printer(args, env, streams).failure(&failure);
            return exit::code(failure.kind());
        }
    };
    let context = Context::new(settings, printer, leaf, args);
    let result = command_spec::check(leaf, &cli.global).and_then(|()| match cli.command {
        // These need no runtime.
        Command::Completions(args) => args.run(&context),
        Command::Man(args) => args.run(&context),
        Command::Schema(args) => args.run(&context),
        command => {
            let runtime = runtime(leaf)?;
            let result = runtime.block_on(until_interrupted(command, &context));
            // A question that was given up still waits for its answer.
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
        // The second Ctrl-C is of somebody who does not want to wait.
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
    // The work comes first: until it waits for something other than standard
    // input, Ctrl-C ends the program as it ends any other.
    tokio::select! {
        biased;
        result = work => result,
        () = context.interrupted() => Err(context.changes.interruption()),
    }
}

/// Parsing comes before the runtime: `--version` and mistakes never pay for it.
fn runtime(leaf: &CommandSpec) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = if leaf.path == "sandbox serve" {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    builder.enable_all().build().map_err(Failure::from)
}

fn parse(args: &[OsString]) -> Result<(Cli, &'static CommandSpec), clap::Error> {
    let mut matches = command().try_get_matches_from(args)?;
    let path = leaf_path(&matches);
    let cli = Cli::from_arg_matches_mut(&mut matches)?;
    let leaf = command_spec::find(&path).unwrap_or(&command_spec::UNKNOWN);
    Ok((cli, leaf))
}

fn leaf_path(matches: &clap::ArgMatches) -> String {
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
        return Err(Failure::usage("--jq filters JSON; it cannot stand beside --output table"));
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

/// Help and version are results; everything else that clap says is wrong usage,
/// an error object where JSON was asked for.
fn clap_said(error: &clap::Error, args: &[OsString], env: &Env, streams: Streams) -> u8 {
    use clap::error::ErrorKind as Said;
    let printer = early_printer(args, env, streams);
    let failure = match error.kind() {
        Said::DisplayHelp | Said::DisplayVersion => {
            return printer
                .clap(error)
                .map_or_else(|failure| exit::code(failure.kind()), |()| exit::DONE);
        }
        Said::DisplayHelpOnMissingArgumentOrSubcommand if printer.is_table() => {
            let _ = printer.clap(error);
            return exit::USAGE;
        }
        Said::DisplayHelpOnMissingArgumentOrSubcommand => {
            Failure::usage("a command is missing").hint("svc --help lists the commands")
        }
        _ => usage_failure(error),
    };
    printer.failure(&failure);
    exit::USAGE
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
        (None, Some(usage)) if error.kind() == clap::error::ErrorKind::InvalidSubcommand => {
            failure.hint(commands_of(usage))
        }
        (None, Some(usage)) => failure.hint(format!("usage: {usage}")),
        (None, None) => failure,
    }
}

/// The commands that could stand where one is not known.
fn commands_of(usage: &str) -> String {
    let tree = command();
    let words = usage.split(' ').skip(1).take_while(|word| !word.starts_with(['[', '<']));
    let group = words.clone().try_fold(&tree, |at, word| at.find_subcommand(word));
    let path = words.fold("svc".to_owned(), |path, word| path + " " + word);
    match group.filter(|group| group.get_name() != tree.get_name()) {
        Some(group) => {
            let names = group.get_subcommands().map(clap::Command::get_name);
            format!("{path} has {}", names.collect::<Vec<_>>().join(", "))
        }
        None => format!("{path} --help lists the commands"),
    }
}

/// What to print with before the settings are known: the options as they stand
/// in the arguments, nothing more.
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
