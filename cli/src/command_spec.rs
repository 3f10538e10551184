//! What is declared of a command beside its arguments, with `#[command(add = …)]`: the operations
//! that it calls, its effect and its output. Help, `--dry-run`, `svc schema` and the tests follow.

use clap::Command;
use clap::builder::CommandExt;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::{Operation, ScopeRule};

use crate::failure::Failure;
use crate::output::Format;
use crate::settings::{GlobalFlags, Settings, Source};

/// The effect of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Reads from a service.
    Reads,
    /// Creates something, so it takes `--idempotency-key`.
    Creates,
    /// Changes something at a service or in the sandbox.
    Changes,
    /// Deletes something irrecoverably and asks for confirmation.
    Removes,
    /// Works on this machine only and sends no request that `--dry-run` could show.
    Local,
}

/// A leaf command: one without subcommands.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// The words after `svc`, such as `emails send`.
    pub path: String,
    /// The documented operations that it may call.
    pub operations: &'static [Operation],
    /// The effect of a run on the service.
    pub effect: Effect,
    /// The JSON Schema of its output with `--json`.
    pub output: fn() -> Value,
    /// Whether it uses only the sandbox.
    pub is_of_sandbox: bool,
    /// Whether it is about one organization of the sandbox.
    pub is_of_organization: bool,
    /// Whether it handles Ctrl-C itself: as the regular way to end it, or to report what was done.
    pub handles_interrupt: bool,
    /// Whether it creates a profile, or reports that there is none.
    pub allows_new_profile: bool,
    /// Whether it may call any operation.
    pub calls_any_operation: bool,
    /// Whether work of several commands goes on in it at a time.
    pub is_multi_threaded: bool,
    /// Whether it has the output formats of DNS records.
    pub has_dns_formats: bool,
    /// Whether it is given a key to check.
    pub checks_key: bool,
    /// The list of what its argument names, if that is not the list of its group.
    pub listed_by: Option<&'static str>,
    scope: Option<&'static str>,
}

impl CommandExt for CommandSpec {}

/// Declares methods that set a flag.
macro_rules! setters {
    ($($method:ident: $flag:ident,)*) => {
        impl CommandSpec {
            $(pub(crate) fn $method(self) -> Self {
                Self { $flag: true, ..self }
            })*
        }
    };
}

setters! {
    of_sandbox: is_of_sandbox,
    with_any_operation: calls_any_operation,
    until_interrupted: handles_interrupt,
    of_new_profile: allows_new_profile,
    multi_threaded: is_multi_threaded,
    with_dns_formats: has_dns_formats,
    with_key_to_check: checks_key,
}

/// A command that reads from a service.
pub(crate) fn reads(operations: &'static [Operation], output: fn() -> Value) -> CommandSpec {
    spec(Effect::Reads, operations, output)
}

/// A command that creates something with one request.
pub(crate) fn creates(operations: &'static [Operation], output: fn() -> Value) -> CommandSpec {
    spec(Effect::Creates, operations, output)
}

/// A command that changes something.
pub(crate) fn changes(operations: &'static [Operation], output: fn() -> Value) -> CommandSpec {
    spec(Effect::Changes, operations, output)
}

/// A command that deletes something and asks before.
pub(crate) fn removes(operations: &'static [Operation], output: fn() -> Value) -> CommandSpec {
    spec(Effect::Removes, operations, output)
}

/// A command without a request that a dry run could show.
pub(crate) fn local(output: fn() -> Value) -> CommandSpec {
    spec(Effect::Local, &[], output)
}

fn spec(effect: Effect, operations: &'static [Operation], output: fn() -> Value) -> CommandSpec {
    CommandSpec {
        path: String::new(),
        operations,
        effect,
        output,
        is_of_sandbox: false,
        is_of_organization: false,
        handles_interrupt: false,
        allows_new_profile: false,
        calls_any_operation: false,
        is_multi_threaded: false,
        has_dns_formats: false,
        checks_key: false,
        listed_by: None,
        scope: None,
    }
}

impl CommandSpec {
    /// Whether the command sends requests that `--dry-run` can show.
    pub fn has_dry_run(&self) -> bool {
        self.effect != Effect::Local
    }

    /// The scopes that the operations need.
    pub fn scope(&self) -> String {
        let mut scopes = self
            .operations
            .iter()
            .copied()
            .map(scope_of)
            .collect::<Vec<_>>();
        scopes.dedup();
        match self.scope {
            Some(scope) => scope.to_owned(),
            None if self.is_of_sandbox => "none (sandbox)".to_owned(),
            None if scopes.is_empty() => "none".to_owned(),
            // What a key with another scope cannot see is left out.
            None if scopes.contains(&"any key") => "any key".to_owned(),
            None => scopes.join(", "),
        }
    }

    /// Describes the scopes of a command whose options decide which operations it calls.
    pub(crate) fn with_scope(self, scope: &'static str) -> Self {
        Self {
            scope: Some(scope),
            ..self
        }
    }

    /// Adds the option `--organization`.
    pub(crate) fn of_organization(self) -> Self {
        Self {
            is_of_organization: true,
            ..self.of_sandbox()
        }
    }

    pub(crate) fn listed_by(self, list: &'static str) -> Self {
        Self {
            listed_by: Some(list),
            ..self
        }
    }

    pub(crate) fn calling(self, operations: &'static [Operation]) -> Self {
        Self { operations, ..self }
    }
}

/// The scope that an operation needs.
pub(crate) fn scope_of(operation: Operation) -> &'static str {
    match operation.scope_rule() {
        ScopeRule::Needs(scope) => scope.as_str(),
        ScopeRule::AnyKey => "any key",
        _ => "not documented",
    }
}

/// The command at a path in the tree. A path that is not a command's reads nothing.
pub(crate) fn find(tree: &Command, path: &[&str]) -> CommandSpec {
    let command = path
        .iter()
        .try_fold(tree, |level, name| level.find_subcommand(name));
    let declared = command
        .and_then(|command| command.get::<CommandSpec>())
        .cloned();
    let spec = declared.unwrap_or_else(|| reads(&[], || Value::Bool(true)));
    CommandSpec {
        path: path.join(" "),
        ..spec
    }
}

/// Every leaf command, in the order of the help.
pub(crate) fn all(tree: &Command) -> Vec<CommandSpec> {
    fn walk(level: &Command, path: &[&str], found: &mut Vec<CommandSpec>) {
        for command in level.get_subcommands() {
            let path = [path, &[command.get_name()]].concat();
            match command.get::<CommandSpec>().cloned() {
                Some(spec) => found.push(CommandSpec {
                    path: path.join(" "),
                    ..spec
                }),
                None => walk(command, &path, found),
            }
        }
    }

    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

/// Refuses options that have no effect on this command, and a profile that does not exist.
pub(crate) fn check(
    spec: &CommandSpec,
    flags: &GlobalFlags,
    settings: &Settings,
) -> Result<(), Failure> {
    let path = &spec.path;
    let base_urls = flags.email_url.is_some() || flags.extraction_url.is_some();
    if (spec.is_of_sandbox || settings.sandbox) && (base_urls || flags.key_file.is_some()) {
        return Err(Failure::usage(
            "the sandbox has its own base URLs and keys: remove --email-url, --extraction-url and --key-file",
        ));
    }
    if flags.dry_run && !spec.has_dry_run() {
        return Err(Failure::usage(format!(
            "--dry-run has no effect: `svc {path}` sends no request to show"
        )));
    }

    let format = settings.format.as_ref().map(|format| format.value);
    if format.is_some_and(Format::is_of_dns_records) && !spec.has_dns_formats {
        return Err(Failure::usage(
            "only `svc domains records` has this output format",
        ));
    }

    // The sandbox is sent only a key that it has issued.
    if spec.effect != Effect::Local && !settings.sandbox {
        settings.check_keys()?;
    }
    // The sandbox uses the recipient guard of the profile, and other commands its output format.
    let is_named = settings.profile.source != Source::Profile;
    let may_be_new = spec.allows_new_profile && !settings.sandbox;
    if is_named && !may_be_new {
        settings.refuse_unknown_profile()
    } else {
        Ok(())
    }
}
