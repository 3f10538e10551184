//! From the arguments of a call to a command line. A value never becomes an option, the name of a
//! file, or standard input, except where the table says so.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction};
use serde_json::{Map, Value};

use super::table::{ACTION, Action, Argument, From, Tool};
use crate::command_spec::Effect;
use crate::failure::Failure;
use crate::settings::{Env, home_directory};

/// Maximum size of a file that a call reads, in bytes: it is kept in memory.
const MAX_FILE: u64 = 64 << 20;

/// A command line, with what it reads from standard input.
#[derive(Clone, Debug, Default)]
pub struct CommandLine {
    pub words: Vec<String>,
    pub stdin: Vec<u8>,
}

/// The action of a call, which is removed from its arguments.
pub fn action<'a>(tool: &'a Tool, given: &mut Map<String, Value>) -> Result<&'a Action, Failure> {
    if let [one] = tool.actions.as_slice() {
        return Ok(one);
    }
    let named = given.shift_remove(ACTION).unwrap_or_default();
    tool.actions
        .iter()
        .find(|action| named == action.name)
        .ok_or_else(|| {
            let names = tool
                .actions
                .iter()
                .map(|action| action.name)
                .collect::<Vec<_>>();
            Failure::usage(format!("{ACTION}: not an action of {}", tool.name))
                .hint(format!("use one of {}", names.join(", ")))
        })
}

impl CommandLine {
    /// The command line of an action. `root` is the directory whose files it may read.
    pub fn new(action: &Action, given: &Map<String, Value>, root: &Path) -> Result<Self, Failure> {
        let known = action
            .arguments
            .iter()
            .map(|it| it.name)
            .collect::<Vec<_>>();
        if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(
                Failure::usage(format!("`{name}` is not an argument of this tool"))
                    .hint(format!("its arguments are: {}", known.join(", "))),
            );
        }

        let mut line = Self::of(&action.spec.path.split(' ').collect::<Vec<_>>());
        if action.spec.effect == Effect::Removes {
            line = line.with("--yes");
        }
        let mut positionals = vec!["--".to_owned()];
        for Argument {
            name,
            from,
            is_required,
            arg,
        } in &action.arguments
        {
            let values = match given.get(*name) {
                None | Some(Value::Null) if *is_required => {
                    let of = if action.name.is_empty() {
                        ""
                    } else {
                        " for the action "
                    };
                    return Err(Failure::usage(format!(
                        "{name}: required{of}{}",
                        action.name
                    )));
                }
                None | Some(Value::Null) => continue,
                Some(Value::Array(values)) if *from != From::Stdin => values,
                Some(value) => std::slice::from_ref(value),
            };
            for value in values {
                let text = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let value = match from {
                    From::Value => literal(arg, text)?,
                    From::File => below(root, name, &text)?,
                    From::Read | From::Stdin if !line.stdin.is_empty() => {
                        return Err(Failure::usage("rows, file: give one of them"));
                    }
                    From::Read => {
                        let path = below(root, name, &text)?;
                        if std::fs::metadata(&path)?.len() > MAX_FILE {
                            return Err(Failure::input(format!("{name}: has more than 64 MiB")));
                        }
                        line.reads(std::fs::read(path)?)
                    }
                    From::Stdin => line.reads(text.into_bytes()),
                };
                let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
                match (arg.get_long(), value.as_str()) {
                    (None, _) => positionals.push(value),
                    (Some(long), "true") if is_flag => line.words.push(format!("--{long}")),
                    (Some(_), "false") if is_flag => {}
                    (Some(long), value) => line.words.push(format!("--{long}={value}")),
                }
            }
        }

        // After `--`, nothing is an option.
        line.words.extend(positionals);
        Ok(line)
    }

    /// A command line of these words.
    pub fn of(words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            words,
            stdin: Vec::new(),
        }
    }

    /// The value with which the command reads this.
    fn reads(&mut self, input: Vec<u8>) -> String {
        self.stdin = input;
        "-".to_owned()
    }

    /// The same command with one more global option.
    pub fn with(&self, option: &str) -> Self {
        let mut line = self.clone();
        line.words.insert(0, option.to_owned());
        line
    }
}

/// The directory whose files may be read: none, if it is the home directory or one above it.
pub fn root(env: &Env) -> Result<PathBuf, Failure> {
    let root = env.cwd.canonicalize()?;
    let home = home_directory(env).canonicalize();
    Ok(if home.is_ok_and(|home| home.starts_with(&root)) {
        PathBuf::new()
    } else {
        root
    })
}

/// A value that is read as it is, not as the name of a file or as standard input.
fn literal(arg: &Arg, value: String) -> Result<String, Failure> {
    let takes = arg
        .get_value_names()
        .and_then(<[_]>::first)
        .map_or("", |name| name.as_str());
    match value.strip_prefix('@') {
        Some(_) if takes == "TEXT" => Ok(value),
        Some(_) if takes.starts_with("TEXT|@FILE") && !is_file_name(&value) => {
            Ok(format!("@{value}"))
        }
        None if value != "-" => Ok(value),
        _ => Err(
            Failure::usage(format!("{}: `@` and `-` name no files here", arg.get_id()))
                .hint("give the value itself"),
        ),
    }
}

/// Whether a text is probably meant as the name of a file.
fn is_file_name(text: &str) -> bool {
    !text.contains(char::is_whitespace) && text.contains(['.', '/', '\\'])
}

/// The path of a file below the directory, without symbolic links.
fn below(root: &Path, name: &str, path: &str) -> Result<String, Failure> {
    // Below `/`, there are the files of everybody.
    let found = root
        .join(path)
        .canonicalize()
        .ok()
        .filter(|_| root.parent().is_some());
    let is_hidden = |part: &OsStr| part.as_encoded_bytes().starts_with(b".");
    let is_open = |found: &PathBuf| {
        found.is_file()
            && found
                .strip_prefix(root)
                .is_ok_and(|it| !it.iter().any(is_hidden))
    };

    // Whether another file exists is not told.
    let found = found
        .filter(is_open)
        .and_then(|found| found.into_os_string().into_string().ok());
    found.ok_or_else(|| {
        Failure::input(format!("{name}: not a file below the directory of svc mcp")).hint(
            "a person starts svc mcp in the folder of a project: it reads no hidden files, and none in the home directory or above",
        )
    })
}
