//! What is known of a command: the operations that it calls, its effect and its output. The rows
//! are in `command_table.rs`.

use serde_json::Value;
use svc_sdk::Operation;

use crate::COMMANDS;
use crate::failure::Failure;
use crate::settings::{GlobalFlags, Settings, Source};

/// The effect of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Reads from a service.
    Reads,
    /// Creates something, so `--idempotency-key` applies.
    Creates,
    /// Changes something at a service or the local server.
    Changes,
    /// Deletes something irrecoverably and asks for confirmation.
    Dangerous,
    /// Works on this machine only and sends no request that `--dry-run` could show.
    Local,
}

/// A leaf command: one without subcommands.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    /// The words after `svc`, such as `emails send`.
    pub path: &'static str,
    /// The documented operations that it may call.
    pub operations: &'static [Operation],
    /// Its effect.
    pub effect: Effect,
    /// The JSON Schema of its output with `--json`.
    pub output: fn() -> Value,
    /// Whether it uses only the local server.
    pub is_local_server: bool,
    /// Whether it handles Ctrl-C itself: as the regular way to end it, or to report what was done.
    pub handles_interrupt: bool,
    /// Whether it creates a profile, or reports that there is none.
    pub allows_new_profile: bool,
    /// Whether it may call any operation.
    pub calls_any_operation: bool,
    /// What the id on its command line names.
    pub id_of: IdOf,
    /// Of a list, whose items it lists.
    of: Option<&'static str>,
}

/// What the id on a command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOf {
    /// What the commands of the same group are about.
    Group,
    Audience,
    Domain,
    Email,
}

impl CommandSpec {
    /// Whether the command sends requests that `--dry-run` can show.
    pub fn has_dry_run(&self) -> bool {
        self.effect != Effect::Local
    }

    /// The list of the group that the command belongs to: the command line, and whether it lists
    /// the items of something, page by page.
    pub fn list(&self) -> Option<(String, bool)> {
        let (group, _) = self.path.rsplit_once(' ')?;
        let list = find(&format!("{group} list"))?;
        Some(match list.of {
            Some(of) => (format!("{} {of}", list.path), true),
            None => (list.path.to_owned(), false),
        })
    }

    /// The last word of the path.
    pub fn verb(&self) -> &'static str {
        self.path.rsplit(' ').next().unwrap_or_default()
    }

    pub(crate) const fn with_id_of(self, id_of: IdOf) -> Self {
        Self { id_of, ..self }
    }

    pub(crate) const fn of(self, of: &'static str) -> Self {
        Self { of: Some(of), ..self }
    }

    pub(crate) const fn on_local_server(self) -> Self {
        Self { is_local_server: true, ..self }
    }

    pub(crate) const fn with_any_operation(self) -> Self {
        Self { calls_any_operation: true, ..self }
    }

    pub(crate) const fn until_interrupted(self) -> Self {
        Self { handles_interrupt: true, ..self }
    }

    pub(crate) const fn of_new_profile(self) -> Self {
        Self { allows_new_profile: true, ..self }
    }
}

/// Placeholder for a command without a row. The tests make sure that there is none.
pub(crate) const UNKNOWN: CommandSpec = spec("", &[], Effect::Reads, || Value::Bool(true));

/// The command at a path such as `emails send`.
pub(crate) fn find(path: &str) -> Option<&'static CommandSpec> {
    COMMANDS.iter().find(|spec| spec.path == path)
}

/// Refuses options that have no effect on this command, and a profile that does not exist.
pub(crate) fn check(
    spec: &CommandSpec,
    flags: &GlobalFlags,
    settings: &Settings,
) -> Result<(), Failure> {
    check_flags(spec, flags)?;
    // The sandbox uses the recipient guard of the profile, and other commands its output format.
    let is_named = settings.profile.source != Source::Profile;
    let may_be_new = spec.allows_new_profile && !settings.sandbox;
    match is_named && !may_be_new {
        true => settings.refuse_unknown_profile(),
        false => Ok(()),
    }
}

fn check_flags(spec: &CommandSpec, flags: &GlobalFlags) -> Result<(), Failure> {
    if flags.idempotency_key.is_some() && spec.effect != Effect::Creates {
        return Err(Failure::usage(format!(
            "--idempotency-key has no effect: `svc {}` is not one request that creates something",
            spec.path
        )));
    }
    let base_urls = flags.email_url.is_some() || flags.extraction_url.is_some();
    if spec.is_local_server && (base_urls || flags.key_file.is_some()) {
        return Err(Failure::usage(
            "the sandbox has its own base URLs and keys: remove --email-url, --extraction-url and --key-file",
        ));
    }
    if flags.dry_run && !spec.has_dry_run() {
        return Err(Failure::usage(format!(
            "--dry-run has no effect: `svc {}` sends no request to show",
            spec.path
        )));
    }
    Ok(())
}

/// A row of the table.
pub(crate) const fn spec(
    path: &'static str,
    operations: &'static [Operation],
    effect: Effect,
    output: fn() -> Value,
) -> CommandSpec {
    CommandSpec {
        path,
        operations,
        effect,
        output,
        is_local_server: false,
        handles_interrupt: false,
        allows_new_profile: false,
        calls_any_operation: false,
        id_of: IdOf::Group,
        of: None,
    }
}
