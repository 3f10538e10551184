//! Tools as clients see them: descriptions and schemas follow from the commands.

use std::sync::Arc;

use clap::{Arg, Command};
use rmcp::model::{Tool as Description, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::table::{ACTION, Action, Argument, EMAIL_FIELDS, Kind, ROWS, TOOLS, Tool};
use crate::command_spec::{self, CommandSpec, Effect};
use crate::commands::schema::describe::argument;

/// A tool with its commands.
pub struct Ready {
    pub tool: &'static Tool,
    pub actions: Vec<ReadyAction>,
    pub description: Description,
}

impl Ready {
    /// Whether a key without these scopes can do nothing with the tool.
    pub fn needs_one_of(&self, missing: &[String]) -> bool {
        let is_missing = |scope: &str| missing.iter().any(|it| it == scope);
        let lacks = |ready: &ReadyAction| match ready.spec.operations.first() {
            Some(first) => is_missing(command_spec::scope_of(*first)),
            None => false,
        };
        !self.actions.is_empty() && self.actions.iter().all(lacks)
    }
}

/// An action with its command.
pub struct ReadyAction {
    pub action: &'static Action,
    pub spec: CommandSpec,
    pub command: Command,
}

impl ReadyAction {
    /// The argument of the command with this name.
    pub fn arg(&self, name: &str) -> Option<&Arg> {
        self.command.get_arguments().find(|arg| arg.get_id() == name)
    }
}

/// All tools.
pub fn all(tree: &Command) -> Vec<Ready> {
    let ready = |tool: &'static Tool| {
        let actions = tool.actions.iter().filter_map(|action| {
            let path = action.command.split(' ').collect::<Vec<_>>();
            let command = path.iter().try_fold(tree, |level, name| level.find_subcommand(name))?;
            let spec = command_spec::find(tree, &path);
            Some(ReadyAction { action, spec, command: command.clone() })
        });
        let actions = actions.collect::<Vec<_>>();
        let description = describe(tool, &actions);
        Ready { tool, actions, description }
    };
    TOOLS.iter().map(ready).collect()
}

fn describe(tool: &Tool, actions: &[ReadyAction]) -> Description {
    let mut about = tool.about.to_owned();
    for ready in actions {
        let what = ready.command.get_about().map(ToString::to_string).unwrap_or_default();
        if actions.len() == 1 {
            about = if about.is_empty() { what } else { about };
            continue;
        }
        let names = ready.action.arguments.iter().map(|argument| match argument {
            Argument::Rows(name) => format!("{ROWS} or {name}"),
            _ => match ready.arg(argument.name()) {
                Some(arg) if arg.is_required_set() => argument.name().to_owned(),
                _ => format!("{}?", argument.name()),
            },
        });
        let names = names.collect::<Vec<_>>().join(", ");
        let line = match names.is_empty() {
            true => format!("{}: {what}", ready.action.name),
            false => format!("{} ({names}): {what}", ready.action.name),
        };
        about = if about.is_empty() { line } else { format!("{about}\n{line}") };
    }
    let effects = || actions.iter().map(|ready| ready.spec.effect);
    let reads = |effect| matches!(effect, Effect::Reads | Effect::Local);
    let is_read = match tool.kind {
        Kind::Run => effects().all(reads),
        Kind::Plan => true,
        Kind::SendPlanned => false,
    };
    let operations = || actions.iter().flat_map(|ready| ready.spec.operations);
    let annotations = ToolAnnotations::new()
        .read_only(is_read)
        // What is sent cannot be taken back, so that clients ask a person before.
        .destructive(tool.kind == Kind::SendPlanned || effects().any(|it| it == Effect::Removes))
        .idempotent(tool.kind != Kind::SendPlanned && operations().all(|it| it.is_idempotent()));
    let described = Description::new(tool.name, about, Arc::new(input(tool, actions)));
    let described = described.with_annotations(annotations);
    match output(tool, actions) {
        Some(schema) => described.with_raw_output_schema(Arc::new(schema)),
        None => described,
    }
}

impl Argument {
    pub fn name(self) -> &'static str {
        match self {
            Self::Value(name) | Self::File(name) | Self::Stdin(name) | Self::Rows(name) => name,
            Self::Email => "email",
        }
    }
}

fn input(tool: &Tool, actions: &[ReadyAction]) -> Map<String, Value> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    if tool.kind == Kind::SendPlanned {
        let about = "The token that plan_email or plan_bulk has answered";
        properties.insert("token".to_owned(), json!({"type": "string", "description": about}));
        required.push("token");
    }
    let is_one = actions.len() == 1;
    if actions.len() > 1 {
        let names = actions.iter().map(|ready| ready.action.name).collect::<Vec<_>>();
        properties.insert(ACTION.to_owned(), json!({"enum": names}));
        required.push(ACTION);
    }
    for ready in actions {
        for described in ready.action.arguments {
            if *described == Argument::Email {
                for (field, option, kind) in EMAIL_FIELDS {
                    properties.insert(field.to_owned(), field_of_email(ready, option, kind));
                }
                required.extend(["from", "to", "subject"]);
                continue;
            }
            let name = described.name();
            let Some(arg) = ready.arg(name) else { continue };
            let mut schema = argument(arg);
            let fields = schema.as_object_mut();
            fields.into_iter().for_each(|fields| fields.retain(|key, _| !key.starts_with("x-")));
            match described {
                Argument::Rows(_) => {
                    let rows = json!({"type": "array", "items": {"type": "object"}});
                    properties.insert(ROWS.to_owned(), rows);
                    schema["description"] = "CSV, NDJSON or JSON file below the directory".into();
                }
                Argument::Stdin(_) => schema["description"] = "Text".into(),
                Argument::Value(_) if arg.is_required_set() && is_one => required.push(name),
                Argument::File(_) if arg.is_required_set() && is_one => required.push(name),
                _ => {}
            }
            if let Some(text) = schema["description"].as_str().map(without_files) {
                schema["description"] = text.into();
            }
            properties.entry(name).or_insert(schema);
        }
    }
    let schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    schema.as_object().cloned().unwrap_or_default()
}

/// A description without what only a command line takes.
fn without_files(text: &str) -> String {
    let text = text.replace(": text, @file or -", "").replace(": text, @file or - for stdin", "");
    text.replace(" for stdin", "").replace("; repeatable", "").replace(", @file or -", "")
}

fn field_of_email(ready: &ReadyAction, option: &str, kind: &str) -> Value {
    let mut schema = match kind {
        "array" => json!({"type": "array", "items": {"type": "string"}}),
        _ => json!({"type": kind}),
    };
    let help = ready.arg(option).and_then(Arg::get_help).map(ToString::to_string);
    if let Some(help) = help {
        schema["description"] = without_files(&help).into();
    }
    schema
}

/// What `structuredContent` contains: the output of the command as `result`.
fn output(tool: &Tool, actions: &[ReadyAction]) -> Option<Map<String, Value>> {
    let result = match actions {
        [one] if tool.kind == Kind::Run => outline((one.spec.output)(), Some(1)),
        [] => return None,
        _ if tool.kind == Kind::Plan => {
            json!({"type": "object", "properties": {"token": {"type": "string"}}})
        }
        // One of several: the outputs of the actions.
        several => {
            let mut kinds = Vec::new();
            for ready in several {
                let kind = outline((ready.spec.output)(), Some(0));
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            match kinds.len() {
                1 => kinds.remove(0),
                _ => json!({"anyOf": kinds}),
            }
        }
    };
    let schema = json!({"type": "object", "properties": {"result": result}});
    schema.as_object().cloned()
}

/// A schema without descriptions and requirements: what a service sends is never refused by a client,
/// and what is cut remains valid. Only the names of the fields are left below the depth.
fn outline(schema: Value, depth: Option<usize>) -> Value {
    let Value::Object(fields) = schema else { return json!({}) };
    let Some(depth) = depth else { return json!({}) };
    let mut kept = Map::new();
    for (key, value) in fields {
        match key.as_str() {
            "type" => drop(kept.insert(key, value)),
            "anyOf" | "oneOf" | "allOf" => {
                let Value::Array(parts) = value else { continue };
                let parts = parts.into_iter().map(|part| outline(part, Some(depth)));
                // Without requirements, one value may match several of them.
                let key = if key == "oneOf" { "anyOf".to_owned() } else { key };
                kept.insert(key, parts.collect());
            }
            "items" => drop(kept.insert(key, outline(value, Some(depth)))),
            "properties" => {
                let Value::Object(properties) = value else { continue };
                let properties = properties.into_iter();
                let properties =
                    properties.map(|(name, it)| (name, outline(it, depth.checked_sub(1))));
                kept.insert(key, Value::Object(properties.collect()));
            }
            _ => {}
        }
    }
    Value::Object(kept)
}
