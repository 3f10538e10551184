//! The run of a command: its settings, streams and signals, and the words that were typed, from which
//! the command lines of hints are made (`svc`, `list_of_group`, `typed_after`). `inputs.rs` reads files
//! and standard input.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::OsString;
use std::sync::Arc;

use svc_sdk::Operation;

use crate::command_line;
use crate::command_spec::CommandSpec;
use crate::exit;
use crate::failure::Failure;
use crate::output::Printer;
use crate::process::{Approval, Process};
use crate::settings::{Settings, Source};
use crate::stop;

/// Runs another command inside this process. Returns its exit code and the ID of its last request.
pub type RunInside = fn(&[OsString], Process) -> (u8, Option<String>);

/// The command as it was typed, and who decides about it.
pub struct Invocation {
    pub command: CommandSpec,
    pub organization: Option<String>,
    pub idempotency_key: Option<String>,
    pub approval: Option<Approval>,
    pub typed: Vec<OsString>,
}

/// A resource that may not exist.
pub struct NotFound {
    pub message: String,
    /// Whether no list has it: a service that refuses the form of its id has not found it, either.
    pub was_searched: bool,
}

/// The run of one command.
pub struct Run {
    pub settings: Arc<Settings>,
    pub out: Printer,
    pub command: CommandSpec,
    /// The organization of the sandbox that the command is about, if it is given.
    pub organization: Option<String>,
    /// The tree of all commands.
    pub tree: fn() -> clap::Command,
    pub run_inside: RunInside,
    /// Who decides about what this command has prepared, if that is not a person.
    pub approval: Cell<Option<Approval>>,
    /// The exit code, if the command does not fail.
    pub exit_code: Cell<u8>,
    /// The message if the service does not know the id that is sent.
    pub not_found: RefCell<Option<NotFound>>,
    /// The command line of this run, for hints that repeat it with other options.
    typed: Vec<OsString>,
    /// The option that has read standard input.
    pub(super) stdin_reader: OnceCell<String>,
}

impl Run {
    pub(super) fn new(
        settings: Settings,
        out: Printer,
        invocation: Invocation,
        tree: fn() -> clap::Command,
        run_inside: RunInside,
    ) -> Self {
        Self {
            settings: Arc::new(settings),
            out,
            command: invocation.command,
            organization: invocation.organization,
            tree,
            run_inside,
            approval: Cell::new(invocation.approval),
            exit_code: Cell::new(exit::DONE),
            not_found: RefCell::default(),
            typed: invocation.typed,
            stdin_reader: OnceCell::new(),
        }
    }

    /// Completes on Ctrl-C.
    pub async fn interrupted(&self) {
        stop::interrupted(self.settings.env.signals).await;
    }

    /// Says which recipients are allowed, beside what a command that may send is about to do.
    pub fn note_guard(&self) -> Result<(), Failure> {
        let sends = [Operation::EmailsSend, Operation::EmailsSendBatch];
        let operations = self.command.operations.iter();
        let may_send = self.command.calls_any_operation
            || operations.into_iter().any(|each| sends.contains(each));
        if let Some(guard) = self.settings.guard.for_run()?.filter(|_| may_send) {
            self.out.note(&format!("recipient guard: {guard}"));
        }
        Ok(())
    }

    /// The words after `svc`.
    pub fn typed(&self) -> &[OsString] {
        &self.typed
    }

    /// The command line of this run, with more options.
    pub fn typed_after(&self, program: &str) -> String {
        let tree = (self.tree)();
        let words = self.command.path.split(' ');
        let command = words.fold(&tree, |command, word| {
            command.find_subcommand(word).unwrap_or(command)
        });
        command_line::shown(program, &self.typed, command)
    }

    /// A command line for a hint, with `--sandbox` if this run uses the sandbox, and with the profile of
    /// an option.
    pub fn svc(&self, command: &str, values: &[&str]) -> String {
        let rest = command_line::filled(command, values);
        let profile = &self.settings.profile;
        match &profile.source {
            // `svc sandbox …` always addresses the sandbox.
            _ if rest.starts_with("sandbox ") => format!("svc {rest}"),
            _ if self.settings.sandbox => format!("svc --sandbox {rest}"),
            Source::Option(_) => {
                format!(
                    "svc --profile {} {rest}",
                    command_line::shell_quoted(&profile.value)
                )
            }
            _ => format!("svc {rest}"),
        }
    }

    /// The list of the group that the command belongs to, as a command line.
    pub fn list_of_group(&self) -> Option<String> {
        let (group, _) = self.command.path.rsplit_once(' ')?;
        let tree = (self.tree)();
        let mut words = group.split(' ').chain(["list"]);
        let list = words.try_fold(&tree, |level, word| level.find_subcommand(word))?;
        let of = list
            .get_positionals()
            .filter_map(|it| it.get_value_names()?.first());
        Some(of.fold(format!("{group} list"), |line, of| format!("{line} {of}")))
    }
}
