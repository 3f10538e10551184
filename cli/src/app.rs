//! Runs `svc`. `run` takes the arguments and a `Process`, and returns the exit code: it parses
//! (`Parsed`), resolves the settings, builds the `Context`, runs the command in a runtime of its
//! own, and prints its failure. Before the settings are resolved, `early_printer` reads from the
//! arguments alone how a failure is to be printed. A run takes streams, environment and directory
//! from `Process`, so that `svc mcp` and tests run commands inside theirs. Commands go on in
//! `commands/`.

use std::ffi::OsString;
use std::sync::LazyLock;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, ValueEnum as _};
use clap_complete::CompleteEnv;

use crate::command_spec::{self, CommandSpec, Effect};
use crate::command_tree::{self, IDEMPOTENCY_KEY, ORGANIZATION};
use crate::commands::{Command, SECTIONS};
use crate::complete::{self, Values};
use crate::context::{Context, Invocation};
use crate::exit;
use crate::failure::Failure;
use crate::hints;
use crate::output::{Filter, Format, Look, Printer, Streams, between_words};
use crate::process::Process;
use crate::settings::{Env, GlobalFlags, Settings, color_choice};
use crate::spelling;
use crate::stop::StopSignal;
use crate::usage;

/// Send email, manage audiences, domains and webhooks, and test webhook receivers
#[derive(Parser, Debug)]
#[command(
    name = "svc",
    version,
    arg_required_else_help = true,
    propagate_version = false,
    disable_help_subcommand = true,
    max_term_width = 80,
    after_long_help = format!(
        "{TRY}Set up a service:\n  svc login --email-url https://mail.example.com"
    )
)]
struct Cli {
    #[command(flatten)]
    global: GlobalFlags,
    #[command(subcommand)]
    command: Command,
}

/// A line of names goes on below its first name.
const INDENT: &str = "\n                      ";

const TRY: &str = "\
Try it without an account, on a server inside this command:
  svc --sandbox emails send --from hello@sandbox.test --to ada@example.test \\
      --subject Hi --text Hello
";

/// The whole command tree. `svc mcp` needs it for each command that it runs, and a copy is made sooner.
pub fn command() -> clap::Command {
    static TREE: LazyLock<clap::Command> = LazyLock::new(whole_tree);
    TREE.clone()
}

fn whole_tree() -> clap::Command {
    let tree = Cli::command().mut_args(|option| option.global(true).hide_short_help(true));
    let tree = tree.mut_arg("profile", |it| it.add(Values::Profile.candidates()));
    with_sections(command_tree::complete(tree, "svc"))
}

/// Adds the sections to the help of `svc` itself: names in the short help, and descriptions in the
/// long one.
fn with_sections(tree: clap::Command) -> clap::Command {
    let mut short = String::new();
    let mut long = String::new();
    for (title, names) in SECTIONS {
        // It has 80 columns.
        let names_of_title = between_words(&names.join(", "), 58).replace('\n', INDENT);
        short.push_str(&format!("  {title:<18}  {names_of_title}\n"));
        long.push_str(&format!("{title}:\n"));
        for name in names {
            let about = tree
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            long.push_str(&format!("  {name:<11}  {about}\n"));
        }
        long.push('\n');
    }

    let short = format!("Commands:\n{short}\n{TRY}");
    tree.before_help(short).before_long_help(long).help_template(
        "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}",
    )
}

/// Runs `svc` with the arguments, environment and streams of this process, or completes a command
/// line for a shell.
pub fn main() -> u8 {
    CompleteEnv::with_factory(|| for_completion(command()))
        .var(complete::VARIABLE)
        .complete();
    run(&std::env::args_os().collect::<Vec<_>>(), Process::current())
}

/// Hides the options, so that they are completed after a dash, or where nothing else fits.
fn for_completion(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        if arg.is_positional() {
            arg
        } else {
            arg.hide(true)
        }
    });
    command.mut_subcommands(for_completion)
}

/// Runs `svc` inside this process. The first argument is the name of the program. Returns the exit
/// code.
///
/// It blocks until the command ends, and must not be called from an async task.
pub fn run(args: &[OsString], process: Process) -> u8 {
    run_inside(args, process).0
}

/// Like [`run`], and returns the ID of the last request that a service has answered.
fn run_inside(args: &[OsString], process: Process) -> (u8, Option<String>) {
    let env = &Env::of(&process);
    let Process {
        stdin,
        stdout,
        stderr,
        terminals,
        approval,
        ..
    } = process;
    let streams = Streams::new(
        stdin,
        stdout,
        stderr,
        terminals,
        env.get("TERM") == Some("dumb"),
    );
    let (cli, mut invocation) = match parse(args) {
        Ok(parsed) => parsed,
        Err(error) => {
            return (
                report_clap_error(&error, &early_printer(args, env, &streams)),
                None,
            );
        }
    };
    let (settings, printer) = match prepare(&cli.global, env, &streams) {
        Ok(prepared) => prepared,
        Err(failure) => {
            early_printer(args, env, &streams).failure(&failure);
            return (exit::code(failure.kind()), None);
        }
    };
    let checked = command_spec::check(&invocation.command, &cli.global, &settings);
    invocation.approval = approval;
    let context = Context::new(settings, printer, invocation, command, run_inside);
    for unknown in context.settings.unknown() {
        context.out.warning(&unknown);
    }

    let result = checked.and_then(|()| {
        let runtime = runtime(&context.command)?;
        let result = runtime.block_on(until_interrupted(cli.command, &context));
        // The thread of an abandoned prompt may still be reading standard input.
        runtime.shutdown_background();
        result
    });
    let code = match result {
        Ok(()) => context.exit_code.get(),
        Err(mut failure) => {
            hints::add(&mut failure, &context);
            context.out.failure(&failure);
            exit::code(failure.kind())
        }
    };
    let request_id = context
        .clients
        .request_id
        .lock()
        .ok()
        .and_then(|mut it| it.take());
    (code, request_id)
}

async fn until_interrupted(command: Command, context: &Context) -> Result<(), Failure> {
    if context.command.handles_interrupt {
        let result = Box::pin(command.run(context)).await;
        // A second signal skips the cleanup, and the wait for others that use the sandbox.
        let mut stop = StopSignal::listen(context.settings.env.signals).unwrap_or_default();
        tokio::select! {
            () = context.clients.finish() => {}
            _ = stop.recv() => {}
        }
        return result;
    }
    let work = async {
        let result = Box::pin(command.run(context)).await;
        context.clients.finish().await;
        result
    };
    // The work is polled first: the handler of Ctrl-C is installed only once the work waits for
    // something other than standard input. Until then Ctrl-C ends the process by default.
    tokio::select! {
        biased;
        result = work => result,
        () = context.interrupted() => Err(context.caller.changes.interruption()),
    }
}

/// The async runtime. It is started after parsing, so that `--version` and usage errors are fast.
fn runtime(command: &CommandSpec) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = if command.is_multi_threaded {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    // Timers are looked at after each task: reading a stream without an end can take a task long, and
    // 61 turns of it, the default, would outlive every timeout.
    builder.enable_all().event_interval(1);
    builder.build().map_err(Failure::from)
}

fn parse(args: &[OsString]) -> Result<(Cli, Invocation), clap::Error> {
    let mut tree = command();
    let mut matches = match tree.try_get_matches_from_mut(args) {
        Ok(matches) => matches,
        Err(error) => {
            let Some(corrected) = spelling::corrected(&tree, args) else {
                return Err(error);
            };
            // What is still wrong is not the spelling.
            tree.try_get_matches_from_mut(corrected)?
        }
    };

    let mut path = Vec::new();
    let mut level = &matches;
    while let Some((name, below)) = level.subcommand() {
        path.push(name);
        level = below;
    }

    let spec = command_spec::find(&tree, &path);
    // Options that the tree adds to the commands of a kind.
    let given = |option, is_taken: bool| {
        let value = is_taken.then(|| level.get_one::<String>(option));
        value.flatten().cloned()
    };

    let invocation = Invocation {
        organization: given(ORGANIZATION, spec.is_of_organization),
        idempotency_key: given(IDEMPOTENCY_KEY, spec.effect == Effect::Creates),
        command: spec,
        approval: None,
        typed: args.to_vec(),
    };
    Ok((Cli::from_arg_matches_mut(&mut matches)?, invocation))
}

fn prepare(
    flags: &GlobalFlags,
    env: &Env,
    streams: &Streams,
) -> Result<(Settings, Printer), Failure> {
    let settings = Settings::resolve(flags, env)?;
    let filter = flags.jq.as_deref().map(Filter::compile).transpose()?;
    let format = settings.format.as_ref().map(|format| format.value);
    let is_json = |format: Format| format != Format::Table && !format.is_of_dns_records();
    if filter.is_some() && flags.output.is_some_and(|format| !is_json(format)) {
        return Err(Failure::usage(
            "--jq filters JSON and cannot be combined with this --output",
        ));
    }

    let format = format.filter(|format| filter.is_none() || *format != Format::Table);
    let look = Look {
        format,
        is_asked: flags.json || flags.output.is_some(),
        filter,
        color: settings.color,
        quiet: flags.quiet,
        verbose: flags.verbose,
        wide: flags.wide,
        safe_cells: flags.safe_cells,
        zone: env.zone,
    };
    Ok((settings, Printer::new(look, streams.clone(), env.signals)))
}

/// Prints help and version as results. Any other clap error is a usage error, printed as an error
/// object if the output is JSON.
fn report_clap_error(error: &clap::Error, printer: &Printer) -> u8 {
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
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => usage::no_command(error),
        _ => {
            let mut tree = command();
            tree.build();
            usage::failure(error, &tree)
        }
    };
    printer.failure(&failure);
    exit::USAGE
}

/// A printer for the time before the settings are resolved. It considers only the output options
/// in the arguments and environment.
fn early_printer(args: &[OsString], env: &Env, streams: &Streams) -> Printer {
    let flags = GlobalFlags::found_in(args);
    let format = if flags.json || flags.jq.is_some() {
        Some(Format::Json)
    } else {
        flags
            .output
            .or_else(|| Format::from_str(env.get("SVC_OUTPUT")?, false).ok())
    };
    let look = Look {
        format,
        color: color_choice(&flags, [env]),
        zone: env.zone,
        ..Look::default()
    };
    Printer::new(look, streams.clone(), env.signals)
}
