//! Describes the tools of `svc mcp` to clients: text, input schema, output schema and annotations
//! all follow from the commands, so that a tool cannot promise what its command does not do. A tool
//! that sends is marked destructive, because what is sent cannot be taken back. Output schemas name
//! only the fields (`outline`), so that an answer that a service extends, or that was cut, stays
//! valid.

use std::sync::Arc;

use rmcp::model::{Tool as Description, ToolAnnotations, object};
use serde_json::{Map, Value, json};

use super::table::{ACTION, Action, Argument, From, ROWS, Tool};
use crate::command_spec::{Effect, scope_of};
use crate::commands::schema::describe::argument;
use crate::events::names;

/// Whether a key without these scopes can do nothing with a tool.
pub fn lacks_scopes(tool: &Tool, missing: &[String]) -> bool {
    let lacks = |action: &Action| {
        let first = action.spec.operations.first();
        first.is_some_and(|it| missing.iter().any(|scope| scope == scope_of(*it)))
    };
    tool.actions.iter().all(lacks)
}

/// The description of a tool.
pub fn describe(tool: &Tool) -> Description {
    let effects = || tool.actions.iter().map(|action| action.spec.effect);
    let reads = effects().all(|effect| matches!(effect, Effect::Reads | Effect::Local));
    let operations = tool
        .actions
        .iter()
        .flat_map(|action| action.spec.operations);
    let operations = operations.collect::<Vec<_>>();
    let repeatable = !operations.is_empty() && operations.iter().all(|it| it.is_idempotent());
    let annotations = ToolAnnotations::new()
        .read_only(tool.is_plan() || (reads && !tool.sends_plan()))
        // What is sent cannot be taken back, so that clients ask a person before.
        .destructive(tool.sends_plan() || effects().any(|effect| effect == Effect::Removes))
        .idempotent(!tool.sends_plan() && (reads || repeatable));
    let about = match tool.actions.as_slice() {
        [plan] if tool.is_plan() => {
            format!(
                "Show what this would send, with a token for send_planned: {}",
                about(plan)
            )
        }
        [one] => about(one),
        several => several.iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    Description::new(tool.name, about, Arc::new(input(tool)))
        .with_annotations(annotations)
        .with_raw_output_schema(Arc::new(output(tool)))
}

fn about(action: &Action) -> String {
    action
        .command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// The line of an action: its name, its arguments and what it does.
fn line(action: &Action) -> String {
    let optional = |it: &Argument| if it.is_required { "" } else { "?" };
    let names = action
        .arguments
        .iter()
        .map(|it| format!("{}{}", it.name, optional(it)));
    match names.collect::<Vec<_>>().join(", ").as_str() {
        "" => format!("{}: {}", action.name, about(action)),
        names => format!("{} ({names}): {}", action.name, about(action)),
    }
}

fn input(tool: &Tool) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if tool.actions.len() > 1 {
        let names = tool
            .actions
            .iter()
            .map(|action| action.name)
            .collect::<Vec<_>>();
        properties.insert(ACTION.to_owned(), json!({"enum": names}));
        required.push(ACTION);
    }

    for it in tool.actions.iter().flat_map(|action| &action.arguments) {
        let about = help(it);
        // Of several actions, each describes it.
        let known = &mut properties.entry(it.name).or_insert_with(|| schema(it))["description"];
        *known = match known.as_str() {
            Some(before) if before.split("; ").any(|it| it == about) => before.into(),
            Some(before) => format!("{before}; {about}").into(),
            None => about.into(),
        };
        if it.is_required && tool.actions.len() == 1 {
            required.push(it.name);
        }
    }

    object(json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }))
}

/// The schema of a value, which `svc schema` describes, too.
fn schema(it: &Argument) -> Value {
    if it.name == ROWS {
        return json!({"type": "array", "items": {"type": "object"}});
    }

    let schema = argument(&it.arg);
    let kept = ["type", "enum", "items"]
        .iter()
        .filter_map(|key| Some((*key, schema.get(key)?)));
    kept.map(|(key, value)| (key.to_owned(), value.clone()))
        .collect()
}

/// The help of an argument, without what only a command line takes.
fn help(argument: &Argument) -> String {
    let arg = &argument.arg;
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let takes = arg
        .get_value_names()
        .and_then(<[_]>::first)
        .filter(|it| it.contains(['=', ' ']));
    match (argument.name, argument.from) {
        (ROWS, _) => "An object for each person, with email and more columns".to_owned(),
        (_, From::Read) => {
            "In place of rows: a CSV, NDJSON or JSON file below the directory".to_owned()
        }
        (_, From::Stdin) => "The text, exactly as it was received".to_owned(),
        // The service may have other events, so the schema lists no values.
        ("event", _) if arg.get_possible_values().is_empty() => {
            format!("Such as {}", names().collect::<Vec<_>>().join(", "))
        }
        _ => {
            let help = takes.map_or(help.clone(), |takes| format!("{help}: {takes}"));
            let only_there = [
                ": text, @file or - for stdin",
                ": text, @file or -",
                "; repeatable",
                "--",
            ];
            only_there
                .iter()
                .fold(help, |help, words| help.replace(words, ""))
        }
    }
}

/// The schema of `structuredContent`: the output of the command as `result`. Of several actions, it may
/// be anything: the outputs of all would fill the context of a client.
fn output(tool: &Tool) -> Map<String, Value> {
    let result = match tool.actions.as_slice() {
        [_] if tool.is_plan() => json!({"properties": {"token": {"type": "string"}}}),
        [one] => outline((one.spec.output)()),
        _ => json!({}),
    };
    object(json!({"type": "object", "properties": {"result": result}}))
}

/// The type and the names of the fields of a schema: what a service sends is never refused by a
/// client, and what is cut remains valid.
fn outline(mut schema: Value) -> Value {
    let Some(fields) = schema.as_object_mut() else {
        return json!({});
    };

    fields.retain(|key, _| ["type", "items", "properties"].contains(&key.as_str()));
    if let Some(items) = fields.get_mut("items") {
        *items = outline(items.take());
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(|it| *it = json!({}));
    }
    schema
}
