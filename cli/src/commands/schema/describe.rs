//! Describes every command as JSON Schema, from the clap tree that parses it.

use std::any::TypeId;

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command};
use serde_json::{Map, Value, json};
use svc_sdk::Operation;

use crate::command_spec::{self, CommandSpec, Effect};
use crate::exit;
use crate::failure::ErrorLine;
use crate::output_schema::of;

/// Every leaf command: its input, output and errors.
pub(super) fn all(tree: &mut Command) -> Vec<Value> {
    tree.build();
    let described = command_spec::all(tree).into_iter().filter_map(|spec| {
        let mut words = spec.path.split(' ');
        let command = words.try_fold(&*tree, |level, name| level.find_subcommand(name))?;
        Some(describe(&spec, command))
    });
    described.collect()
}

fn describe(spec: &CommandSpec, command: &Command) -> Value {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    json!({
        "command": spec.path,
        "about": about,
        "operations": spec.operations.iter().map(operation).collect::<Vec<_>>(),
        "effect": spec.effect,
        "dry_run": spec.has_dry_run(),
        "asks_for_confirmation": spec.effect == Effect::Removes,
        "input": input(command),
        "output": (spec.output)(),
        "errors": of::<ErrorLine>(),
        "exit_codes": exit_codes(),
    })
}

fn operation(operation: &Operation) -> Value {
    json!({
        "name": operation.to_string(),
        "method": operation.method().as_str(),
        "path": operation.path(),
        "scope": command_spec::scope_of(*operation),
        "idempotent": operation.is_idempotent(),
    })
}

fn input(command: &Command) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    // The options of the command itself come first.
    let (global, own) = command
        .get_arguments()
        .filter(|arg| arg.get_id() != "help")
        .partition::<Vec<_>, _>(|arg| arg.is_global_set());
    for arg in own.into_iter().chain(global) {
        let name = match arg.get_long() {
            Some(long) => format!("--{long}"),
            None => arg.get_id().to_string(),
        };
        properties.insert(name.clone(), argument(arg));
        if arg.is_required_set() {
            required.push(name);
        }
    }

    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

pub(in crate::commands) fn argument(arg: &Arg) -> Value {
    let possible = arg.get_possible_values();
    let names = possible
        .iter()
        .map(PossibleValue::get_name)
        .collect::<Vec<_>>();
    let parsed = arg.get_value_parser().type_id();
    let integers = [
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
    ];
    let mut schema = if parsed == TypeId::of::<bool>() {
        json!({"type": "boolean"})
    } else if integers.iter().any(|integer| parsed == *integer) {
        json!({"type": "integer"})
    } else if names.is_empty() {
        json!({"type": "string"})
    } else {
        json!({"enum": names})
    };
    if matches!(arg.get_action(), ArgAction::Append) {
        schema = json!({"type": "array", "items": schema});
    }
    if let Some(help) = arg.get_help() {
        schema["description"] = help.to_string().into();
    }
    if let Some(value) = arg.get_value_names().and_then(<[_]>::first) {
        schema["x-value"] = value.as_str().into();
    }
    if arg.is_positional() {
        schema["x-positional"] = true.into();
    }
    schema
}

fn exit_codes() -> Value {
    exit::TABLE
        .iter()
        .map(|(code, meaning)| (code.to_string(), *meaning))
        .collect()
}
