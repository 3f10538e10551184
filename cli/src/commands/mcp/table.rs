//! The tools, as `tools.tsv` lists them: each is a name for commands of `svc`, and for the arguments of
//! them that a client may set. Descriptions and schemas follow from the commands.

use clap::{Arg, Command, ValueEnum};

use crate::command_spec::{self, CommandSpec};

/// A line for each action: its group, tool, name, command and arguments.
const TABLE: &str = include_str!("tools.tsv");

/// The argument that selects an action, of tools that have several.
pub const ACTION: &str = "action";
/// The argument of rows.
pub const ROWS: &str = "rows";
/// The argument in place of rows.
pub const AUDIENCE: &str = "audience";

/// The fields of an email, and the options of `emails send` that describe them, or descriptions.
pub const EMAIL_FIELDS: [(&str, &str, &str); 13] = [
    ("from", "from", "string"),
    ("to", "to", "array"),
    ("cc", "cc", "array"),
    ("bcc", "bcc", "array"),
    ("replyTo", "reply_to", "array"),
    ("subject", "subject", "string"),
    ("text", "Text body", "string"),
    ("html", "HTML body", "string"),
    ("templateId", "template", "string"),
    ("variables", "vars", "object"),
    ("headers", "Names and values of more headers", "object"),
    ("tags", "Names and values", "object"),
    ("scheduledAt", "Send time in RFC 3339, such as 2030-01-31T09:00:00Z", "string"),
];

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// Read; always allowed
    Look,
    /// Send and cancel emails
    Send,
    /// Create and change audiences and contacts
    Contacts,
    /// Create and verify domains
    Domains,
    /// Create, change and test webhooks
    Webhooks,
    /// Delete
    Delete,
    /// Control the sandbox
    Sandbox,
}

/// How a call is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Runs the command.
    Run,
    /// Runs it with `--dry-run` and keeps the plan.
    Plan,
    /// Runs a plan.
    SendPlanned,
}

/// A tool.
pub struct Tool {
    pub name: &'static str,
    pub group: Group,
    pub kind: Kind,
    pub actions: Vec<Action>,
}

/// A command, and the arguments that a client may set.
pub struct Action {
    pub name: &'static str,
    pub arguments: Vec<Argument>,
    pub spec: CommandSpec,
    pub command: Command,
}

/// An argument of a command, by its name in clap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: &'static str,
    pub from: From,
}

/// Where the value of an argument comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A value or a flag. It is never read as the name of a file.
    Value,
    /// The name of a file below the directory of `svc mcp`.
    File,
    /// A text, which the command reads from standard input.
    Stdin,
    /// The argument `rows`, or a file; the command reads them from standard input.
    Rows,
    /// All arguments: the fields of an email, which the command reads from standard input.
    Email,
}

impl Group {
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Action {
    /// The argument of the command with this name.
    pub fn arg(&self, name: &str) -> Option<&Arg> {
        self.command.get_arguments().find(|arg| arg.get_id() == name)
    }
}

/// All tools, with their commands.
pub fn tools(tree: &Command) -> Vec<Tool> {
    let mut tools = Vec::<Tool>::new();
    for line in TABLE.lines().skip(1) {
        let mut columns = line.split('\t').map(|cell| if cell == "-" { "" } else { cell });
        let mut next = || columns.next().unwrap_or_default();
        let (group, name, action) = (next(), next(), next());
        let (path, arguments) = (next(), next());
        let Ok(group) = Group::from_str(group, false) else { continue };
        if tools.last().is_none_or(|last| last.name != name) {
            let kind = match name {
                "send_planned" => Kind::SendPlanned,
                _ if name.starts_with("plan_") => Kind::Plan,
                _ => Kind::Run,
            };
            tools.push(Tool { name, group, kind, actions: Vec::new() });
        }
        let path = path.split(' ').collect::<Vec<_>>();
        let command = path.iter().try_fold(tree, |level, name| level.find_subcommand(name));
        if let (Some(command), Some(tool)) = (command, tools.last_mut()) {
            tool.actions.push(Action {
                name: action,
                arguments: arguments.split_whitespace().map(argument).collect(),
                spec: command_spec::find(tree, &path),
                command: command.clone(),
            });
        }
    }
    tools
}

fn argument(text: &'static str) -> Argument {
    let (name, from) = text.split_once(':').unwrap_or((text, ""));
    let from = match from {
        "file" => From::File,
        "stdin" => From::Stdin,
        "rows" => From::Rows,
        "email" => From::Email,
        _ => From::Value,
    };
    Argument { name, from }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_a_command_and_its_arguments() {
        let tools = tools(&crate::command());
        let actions = tools.iter().flat_map(|tool| &tool.actions).collect::<Vec<_>>();
        // The header, and the tool without a command.
        assert_eq!(actions.len(), TABLE.lines().count() - 2);
        for action in actions {
            for Argument { name, from } in &action.arguments {
                let is_known = action.arg(name).is_some() || *from == From::Email;
                assert!(is_known, "`{}` has no {name}", action.spec.path);
            }
            // No option that selects what `svc mcp` was started with, or a person decides.
            let is_global = |name: &str| action.arg(name).is_some_and(Arg::is_global_set);
            assert!(action.arguments.iter().all(|it| !is_global(it.name)), "{}", action.spec.path);
        }
    }
}
