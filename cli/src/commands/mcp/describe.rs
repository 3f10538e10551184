//! Tools as clients see them: descriptions and schemas follow from the commands.

use std::any::TypeId;
use std::sync::Arc;

use clap::Arg;
use rmcp::model::{Tool as Description, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::arguments::either;
use super::table::{ACTION, Action, Argument, EMAIL_FIELDS, From, Kind, ROWS, Tool};
use crate::command_spec::{Effect, scope_of};
use crate::commands::schema::describe::argument;
use crate::events::names;

/// Whether a key without these scopes can do nothing with a tool.
pub fn lacks_scopes(tool: &Tool, missing: &[String]) -> bool {
    let lacks = |action: &Action| {
        let first = action.spec.operations.first();
        first.is_some_and(|it| missing.iter().any(|scope| scope == scope_of(*it)))
    };
    !tool.actions.is_empty() && tool.actions.iter().all(lacks)
}

/// The description of a tool.
pub fn describe(tool: &Tool) -> Description {
    let actions = &tool.actions;
    let effects = || actions.iter().map(|action| action.spec.effect);
    let reads = effects().all(|effect| matches!(effect, Effect::Reads | Effect::Local));
    let is_read = match tool.kind {
        Kind::Run => reads,
        Kind::Plan => true,
        Kind::SendPlanned => false,
    };
    let is_sending = tool.kind == Kind::SendPlanned;
    let mut operations = actions.iter().flat_map(|action| action.spec.operations);
    let annotations = ToolAnnotations::new()
        .read_only(is_read)
        // What is sent cannot be taken back, so that clients ask a person before.
        .destructive(is_sending || effects().any(|effect| effect == Effect::Removes))
        .idempotent(!is_sending && operations.all(|it| it.is_idempotent()));
    let described = Description::new(tool.name, about(tool), Arc::new(input(tool)));
    let described = described.with_annotations(annotations);
    match output(tool) {
        Some(schema) => described.with_raw_output_schema(Arc::new(schema)),
        None => described,
    }
}

fn about(tool: &Tool) -> String {
    let what =
        |action: &Action| action.command.get_about().map(ToString::to_string).unwrap_or_default();
    match (tool.name, tool.actions.as_slice()) {
        ("plan_email", _) => "Show the exact request and its recipients, and send nothing. The token goes to send_planned".to_owned(),
        ("plan_bulk", _) => "Show how many emails would be sent and the first three, and send nothing. The token goes to send_planned".to_owned(),
        ("send_planned", _) => "Send what plan_email or plan_bulk has shown: once, within ten minutes".to_owned(),
        (_, [one]) => what(one),
        (_, several) => {
            let line = |action: &Action| {
                let names = action.arguments.iter().map(|it| short(action, it)).collect::<Vec<_>>();
                let names = names.join(", ");
                let names = if names.is_empty() { names } else { format!(" ({names})") };
                format!("{}{names}: {}", action.name, what(action))
            };
            several.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

fn short(action: &Action, argument: &Argument) -> String {
    let name = argument.name;
    let is_required = action.arg(name).is_some_and(Arg::is_required_set);
    match argument.from {
        From::Rows => either(action, name),
        _ if is_required => name.to_owned(),
        _ => format!("{name}?"),
    }
}

fn input(tool: &Tool) -> Map<String, Value> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    if tool.kind == Kind::SendPlanned {
        let about = "The token that plan_email or plan_bulk has answered";
        properties.insert("token".to_owned(), json!({"type": "string", "description": about}));
        required.push("token");
    }
    if tool.actions.len() > 1 {
        let names = tool.actions.iter().map(|action| action.name).collect::<Vec<_>>();
        properties.insert(ACTION.to_owned(), json!({"enum": names}));
        required.push(ACTION);
    }
    for action in &tool.actions {
        for Argument { name, from } in &action.arguments {
            if *from == From::Email {
                let fields = EMAIL_FIELDS.iter().map(|(field, option, kind)| {
                    ((*field).to_owned(), field_of_email(action.arg(option), option, kind))
                });
                properties.extend(fields);
                required.extend(["from", "to", "subject"]);
            }
            let Some(arg) = action.arg(name) else { continue };
            let about = match from {
                From::Rows => "CSV, NDJSON or JSON file below the directory".to_owned(),
                From::Stdin => "The text, exactly as it was received".to_owned(),
                _ => without_files(arg),
            };
            if *from == From::Rows {
                let about =
                    "In place of a file: an object for each person, with email and more columns";
                let rows =
                    json!({"type": "array", "items": {"type": "object"}, "description": about});
                properties.insert(ROWS.to_owned(), rows);
            } else if arg.is_required_set() && tool.actions.len() == 1 {
                required.push(name);
            }
            // Of several actions, each describes it.
            let known = &mut properties.entry(*name).or_insert_with(|| value(arg))["description"];
            *known = match known.as_str() {
                None => about.into(),
                Some(before) if before.split("; ").any(|it| it == about) => before.into(),
                Some(before) => format!("{before}; {about}").into(),
            };
        }
    }
    Map::from_iter([
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), properties.into()),
        ("required".to_owned(), required.into()),
        ("additionalProperties".to_owned(), false.into()),
    ])
}

/// The schema of a value, by what the command parses it into.
fn value(arg: &Arg) -> Value {
    let parsed = arg.get_value_parser().type_id();
    let integers = [TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>()];
    if parsed == TypeId::of::<bool>() {
        return json!({"type": "boolean"});
    }
    if integers.iter().any(|integer| parsed == *integer) {
        return json!({"type": "integer"});
    }
    let mut schema = argument(arg);
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|key, _| !key.starts_with("x-") && key != "description");
    }
    schema
}

/// The help of an argument, without what only a command line takes.
fn without_files(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let only_there = [": text, @file or - for stdin", ": text, @file or -", "; repeatable"];
    let takes = arg.get_value_names().and_then(<[_]>::first).filter(|it| it.contains('='));
    let help = takes.map_or(help.clone(), |takes| format!("{help}: {takes}"));
    match arg.get_id() == "event" && arg.get_possible_values().is_empty() {
        // The service may have other events, so the schema lists no values.
        true => format!("Such as {}", names().collect::<Vec<_>>().join(", ")),
        false => {
            only_there.iter().fold(help, |help, words| help.replace(words, "")).replace("--", "")
        }
    }
}

fn field_of_email(arg: Option<&Arg>, about: &str, kind: &str) -> Value {
    let about = arg.map_or(about.to_owned(), without_files);
    let mut schema = json!({"type": kind, "description": about});
    if kind == "array" {
        schema["items"] = json!({"type": "string"});
    }
    schema
}

/// What `structuredContent` contains: the output of the command as `result`.
fn output(tool: &Tool) -> Option<Map<String, Value>> {
    let mut kinds = Vec::new();
    for action in &tool.actions {
        let kind = outline((action.spec.output)(), usize::from(tool.actions.len() == 1));
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let result = match (tool.kind, kinds.len()) {
        (Kind::Plan, _) => json!({"properties": {"token": {"type": "string"}}}),
        (_, 0) => return None,
        (_, 1) => kinds.remove(0),
        // The outputs of all actions would fill the context of a client.
        _ => json!({}),
    };
    let properties = json!({"result": result});
    Some(Map::from_iter([
        ("type".to_owned(), "object".into()),
        ("properties".to_owned(), properties),
    ]))
}

/// A schema without descriptions and requirements: what a service sends is never refused by a client,
/// and what is cut remains valid. Only the names of the fields are left below the depth.
fn outline(schema: Value, depth: usize) -> Value {
    let Value::Object(fields) = schema else { return json!({}) };
    let mut kept = Map::new();
    for (key, value) in fields {
        let (key, value) = match (key.as_str(), value) {
            ("type", value) => (key, value),
            ("items", value) => (key, outline(value, depth)),
            ("properties", Value::Object(properties)) => {
                let below = |it| match depth {
                    0 => json!({}),
                    _ => outline(it, depth - 1),
                };
                let properties = properties.into_iter().map(|(name, it)| (name, below(it)));
                (key, Value::Object(properties.collect()))
            }
            _ => continue,
        };
        kept.insert(key, value);
    }
    Value::Object(kept)
}
