//! The tools, as `tools.tsv` lists them: each is a name for commands of `svc`, and for the arguments of
//! them that a client may set. Descriptions and schemas follow from the commands.

use clap::{Arg, Command};

use crate::command_spec::{self, CommandSpec};

/// A line for each action: its group, tool, name, command and arguments.
const TABLE: &str = include_str!("tools.tsv");

/// The argument that selects an action, of tools that have several.
pub const ACTION: &str = "action";
/// The argument with rows, in place of a file.
pub const ROWS: &str = "rows";
/// The argument of the tool that sends what a plan has shown.
pub const TOKEN: &str = "token";

/// The group of tools that read.
pub const LOOK: &str = "look";

/// A tool.
pub struct Tool {
    pub name: &'static str,
    pub group: &'static str,
    pub actions: Vec<Action>,
}

/// A command, and the arguments that a client may set.
pub struct Action {
    pub name: &'static str,
    pub arguments: Vec<Argument>,
    pub spec: CommandSpec,
    pub command: Command,
}

/// An argument of a command.
pub struct Argument {
    pub name: &'static str,
    pub from: From,
    pub is_required: bool,
    pub arg: Arg,
}

/// Where the value of an argument comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A value or a flag. It is never read as the name of a file.
    Value,
    /// The name of a file below the directory of `svc mcp`.
    File,
    /// Such a file, which the command reads from standard input.
    Read,
    /// A text or JSON, which the command reads from standard input.
    Stdin,
}

impl Tool {
    /// Whether it runs its command with `--dry-run` and keeps the plan.
    pub fn is_plan(&self) -> bool {
        self.name.starts_with("plan_")
    }

    /// Whether it runs the command of a plan.
    pub fn sends_plan(&self) -> bool {
        self.name == "send_planned"
    }
}

/// All tools, with their commands.
pub fn tools(tree: &Command) -> Vec<Tool> {
    let mut tools = Vec::<Tool>::new();
    for line in TABLE.lines().skip(1) {
        let columns = line
            .split('\t')
            .map(|cell| if cell == "-" { "" } else { cell });
        let [group, name, action, path, arguments] = columns.collect::<Vec<_>>()[..] else {
            continue;
        };
        let path = path.split_whitespace().collect::<Vec<_>>();
        let found = path
            .iter()
            .try_fold(tree, |level, name| level.find_subcommand(name));
        let command = found
            .filter(|_| !path.is_empty())
            .cloned()
            .unwrap_or_else(send_planned);
        let arguments = arguments.split_whitespace();
        let action = Action {
            name: action,
            arguments: arguments
                .filter_map(|text| argument(&command, text))
                .collect(),
            spec: command_spec::find(tree, &path),
            command,
        };
        match tools.last_mut().filter(|last| last.name == name) {
            Some(tool) => tool.actions.push(action),
            None => tools.push(Tool {
                name,
                group,
                actions: vec![action],
            }),
        }
    }
    tools
}

/// The arguments of `send_planned`, which is not a command of `svc`.
fn send_planned() -> Command {
    let token = Arg::new(TOKEN)
        .required(true)
        .help("The token that a plan has answered");
    Command::new("send_planned")
        .about("Send what a plan has shown: once, within ten minutes of it")
        .arg(token)
}

/// The argument that a cell describes: `name`, or `name:from`; with `!` after the name it is required.
fn argument(command: &Command, text: &'static str) -> Option<Argument> {
    let (name, from) = text.split_once(':').unwrap_or((text, ""));
    let (name, is_marked) = name
        .strip_suffix('!')
        .map_or((name, false), |name| (name, true));
    let id = if name == ROWS { "file" } else { name };
    let arg = command
        .get_arguments()
        .find(|arg| arg.get_id() == id)?
        .clone();
    let (from, is_alone) = match from {
        "file" => (From::File, true),
        "read" => (From::Read, false),
        "stdin" => (From::Stdin, name != ROWS),
        _ => (From::Value, true),
    };
    let is_required = is_marked || (is_alone && arg.is_required_set());
    Some(Argument {
        name,
        from,
        is_required,
        arg,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::table::MCP_GROUPS;

    #[test]
    fn every_row_names_a_command_and_its_arguments() {
        let tools = tools(&crate::command());
        let actions = tools
            .iter()
            .flat_map(|tool| &tool.actions)
            .collect::<Vec<_>>();
        assert_eq!(actions.len(), TABLE.lines().count() - 1);
        assert!(tools.iter().all(|tool| MCP_GROUPS.contains(&tool.group)));
        for (action, line) in actions.iter().zip(TABLE.lines().skip(1)) {
            let columns = line.split('\t').collect::<Vec<_>>();
            let path = if columns[3] == "-" {
                "send_planned"
            } else {
                columns[3]
            };
            assert!(path.ends_with(action.command.get_name()), "{line}");
            let names = columns[4].split(' ').filter(|cell| *cell != "-");
            assert_eq!(action.arguments.len(), names.count(), "{line}");
            // No option that selects what `svc mcp` was started with, or a person decides.
            assert!(
                action.arguments.iter().all(|it| !it.arg.is_global_set()),
                "{line}"
            );
        }
    }
}
