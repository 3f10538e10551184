//! The context of a command: its settings and streams, here; `clients.rs` has the clients that follow
//! from the settings, `caller.rs` what sends their requests.

mod caller;
mod clients;
mod inputs;
mod trace;
mod which_service;

pub use clients::is_cleartext_url;
pub use trace::{beginning, masked_message};

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::OnceCell;

use crate::changes::Changes;
use crate::command_line;
use crate::command_spec::CommandSpec;
use crate::exit;
use crate::failure::Failure;
use crate::output::{Printer, View};
use crate::process::{Approval, Process};
use crate::sandbox::Sandbox;
use crate::settings::Settings;
use crate::stop;

/// Runs another command inside this process. Returns its exit code and the ID of its last request.
pub type RunInside = fn(&[OsString], Process) -> (u8, Option<String>);

/// What was typed, and who decides about it.
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

/// The context of one command.
pub struct Context {
    pub settings: Arc<Settings>,
    pub out: Printer,
    pub command: CommandSpec,
    /// The organization of the sandbox that the command is about, if it is given.
    pub organization: Option<String>,
    /// The key of the request that creates something, if it is given.
    idempotency_key: Option<String>,
    /// The tree of all commands.
    pub tree: fn() -> clap::Command,
    pub run_inside: RunInside,
    /// The command line of this run, for hints that repeat it with other options.
    typed: Vec<OsString>,
    pub sandbox: Arc<OnceCell<Sandbox>>,
    pub changes: Changes,
    /// Who decides about what this command has prepared, if that is not a person.
    pub approval: Cell<Option<Approval>>,
    /// The exit code, if the command does not fail.
    pub exit_code: Cell<u8>,
    /// The ID of the last request that a service has answered.
    pub request_id: Arc<Mutex<Option<String>>>,
    /// What is said if the service does not know the id that is sent.
    pub not_found: RefCell<Option<NotFound>>,
    /// The option that has read standard input.
    stdin_reader: std::cell::OnceCell<String>,
    /// Whether a person knows which service is used, see `which_service.rs`.
    pub told_service: Cell<bool>,
}

impl Context {
    /// A context for one command.
    pub fn new(
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
            idempotency_key: invocation.idempotency_key,
            tree,
            run_inside,
            typed: invocation.typed,
            sandbox: Arc::default(),
            changes: Changes::default(),
            approval: Cell::new(invocation.approval),
            exit_code: Cell::new(exit::DONE),
            request_id: Arc::default(),
            not_found: RefCell::default(),
            stdin_reader: Default::default(),
            told_service: Cell::default(),
        }
    }

    /// Completes on Ctrl-C.
    pub async fn interrupted(&self) {
        stop::interrupted(self.settings.env.signals).await;
    }

    /// Ends the command. A sandbox inside this process first finishes the work that is due.
    pub async fn finish(&self) {
        if let Some(sandbox) = self.sandbox.get() {
            let _progress = self.out.progress("waiting for the sandbox to finish");
            sandbox.finish().await;
        }
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

    /// Reports a deletion of what `shown` describes to people.
    pub fn deleted(&self, noun: &str, id: &str, shown: &str) -> Result<(), Failure> {
        self.out.done(
            &format!("deleted {noun} {shown}"),
            &Deleted { id, deleted: true },
        )
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Deleted<'a> {
    id: &'a str,
    deleted: bool,
}

/// A view that names no columns: every field as the service sent it.
pub const PLAIN: View = View(&[]);
